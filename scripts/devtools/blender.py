# SPDX-License-Identifier: GPL-3.0-or-later
"""Blender as a Python module: its environments, and scripts in it with the extension installed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from .cache import ROOT, remove
from .console import DevError, run_through
from .environments import REQUIREMENTS, Environment

_PYTHON_OF = {"4.2": "3.11", "4.5": "3.11", "5.0": "3.11", "5.2": "3.13", "5.3": "3.13"}
VERSIONS = tuple(_PYTHON_OF)
LAUNCHER = Path(__file__).with_name("in_blender.py")
_LIBRARIES = (
    "libx11-6 libxrender1 libxxf86vm1 libxfixes3 libxi6 libxkbcommon0 libsm6 libgl1 libegl1"
)


def environment(version: str) -> Environment:
    """Return the environment of a Blender version.

    Raises:
        DevError: The version is not one that Tessera is tested with.
    """
    if version not in _PYTHON_OF:
        raise DevError(f"Blender {version} is not known. Use one of {', '.join(VERSIONS)}.")
    return Environment(
        f"blender-{version}",
        REQUIREMENTS / "dev" / f"blender-{version}.txt",
        (_PYTHON_OF[version],),
        verify="import bpy",
        verify_hint=f"If a library is missing: apt-get install {_LIBRARIES}",
    )


def default_version() -> str:
    """Return the first version that this machine can run.

    Raises:
        DevError: It can run none.
    """
    for version in VERSIONS:
        if environment(version).why_not() is None:
            return version
    raise DevError("Blender as a module needs Python 3.11 or 3.13. Install one of them.")


def command_line_tool(python: Path) -> Path:
    """Return Blender's own tool for extensions, in the environment of this interpreter."""
    pattern = "**/site-packages/bpy/*/scripts/addons_core/bl_pkg/cli/blender_ext.py"
    found = sorted(python.parent.parent.glob(pattern))
    if not found:
        raise DevError(f"Blender's extension tool is not in {python.parent.parent}.")
    return found[0]


def child_environment(**changes: str) -> dict[str, str]:
    """Return this process's environment without what would change Blender's Python."""
    kept = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "PYTHONHOME"}}
    kept.update(changes)
    return kept


def run_script(
    version: str,
    script: Path,
    arguments: Sequence[str],
    *,
    archive: Path,
    profile: Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> int:
    """Run a script in headless Blender with the built extension installed and enabled.

    Args:
        version: A member of `VERSIONS`.
        script: What to run, as `__main__`.
        arguments: Its `sys.argv[1:]`.
        archive: The built extension.
        profile: Blender's user folder, kept. Without it a temporary one, deleted at the end.
        variables: Further environment variables.

    Returns:
        The script's exit status.
    """
    if not script.is_file():
        raise DevError(f"Script {script} does not exist.")
    python = environment(version).ready()
    made = profile is None
    folder = Path(tempfile.mkdtemp(prefix="tessera-profile-")) if profile is None else profile
    try:
        return run_through(
            [
                str(python),
                "-X",
                "utf8",
                str(LAUNCHER),
                str(archive),
                str(script.resolve()),
                *arguments,
            ],
            environment=child_environment(BLENDER_USER_RESOURCES=str(folder), **(variables or {})),
        )
    finally:
        if made:
            remove(folder)


def demo_script() -> Path:
    """Return the part of "dev.py demo" that runs inside Blender."""
    return ROOT / "scripts" / "demo.py"
