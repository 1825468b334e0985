"""dev.py: its arguments, its environments and its archive checks."""

import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest
from tessera.scripts.devtools import (
    blender,
    cache,
    commands,
    console,
    environments,
    generator_runtime,
    packaging,
    pythons,
    suites,
)

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("TESSERA_DEV_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TESSERA_PYTHON", raising=False)
    monkeypatch.delenv("TESSERA_REQUIRE", raising=False)


@pytest.mark.parametrize(
    ("given", "own", "passed_on"),
    [
        (["test", "unit", "--", "-k", "x"], ["test", "unit"], ["-k", "x"]),
        (["run", "a.py", "--blender", "x"], ["run", "a.py"], ["--blender", "x"]),
        (["run", "--blender", "4.2", "a.py", "-v"], ["run", "--blender", "4.2", "a.py"], ["-v"]),
        (["run", "--blender=4.2", "a.py"], ["run", "--blender=4.2", "a.py"], []),
        (["run", "a.py", "--", "b"], ["run", "a.py"], ["--", "b"]),
        (["bench", "overhead", "--steps", "3"], ["bench", "overhead"], ["--steps", "3"]),
        (["demo", "--prompt", "x"], ["demo", "--prompt", "x"], []),
    ],
)
def test_arguments_of_scripts_are_left_alone(given, own, passed_on):
    assert commands.split(given) == (own, passed_on)


def test_entry_point_starts_and_lists_its_commands():
    result = subprocess.run(
        [sys.executable, str(ROOT / "dev.py"), "--help"],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    for name in ("demo", "test", "run", "bench", "check", "build"):
        assert f"  {name} " in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["test", "units"], "There is no suite units"),
        (["bench", "nothing"], "There is no benchmark nothing"),
        (["run", "--blender", "1.0", "x.py"], "Blender 1.0 is not known"),
    ],
)
def test_mistakes_are_explained(arguments, said, capsys, monkeypatch):
    monkeypatch.setattr(generator_runtime, "ready", lambda: Path(sys.executable))
    assert commands.main(arguments) == 1
    assert said in capsys.readouterr().out


def test_interpreter_that_is_missing_is_said(tmp_path: Path):
    requirements = tmp_path / "r.txt"
    requirements.write_text("")
    environment = environments.Environment("x", requirements, ("3.99",))
    assert environment.why_not() == "needs Python 3.99, which was not found"
    with pytest.raises(console.DevError, match=r"needs Python 3\.99"):
        environment.ready()


