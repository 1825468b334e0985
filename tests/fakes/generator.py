# SPDX-License-Identifier: GPL-3.0-or-later
"""A generator that does what the test says."""

from tessera.generator_process.messages import Cancel, Event, Ready, Request


class FakeGenerator:
    """Set `send_error` or `push` events; read `sent` and `closed`."""

    def __init__(self) -> None:
        self.send_error: Exception | None = None
        self.sent: list[Request | Cancel] = []
        self.closed = False
        self.ready: Ready | None = None
        self._events: list[Event] = []

    def send(self, message: Request | Cancel) -> None:
        if self.send_error is not None:
            raise self.send_error
        self.sent.append(message)

    def poll(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def wait(self, timeout_s: float) -> None:
        """Never waits: what was pushed is there."""

    def close(self) -> None:
        self.closed = True

    def push(self, *events: Event) -> None:
        """Let these arrive at the next `poll`."""
        self._events.extend(events)
