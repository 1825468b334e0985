# SPDX-License-Identifier: GPL-3.0-or-later
"""The client and a real child process, whose worker does what the prompt says."""

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tessera.generator_process import child as child_module
from tessera.generator_process.child import clean_environment, status_in_words
from tessera.generator_process.client import GeneratorCommand, GeneratorProcess, NoGenerator
from tessera.generator_process.errors import (
    ErrorKind,
    InvalidRequestError,
    NotInstalledError,
    ProtocolError,
    StartError,
)
from tessera.generator_process.messages import (
    Cancel,
    Cancelled,
    Failed,
    Finished,
    ImageFinished,
    Progress,
    Ready,
    SamplingSettings,
    TextToImage,
)

ROOT = Path(__file__).resolve().parents[2]
FAKE = ROOT / "tests" / "fakes" / "child.py"
TERMINAL = (Finished, Failed, Cancelled)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="uses POSIX signals")


def request(job_id, prompt="", **values):
    values = {"width_px": 8, "height_px": 8} | values
    return TextToImage(job_id=job_id, sampling=SamplingSettings(prompt=prompt, **values))


def until(client, condition, timeout_s=60.0):
    """Poll until the events so far fulfil the condition, and return them."""
    events = []
    end_s = time.monotonic() + timeout_s
    while not condition(events):
        left_s = end_s - time.monotonic()
        assert left_s > 0, f"only {events} within {timeout_s} s"
        client.wait(left_s)
        events += client.poll()
    return events


def terminal_of(events, job_id):
    found = [e for e in events if isinstance(e, TERMINAL) and e.job_id == job_id]
    assert len(found) <= 1, found
    return found[0] if found else None


def run(client, job_id, prompt="", **values):
    """Do one job; return its terminal event."""
    client.send(request(job_id, prompt, **values))
    events = until(client, lambda events: terminal_of(events, job_id))
    return terminal_of(events, job_id)


def begun(job_id):
    return lambda events: any(isinstance(e, Progress) and e.job_id == job_id for e in events)


def is_alive(pid):
    """Whether the process runs. A zombie does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def gone_within(pid, timeout_s):
    end_s = time.monotonic() + timeout_s
    while is_alive(pid):
        if time.monotonic() > end_s:
            return False
        time.sleep(0.02)
    return True


def command(folder, **values):
    values = {
        "python": Path(sys.executable),
        "log_path": folder / "logs" / "generator.log",
        "entry": FAKE,
    } | values
    return GeneratorCommand(**values)


@pytest.fixture
def make_client(tmp_path):
    """Make clients that are closed at the end, with no thread or process left."""
    clients = []
    before = set(threading.enumerate())

    def make(*, start_timeout_s=60.0, **values):
        clients.append(
            GeneratorProcess(command(tmp_path, **values), start_timeout_s=start_timeout_s)
        )
        return clients[-1]

    yield make
    for client in clients:
        client.close()
    assert set(threading.enumerate()) <= before


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One client for the tests that leave its process alive."""
    client = GeneratorProcess(command(tmp_path_factory.mktemp("shared")))
    yield client
    client.close()


@pytest.fixture
def client(shared):
    shared.poll()
    yield shared
    assert not shared._jobs


def log_of(client):
    return client._command.log_path.read_text(encoding="utf-8")


def log_until(client, text):
    """Wait for text in the log: stderr comes by another pipe than the events."""
    end_s = time.monotonic() + 5
    while text not in (log := log_of(client)):
        assert time.monotonic() < end_s, log
        time.sleep(0.02)
    return log


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


# Death of the child


def test_killed_before_any_job(make_client):
    client = make_client()
    client.start()
    until(client, lambda events: client.ready)
    os.kill(client.pid, signal.SIGKILL)
    assert isinstance(run(client, "a"), Finished)


def test_killed_while_idle_the_next_job_works(make_client):
    """P061. At any distance between the death and the request."""
    client = make_client()
    run(client, "first")
    for pause_s in (0, 0.001, 0.3):
        pid = client.pid
        os.kill(pid, signal.SIGKILL)
        time.sleep(pause_s)
        assert isinstance(run(client, f"after {pause_s}"), Finished)
        assert client.pid != pid
        assert not Path(f"/proc/{pid}").exists()  # P067: reaped


