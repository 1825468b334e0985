# SPDX-License-Identifier: GPL-3.0-or-later
"""One started generator process: its pipes, its threads and its end. Side: Blender.

Never multiprocessing: that would run the user's script again. Never a shell.
"""

import contextlib
import io
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import ErrorKind, NotInstalledError, StartError
from .messages import Ready, Shutdown
from .process_log import ProcessLog
from .wire import Message, encode_message, read_message, write_frame

logger = logging.getLogger(__name__)

EXIT_NOT_INSTALLED = 3  # these two as in __main__.py, which must not import this package at once
EXIT_START = 4

_ENTRY = Path(__file__).with_name("__main__.py")
_EXIT_USAGE = 2
_END_S = 3.0  # what a child may take to end after it has closed its output
_MAX_WORDS = 300
_FOREIGN_VARIABLES = ("PYTHON", "LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT", "__PYVENV")


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratorCommand:
    """How to start the generator.

    `python` is the interpreter of the runtime environment, `log_path` takes what it writes to
    stderr, `environment` are (name, value) pairs that are added to Blender's environment.
    """

    python: Path
    log_path: Path
    entry: Path = _ENTRY
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """Why a process is gone, as a `Failed` event says it."""

    kind: ErrorKind
    message: str
    detail: str


class Child:
    """A process that has been started.

    Args:
        command: What to start.
        on_message: Called with each message that arrives, from a thread of this class.
        on_end: Called once, from the same thread, when the process is gone.

    Raises:
        NotInstalledError: There is no such interpreter.
        StartError: It cannot be started.
    """

    def __init__(
        self,
        command: GeneratorCommand,
        on_message: "Callable[[Child, Message], None]",
        on_end: "Callable[[Child, Ending], None]",
    ) -> None:
        self.ready: Ready | None = None
        self.started_s = time.monotonic()
        self._command = command
        self._on_message = on_message
        self._on_end = on_end
        self._killed_for: tuple[ErrorKind, str] | None = None
        self._frames: queue.SimpleQueue[list[bytes | memoryview] | None] = queue.SimpleQueue()
        self._process = _start(command)
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        assert isinstance(stdin, io.BufferedWriter)
        assert isinstance(stdout, io.BufferedReader)
        assert isinstance(stderr, io.BufferedReader)
        self._log = ProcessLog(command.log_path)
        self._drainer = _thread("log", self._log.drain, stderr)
        self._writer = _thread("writer", self._write, stdin)
        self._reader = _thread("reader", self._read, stdout)
        for thread in (self._drainer, self._writer, self._reader):
            thread.start()

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def has_threads(self) -> bool:
        """Whether its end is not over."""
        threads = (self._reader, self._writer, self._drainer)
        return any(thread.is_alive() for thread in threads)

    @property
    def is_running(self) -> bool:
        """Whether it may still answer."""
        return self._killed_for is None and self._process.poll() is None

    def send(self, frame: list[bytes | memoryview]) -> None:
        """Hand over an encoded message. Returns at once."""
        self._frames.put(frame)

    def kill(self, kind: ErrorKind, reason: str) -> None:
        """End the process at once, for this reason."""
        self._killed_for = self._killed_for or (kind, reason)
        self._process.kill()

    def stop(self) -> None:
        """End the process, politely at first. Returns when it and the threads are gone."""
        self._killed_for = self._killed_for or (ErrorKind.CRASHED, "It was stopped.")
        self.send(encode_message(Shutdown()))
        self._frames.put(None)
        if self.ready is not None:
            self._reader.join(1.5)
        for end in (self._process.terminate, self._process.kill):
            if self._reader.is_alive():
                end()
                self._reader.join(1.0)
        for thread in (self._reader, self._writer, self._drainer):
            thread.join(1.0)

    def _write(self, stream: io.BufferedWriter) -> None:
        with contextlib.suppress(OSError):  # the process is gone, which the reader notices
            while (frame := self._frames.get()) is not None:
                write_frame(stream, frame)
                del frame  # may hold large arrays until the next one comes
        with contextlib.suppress(OSError):
            stream.close()

    def _read(self, stream: io.BufferedReader) -> None:
        with stream:
            try:
                while (message := read_message(stream)) is not None:
                    if isinstance(message, Ready):
                        self.ready = message
                    self._on_message(self, message)
            except Exception as error:
                logger.debug("reading failed", exc_info=True)
                self.kill(ErrorKind.PROTOCOL, f"What the generator process sent is wrong: {error}")
        self._frames.put(None)
        ending = self._ending(self._wait())
        logger.info("the generator process is gone: %s", ending.message)
        self._on_end(self, ending)

    def _wait(self) -> int:
        try:
            return self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _ending(self, status: int) -> Ending:
        self._drainer.join(2.0)
        words = self._log.last_words()[:_MAX_WORDS]
        said = f' It last said: "{words}".' if words else ""
        log = f" The log is {self._command.log_path}."
        detail = "\n".join(self._log.last_lines())
        if self._killed_for is not None:
            kind, reason = self._killed_for
            return Ending(kind=kind, message=f"{reason}{said}{log}", detail=detail)
        if self.ready is not None:
            reason = f"The generator process ended unexpectedly: it {status_in_words(status)}."
            return Ending(kind=ErrorKind.CRASHED, message=f"{reason}{said}{log}", detail=detail)
        if status in (EXIT_NOT_INSTALLED, EXIT_START) and words:
            kind = ErrorKind.NOT_INSTALLED if status == EXIT_NOT_INSTALLED else ErrorKind.START
            return Ending(kind=kind, message=words, detail=detail)
        reason = f"The generator process did not start: it {status_in_words(status)}."
        if status == _EXIT_USAGE:
            reason += f" Check that {self._command.python} is Python 3.11 or newer."
        return Ending(kind=ErrorKind.START, message=f"{reason}{said}{log}", detail=detail)


