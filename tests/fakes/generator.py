# SPDX-License-Identifier: GPL-3.0-or-later
"""A generator that does what the test says."""

from collections.abc import Callable

from tessera.generator_process.messages import Cancel, Event, Ready, Request

_MAX_EMPTY_WAITS = 200


class FakeGenerator:
    """Set `send_error`, `push` events, or set `responder`; read `sent` and `closed`.

    `responder` is called with every request, and what it returns arrives at the next `poll`: enough
    for an operator that blocks until its job has ended.
    """

    def __init__(self, responder: Callable[[Request], list[Event]] | None = None) -> None:
        self.responder = responder
        self.send_error: Exception | None = None
        self.sent: list[Request | Cancel] = []
        self.closed = False
        self.ready: Ready | None = None
        self._events: list[Event] = []
        self._empty_waits = 0

    def send(self, message: Request | Cancel) -> None:
        if self.send_error is not None:
            raise self.send_error
        self.sent.append(message)
        if self.responder is not None and not isinstance(message, Cancel):
            self.push(*self.responder(message))

    def poll(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def wait(self, timeout_s: float) -> None:
        """Never waits: what was pushed is there. A test that would wait for ever fails."""
        self._empty_waits = 0 if self._events else self._empty_waits + 1
        assert self._empty_waits < _MAX_EMPTY_WAITS, "the job waits for an event that nobody pushes"

    def close(self) -> None:
        self.closed = True

    def push(self, *events: Event) -> None:
        """Let these arrive at the next `poll`."""
        self._events.extend(events)
