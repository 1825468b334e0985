# SPDX-License-Identifier: GPL-3.0-or-later
"""Any path, any environment, and the end of the parent."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from fakes.clients import (
    ROOT,
    begun,
    gone_within,
    is_alive,
    parent,
    parent_script,
    request,
    run,
    site_packages,
    terminal_of,
    until,
)
from tessera.generator_process.child import clean_environment
from tessera.generator_process.messages import (
    Cancel,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="uses POSIX signals")


# Where it runs


def test_any_path_works(tmp_path):
    """P009 and P010, in a parent whose locale is C."""
    folder = tmp_path / "a b (c) & d; $HOME" / "Ünïcode 苔"
    folder.mkdir(parents=True)
    for name in ("generator_process", "tests/fakes"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (ROOT / "__init__.py", *ROOT.glob("optimization*.py"), ROOT / "tests/conftest.py"):
        shutil.copy(path, folder / path.relative_to(ROOT))
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
