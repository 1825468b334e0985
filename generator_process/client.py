# SPDX-License-Identifier: GPL-3.0-or-later
"""The generator as Blender sees it. Touches no bpy. Side: Blender."""

import logging
import threading
import time
from dataclasses import dataclass, replace
from typing import Protocol

from .child import Child, Ending, GeneratorCommand
from .errors import (
    ErrorKind,
    InvalidRequestError,
    NotInstalledError,
    TesseraError,
    kind_of,
)
from .messages import (
    Cancel,
    Cancelled,
    Event,
    Failed,
    Finished,
    ImageFinished,
    JobEvent,
    Progress,
    Ready,
    Request,
)
from .wire import Message, encode_message

__all__ = ["Client", "GeneratorCommand", "GeneratorProcess", "NoGenerator"]

logger = logging.getLogger(__name__)

START_TIMEOUT_S = 300.0  # importing torch from a slow, busy disk takes minutes
_LOOK_S = 0.5


class Client(Protocol):
    """A running generator, or something that behaves like one."""

    @property
    def ready(self) -> Ready | None:
        """What the generator said of itself when it last started, or None."""
        ...

    def send(self, message: Request | Cancel) -> None:
        """Hand over a message. Returns at once. Arrays in it must not be changed afterwards.

        Raises:
            InvalidRequestError: A job of this name is still running.
            ProtocolError: The message cannot be sent.
            NotInstalledError: There is no generator.
            StartError: The generator cannot be started.
        """
        ...

    def poll(self) -> list[Event]:
        """Return the events that have arrived since the last call, oldest first. Never waits.

        Of several `Progress` in a row only the newest is kept.
        """
        ...

    def wait(self, timeout_s: float) -> None:
        """Return when there may be something to poll, at the latest after `timeout_s`."""
        ...

    def close(self) -> None:
        """Stop the generator and cancel its jobs. Safe to call twice."""
        ...


class NoGenerator:
    """The client before the installation.

    Args:
        message: What the user is to do.
    """

    ready: Ready | None = None

    def __init__(self, message: str) -> None:
        self._message = message

    def send(self, message: Request | Cancel) -> None:
        if not isinstance(message, Cancel):
            raise NotInstalledError(self._message)

    def poll(self) -> list[Event]:
        return []

    def wait(self, timeout_s: float) -> None:
        """Nothing will ever arrive."""

    def close(self) -> None:
        """Nothing to stop."""


@dataclass(slots=True, kw_only=True)
class _Sent:
    """A job that has no terminal event yet."""

    frame: list[bytes | memoryview]
    is_taken: bool = False
    is_second_try: bool = False
    is_cancelled: bool = False


