# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients with a real child process, and other processes that have a client."""

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

from tessera.generator_process.client import GeneratorCommand
from tessera.generator_process.messages import (
    Cancelled,
    Failed,
    Finished,
    Progress,
    SamplingSettings,
    TextToImage,
)

ROOT = Path(__file__).resolve().parents[2]
FAKE = ROOT / "tests" / "fakes" / "child.py"
TERMINAL = (Finished, Failed, Cancelled)


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


def log_of(client):
    return client._command.log_path.read_text(encoding="utf-8")


def log_until(client, text):
    """Wait for text in the log: stderr comes by another pipe than the events."""
    end_s = time.monotonic() + 5
    while text not in (log := log_of(client)):
        assert time.monotonic() < end_s, log
        time.sleep(0.02)
    return log


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
