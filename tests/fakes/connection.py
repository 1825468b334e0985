# SPDX-License-Identifier: GPL-3.0-or-later
"""The server in this process, at the other end of two pipes."""

import os
import threading
from contextlib import contextmanager

from tessera.generator_process.errors import (
    ErrorKind,
)
from tessera.generator_process.messages import (
    Cancelled,
    Failed,
    Finished,
    Progress,
    Ready,
    SamplingSettings,
    TextToImage,
)
from tessera.generator_process.server import serve
from tessera.generator_process.wire import encode_message, read_message, write_message

TERMINAL = (Finished, Failed, Cancelled)


class Worker:
    """Calls what the test gives, with the request and the context."""

    def __init__(self, run=None):
        self._run = run
        self.prompts = []

    def ready(self):
        return Ready(device="cpu", device_name="", versions=())

    def run(self, request, context):
        self.prompts.append(request.sampling.prompt)
        return self._run(request, context) if self._run else Finished(job_id=request.job_id)

    def explain(self, error):
        if isinstance(error, MemoryError):
            return ErrorKind.OUT_OF_MEMORY, "Lower the size."
        if isinstance(error, KeyError):
            raise SystemExit
        return None


class Connection:
    def __init__(self, worker):
        read_in, write_in = os.pipe()
        read_out, write_out = os.pipe()
        self.requests = os.fdopen(write_in, "wb")
        self.events = os.fdopen(read_out, "rb")
        self._streams = (os.fdopen(read_in, "rb"), os.fdopen(write_out, "wb"))
        self.error = None
        self.thread = threading.Thread(target=self._serve, args=(worker,), daemon=True)
        self.thread.start()

    def _serve(self, worker):
        try:
            serve(*self._streams, worker)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.error = error
        finally:
            self._streams[1].close()

    def send(self, *messages):
        for message in messages:
            write_message(self.requests, message)

    def until_terminal(self):
        events = []
        while not events or not isinstance(events[-1], TERMINAL):
            event = read_message(self.events)
            assert event is not None, "the server ended"
            events.append(event)
        return events

    def end(self):
        """Close the input; return what else arrives."""
        self.requests.close()
        rest = []
        while (event := read_message(self.events)) is not None:
            rest.append(event)
        self.thread.join(5)
        assert not self.thread.is_alive()
        return rest


@contextmanager
def connected(worker):
    connection = Connection(worker)
    try:
        assert isinstance(read_message(connection.events), Ready)
        yield connection
    finally:
        connection.requests.close()
        connection.thread.join(5)
        connection.events.close()
        connection._streams[0].close()


def request(job_id="a", prompt="", **values):
    return TextToImage(job_id=job_id, sampling=SamplingSettings(prompt=prompt, **values))


class Held:
    """A task that waits in the middle until the test has sent more."""

    def __init__(self):
        self.running = threading.Event()
        self.go_on = threading.Event()

    def __call__(self, request, context):
        if request.sampling.prompt == "hold":
            self.running.set()
            assert self.go_on.wait(5)
            if request.sampling.steps > 1:
                context.raise_if_cancelled()
        return Finished(job_id=request.job_id)


def wait_until_read(connection):
    """A frame of another, refused job is answered by the reading thread: all before it was read."""
    data = b"".join(encode_message(request("probe", steps=77)))
    connection.requests.write(data.replace(b'"steps":77', b'"steps":-1'))
    connection.requests.flush()
    while (event := read_message(connection.events)).job_id != "probe":
        assert isinstance(event, Progress)
    assert event.kind is ErrorKind.INVALID_REQUEST
    assert event.message == "Steps -1 is out of range. Use a value from 1 to 1000."
