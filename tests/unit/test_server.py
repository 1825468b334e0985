# SPDX-License-Identifier: GPL-3.0-or-later
"""The server, in this process: exactly one terminal event for every request. P059 and P065."""

import os
import threading
from contextlib import contextmanager

import pytest
from tessera.generator_process import server as server_module
from tessera.generator_process.context import TaskContext
from tessera.generator_process.errors import (
    CancelledError,
    ErrorKind,
    InvalidRequestError,
    ModelError,
    NotInstalledError,
    ProtocolError,
)
from tessera.generator_process.messages import (
    Cancel,
    Cancelled,
    Failed,
    Finished,
    Progress,
    Ready,
    SamplingSettings,
    Shutdown,
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


@pytest.fixture(autouse=True)
def no_exit(monkeypatch):
    """The reading thread ends a process that is busy: not this one."""
    exits = []
    monkeypatch.setattr(server_module.os, "_exit", exits.append)
    monkeypatch.setattr(server_module, "GRACE_S", 0.2)
    return exits


def request(job_id="a", prompt="", **values):
    return TextToImage(job_id=job_id, sampling=SamplingSettings(prompt=prompt, **values))


def outcome(run):
    with connected(Worker(run)) as connection:
        connection.send(request())
        *progress, event = connection.until_terminal()
        assert all(isinstance(item, Progress) for item in progress)
        connection.send(request("next"))  # still serves, and no second terminal event came
        following = connection.until_terminal()
        assert {item.job_id for item in following} == {"next"}
        assert connection.end() == []
        assert connection.error is None
        return event


def raising(error):
    def run(request, context):
        if request.job_id == "a":
            raise error
        return Finished(job_id=request.job_id)

    return run


class UnprintableError(Exception):
    def __str__(self):
        raise SystemExit

    __repr__ = __str__


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ValueError("Bad thing."), ErrorKind.GENERATOR, "unexpected error: Bad thing. The log"),
        (ValueError(), ErrorKind.GENERATOR, "unexpected error: ValueError. The log"),
        (UnprintableError(), ErrorKind.GENERATOR, "UnprintableError"),
        (SystemExit(3), ErrorKind.GENERATOR, "unexpected error: 3"),
        (KeyboardInterrupt(), ErrorKind.GENERATOR, "KeyboardInterrupt"),
        (GeneratorExit(), ErrorKind.GENERATOR, "GeneratorExit"),
        (RecursionError("deep"), ErrorKind.GENERATOR, "deep"),
        (KeyError("explaining fails"), ErrorKind.GENERATOR, "explaining fails"),
        (MemoryError(), ErrorKind.OUT_OF_MEMORY, "Lower the size."),
        (InvalidRequestError("Use 8."), ErrorKind.INVALID_REQUEST, "Use 8."),
        (ModelError("Choose one."), ErrorKind.MODEL, "Choose one."),
        (ExceptionGroup("group", [ValueError("x")]), ErrorKind.GENERATOR, "group"),
        (UnicodeError("\ud800"), ErrorKind.GENERATOR, "\ud800"),
    ],
)
def test_whatever_a_task_raises_is_one_failure(error, kind, message):
    event = outcome(raising(error))
    assert isinstance(event, Failed)
    assert event.kind is kind
    assert message in event.message
    assert "Traceback" in event.detail


def test_long_texts_are_cut():
    event = outcome(raising(ValueError("x" * 5_000_000)))
    assert len(event.message) < 2200
    assert len(event.detail) < 21_000
    assert event.detail.startswith("Traceback")
    assert "characters left out" in event.detail


def test_a_failure_does_not_keep_what_the_error_held():
    import gc
    import weakref

    class Tensor:
        pass

    kept = []

    def run(request, context):
        if request.job_id == "a":
            tensor = Tensor()
            kept.append(weakref.ref(tensor))
            raise ValueError(tensor)
        gc.collect()
        kept.append(kept[0]() is None)
        return Finished(job_id=request.job_id)

    outcome(run)
    assert kept[1] is True


