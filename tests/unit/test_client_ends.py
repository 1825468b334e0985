# SPDX-License-Identifier: GPL-3.0-or-later
"""The child dies, does not start, or is closed."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from fakes.clients import (
    ROOT,
    TERMINAL,
    begun,
    gone_within,
    log_until,
    request,
    run,
    terminal_of,
    until,
)
from tessera.generator_process import child as child_module
from tessera.generator_process.errors import (
    ErrorKind,
    NotInstalledError,
    StartError,
)
from tessera.generator_process.messages import (
    Cancel,
    Cancelled,
    Finished,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="uses POSIX signals")


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
        f'The Python environment in {sys.prefix} lacks the package "no_such_package".'
        " Press Install Generator in Preferences, or choose another Python there or by"
        " TESSERA_PYTHON."
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
    assert event.message.startswith(f'The Python environment in {bare} lacks the package "numpy".')


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
