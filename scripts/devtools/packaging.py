# SPDX-License-Identifier: GPL-3.0-or-later
"""Builds the extension's archive with Blender's own tool and checks it."""

from __future__ import annotations

import re
import subprocess
import zipfile
from pathlib import Path

from . import blender
from .cache import ROOT
from .console import DevError

MAX_ARCHIVE_BYTES = 30 * 1024 * 1024
LONGEST_INSTALL_FOLDER = 125
"""Characters of a Windows extensions folder with a long user name."""
FILE_LIST = "packaged_files.txt"
"""As in `completeness.py`."""
LONGEST_PATH = 259
"""Windows refuses longer paths, and unpacking then loses files without a word."""


def version() -> str:
    """Return the version in the manifest, the only place where it is written."""
    manifest = (ROOT / "blender_manifest.toml").read_text(encoding="utf-8")
    match = re.search(r'^version = "([^"]+)"', manifest, flags=re.MULTILINE)
    if match is None:
        raise DevError("blender_manifest.toml has no version.")
    return match.group(1)


def problems_of(archive: Path) -> list[str]:
    """Return what is wrong with an archive: its size, the length of its members' paths."""
    found = []
    size = archive.stat().st_size
    if size > MAX_ARCHIVE_BYTES:
        found.append(f"{archive.name} has {size / 2**20:.1f} MB, more than 30 MB.")
    with zipfile.ZipFile(archive) as file:
        for name in file.namelist():
            if len(name) + LONGEST_INSTALL_FOLDER > LONGEST_PATH:
                found.append(f"The path {name} is too long for Windows.")
    return found


def missing_from(archive: Path) -> list[str]:
    """Return a sentence for each part without which the extension is of no use."""
    with zipfile.ZipFile(archive) as file:
        names = set(file.namelist())
    return [
        f"{name} is missing. Check out the repository completely."
        for name in ("starter_model/model_index.json", "requirements/runtime.txt")
        if name not in names
    ]


def add_file_list(archive: Path) -> None:
    """Write the list of its files into an archive, by which `completeness.py` checks them."""
    with zipfile.ZipFile(archive, "a", zipfile.ZIP_DEFLATED) as file:
        file.writestr(FILE_LIST, "".join(f"{name}\n" for name in sorted(file.namelist())))


def build(blender_version: str, folder: Path) -> Path:
    """Build the archive into `folder` and return its path.

    Raises:
        DevError: Blender's tool refuses the extension, or the archive would not install everywhere.
    """
    python = blender.environment(blender_version).ready()
    tool = str(blender.command_line_tool(python))
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / f"tessera-{version()}.zip"
    _call(python, tool, "build", "--source-dir", str(ROOT), "--output-filepath", str(archive))
    add_file_list(archive)
    _call(python, tool, "validate", str(archive))
    problems = problems_of(archive) + missing_from(archive)
    if problems:
        raise DevError("\n".join(problems))
    return archive


def _call(python: Path, tool: str, *arguments: str) -> None:
    result = subprocess.run(
        [str(python), tool, *arguments],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if result.returncode:
        raise DevError(f"{arguments[0]} failed:\n{result.stdout}{result.stderr}")
