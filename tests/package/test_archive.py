"""What is in the archive."""

import zipfile
from pathlib import PurePosixPath

TOP_LEVEL = {
    "LICENSE",
    "__init__.py",
    "api.py",
    "arrivals.py",
    "baking.py",
    "blender_manifest.toml",
    "cli.py",
    "colour_input.py",
    "delivery.py",
    "generator_process",
    "images.py",
    "install_plan.py",
    "interpreters.py",
    "materials.py",
    "metadata.py",
    "models.py",
    "node_layout.py",
    "operators",
    "optimizations.py",
    "panels",
    "png.py",
    "preferences.py",
    "preview.py",
    "properties.py",
    "registration.py",
    "requirements",
    "runtime.py",
    "runtime_install.py",
    "scratch.py",
    "screen.py",
    "session.py",
    "shader_nodes.py",
    "starter_model",
    "surface_colour.py",
    "uv_maps.py",
}


def test_blender_accepts_the_archive(archive, blender_tool):
    assert "Success" in blender_tool("validate", str(archive))


def test_only_the_add_on_is_in_the_archive(archive):
    with zipfile.ZipFile(archive) as file:
        names = [PurePosixPath(name) for name in file.namelist()]
    assert {name.parts[0] for name in names} == TOP_LEVEL
    assert [name for name in names if name.parts[0] == "requirements"] == [
        PurePosixPath("requirements/runtime.txt")
    ]
    suffixes = {name.suffix for name in names}
    assert suffixes <= {".py", ".toml", ".txt", ".json", ".safetensors", ".model", ""}


def test_archive_installs_everywhere(archive):
    """P001: Windows refuses paths of 260 characters; the extensions folder may take 125 of them."""
    assert archive.stat().st_size <= 30 * 2**20
    with zipfile.ZipFile(archive) as file:
        longest = max(file.namelist(), key=len)
    assert len(longest) + 125 < 260, longest