def test_killed_during_a_job(make_client):
    client = make_client()
    client.send(request("a", "steps 0.05", steps=1000))
    client.send(request("b"))
    events = until(client, begun("a"))
    pid = client.pid
    os.kill(pid, signal.SIGKILL)
    events += until(client, lambda events: terminal_of(events, "a"))
    event = terminal_of(events, "a")
    assert event.kind is ErrorKind.CRASHED
    assert "signal 9 (SIGKILL), often because memory ran out" in event.message
    assert str(client._command.log_path) in event.message
    # The second job had not been begun: a new process does it.
    events += until(client, lambda new: terminal_of(events + new, "b"))
    assert isinstance(terminal_of(events, "b"), Finished)
    assert not Path(f"/proc/{pid}").exists()


def test_a_job_that_kills_the_process_is_not_tried_again(make_client):
    client = make_client()
    run(client, "first")
    pid = client.pid
    event = run(client, "a", "die 0")
    assert event.kind is ErrorKind.CRASHED
    assert "it ended with status 6" in event.message
    assert 'It last said: "the last words".' in event.message
    assert "the last words" in event.detail
    assert client.pid is None
    assert isinstance(run(client, "b"), Finished)
    assert client.pid != pid


def test_an_earlier_failure_is_not_taken_for_the_last_words(make_client):
    client = make_client()
    run(client, "a", "raise something")
    client.send(request("b", "steps 0.02", steps=1000))
    until(client, begun("b"))
    log_until(client, "job b: TextToImage")
    os.kill(client.pid, signal.SIGKILL)
    event = terminal_of(until(client, lambda events: terminal_of(events, "b")), "b")
    assert event.kind is ErrorKind.CRASHED
    assert "It last said" not in event.message
    assert "ValueError: something" in event.detail


def test_a_fault_in_a_library_is_named(make_client):
    event = run(make_client(), "a", "segfault")
    assert event.kind is ErrorKind.CRASHED
    assert "signal 11 (SIGSEGV)" in event.message
    assert "Fatal Python error: Segmentation fault" in event.message


@pytest.mark.parametrize("prompt", ["garbage", "garbage Hello", "event", "half"])
def test_garbage_on_the_connection_ends_the_process(make_client, prompt):
    client = make_client()
    client.send(request("a", prompt))
    until(client, lambda events: client.ready)
    pid = client.pid
    events = until(client, lambda events: terminal_of(events, "a"))
    event = terminal_of(events, "a")
    assert event.kind is ErrorKind.PROTOCOL
    assert event.message.startswith(("What the generator process sent", "The generator process s"))
    assert gone_within(pid, 2)


def test_an_error_in_the_reading_itself_fails_the_job(make_client, monkeypatch):
    def broken(stream):
        raise RuntimeError("not foreseen")

    monkeypatch.setattr(child_module, "read_message", broken)
    event = run(make_client(), "a")
    assert event.kind is ErrorKind.PROTOCOL
    assert "not foreseen" in event.message


# The start


def test_a_process_that_ends_at_once_is_not_started_again_and_again(make_client):
    """P061."""
    client = make_client(environment=(("TESSERA_FAKE", "exit 5"),))
    for job_id in ("a", "b"):
        event = run(client, job_id)
        assert event.kind is ErrorKind.START
        assert "did not start: it ended with status 5" in event.message
    assert client.pid is None
    assert client.ready is None


def test_a_job_is_sent_again_only_once(make_client):
    """P061. The process dies each time after it was ready and before it takes the job."""
    client = make_client(environment=(("TESSERA_FAKE", "ready_then_exit"),))
    event = run(client, "a")
    assert event.kind is ErrorKind.CRASHED
    assert "ended with status 8" in event.message
    assert log_until(client, "one more start").count("one more start") == 2


def test_a_cancelled_job_is_not_sent_again(make_client):
    client = make_client(environment=(("TESSERA_FAKE", "ready_then_exit"),))
    client.send(request("a"))
    client.send(Cancel(job_id="a"))
    events = until(client, lambda events: terminal_of(events, "a"))
    assert terminal_of(events, "a") == Cancelled(job_id="a")
    assert log_until(client, "one more start").count("one more start") == 1


def test_a_process_that_does_not_get_ready_is_ended(make_client):
    client = make_client(start_timeout_s=0.5, environment=(("TESSERA_FAKE", "sleep 60"),))
    client.send(request("a"))
    pid = client.pid
    events = until(client, lambda events: terminal_of(events, "a"))
    event = terminal_of(events, "a")
    assert event.kind is ErrorKind.START
    assert event.message.startswith("The generator process was not ready within 0.5 seconds.")
    assert gone_within(pid, 2)


