# SPDX-License-Identifier: GPL-3.0-or-later
"""What a task does wrong is one failure, and serving goes on. Bug report P059."""

import pytest
from fakes.connection import Worker, connected, request
from tessera.generator_process import server as server_module
from tessera.generator_process.errors import (
    ErrorKind,
    InvalidRequestError,
    ModelError,
)
from tessera.generator_process.messages import (
    Cancelled,
    Failed,
    Finished,
    Progress,
)


@pytest.fixture(autouse=True)
def no_exit(monkeypatch):
    """The reading thread ends a process that is busy: not this one."""
    exits = []
    monkeypatch.setattr(server_module.os, "_exit", exits.append)
    monkeypatch.setattr(server_module, "GRACE_S", 0.2)
    return exits


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