def test_this_python_is_found():
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    found = pythons.find(version)
    assert found is not None
    said = subprocess.run([str(found), "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith(f"Python {version}.")


@pytest.fixture
def calls(monkeypatch) -> list[list[str]]:
    """Commands that an environment runs; the first one makes its folder, as venv does."""
    seen: list[list[str]] = []

    def run(argv, **_):
        seen.append(list(argv))
        if "venv" in argv:
            Path(argv[-1]).mkdir(parents=True)
            (Path(argv[-1]) / "half").write_text("")
        elif "fails" in argv[-1]:
            raise console.DevError("pip failed")

    monkeypatch.setattr(environments, "run_with_progress", run)
    return seen


def _environment(requirements: Path) -> environments.Environment:
    return environments.Environment("x", requirements, ("3.11", "3.13", "3.12"))


def test_environment_is_made_once_and_again_when_requirements_change(tmp_path: Path, calls):
    requirements = tmp_path / "r.txt"
    requirements.write_text("a==1")
    first = _environment(requirements).folder()
    _environment(requirements).ready()
    assert len(calls) == 2
    _environment(requirements).ready()
    assert len(calls) == 2
    requirements.write_text("a==2")
    _environment(requirements).ready()
    assert len(calls) == 4
    assert not first.exists(), "the old one is deleted"


def test_interrupted_environment_is_made_again(tmp_path: Path, calls):
    requirements = tmp_path / "fails.txt"
    requirements.write_text("a==1")
    environment = _environment(requirements)
    with pytest.raises(console.DevError):
        environment.ready()
    assert (environment.folder() / "half").exists()
    with pytest.raises(console.DevError):
        environment.ready()
    assert len(calls) == 4, "it was not taken for complete"


def test_lock_lets_one_in_at_a_time():
    inside = threading.Event()
    order: list[str] = []

    def other() -> None:
        inside.wait(10)
        with cache.lock("x"):
            order.append("second")

    thread = threading.Thread(target=other)
    thread.start()
    with cache.lock("x"):
        inside.set()
        time.sleep(0.7)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


def test_failed_command_shows_its_last_lines(tmp_path: Path):
    log = tmp_path / "x.log"
    code = "import sys; print('one'); print('the reason'); sys.exit(3)"
    with pytest.raises(console.DevError, match="the reason") as caught:
        console.run_with_progress([sys.executable, "-c", code], label="Trying", log=log)
    assert "Trying failed with status 3" in str(caught.value)
    assert "one\nthe reason\n" in log.read_text()


def test_archive_with_a_path_too_long_for_windows_is_refused(tmp_path: Path):
    """P001: unpacking on Windows loses files whose path has 260 characters or more."""
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a" * 134, "")
        file.writestr("b" * 135, "")
    assert packaging.problems_of(archive) == [f"The path {'b' * 135} is too long for Windows."]


def test_archive_that_is_too_large_is_refused(tmp_path: Path, monkeypatch):
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a", "0123456789")
    assert packaging.problems_of(archive) == []
    monkeypatch.setattr(packaging, "MAX_ARCHIVE_BYTES", 20)
    assert "more than 30 MB" in packaging.problems_of(archive)[0]


def test_benchmark_says_where_it_runs(tmp_path: Path):
    script = tmp_path / "b.py"
    script.write_text('ENVIRONMENT = "blender"\n')
    assert commands.environment_of(script) == "blender"
    script.write_text("x = 1\n")
    with pytest.raises(console.DevError, match="must set ENVIRONMENT"):
        commands.environment_of(script)


def test_every_blender_has_its_requirements():
    for version in blender.VERSIONS:
        text = blender.environment(version).requirements.read_text(encoding="utf-8")
        assert f"\nbpy=={version}." in text


def _outcomes(monkeypatch, tmp_path: Path, **tests: str) -> int:
    """Run the unit suite of a small project; return the exit status."""
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    for name, text in tests.items():
        (tmp_path / "tests" / "unit" / f"test_{name}.py").write_text(text)
    monkeypatch.setattr(suites, "ROOT", tmp_path)
    monkeypatch.setattr(environments.Environment, "ready", lambda _self: Path(sys.executable))
    return suites.run(["unit"], (), [])


def test_counts_and_status_of_a_suite(monkeypatch, tmp_path: Path, capfd):
    text = (
        "import pytest\ndef test_a(): pass\ndef test_b(): assert 0\n"
        "def test_c(): pytest.skip('no')\ndef test_d(): pass\n"
    )
    assert _outcomes(monkeypatch, tmp_path, x=text) == 1
    assert capfd.readouterr().out.endswith("\n2 passed, 1 failed, 1 skipped\n")


def test_suite_without_tests_fails(monkeypatch, tmp_path: Path, capfd):
    assert _outcomes(monkeypatch, tmp_path, x="") == 1
    assert "no test was found" in capfd.readouterr().out


def test_required_suite_that_cannot_run_fails(monkeypatch, capfd):
    monkeypatch.setattr(pythons, "find", lambda _version: None)
    assert suites.run(["unit"], (), []) == 0
    assert "skipped" in capfd.readouterr().out
    monkeypatch.setenv("TESSERA_REQUIRE", "generator, unit")
    assert suites.run(["unit"], (), []) == 1
    assert "needs Python 3.11 or 3.13 or 3.12" in capfd.readouterr().out


def test_interpreter_named_by_the_user_must_exist(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("TESSERA_PYTHON", sys.executable)
    assert generator_runtime.ready() == Path(sys.executable)
    monkeypatch.setenv("TESSERA_PYTHON", str(tmp_path / "none"))
    with pytest.raises(console.DevError, match="does not exist"):
        generator_runtime.ready()
