"""Finding a Python for the runtime environment, and installing it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tessera.generator_process.errors import (
    CancelledError,
    InvalidRequestError,
    NotInstalledError,
)
from tessera.installation import install, install_plan, interpreters
from tessera.installation.install import Installation
from tessera.installation.install_plan import Options, TorchBuild, interpreter_in
from tessera.installation.interpreters import Place


def _tree(root: Path, *files: str) -> None:
    for file in files:
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


def _first_that_exists(place: Place) -> Path | None:
    return next((path for path in interpreters.candidates(place) if path.is_file()), None)


TREES = {
    "Linux tarball": (
        ["blender", "4.2/python/bin/python3.11"],
        Place(executable="4.2/python/bin/python3.11", prefix="4.2/python", version="3.11"),
        "4.2/python/bin/python3.11",
    ),
    "executable is Blender": (
        ["blender", "4.2/python/bin/python3.11"],
        Place(executable="blender", prefix="4.2/python", version="3.11"),
        "4.2/python/bin/python3.11",
    ),
    "Windows": (
        ["blender.exe", "4.2/python/bin/python.exe"],
        Place(executable="blender.exe", prefix="4.2/python", version="3.11"),
        "4.2/python/bin/python.exe",
    ),
    "macOS bundle": (
        ["Blender.app/Contents/MacOS/Blender", "Resources/4.2/python/bin/python3.11"],
        Place(
            executable="Blender.app/Contents/MacOS/Blender",
            prefix="Resources/4.2/python",
            version="3.11",
        ),
        "Resources/4.2/python/bin/python3.11",
    ),
    "distribution": (
        ["usr/bin/blender", "usr/bin/python3.13", "usr/bin/python3"],
        Place(executable="usr/bin/blender", prefix="usr", version="3.13"),
        "usr/bin/python3.13",
    ),
    "distribution with a bare name": (
        ["usr/bin/blender", "usr/bin/python3"],
        Place(executable="", prefix="usr", version="3.13"),
        "usr/bin/python3",
    ),
    "bpy wheel": (
        ["venv/bin/python", "usr/bin/python3.11"],
        Place(executable="venv/bin/python", prefix="venv", version="3.11"),
        "venv/bin/python",
    ),
    "only on the search path": (
        ["opt/blender", "elsewhere/python3.11"],
        Place(
            executable="opt/blender",
            prefix="opt/none",
            version="3.11",
            search_path=(Path("elsewhere"),),
        ),
        "elsewhere/python3.11",
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_interpreter_is_found_in_every_layout(name: str, tmp_path: Path, monkeypatch):
    """P011: the interpreter is called differently on each system."""
    files, place, expected = TREES[name]
    _tree(tmp_path, *files)
    monkeypatch.chdir(tmp_path)
    assert _first_that_exists(place) == Path(expected)


def test_this_interpreter_will_do():
    place = interpreters.this_place(())
    assert interpreters.find(place) == Path(sys.executable)


def test_error_lists_what_was_tried(tmp_path: Path):
    broken = tmp_path / "python3.11"
    broken.write_text("#!/bin/sh\necho no module named venv >&2\nexit 1\n")
    broken.chmod(0o755)
    place = Place(executable=str(broken), prefix=str(tmp_path / "none"), version="3.11")
    with pytest.raises(NotInstalledError) as caught:
        interpreters.find(place)
    assert f"{broken} cannot make environments (no module named venv)" in str(caught.value)
    assert f"{tmp_path / 'none' / 'bin' / 'python3'} does not exist" in str(caught.value)


@pytest.mark.parametrize(
    ("version", "is_fine"),
    [("3.10", False), ("3.11", True), ("3.13", True), ("3.14", False), ("2.7", False), ("", False)],
)
def test_version_range(version: str, *, is_fine: bool):
    """P006: packages are compiled for certain versions of Python."""
    problem = interpreters.version_problem(version)
    assert (problem is None) is is_fine
    assert is_fine or version in (problem or "")


def test_pip_with_the_configured_index(tmp_path: Path):
    step = install_plan.packages_step(tmp_path, Options(), torch_index_answers=False)
    assert step.argv[0] == str(interpreter_in(tmp_path))
    assert step.argv[1:6] == ("-I", "-X", "utf8", "-m", "pip")
    assert step.argv[-2:] == ("-r", str(install_plan.REQUIREMENTS))
    assert "--no-user" in step.argv


def test_uv_chooses_the_build_of_torch(tmp_path: Path):
    step = install_plan.packages_step(tmp_path, Options(), torch_index_answers=True)
    assert step.argv[:4] == (str(interpreter_in(tmp_path)), "-I", "-m", "uv")
    assert "--torch-backend=auto" in step.argv
    there = Options(uv=Path("uv"), torch=TorchBuild.CPU)
    step = install_plan.packages_step(tmp_path, there, torch_index_answers=False)
    assert step.argv[:3] == ("uv", "pip", "install")
    assert "--torch-backend=cpu" in step.argv


def test_uv_is_asked_whether_it_finds_torch(tmp_path: Path):
    """Without a network it must fail soon, and it must not install anything."""
    step = install_plan.probe_step(tmp_path, Options(uv=Path("uv")))
    assert step.argv[:3] == ("uv", "pip", "install")
    assert "--torch-backend=auto" in step.argv
    assert step.argv[-3:-1] == ("--dry-run", "--no-deps")
    assert step.argv[-1].startswith("torch==")
    assert ("UV_HTTP_RETRIES", "0") in step.variables


@pytest.mark.parametrize(("status", "uses_uv"), [(0, True), (2, False)])
def test_pip_takes_over_where_uv_cannot(tmp_path: Path, monkeypatch, status, uses_uv):
    """uv knows PyTorch's own index; where it cannot be reached, pip's index has to do."""
    uv = tmp_path / "uv"
    uv.write_text(f"#!/bin/sh\nexit {status}\n")
    uv.chmod(0o755)
    begun: list[str] = []

    def packages_step(_staging, _options, *, torch_index_answers):
        begun.append("uv" if torch_index_answers else "pip")
        return install_plan.Step(
            label="Installing", argv=(sys.executable, "-c", "raise SystemExit(3)")
        )

    monkeypatch.setattr(install_plan, "packages_step", packages_step)
    place = interpreters.this_place(())
    log = tmp_path / "install.log"
    installation = install.Installation(
        tmp_path / "user", log, place, Options(uv=uv), min_free_bytes=0
    )
    installation.start()
    assert installation.wait(120.0)
    assert begun == ["uv" if uses_uv else "pip"]
    assert "it ended with 3" in str(installation.error)


def test_wheel_folder_needs_no_network(tmp_path: Path):
    """P013: without online access only the chosen folder is read."""
    options = Options(wheel_folder=tmp_path / "a b")
    assert not install_plan.uses_uv(options, torch_index_answers=True)
    step = install_plan.packages_step(tmp_path, options, torch_index_answers=True)
    index = step.argv.index("--no-index")
    assert step.argv[index - 1 : index + 3] == (
        "--isolated",
        "--no-index",
        "--find-links",
        str(tmp_path / "a b"),
    )


def test_openvino_is_installed_on_top(tmp_path: Path):
    options = Options(openvino=True)
    files = (install_plan.REQUIREMENTS, install_plan.OPENVINO_REQUIREMENTS)
    for answers in (True, False):
        step = install_plan.packages_step(tmp_path, options, torch_index_answers=answers)
        assert step.argv[-4:] == ("-r", str(files[0]), "-r", str(files[1]))
    plain = install_plan.requirement_count()
    assert install_plan.requirement_count(options.requirements) == plain + 2
    assert install_plan.requirements_key(options.requirements) != install_plan.requirements_key()
    code = install_plan.verify_step(tmp_path, options).argv[-1]
    assert code.index("['openvino_telemetry'] = None") < code.index("import openvino\n")
    assert "openvino" not in install_plan.verify_step(tmp_path, Options()).argv[-1]


def test_steps_inherit_nothing_that_installs_elsewhere():
    """P003: nothing is written outside the add-on's folder."""
    inherited = {
        "PIP_USER": "1",
        "PIP_TARGET": "/usr",
        "PYTHONPATH": "/x",
        "VIRTUAL_ENV": "/y",
        "PIP_INDEX_URL": "https://example.org",
        "HOME": "/home",
    }
    assert install_plan.step_environment(inherited, is_offline=False) == {
        "PIP_INDEX_URL": "https://example.org",
        "HOME": "/home",
        "PYTHONUTF8": "1",
    }


