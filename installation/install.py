# SPDX-License-Identifier: GPL-3.0-or-later
"""Installs the runtime environment: a staging folder, renamed when all of it works. Side: Blender.

Standard library only, and no bpy: it runs on a thread of its own. Everything is written below the
folder that it is given.
"""

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from ..generator_process.errors import (
    CancelledError,
    InvalidRequestError,
    NotInstalledError,
    TesseraError,
)
from . import install_plan, interpreters
from .install_plan import STAMP, Options, Step, TorchBuild
from .interpreters import Place

logger = logging.getLogger(__name__)

RUNTIME = "runtime"
STAGING = "runtime.new"
OLD = "runtime.old"
MIN_FREE_BYTES = 3 * 2**30

_LAST_LINES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the installation is: `fraction` from 0 to 1, `text` for the user."""

    fraction: float
    text: str


class Installation:
    """A running installation, on a thread of its own.

    Args:
        folder: The add-on's user folder. The environment becomes `folder / "runtime"`.
        log_path: Takes the output of every step.
        place: Where the Python of this Blender is.
        options: What the user has chosen.
        min_free_bytes: Space that must be left on the disk.
    """

    def __init__(
        self,
        folder: Path,
        log_path: Path,
        place: Place,
        options: Options,
        *,
        min_free_bytes: int = MIN_FREE_BYTES,
    ) -> None:
        self.log_path = log_path
        self.error: TesseraError | None = None
        self.progress = Progress(fraction=0.0, text="Looking for Python")
        self._folder = folder
        self._place = place
        self._options = options
        self._min_free_bytes = min_free_bytes
        self._cancelled = threading.Event()
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()  # guards _process
        self._thread = threading.Thread(target=self._run, name="tessera install", daemon=True)

    def start(self) -> None:
        """Begin. Returns at once."""
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait up to `timeout_s` and return whether the installation has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._thread.is_alive()

    def cancel(self) -> None:
        """Stop. What was installed before stays as it was. Returns at once."""
        self._cancelled.set()
        with self._lock:
            if self._process is not None:
                _end(self._process)

    def _run(self) -> None:
        staging = self._folder / STAGING
        try:
            self._install(staging)
        except TesseraError as error:
            self.error = error
        except OSError as error:
            self.error = NotInstalledError(
                f"The generator could not be installed: {error}. The log is {self.log_path}."
            )
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            shutil.rmtree(self._folder / OLD, ignore_errors=True)
            logger.info("%s", self.error or "The generator is installed")

    def _install(self, staging: Path) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        self.log_path.write_text("", encoding="utf-8")
        free = shutil.disk_usage(self._folder).free
        if free < self._min_free_bytes:
            raise NotInstalledError(
                f"The generator needs {self._min_free_bytes / 2**30:.0f} GB in {self._folder},"
                f" where {free / 2**30:.1f} GB are free. Make room and try again."
            )
        base = interpreters.find(self._place)
        self._do(install_plan.create_step(base, staging), 0.02)
        answers = self._prepare_uv(staging)
        step = install_plan.packages_step(staging, self._options, torch_index_answers=answers)
        self._do(step, 0.06)
        self._do(install_plan.verify_step(staging, self._options), 0.95)
        key = install_plan.requirements_key(self._options.requirements)
        (staging / STAMP).write_text(key + "\n", encoding="utf-8")
        self._check_cancelled()
        _replace(self._folder / RUNTIME, staging, self._folder / OLD)

    def _prepare_uv(self, staging: Path) -> bool:
        """Get uv if it is to be used, and return whether it finds a build of PyTorch by itself."""
        options = self._options
        is_automatic = options.torch is TorchBuild.AUTO
        if not install_plan.uses_uv(options, torch_index_answers=True):
            return False
        try:
            if options.uv is None:
                self._do(install_plan.uv_step(staging), 0.03)
            if is_automatic:
                self._do(install_plan.probe_step(staging, options), 0.05)
        except NotInstalledError as error:
            if not is_automatic:
                raise
            logger.info("uv cannot get PyTorch, pip's index is used: %s", error)
            return False
        return True

    def _check_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise CancelledError("The installation was cancelled. Nothing was changed.")

    def _tell(self, fraction: float, text: str) -> None:
        self.progress = Progress(fraction=fraction, text=text)
        logger.info("%3.0f %%  %s", fraction * 100, text)

    def _do(self, step: Step, fraction: float) -> None:
        self._check_cancelled()
        self._tell(fraction, step.label)
        lines: list[str] = []
        begun: set[str] = set()
        count = install_plan.requirement_count(self._options.requirements)
        with self.log_path.open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(step.argv)}\n")
            process = self._start(step)
            assert process.stdout is not None
            with process.stdout as output:
                for line in output:
                    log.write(line)
                    log.flush()
                    lines = [*lines[-_LAST_LINES:], line]
                    package = install_plan.package_begun(line) if step.counted else None
                    if package and package not in begun:
                        begun.add(package)
                        self._tell(
                            min(0.06 + 0.8 * len(begun) / count, 0.9),
                            f"Installing {package} ({len(begun)} of {count})",
                        )
            status = process.wait()
        with self._lock:
            self._process = None
        self._check_cancelled()
        if status:
            raise NotInstalledError(self._explain(step, status, lines))
        if not step.counted and lines:
            logger.debug("%s", lines[-1].strip())

    def _start(self, step: Step) -> "subprocess.Popen[str]":
        with self._lock:
            self._process = subprocess.Popen(  # noqa: S603 - an argument list of ours
                list(step.argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                env=install_plan.step_environment(os.environ, is_offline=step.is_offline)
                | dict(step.variables),
                start_new_session=sys.platform != "win32",
                creationflags=subprocess.CREATE_NO_WINDOW if sys.platform == "win32" else 0,
            )
            if self._cancelled.is_set():
                _end(self._process)
            return self._process

    def _explain(self, step: Step, status: int, lines: list[str]) -> str:
        package = install_plan.package_at_fault(lines)
        what = f'"{package}" could not be installed' if package else f"it ended with {status}"
        return (
            f"The generator was not installed: {step.label.lower()} failed, {what}."
            f" Nothing was changed. The log is {self.log_path}."
        )


_current: Installation | None = None


def current() -> Installation | None:
    """Return the installation that is running, or the last one, or None."""
    return _current


def is_running() -> bool:
    """Tell whether an installation is running."""
    return _current is not None and _current.is_running


def start(installation: Installation) -> None:
    """Make this the current installation and begin.

    Raises:
        InvalidRequestError: Another one is running.
    """
    global _current  # noqa: PLW0603 - one folder, hence one installation at a time
    if is_running():
        raise InvalidRequestError("The generator is already being installed. Wait or cancel it.")
    _current = installation
    installation.start()


def stop() -> None:
    """Cancel the current installation and forget it."""
    global _current  # noqa: PLW0603
    if _current is not None and _current.is_running:
        _current.cancel()
        _current.wait(10.0)
    _current = None


def remove(folder: Path) -> None:
    """Delete the environment below the add-on's user folder, and what an interruption has left.

    Raises:
        NotInstalledError: Files are in use, or may not be deleted.
    """
    for name in (RUNTIME, STAGING, OLD):
        path = folder / name
        try:
            if path.exists():
                shutil.rmtree(path)
        except OSError as error:
            raise NotInstalledError(
                f"{path} could not be deleted ({error}). Close other Blenders and try again."
            ) from error


def _replace(current: Path, new: Path, old: Path) -> None:
    """Put a finished environment where the current one is; on failure the current one stays."""
    shutil.rmtree(old, ignore_errors=True)
    if current.exists():
        current.rename(old)
    try:
        new.rename(current)
    except OSError:
        if old.exists():
            old.rename(current)
        raise


def _end(process: "subprocess.Popen[str]") -> None:
    """End a step and all that it has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.terminate()
        else:
            os.killpg(process.pid, signal.SIGTERM)
