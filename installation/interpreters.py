# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds a Python from which the runtime environment can be made. Side: Blender.

Standard library only. Blender's own Python will do: it has `venv`, and packages that are compiled
for it exist. What it is called differs between systems, so several places are tried.
"""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..generator_process.errors import NotInstalledError

OLDEST = (3, 11)
NEWEST = (3, 13)
"""The versions for which all of requirements/runtime.txt exists in compiled form."""

_PROBE = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a Python installation is, as it says itself.

    `executable` and `prefix` are `sys.executable` and `sys.prefix`, `version` is "3.11",
    `search_path` are the folders of PATH.
    """

    executable: str
    prefix: str
    version: str
    search_path: tuple[Path, ...] = ()


def this_place(search_path: tuple[Path, ...]) -> Place:
    """Return where the Python of this Blender is."""
    return Place(
        executable=sys.executable or "",
        prefix=sys.prefix,
        version=f"{sys.version_info[0]}.{sys.version_info[1]}",
        search_path=search_path,
    )


def _names(place: Place) -> Iterator[Path]:
    if place.executable and Path(place.executable).name.lower().startswith("python"):
        yield Path(place.executable)
    prefix = Path(place.prefix)
    for name in (f"python{place.version}", "python3", "python"):
        yield prefix / "bin" / name
    for folder in ("bin", "", "Scripts"):  # Blender for Windows, python.org, an environment
        yield prefix / folder / "python.exe"
    for folder in place.search_path:
        for name in (f"python{place.version}", "python3", "python.exe"):
            yield folder / name


def candidates(place: Place) -> list[Path]:
    """Return the paths at which an interpreter may be, the best first, whether or not it exists."""
    return list(dict.fromkeys(_names(place)))


def version_problem(version: str) -> str | None:
    """Return why a Python version such as "3.11" will not do, or None."""
    try:
        major, minor = (int(part) for part in version.split(".")[:2])
    except ValueError:
        return f'says that it is version "{version}"'
    if OLDEST <= (major, minor) <= NEWEST:
        return None
    return (
        f"is Python {version}, and the packages exist for"
        f" {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
    )


def problem_of(python: Path) -> str | None:
    """Return why an interpreter cannot make the environment, or None. Starts it."""
    if not python.is_file():
        return "does not exist"
    try:
        result = subprocess.run(  # noqa: S603 - an argument list
            [str(python), "-I", "-X", "utf8", "-c", _PROBE],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            encoding="utf-8",
            errors="replace",
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"cannot be started ({error})"
    if result.returncode:
        said = result.stderr.strip().splitlines()
        return f"cannot make environments ({said[-1] if said else result.returncode})"
    return version_problem(result.stdout.strip())


def find(place: Place) -> Path:
    """Return the first interpreter that can make the runtime environment. Starts processes.

    Raises:
        NotInstalledError: None can. The text lists what was tried and why it will not do.
    """
    tried: list[str] = []
    for python in candidates(place):
        problem = problem_of(python)
        if problem is None:
            return python
        if problem != "does not exist" or len(tried) < 6:
            tried.append(f"{python} {problem}")
    raise NotInstalledError(
        "No Python was found from which the runtime environment can be made. Install Python"
        f" {NEWEST[0]}.{NEWEST[1]}, put PyTorch and diffusers into it and choose it in"
        f" Preferences. Tried: {'; '.join(tried)}."
    )