@pytest.mark.parametrize(
    "result",
    [
        None,
        {"images": []},
        Cancelled(job_id="a"),
        Finished(job_id="b"),
    ],
)
def test_a_task_that_returns_something_else_fails(result):
    def run(request, context):
        return result if request.job_id == "a" else Finished(job_id=request.job_id)

    event = outcome(run)
    assert isinstance(event, Failed)
    assert "the task returned" in event.message


def test_a_result_that_cannot_be_sent_fails():
    def run(request, context):
        notes = (object(),) if request.job_id == "a" else ()
        return Finished(job_id=request.job_id, notes=notes)

    event = outcome(run)
    assert event.kind is ErrorKind.PROTOCOL
    assert event.message.startswith("Finished.notes[0]: expected text")


@pytest.mark.parametrize(
    "event", [Finished(job_id="a"), Progress(job_id="b", step=0, steps=1), None]
)
def test_a_task_can_emit_only_its_own_progress_and_images(event):
    def run(request, context):
        if request.job_id == "a":
            context.emit(event)
        return Finished(job_id=request.job_id)

    assert "cannot emit" in outcome(run).message


def test_a_progress_that_cannot_be_sent_fails_the_job():
    def run(request, context):
        if request.job_id == "a":
            context.emit(Progress(job_id="a", step=0.5, steps=1))
        return Finished(job_id=request.job_id)

    assert outcome(run).kind is ErrorKind.PROTOCOL


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


def test_cancel_before_start_while_running_and_after_the_end():
    task = Held()
    worker = Worker(task)
    with connected(worker) as connection:
        connection.send(request("running", "hold", steps=2), request("waiting"), request("kept"))
        assert task.running.wait(5)
        connection.send(Cancel(job_id="waiting"), Cancel(job_id="running"), Cancel(job_id="nobody"))
        wait_until_read(connection)
        task.go_on.set()
        assert connection.until_terminal()[-1] == Cancelled(job_id="running")
        assert connection.until_terminal() == [Cancelled(job_id="waiting")]
        assert connection.until_terminal()[-1] == Finished(job_id="kept")
        connection.send(Cancel(job_id="kept"), Cancel(job_id="running"), request("last"))
        assert connection.until_terminal()[-1] == Finished(job_id="last")
        assert connection.end() == []
        assert worker.prompts == ["hold", "", ""]


def test_a_cancel_that_comes_too_late_leaves_the_result():
    task = Held()
    with connected(Worker(task)) as connection:
        connection.send(request("a", "hold", steps=1))
        assert task.running.wait(5)
        connection.send(Cancel(job_id="a"))
        wait_until_read(connection)
        task.go_on.set()
        assert connection.until_terminal()[-1] == Finished(job_id="a")


@pytest.mark.parametrize("wrap", [True, False])
def test_a_cancel_that_a_library_wraps_is_a_cancel(wrap):
    task = Held()

    def run(request, context):
        try:
            return task(request, context)
        except CancelledError as error:
            if wrap:
                raise RuntimeError("callback") from error
        raise RuntimeError("something else")

    with connected(Worker(run)) as connection:
        connection.send(request("a", "hold", steps=2))
        assert task.running.wait(5)
        connection.send(Cancel(job_id="a"))
        wait_until_read(connection)
        task.go_on.set()
        event = connection.until_terminal()[-1]
    assert type(event) is (Cancelled if wrap else Failed)


def test_a_request_with_a_value_out_of_range_is_refused_and_serving_goes_on():
    with connected(Worker()) as connection:
        wait_until_read(connection)
        connection.send(request("a"))
        assert connection.until_terminal()[-1] == Finished(job_id="a")


def frame_with(name, fields):
    data = b"".join(encode_message(Cancel(job_id="x")))
    header = f'["{name}",{fields}]'.encode()
    return data[:4] + len(header).to_bytes(4, "little") + bytes(8) + header