@pytest.mark.parametrize(
    ("line", "package"),
    [
        ("ERROR: No matching distribution found for torch==2.13.0", "torch==2.13.0"),
        ("ERROR: Could not find a version that satisfies the requirement a>=1 (from x)", "a>=1"),
        ("  x Because scipy was not found in the package registry", "scipy"),
        ("ModuleNotFoundError: No module named 'torch._C'", "torch._C"),
        ("ImportError: cannot import name 'x' from 'diffusers.utils' (unknown)", "diffusers.utils"),
        (
            "ERROR: Failed to build installable wheels for some pyproject.toml based projects (b)",
            "b",
        ),
        ("something else", None),
    ],
)
def test_package_at_fault_is_named(line: str, package: str | None):
    assert install_plan.package_at_fault(["Collecting x", line]) == package


@pytest.mark.parametrize(
    ("line", "package"),
    [
        ("Collecting torch==2.13.0 (from -r runtime.txt (line 4))", "torch"),
        ("Processing /a/b/annotated_types-0.8.0-py3-none-any.whl (from x)", "annotated_types"),
        ("  Downloading x.whl (3 kB)", None),
    ],
)
def test_package_that_pip_is_at(line: str, package: str | None):
    assert install_plan.package_begun(line) == package


def _installation(folder: Path, options: Options, **changes) -> Installation:
    return Installation(
        folder,
        folder / "logs" / "install.log",
        interpreters.this_place(()),
        options,
        **{"min_free_bytes": 0, **changes},
    )