def test_a_missing_package_is_named(make_client):
    client = make_client(environment=(("TESSERA_FAKE", "import no_such_package"),))
    event = run(client, "a")
    assert event.kind is ErrorKind.NOT_INSTALLED
    assert event.message == (
        f'The runtime environment in {sys.prefix} lacks the package "no_such_package".'
        " Install the runtime environment again in Preferences."
    )


def test_a_python_that_is_not_there(make_client, tmp_path):
    client = make_client(python=tmp_path / "nowhere" / "python")
    with pytest.raises(NotInstalledError, match=r"There is no Python at .*nowhere.*Preferences"):
        client.send(request("a"))
    assert client.poll() == []
    with pytest.raises(NotInstalledError):
        client.start()


def script(folder, text, mode=0o755):
    path = folder / "python"
    path.write_text(textwrap.dedent(text).lstrip())
    path.chmod(mode)
    return path


@pytest.mark.parametrize(("text", "mode"), [("#!/bin/sh\n", 0o644), ("no program", 0o755)])
def test_a_file_that_cannot_be_run(make_client, tmp_path, text, mode):
    client = make_client(python=script(tmp_path, text, mode))
    with pytest.raises(StartError, match=r"cannot be started .* Choose another Python"):
        client.send(request("a"))
    assert client.pid is None


def test_a_python_that_does_not_know_the_options(make_client, tmp_path):
    old = """
        #!/bin/sh
        echo 'Unknown option: -I' >&2
        exit 2
    """
    client = make_client(python=script(tmp_path, old))
    event = run(client, "a")
    assert event.kind is ErrorKind.START
    assert f"Check that {tmp_path / 'python'} is Python 3.11 or newer." in event.message
    assert "Unknown option: -I" in event.message


@pytest.mark.parametrize("version", ["3.8", "3.10"])
def test_an_old_python_says_so_itself(make_client, version):
    python = shutil.which(f"python{version}")
    if python is None or subprocess.call([python, "-V"]):
        pytest.skip(f"no Python {version} here")
    event = run(make_client(python=Path(python)), "a")
    assert event.kind is ErrorKind.NOT_INSTALLED
    assert f"is Python {version}. Tessera needs Python 3.11 or newer." in event.message


def test_the_real_entry_says_what_is_missing(make_client, tmp_path):
    """The real worker in an environment without torch: this one, or an empty one."""
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    entry = ROOT / "generator_process" / "__main__.py"
    event = run(make_client(python=bare / "bin" / "python", entry=entry), "a")
    assert event.kind is ErrorKind.NOT_INSTALLED
    assert event.message.startswith(f'The runtime environment in {bare} lacks the package "numpy".')


def test_a_missing_entry_is_a_failed_start(make_client, tmp_path):
    event = run(make_client(entry=tmp_path / "nothing.py"), "a")
    assert event.kind is ErrorKind.START
    assert "nothing.py" in event.message


# Closing


def test_close_ends_the_process_and_can_be_called_twice(make_client):
    client = make_client()
    client.close()
    run(client, "a")
    pid = client.pid
    client.close()
    assert not Path(f"/proc/{pid}").exists()
    client.close()
    assert client.poll() == []
    assert isinstance(run(client, "b"), Finished)  # a new one is started


def test_close_during_a_job_cancels_it(make_client):
    client = make_client()
    client.send(request("a", "native 60", steps=1))
    until(client, begun("a"))
    pid = client.pid
    client.close()  # waits for 60 s if nothing ends the job
    assert not Path(f"/proc/{pid}").exists()
    assert [event for event in client.poll() if isinstance(event, TERMINAL)] == [
        Cancelled(job_id="a")
    ]


def test_a_process_that_ignores_everything_is_killed(make_client):
    client = make_client()
    client.send(request("a", "native 60", steps=1))
    until(client, begun("a"))
    os.kill(client.pid, signal.SIGSTOP)
    pid = client.pid
    client.close()
    assert not Path(f"/proc/{pid}").exists()


def test_two_clients_at_once(make_client):
    """P066. They share the log file, too."""
    first, second = make_client(), make_client()
    first.send(request("a", "steps 0.01", steps=10))
    second.send(request("a", "steps 0.01", steps=10))
    for client in (first, second):
        events = until(client, lambda events: terminal_of(events, "a"))
        assert isinstance(terminal_of(events, "a"), Finished)
    assert first.pid != second.pid
    first.close()
    assert isinstance(run(second, "b"), Finished)