def status_in_words(status: int) -> str:
    """Say how a process ended, after "it"."""
    if status == -9:
        return "was killed by signal 9 (SIGKILL), often because memory ran out"
    if status < 0:
        try:
            name = signal.Signals(-status).name
        except ValueError:
            name = "unknown"
        return f"was killed by signal {-status} ({name})"
    if status >= 0xC0000000:  # Windows
        return f"was ended by Windows with error 0x{status:08X}"
    return f"ended with status {status}"


def clean_environment(
    inherited: Mapping[str, str], additions: tuple[tuple[str, str], ...]
) -> dict[str, str]:
    """Return the child's environment: without what would load other packages or libraries."""
    kept = {
        name: value
        for name, value in inherited.items()
        if not name.upper().startswith(_FOREIGN_VARIABLES)
    }
    return kept | dict(additions)


def _start(command: GeneratorCommand) -> subprocess.Popen[bytes]:
    if not command.python.is_file():
        raise NotInstalledError(
            f"There is no Python at {command.python}. Install the runtime environment in"
            " Preferences, or choose another Python there."
        )
    _occupy_standard_descriptors()
    try:
        return subprocess.Popen(  # noqa: S603 - an argument list, chosen in the preferences
            [str(command.python), "-I", "-X", "utf8", str(command.entry)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=clean_environment(os.environ, command.environment),
            creationflags=subprocess.CREATE_NO_WINDOW if sys.platform == "win32" else 0,
        )
    except (OSError, ValueError) as error:
        raise StartError(
            f"{command.python} cannot be started ({error}). Choose another Python in Preferences."
        ) from error


def _occupy_standard_descriptors() -> None:
    """Keep the pipes off descriptors 0 to 2, which Blender's own output would go to.

    They are free if Blender was started with its streams closed.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def _thread(
    name: str,
    target: Callable[[io.BufferedReader], None] | Callable[[io.BufferedWriter], None],
    stream: io.BufferedReader | io.BufferedWriter,
) -> threading.Thread:
    return threading.Thread(target=target, args=(stream,), name=f"tessera {name}", daemon=True)