class GeneratorProcess:
    """The generator in a process of its own, started by the first request.

    If it dies, its jobs fail and the next request starts a new one. Methods may be called from any
    thread.

    Args:
        command: How to start it.
        start_timeout_s: How long it may take to become ready.
    """

    def __init__(
        self, command: GeneratorCommand, *, start_timeout_s: float = START_TIMEOUT_S
    ) -> None:
        self._command = command
        self._start_timeout_s = start_timeout_s
        self._changed = threading.Condition()  # guards all that follows
        self._child: Child | None = None
        self._gone: list[Child] = []  # until their threads have ended
        self._ready: Ready | None = None
        self._jobs: dict[str, _Sent] = {}
        self._events: list[Event] = []

    @property
    def ready(self) -> Ready | None:
        return self._ready

    @property
    def pid(self) -> int | None:
        """The number of the running process, or None."""
        with self._changed:
            return None if self._child is None else self._child.pid

    def start(self) -> None:
        """Start the process if there is none. Returns at once; `Ready` arrives later.

        Raises:
            NotInstalledError: There is no such interpreter.
            StartError: It cannot be started.
        """
        with self._changed:
            self._running_child()

    def send(self, message: Request | Cancel) -> None:
        frame = encode_message(message)
        with self._changed:
            if isinstance(message, Cancel):
                self._cancel(message.job_id, frame)
                return
            if message.job_id in self._jobs:
                raise InvalidRequestError(f"Job {message.job_id} is still running.")
            child = self._running_child()
            self._jobs[message.job_id] = _Sent(frame=frame)
            child.send(frame)

    def poll(self) -> list[Event]:
        with self._changed:
            self._check_start()
            events, self._events = self._events, []
            return events

    def wait(self, timeout_s: float) -> None:
        end_s = time.monotonic() + timeout_s
        with self._changed:
            while not self._events and (left_s := end_s - time.monotonic()) > 0:
                self._check_start()
                self._changed.wait(min(left_s, _LOOK_S))

    def close(self) -> None:
        with self._changed:
            self._retire()
            for job_id in self._jobs:
                self._push(Cancelled(job_id=job_id))
            self._jobs.clear()
            children, self._gone = self._gone, []
        for child in children:
            child.stop()

    # With the lock held

    def _cancel(self, job_id: str, frame: list[bytes | memoryview]) -> None:
        if self._child is not None and job_id in self._jobs:
            self._jobs[job_id].is_cancelled = True
            self._child.send(frame)

    def _running_child(self) -> Child:
        if self._child is not None and not self._child.is_running and not self._jobs:
            self._retire()  # it died idle, and its thread has not told yet
        if self._child is None:
            self._child = Child(self._command, self._on_message, self._on_end)
        return self._child

    def _retire(self) -> None:
        """Have nothing more to do with the process; it ends, or is to be stopped."""
        self._gone = [child for child in self._gone if child.has_threads]
        if self._child is not None:
            self._gone.append(self._child)
            self._child = None

    def _check_start(self) -> None:
        child = self._child
        if child is None or child.ready is not None or not child.is_running:
            return
        if time.monotonic() - child.started_s > self._start_timeout_s:
            child.kill(
                ErrorKind.START,
                f"The generator process was not ready within {self._start_timeout_s:g} seconds.",
            )

    def _push(self, event: Event) -> None:
        last = self._events[-1] if self._events else None
        if (
            isinstance(event, Progress)
            and isinstance(last, Progress)
            and event.job_id == last.job_id
        ):
            self._events.pop()
            event = replace(event, preview=event.preview or last.preview)
        self._events.append(event)
        self._changed.notify_all()

    # From the threads of a child

    def _on_message(self, child: Child, message: Message) -> None:
        with self._changed:
            if child is not self._child:
                return  # closed meanwhile
            match message:
                case Ready():
                    self._ready = message
                    self._push(message)
                case Progress() | ImageFinished() | Finished() | Failed() | Cancelled():
                    self._take(message)
                case _:
                    child.kill(
                        ErrorKind.PROTOCOL,
                        f"The generator process sent a {type(message).__name__}.",
                    )

    def _take(self, event: JobEvent) -> None:
        job = self._jobs.get(event.job_id)
        if job is None:
            logger.warning("%s of an unknown job %s", type(event).__name__, event.job_id)
            return
        job.is_taken = True
        job.frame = []  # its arrays are not needed any more
        if isinstance(event, Finished | Failed | Cancelled):
            del self._jobs[event.job_id]
        self._push(event)

    def _on_end(self, child: Child, ending: Ending) -> None:
        with self._changed:
            if child is not self._child:
                return
            self._retire()
            jobs, self._jobs = self._jobs, {}
            for job_id, job in jobs.items():
                untouched = not job.is_taken and not job.is_second_try
                if untouched and job.is_cancelled:
                    self._push(Cancelled(job_id=job_id))
                elif untouched and ending.kind is ErrorKind.CRASHED:
                    self._send_again(job_id, job)
                else:
                    self._fail(job_id, ending.kind, ending.message, ending.detail)
            self._changed.notify_all()

    def _send_again(self, job_id: str, job: _Sent) -> None:
        """The process had died idle, unnoticed until now: this is not the job's fault."""
        try:
            child = self._running_child()
        except TesseraError as error:
            self._fail(job_id, kind_of(error), str(error), "")
            return
        self._jobs[job_id] = replace(job, is_second_try=True)
        child.send(job.frame)

    def _fail(self, job_id: str, kind: ErrorKind, message: str, detail: str) -> None:
        self._push(Failed(job_id=job_id, kind=kind, message=message, detail=detail))
