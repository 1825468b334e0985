# SPDX-License-Identifier: GPL-3.0-or-later
"""The client and a real child process, whose worker does what the prompt says."""

import dataclasses
import os
import signal
import sys
import time

import numpy as np
import pytest
from fakes.clients import (
    FAKE,
    ROOT,
    TERMINAL,
    begun,
    log_until,
    request,
    run,
    terminal_of,
    until,
)
from tessera.generator_process import child as child_module
from tessera.generator_process.child import status_in_words
from tessera.generator_process.client import NoGenerator
from tessera.generator_process.errors import (
    ErrorKind,
    InvalidRequestError,
    NotInstalledError,
    ProtocolError,
)
from tessera.generator_process.messages import (
    Cancel,
    Cancelled,
    Failed,
    Finished,
    ImageFinished,
    Progress,
    Ready,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="uses POSIX signals")


# A job


def test_the_first_request_starts_the_process_which_says_that_it_is_ready(make_client):
    client = make_client()
    assert client.ready is None
    assert client.pid is None
    client.wait(0.01)
    assert client.poll() == []
    client.send(request("a", seeds=(7, 8, 9)))
    events = until(client, lambda events: terminal_of(events, "a"))
    assert isinstance(events[0], Ready)
    assert client.ready == events[0]
    images = [event for event in events if isinstance(event, ImageFinished)]
    assert [(image.index, image.seed) for image in images] == [(0, 7), (1, 8), (2, 9)]
    assert [image.image.pixels[0, 0, 0] for image in images] == [7, 8, 9]
    assert terminal_of(events, "a") == Finished(job_id="a", model="fake")


def test_200_jobs_in_a_row(client):
    """P051."""
    pid = run(client, "first") and client.pid
    for number in range(200):
        assert isinstance(run(client, str(number)), Finished)
    assert client.pid == pid
    assert client._events == []


def test_several_jobs_at_once_are_done_in_order(client):
    jobs = [f"job {number}" for number in range(20)]
    for job_id in jobs:
        client.send(request(job_id))
    events = until(client, lambda events: all(terminal_of(events, job) for job in jobs))
    assert [event.job_id for event in events if isinstance(event, TERMINAL)] == jobs


def test_a_large_image_arrives_whole(client):
    client.send(request("a", width_px=4096, height_px=2048, seeds=(200,)))
    events = until(client, lambda events: terminal_of(events, "a"))
    pixels = next(event.image.pixels for event in events if isinstance(event, ImageFinished))
    assert pixels.shape == (2048, 4096, 3)
    assert np.all(pixels == 200)


def test_send_and_poll_return_at_once_while_the_process_starts(make_client):
    client = make_client(environment=(("TESSERA_FAKE", "sleep 1"),))
    client.send(request("a", "x" * 4_000_000))  # more than a pipe holds
    assert client.poll() == []
    assert client.ready is None
    assert "x" * 100 in terminal_of(until(client, lambda e: terminal_of(e, "a")), "a").message


def test_of_several_progress_events_only_the_newest_is_kept(client):
    client.send(request("a", "steps 0", steps=50))
    while client._jobs:
        time.sleep(0.01)
    progress = [event for event in client.poll() if isinstance(event, Progress)]
    assert [event.step for event in progress] == [50]


def test_a_job_that_runs_cannot_be_sent_again(client):
    client.send(request("a", "steps 0.05", steps=4))
    with pytest.raises(InvalidRequestError, match="still running"):
        client.send(request("a"))
    assert terminal_of(until(client, lambda events: terminal_of(events, "a")), "a")
    assert isinstance(run(client, "a"), Finished)


def test_what_cannot_be_sent_is_refused_at_once(client):
    wrong = dataclasses.replace(request("a"), job_id=5)
    with pytest.raises(ProtocolError, match=r"TextToImage\.job_id: expected text, found 5"):
        client.send(wrong)


# Cancelling


def test_cancel_takes_effect_within_a_step(client):
    """P065."""
    client.send(request("a", "steps 0.02", steps=1000))
    until(client, begun("a"))
    begin_s = time.monotonic()
    client.send(Cancel(job_id="a"))
    events = until(client, lambda events: terminal_of(events, "a"))
    assert terminal_of(events, "a") == Cancelled(job_id="a")
    assert time.monotonic() - begin_s < 5  # the job would take 20
    assert isinstance(run(client, "b"), Finished)


def test_cancel_before_start_after_the_end_and_of_nothing(client):
    client.send(request("a", "steps 0.05", steps=4))
    client.send(request("b", "raise this job must not start"))
    client.send(Cancel(job_id="b"))
    events = until(client, lambda events: terminal_of(events, "b"))
    assert isinstance(terminal_of(events, "a"), Finished)
    assert terminal_of(events, "b") == Cancelled(job_id="b")
    client.send(Cancel(job_id="a"))
    client.send(Cancel(job_id="nothing"))
    assert isinstance(run(client, "c"), Finished)


def test_a_cancel_alone_starts_nothing(make_client):
    client = make_client()
    client.send(Cancel(job_id="a"))
    assert client.pid is None


