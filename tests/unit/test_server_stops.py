# SPDX-License-Identifier: GPL-3.0-or-later
"""Cancelling, and the end of the connection. Bug report P065."""

import threading

import pytest
from fakes.connection import TERMINAL, Connection, Held, Worker, connected, request, wait_until_read
from tessera.generator_process import server as server_module
from tessera.generator_process.context import TaskContext
from tessera.generator_process.errors import (
    CancelledError,
    ErrorKind,
    NotInstalledError,
    ProtocolError,
)
from tessera.generator_process.messages import (
    Cancel,
    Cancelled,
    Failed,
    Finished,
    Progress,
    Shutdown,
)
from tessera.generator_process.wire import encode_message


@pytest.fixture(autouse=True)
def no_exit(monkeypatch):
    """The reading thread ends a process that is busy: not this one."""
    exits = []
    monkeypatch.setattr(server_module.os, "_exit", exits.append)
    monkeypatch.setattr(server_module, "GRACE_S", 0.2)
    return exits


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
