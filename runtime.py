# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Python runs the generator process, and where its packages and logs are. Side: Blender.

In this order: the interpreter chosen in the preferences, the one that TESSERA_PYTHON names, the
runtime environment that Tessera has installed. What only an installation needs is imported when it
is asked about, so that enabling the add-on stays quick.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from . import preferences
from .generator_process.errors import NotInstalledError

if TYPE_CHECKING:
    from .generator_process.client import GeneratorCommand

_HOW_TO_INSTALL = "Press Install Generator, or choose a Python that has them in Preferences."


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeState:
    """What the user is told. `python` is None unless `is_installed`."""

    is_installed: bool
    message: str
    python: Path | None = None
    is_outdated: bool = False


def user_folder() -> Path:
    """Return the folder in which the add-on may write. It need not exist yet."""
    import bpy

    try:
        return Path(bpy.utils.extension_path_user(__package__ or "", create=False))
    except ValueError:  # loaded as a plain package, not as an extension
        return Path(bpy.utils.user_resource("DATAFILES", path="tessera", create=False))


def runtime_folder() -> Path:
    """Return where Tessera installs the runtime environment."""
    return user_folder() / "runtime"


def log_folder() -> Path:
    """Return where the logs of the generator and of the installation are."""
    return user_folder() / "logs"


def installed_python() -> Path | None:
    """Return the interpreter of the environment that Tessera has installed, if it is complete."""
    from .installation.install_plan import STAMP, interpreter_in

    folder = runtime_folder()
    python = interpreter_in(folder)
    return python if (folder / STAMP).is_file() and python.is_file() else None


def state() -> RuntimeState:
    """Return which interpreter is used, or why there is none. Cheap enough for drawing."""
    import bpy

    chosen = preferences.python_path()
    if chosen:
        return _given(Path(bpy.path.abspath(chosen)), "chosen in Preferences")
    named = os.environ.get("TESSERA_PYTHON")
    if named:
        return _given(Path(named), "that TESSERA_PYTHON names")
    python = installed_python()
    if python is not None:
        return _installed(python)
    return RuntimeState(is_installed=False, message=_why_not_installed())


def _why_not_installed() -> str:
    from .installation import install
    from .installation.install_plan import STAMP

    installation = install.current()
    if installation is not None and installation.is_running:
        return installation.progress.text
    if installation is not None and installation.error is not None:
        return str(installation.error)
    if (runtime_folder() / STAMP).is_file():
        return (
            "The Python from which the generator was installed is gone."
            " Press Install Generator to repair it."
        )
    return f"The generator needs PyTorch and diffusers. {_HOW_TO_INSTALL}"


def _given(python: Path, whence: str) -> RuntimeState:
    if python.is_file():
        return RuntimeState(
            is_installed=True, python=python, message=f"Uses the Python {whence}: {python}"
        )
    return RuntimeState(
        is_installed=False,
        message=f"The Python {whence} is not there: {python}. Choose another one, or none to use"
        " the one that Tessera installs.",
    )


def _installed(python: Path) -> RuntimeState:
    from .installation.install_plan import STAMP, Options, requirements_key

    key = (runtime_folder() / STAMP).read_text(encoding="utf-8").strip()
    for openvino, text in ((False, ""), (True, " with OpenVINO")):
        if key == requirements_key(Options(openvino=openvino).requirements):
            message = f"The generator is installed{text}"
            return RuntimeState(is_installed=True, python=python, message=message)
    return RuntimeState(
        is_installed=True,
        is_outdated=True,
        python=python,
        message="The generator was installed by another version of Tessera."
        " Press Install Generator to update it.",
    )


def generator_command() -> "GeneratorCommand":
    """Return how to start the generator process.

    Raises:
        NotInstalledError: There is no interpreter. The text says what to do.
    """
    from .generator_process.client import GeneratorCommand

    found = state()
    if found.python is None:
        raise NotInstalledError(found.message)
    return GeneratorCommand(python=found.python, log_path=log_folder() / "generator.log")