# Where it runs


def test_any_path_works(tmp_path):
    """P009 and P010, in a parent whose locale is C."""
    folder = tmp_path / "a b (c) & d; $HOME" / "Ünïcode 苔"
    folder.mkdir(parents=True)
    for name in ("generator_process", "tests/fakes"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("__init__.py", "optimizations.py", "tests/conftest.py"):
        shutil.copy(ROOT / name, folder / name)
    python = folder / "python & link"
    python.symlink_to(sys.executable)
    output = parent(
        folder,
        f"""
        client = make({str(folder / "ein Log.txt")!r}, python={str(python)!r}, root={str(folder)!r})
        print(ascii(run(client, "a", "about 苔").notes[0]))
        client.close()
        """,
        environment={"LC_ALL": "C", "PYTHONPATH": os.pathsep.join(site_packages())},
        child_environment=(("TESSERA_FAKE", ""),),
    )
    assert output == [ascii("苔")]
    assert "job a: Finished" in (folder / "ein Log.txt").read_text(encoding="utf-8")


def site_packages():
    return [path for path in sys.path if path.endswith("site-packages")]


PARENT = """
import sys, time
from pathlib import Path
root = Path({root!r})
sys.path.insert(0, str(root / "tests"))
import conftest
from tessera.generator_process.client import *
from tessera.generator_process.messages import *

def make(log, python=sys.executable, root=root):
    return GeneratorProcess(GeneratorCommand(
        python=Path(python), log_path=Path(log), entry=Path(root) / "tests/fakes/child.py",
        environment={environment!r}))

def run(client, job_id, prompt=""):
    begin(client, job_id, prompt)
    while True:
        client.wait(20)
        for event in client.poll():
            if isinstance(event, (Finished, Failed, Cancelled)):
                return event

def begin(client, job_id, prompt):
    client.send(TextToImage(job_id=job_id, sampling=SamplingSettings(
        prompt=prompt, width_px=8, height_px=8, steps=1000 if prompt.startswith("steps") else 1)))

"""


def parent_script(root, body, child_environment=()):
    return PARENT.format(root=str(root), environment=child_environment) + textwrap.dedent(body)


def parent(root, body, *, environment=None, child_environment=(), redirection=""):
    """Run a script that uses the client in another process; return the lines that it prints."""
    completed = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-"],
        input=parent_script(root, body, child_environment).encode(),
        capture_output=True,
        env=os.environ | (environment or {}),
        timeout=60,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr.decode()
    return completed.stdout.decode().splitlines()


def test_the_parents_streams_may_be_closed(tmp_path):
    """P062."""
    parent(
        ROOT,
        f"""
        import os
        client = make({str(tmp_path / "log")!r})
        events = [run(client, name, prompt) for name, prompt in [("a", "print x"), ("b", "")]]
        pid = client.pid
        os.write(1, b"to whatever descriptor 1 is now")
        os.write(2, b"and 2")
        events.append(run(client, "c"))
        assert client.pid == pid
        client.close()
        Path({str(tmp_path / "result")!r}).write_text(repr([type(e).__name__ for e in events]))
        """,
        redirection="<&0 >&- 2>&-",
    )
    assert (tmp_path / "result").read_text() == repr(["Finished"] * 3)


def test_the_users_script_is_run_once(tmp_path):
    """P058: a script without a main guard."""
    path = tmp_path / "script.py"
    body = f"""
        with open({str(tmp_path / "runs")!r}, "a") as file:
            file.write("x")
        client = make({str(tmp_path / "log")!r})
        assert isinstance(run(client, "a"), Finished)
        client.close()
    """
    path.write_text(parent_script(ROOT, body))
    subprocess.run([sys.executable, path], check=True, timeout=60)
    assert (tmp_path / "runs").read_text() == "x"


def test_packages_and_settings_of_the_parent_are_ignored(tmp_path):
    """P005: PYTHONPATH, user site, working folder, PYTHONHOME, startup files."""
    for folder in ("path", "user/lib/python3.11/site-packages", "cwd"):
        (tmp_path / folder / "diffusers").mkdir(parents=True)
        (tmp_path / folder / "diffusers" / "__init__.py").write_text("raise SystemExit('wrong')")
        (tmp_path / folder / "sitecustomize.py").write_text("raise SystemExit('wrong')")
    script_path = tmp_path / "script.py"
    body = f"""
        import os
        os.environ.update({{
            "PYTHONPATH": {str(tmp_path / "path")!r}, "PYTHONHOME": "/nowhere",
            "PYTHONUSERBASE": {str(tmp_path / "user")!r}, "PYTHONSTARTUP": "/nowhere.py",
            "PYTHONINSPECT": "1", "PYTHONSAFEPATH": "", "PYTHONIOENCODING": "latin-1",
            "LD_PRELOAD": "/nowhere.so",
        }})
        os.chdir({str(tmp_path / "cwd")!r})
        client = make({str(tmp_path / "log")!r})
        print(run(client, "a"))
        client.close()
    """
    script_path.write_text(parent_script(ROOT, body, (("TESSERA_FAKE", "import diffusers"),)))
    # With the packages of this environment: is diffusers there? Then it is the one that is found.
    completed = subprocess.run(
        [sys.executable, script_path], capture_output=True, text=True, timeout=60, check=False
    )
    log = (tmp_path / "log").read_text()
    assert "wrong" not in log
    try:
        import diffusers  # noqa: F401
    except ImportError:
        assert 'lacks the package "diffusers"' in log
    else:
        assert str(tmp_path) not in completed.stdout


def test_what_the_child_gets_of_the_environment():
    kept = clean_environment(
        {
            "PATH": "p",
            "PYTHONPATH": "x",
            "PYTHONHOME": "x",
            "PYTHONNOUSERSITE": "",
            "LD_PRELOAD": "x",
            "DYLD_INSERT_LIBRARIES": "x",
            "__PYVENV_LAUNCHER__": "x",
            "LD_LIBRARY_PATH": "drivers",
            "HOME": "h",
            "PYTORCH_CUDA_ALLOC_CONF": "c",
        },
        (("HOME", "other"), ("PYTHONDEVMODE", "1")),
    )
    assert kept == {
        "PATH": "p",
        "HOME": "other",
        "LD_LIBRARY_PATH": "drivers",
        "PYTHONDEVMODE": "1",
        "PYTORCH_CUDA_ALLOC_CONF": "c",
    }


# Death of the parent


@pytest.mark.parametrize("prompt", ["", "steps 0.05", "native 60"])
def test_the_child_ends_when_the_parent_is_killed(tmp_path, prompt):
    """P067: idle, in a job, and in a job that is deaf."""
    body = f"""
        client = make({str(tmp_path / "log")!r})
        run(client, "first")
        if {prompt!r}:
            begin(client, "a", {prompt!r})
            client.wait(10)
        print(client.pid, flush=True)
        time.sleep(60)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", parent_script(ROOT, body)], stdout=subprocess.PIPE
    )
    with process:
        pid = int(process.stdout.readline())
        assert is_alive(pid)
        process.kill()
        assert gone_within(pid, 5)


def test_the_child_ends_when_the_parent_ends_without_closing(tmp_path):
    body = f"""
        client = make({str(tmp_path / "log")!r})
        run(client, "first")
        print(client.pid)
    """
    assert gone_within(int(parent(ROOT, body)[0]), 5)


def test_nothing_is_left_behind(make_client, tmp_path):
    """P063: 5 jobs, a cancel, a kill of the child."""

    def listing():
        folders = [Path(tempfile.gettempdir()), Path("/dev/shm")]
        return {
            path
            for folder in folders
            if folder.is_dir()
            for path in folder.iterdir()
            if path.stat().st_uid == os.getuid() and path.name.startswith(("sem.", "torch", "psm"))
        }

    private = tmp_path / "temp"
    private.mkdir()
    before = listing()
    client = make_client(environment=(("TMPDIR", str(private)),))
    for number in range(5):
        run(client, str(number))
    client.send(request("cancelled", "steps 0.02", steps=1000))
    until(client, begun("cancelled"))
    client.send(Cancel(job_id="cancelled"))
    until(client, lambda events: terminal_of(events, "cancelled"))
    client.send(request("killed", "steps 0.02", steps=1000))
    until(client, begun("killed"))
    os.kill(client.pid, signal.SIGKILL)
    until(client, lambda events: terminal_of(events, "killed"))
    run(client, "last")
    client.close()
    assert list(private.iterdir()) == []
    assert listing() == before


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
