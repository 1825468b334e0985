# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual environments in the cache, made once for each state of their requirements."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from . import pythons
from .cache import ROOT, cache_folder, key_of, lock, log_file, remove
from .console import DevError, run_with_progress

REQUIREMENTS = ROOT / "requirements"
STAMP = "complete"
"""Written last: a folder without it was interrupted, and is made again."""


def interpreter_in(folder: Path) -> Path:
    """Return the path of the interpreter of a virtual environment."""
    if sys.platform == "win32":
        return folder / "Scripts" / "python.exe"
    return folder / "bin" / "python"


@dataclass(frozen=True)
class Environment:
    """A virtual environment.

    `pythons`: versions that will do, best first. `verify`: code that must run in it;
    `verify_hint`: what to do when it does not. `shares`: a site-packages folder whose packages
    are visible in it too.
    """

    name: str
    requirements: Path
    pythons: tuple[str, ...]
    verify: str = ""
    verify_hint: str = ""
    shares: Path | None = None

    def base(self) -> Path | None:
        """Return the interpreter to make it with, or None if this machine has none."""
        for version in self.pythons:
            found = pythons.find(version)
            if found:
                return found
        return None

    def why_not(self) -> str | None:
        """Return why it cannot be made here, or None."""
        if self.base():
            return None
        return f"needs Python {' or '.join(self.pythons)}, which was not found"

    def folder(self) -> Path:
        """Return where it is, or will be."""
        text = self.requirements.read_text(encoding="utf-8")
        parts = [text, str(self.base()), *([str(self.shares)] if self.shares else [])]
        return cache_folder() / "environments" / f"{self.name}-{key_of(*parts)}"

    def ready(self) -> Path:
        """Make it unless it is there, and return its interpreter.

        Raises:
            DevError: There is no such Python, or the installation failed.
        """
        folder = self.folder()
        if (folder / STAMP).exists():
            return interpreter_in(folder)
        base = self.base()
        if base is None:
            raise DevError(f"Environment {self.name} {self.why_not()}. Install that Python.")
        with lock(self.name):
            if not (folder / STAMP).exists():
                self._make(base, folder)
        return interpreter_in(folder)

    def _make(self, base: Path, folder: Path) -> None:
        remove(folder)
        log = log_file(self.name)
        log.write_text("", encoding="utf-8")
        python = str(interpreter_in(folder))
        run_with_progress(
            [str(base), "-m", "venv", str(folder)],
            label=f"Environment {self.name}: creating with {base}",
            log=log,
        )
        run_with_progress(
            [
                python,
                "-m",
                "pip",
                "install",
                "--no-input",
                "--no-compile",
                "-r",
                str(self.requirements),
            ],
            label=f"Environment {self.name}: installing {self.requirements.name}",
            log=log,
        )
        if self.shares:
            site = next(folder.glob("[lL]ib*/**/site-packages"))
            (site / "shared.pth").write_text(f"{self.shares}\n", encoding="utf-8")
        if self.verify:
            try:
                run_with_progress(
                    [python, "-c", self.verify],
                    label=f"Environment {self.name}: checking",
                    log=log,
                )
            except DevError as error:
                raise DevError(f"{error}\n{self.verify_hint}") from error
        (folder / STAMP).write_text("", encoding="utf-8")
        for other in folder.parent.glob(f"{self.name}-*"):
            if other != folder:
                remove(other)


UNIT = Environment("unit", REQUIREMENTS / "dev" / "unit.txt", ("3.11", "3.13", "3.12"))