def test_a_request_of_another_version_fails_by_name():
    with connected(Worker()) as connection:
        connection.requests.write(frame_with("Sculpt", '{"job_id": "s"}'))
        connection.requests.flush()
        event = connection.until_terminal()[-1]
        assert (event.job_id, event.kind) == ("s", ErrorKind.PROTOCOL)
        assert event.message == "'Sculpt' is not a message of this version."
        connection.send(request("a"))
        assert connection.until_terminal()[-1] == Finished(job_id="a")


@pytest.mark.parametrize(
    ("data", "answered"),
    [
        (b"garbage that is longer than a prefix", []),
        (b"short", []),
        (frame_with("Sculpt", "{}"), []),
        (b"".join(encode_message(Finished(job_id="x"))), []),
        (b"".join(encode_message(request("a", "hold"))) * 2, ["a"]),
        (b"".join(encode_message(request("a"))) + b"x", ["a"]),
    ],
)
def test_what_cannot_be_answered_ends_the_server_with_the_reason(data, answered):
    task = Held()
    connection = Connection(Worker(task))
    connection.requests.write(data)
    connection.requests.flush()
    task.go_on.set()
    events = connection.end()
    assert [event.job_id for event in events if isinstance(event, TERMINAL)] == answered
    assert isinstance(connection.error, ProtocolError)
    connection.events.close()
    connection._streams[0].close()


def test_shutdown_and_the_end_of_the_input_cancel_what_runs(no_exit):
    for message in (Shutdown(), None):
        task = Held()
        with connected(Worker(task)) as connection:
            connection.send(request("a", "hold", steps=2), request("b"))
            assert task.running.wait(5)
            if message is not None:
                connection.send(message)
            connection.requests.close()
            threading.Timer(0.05, task.go_on.set).start()
            assert connection.until_terminal()[-1] == Cancelled(job_id="a")
            assert connection.until_terminal()[-1] == Cancelled(job_id="b")
            assert connection.end() == []
            assert connection.error is None
    assert no_exit == []


def test_a_task_that_does_not_end_is_ended_with_the_process(no_exit):
    task = Held()
    with connected(Worker(task)) as connection:
        connection.send(request("a", "hold"))
        assert task.running.wait(5)
        connection.requests.close()
        while not no_exit:
            threading.Event().wait(0.01)
        task.go_on.set()
    assert no_exit == [1]


def test_a_worker_that_cannot_start_is_told():
    class Broken(Worker):
        def ready(self):
            raise NotInstalledError("Install it.")

    connection = Connection(Broken())
    assert connection.end() == []
    assert isinstance(connection.error, NotInstalledError)
    connection.events.close()
    connection._streams[0].close()


def test_events_from_several_threads_do_not_mix():
    def run(request, context):
        def emit(start):
            for step in range(start, start + 50):
                context.emit(Progress(job_id="a", step=step, steps=200, stage="x" * 5000))

        threads = [threading.Thread(target=emit, args=(start,)) for start in (0, 50, 100, 150)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return Finished(job_id=request.job_id)

    with connected(Worker(run)) as connection:
        connection.send(request())
        events = connection.until_terminal()
    assert sorted(event.step for event in events[1:-1]) == list(range(200))


def test_prompts_are_not_logged(caplog):
    caplog.set_level("INFO")
    with connected(Worker()) as connection:
        connection.send(request("a", "a secret castle"))
        connection.until_terminal()
    assert "job a: Finished" in caplog.text
    assert "secret" not in caplog.text


def test_the_context_says_whether_the_job_is_cancelled():
    flag = threading.Event()
    context = TaskContext("a", lambda event: None, flag)
    context.raise_if_cancelled()
    assert not context.is_cancelled
    flag.set()
    assert context.is_cancelled
    with pytest.raises(CancelledError):
        context.raise_if_cancelled()
