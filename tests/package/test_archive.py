"""What is in the archive."""

import shutil
import subprocess
import zipfile
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
BESIDE_MODULES = {
    "LICENSE",
    "baking",
    "blender_manifest.toml",
    "generator_process",
    "history",
    "installation",
    "materials",
    "operators",
    "packaged_files.txt",
    "panels",
    "prompting",
    "requirements",
    "starter_model",
}


def test_blender_accepts_the_archive(archive, blender_tool):
    assert "Success" in blender_tool("validate", str(archive))


def test_only_the_add_on_is_in_the_archive(archive):
    with zipfile.ZipFile(archive) as file:
        names = [PurePosixPath(name) for name in file.namelist()]
    modules = {path.name for path in ROOT.glob("*.py")} - {"dev.py"}
    assert {name.parts[0] for name in names} == modules | BESIDE_MODULES
    assert sorted(name for name in names if name.parts[0] == "requirements") == [
        PurePosixPath("requirements/openvino.txt"),
        PurePosixPath("requirements/runtime.txt"),
    ]
    suffixes = {name.suffix for name in names}
    assert suffixes <= {".py", ".toml", ".txt", ".json", ".safetensors", ".model", ""}


def test_every_file_in_the_archive_is_in_the_repository(archive):
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("this is not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout.split("\0")
    with zipfile.ZipFile(archive) as file:
        assert set(file.namelist()) - set(listed) == {"packaged_files.txt"}


def test_list_of_files_is_complete(archive):
    with zipfile.ZipFile(archive) as file:
        listed = file.read("packaged_files.txt").decode("utf-8").splitlines()
        assert sorted(listed) == sorted(set(file.namelist()) - {"packaged_files.txt"})


def test_archive_installs_everywhere(archive):
    """P001: Windows refuses paths of 260 characters; the extensions folder may take 125 of them."""
    assert archive.stat().st_size <= 30 * 2**20
    with zipfile.ZipFile(archive) as file:
        longest = max(file.namelist(), key=len)
    assert len(longest) + 125 < 260, longest
