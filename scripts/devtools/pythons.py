# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds the Python interpreters of this machine."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_PROBE = (
    "import sys, venv, ensurepip;"
    "print('%d.%d' % sys.version_info[:2]);"
    "print(getattr(sys, '_base_executable', None) or sys.executable)"
)


def _candidates(version: str) -> Iterator[list[str]]:
    """Yield commands that may start this Python, the likeliest first."""
    yield [getattr(sys, "_base_executable", None) or sys.executable]
    executable = Path("python.exe") if sys.platform == "win32" else Path("bin", "python")
    roots = [Path(os.environ["PYENV_ROOT"])] if os.environ.get("PYENV_ROOT") else []
    for root in [*roots, Path.home() / ".pyenv"]:
        for folder in sorted((root / "versions").glob(f"{version}.*"), reverse=True):
            yield [str(folder / executable)]
    uv_root = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    for folder in sorted((uv_root / "uv" / "python").glob(f"cpython-{version}.*"), reverse=True):
        yield [str(folder / executable)]
    for name in (f"python{version}", "python3", "python"):
        found = shutil.which(name)
        if found:
            yield [found]
    launcher = shutil.which("py") if sys.platform == "win32" else None
    if launcher:
        yield [launcher, f"-{version}"]


def _probed(command: list[str]) -> tuple[str, Path] | None:
    """Return version and real path of an interpreter that can make environments."""
    try:
        result = subprocess.run(
            [*command, "-I", "-c", _PROBE],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = result.stdout.split("\n")
    if result.returncode or len(lines) < 2:
        return None
    return lines[0].strip(), Path(lines[1].strip())


@functools.cache
def find(version: str) -> Path | None:
    """Return an interpreter of this version, such as "3.11", or None."""
    tried: set[str] = set()
    for command in _candidates(version):
        key = " ".join(command)
        if key in tried:
            continue
        tried.add(key)
        probed = _probed(command)
        if probed and probed[0] == version:
            return probed[1]
    return None