def _existing_runtime(folder: Path) -> Path:
    keep = folder / "runtime" / "keep.txt"
    keep.parent.mkdir(parents=True)
    keep.write_text("as it was")
    return keep


@pytest.mark.slow
def test_missing_package_fails_the_whole_installation(tmp_path: Path):
    """P007: the error names the package, what was there stays, and the log is there."""
    folder = tmp_path / "Пользователь (c) & d"
    keep = _existing_runtime(folder)
    (tmp_path / "empty").mkdir()
    installation = _installation(folder, Options(wheel_folder=tmp_path / "empty"))
    installation.start()
    assert installation.wait(300)
    assert isinstance(installation.error, NotInstalledError)
    first = install_plan.REQUIREMENTS.read_text().split("torch==")[1].split()[0]
    assert f'"torch=={first}" could not be installed' in str(installation.error)
    assert str(installation.log_path) in str(installation.error)
    assert "No matching distribution found for torch" in installation.log_path.read_text("utf-8")
    assert keep.read_text() == "as it was"
    assert sorted(path.name for path in folder.iterdir()) == ["logs", "runtime"]


def test_cancelling_ends_the_step_and_its_children(tmp_path: Path, monkeypatch):
    keep = _existing_runtime(tmp_path)
    marker = tmp_path / "child.pid"
    child = f"import os, time; open({str(marker)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    step = install_plan.Step(label="Sleeping", argv=(sys.executable, "-c", parent))
    monkeypatch.setattr(install_plan, "create_step", lambda _base, _staging: step)
    installation = _installation(tmp_path, Options(wheel_folder=tmp_path))
    installation.start()
    end = time.monotonic() + 60
    while not (marker.exists() and marker.read_text()) and time.monotonic() < end:
        time.sleep(0.05)
    installation.cancel()
    assert installation.wait(30)
    assert isinstance(installation.error, CancelledError)
    assert keep.read_text() == "as it was"
    _assert_ends(int(marker.read_text()))


def _assert_ends(pid: int) -> None:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        state = Path(f"/proc/{pid}/stat")
        if state.exists() and state.read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} is still running")


def test_finished_environment_replaces_the_old_one(tmp_path: Path, monkeypatch):
    """P005: an update replaces the folder as a whole."""
    keep = _existing_runtime(tmp_path)

    def step(*_args, **_kwargs) -> install_plan.Step:
        staging = tmp_path / install.STAGING
        code = f"import os; os.makedirs({str(staging)!r}, exist_ok=True); print('Collecting torch')"
        return install_plan.Step(label="Making", argv=(sys.executable, "-c", code), counted=True)

    for name in ("create_step", "packages_step", "verify_step"):
        monkeypatch.setattr(install_plan, name, step)
    installation = _installation(tmp_path, Options(wheel_folder=tmp_path))
    installation.start()
    assert installation.wait(60)
    assert installation.error is None
    assert installation.progress.text.startswith("Installing torch (1 of ")
    assert not keep.exists()
    stamp = tmp_path / "runtime" / install_plan.STAMP
    assert stamp.read_text().strip() == install_plan.requirements_key()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "runtime"]
    install.remove(tmp_path)
    assert not (tmp_path / "runtime").exists()


def test_full_disk_is_said_before_anything_is_downloaded(tmp_path: Path):
    installation = _installation(tmp_path, Options(), min_free_bytes=2**60)
    installation.start()
    assert installation.wait(30)
    assert "Make room" in str(installation.error)


def test_two_installations_at_once_are_refused(tmp_path: Path, monkeypatch):
    step = install_plan.Step(
        label="Sleeping", argv=(sys.executable, "-c", "import time; time.sleep(60)")
    )
    monkeypatch.setattr(install_plan, "create_step", lambda _base, _staging: step)
    install.start(_installation(tmp_path / "a", Options(wheel_folder=tmp_path)))
    try:
        with pytest.raises(InvalidRequestError, match="already being installed"):
            install.start(_installation(tmp_path / "b", Options(wheel_folder=tmp_path)))
    finally:
        install.stop()
    assert install.current() is None


@pytest.mark.parametrize("openvino", [False, True])
def test_verify_step_is_valid_python(openvino):
    code = install_plan.verify_step(Path("x"), Options(openvino=openvino)).argv[-1]
    compile(code, "verify", "exec")
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert result.returncode != 0, "this environment has no torch, so the step must fail"
