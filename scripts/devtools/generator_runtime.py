# SPDX-License-Identifier: GPL-3.0-or-later
"""The runtime environment of the generator, made by the add-on's own installer and then kept."""

from __future__ import annotations

import os
from pathlib import Path

from . import blender, packaging
from .cache import cache_folder, key_of, lock, remove
from .console import DevError, say
from .environments import REQUIREMENTS, Environment

INSTALL_SCRIPT = Path(__file__).with_name("install_runtime.py")
STAMP = "python.txt"
"""Written last by the install script: the path of the runtime's interpreter."""


def _folder(version: str) -> Path:
    text = (REQUIREMENTS / "runtime.txt").read_text(encoding="utf-8")
    base = blender.environment(version).base()
    return cache_folder() / "runtime" / key_of(text, str(base))


def _python_in(folder: Path) -> Path | None:
    stamp = folder / STAMP
    if not stamp.is_file():
        return None
    python = Path(stamp.read_text(encoding="utf-8").strip())
    return python if python.exists() else None


def given() -> Path | None:
    """Return the interpreter that TESSERA_PYTHON names, or None.

    Raises:
        DevError: It names something that is not there.
    """
    value = os.environ.get("TESSERA_PYTHON")
    if not value:
        return None
    if not Path(value).is_file():
        raise DevError(f"TESSERA_PYTHON is {value}, which does not exist.")
    return Path(value)


def ready(version: str | None = None) -> Path:
    """Return the interpreter of the runtime environment; install it unless it is there.

    Args:
        version: The Blender that installs it. Without it the first that this machine can run.

    Raises:
        DevError: The installation failed.
    """
    chosen = given()
    if chosen:
        return chosen
    version = version or blender.default_version()
    folder = _folder(version)
    found = _python_in(folder)
    if found:
        return found
    with lock("runtime"):
        found = _python_in(folder)
        if found:
            return found
        remove(folder)
        folder.mkdir(parents=True)
        say(f"Runtime environment: installing with the add-on's installer in Blender {version}")
        archive = packaging.build(version, folder)
        status = blender.run_script(
            version,
            INSTALL_SCRIPT,
            [str(folder / STAMP)],
            archive=archive,
            profile=folder / "profile",
            variables={"TESSERA_DEV_ONLINE": "1"},
        )
        found = _python_in(folder)
        if status or found is None:
            raise DevError(f"The runtime environment was not installed (status {status}).")
        for other in folder.parent.iterdir():
            if other != folder:
                remove(other)
        return found


def test_environment(runtime: Path) -> Environment:
    """Return the environment of the generator suite: pytest, on top of the runtime's packages."""
    site = next((runtime.parent.parent / "lib").glob("python3*/site-packages"), None)
    if site is None:
        site = runtime.parent.parent / "Lib" / "site-packages"
    version = site.parent.name[len("python") :] if site.parent.name.startswith("python3") else ""
    versions = (version,) if version else ("3.11", "3.13", "3.12")
    return Environment("generator", REQUIREMENTS / "dev" / "generator.txt", versions, shares=site)