def test_a_cancel_that_a_library_wraps_is_a_cancel(client):
    client.send(request("a", "wrapped_steps 0.02", steps=1000))
    until(client, begun("a"))
    client.send(Cancel(job_id="a"))
    events = until(client, lambda events: terminal_of(events, "a"))
    assert terminal_of(events, "a") == Cancelled(job_id="a")


# Errors in the child


@pytest.mark.parametrize(
    ("prompt", "kind", "message"),
    [
        ("raise holding", ErrorKind.GENERATOR, "holds a lock"),
        ("raise unprintable", ErrorKind.GENERATOR, "UnprintableError"),
        ("raise exit", ErrorKind.GENERATOR, "7"),
        ("raise interrupt", ErrorKind.GENERATOR, "KeyboardInterrupt"),
        ("raise recursion", ErrorKind.GENERATOR, "recursion"),
        ("raise lookup", ErrorKind.GENERATOR, "xxx"),
        ("raise memory", ErrorKind.OUT_OF_MEMORY, "Lower the size"),
        ("raise invalid", ErrorKind.INVALID_REQUEST, "Use a value from 0 to 1."),
        ("return wrong type", ErrorKind.GENERATOR, "returned dict"),
        ("return wrong event", ErrorKind.GENERATOR, "returned Cancelled"),
        ("return wrong job", ErrorKind.GENERATOR, "returned Finished"),
        ("return nan", ErrorKind.PROTOCOL, "finite number"),
        ("return odd notes", ErrorKind.PROTOCOL, "expected text"),
        ("emit", ErrorKind.GENERATOR, "cannot emit Finished"),
    ],
)
def test_errors_arrive_as_one_failure_and_the_process_goes_on(client, prompt, kind, message):
    """P059."""
    pid = run(client, "before") and client.pid
    event = run(client, "a", prompt)
    assert isinstance(event, Failed)
    assert event.kind is kind
    assert message in event.message
    assert isinstance(run(client, "after"), Finished)
    assert client.pid == pid


def test_what_the_child_prints_goes_to_the_log_only(client):
    """P062."""
    event = run(client, "a", "print 苔")
    assert event == Finished(job_id="a", model="fake")
    log = log_until(client, "Grüße 苔")
    for text in (
        "a library says hello 苔",
        "without a line end",
        "\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER} written past Python",
        "a program says hello",
        "a C library says hello",
    ):
        assert text in log


def test_the_child_reads_nothing_but_frames(client):
    assert run(client, "a", "stdin").notes == ("''",)


def test_the_child_finds_no_modules_beside_its_entry(client):
    """P005."""
    _, *paths = run(client, "a", "about").notes
    assert paths
    assert not {str(FAKE.parent), str(ROOT), str(ROOT / "generator_process"), ""} & set(paths)


def test_ctrl_c_in_a_terminal_is_not_for_the_child(client):
    client.send(request("a", "steps 0.02", steps=20))
    until(client, begun("a"))
    os.kill(client.pid, signal.SIGINT)
    events = until(client, lambda events: terminal_of(events, "a"))
    assert isinstance(terminal_of(events, "a"), Finished)


def test_a_flood_on_stderr_stops_nothing_and_the_log_stays_small(make_client, monkeypatch):
    from tessera.generator_process import process_log

    monkeypatch.setattr(process_log, "MAX_LOG_BYTES", 1_000_000)
    client = make_client()
    assert isinstance(run(client, "a", "flood 5000"), Finished)
    client.close()
    logs = sorted(client._command.log_path.parent.iterdir())
    assert [path.name for path in logs] == [
        "generator.log",
        "generator.log.1",
        "generator.log.2",
    ]
    assert all(0 < path.stat().st_size < 1_500_000 for path in logs)


# Small parts


def test_a_log_that_cannot_be_written_stops_nothing(make_client, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    client = make_client(log_path=tmp_path / "file" / "generator.log")
    assert isinstance(run(client, "a"), Finished)
    assert "cannot be written" in caplog.text


def test_statuses_in_words():
    assert status_in_words(-6) == "was killed by signal 6 (SIGABRT)"
    assert status_in_words(-200) == "was killed by signal 200 (unknown)"
    assert status_in_words(3) == "ended with status 3"
    assert status_in_words(0xC0000005) == "was ended by Windows with error 0xC0000005"


def test_the_statuses_are_those_of_the_entry():
    text = (ROOT / "generator_process" / "__main__.py").read_text(encoding="utf-8")
    for name in ("EXIT_NOT_INSTALLED", "EXIT_START"):
        assert f"\n{name} = {getattr(child_module, name)}\n" in text


def test_no_generator_says_what_to_do():
    client = NoGenerator("Install it in Preferences.")
    with pytest.raises(NotInstalledError, match=r"Install it in Preferences\."):
        client.send(request("a"))
    client.send(Cancel(job_id="a"))
    client.wait(10)
    assert client.poll() == []
    assert client.ready is None
    client.close()
