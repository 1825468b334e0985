"""The extension as users get it: installed from the archive, under the name Blender gives it."""

import importlib
import os
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import bpy
import pytest
from extension_helpers import MODULE, install, uninstall

ROOT = Path(__file__).resolve().parents[2]
LAUNCHER = ROOT / "scripts" / "devtools" / "in_blender.py"

_FOR_THE_FIRST_JOB = (
    "generator_process.client",
    "generator_process.messages",
    "installation.install",
    "jobs_session",
    "models",
)
"""What takes long to import, and so waits for the first use."""


def _submodules() -> set[str]:
    return {name for name in sys.modules if name == MODULE or name.startswith(f"{MODULE}.")}


def test_disabling_and_enabling_leaves_nothing_behind(installed):
    for _ in range(3):
        bpy.ops.preferences.addon_disable(module=MODULE)
        assert not hasattr(bpy.types.Scene, "tessera")
        assert not [name for name in dir(bpy.types) if name.startswith("TESSERA_")]
        bpy.ops.preferences.addon_enable(module=MODULE)
        assert hasattr(bpy.context.scene, "tessera")
        assert hasattr(bpy.types, "TESSERA_OT_generate")


def test_enabling_changes_no_path_and_opens_no_socket(archive, monkeypatch):
    """P013, P014: enabling imports nothing heavy, and asks nothing of the network."""
    install(archive)
    bpy.ops.preferences.addon_disable(module=MODULE)
    for name in _submodules():
        del sys.modules[name]
    path, modules = list(sys.path), set(sys.modules)
    opened: list[object] = []
    started: list[object] = []
    with monkeypatch.context() as patch:
        patch.setattr(socket.socket, "connect", lambda _self, address: opened.append(address))
        patch.setattr(subprocess.Popen, "__init__", lambda *args, **_: started.append(args))
        bpy.ops.preferences.addon_enable(module=MODULE)
    new = {name.partition(".")[0] for name in set(sys.modules) - modules}
    try:
        assert MODULE in bpy.context.preferences.addons
        assert not any(f"{MODULE}.{name}" in sys.modules for name in _FOR_THE_FIRST_JOB)
        assert sys.path == path
        assert new - {"bl_ext"} <= set(sys.stdlib_module_names)
        assert opened == []
        assert started == []
    finally:
        bpy.ops.preferences.addon_disable(module=MODULE)
        uninstall()


@pytest.mark.parametrize(
    "name",
    ["operators/bake.py", "generator_process/tasks/text_to_image.py", "starter_model/starter.json"],
)
def test_missing_file_is_named_when_enabling(archive, tmp_path, name):
    """P001: a file that was not unpacked is named in one sentence that says what to do."""
    code = (
        "import bpy, addon_utils, os, sys\n"
        f"sys.path[:0] = {[str(ROOT / 'tests'), str(ROOT)]!r}\n"
        "import extension_helpers\n"
        f"extension_helpers.install(extension_helpers.Path({str(archive)!r}))\n"
        f"folder = os.path.dirname(sys.modules[{MODULE!r}].__file__)\n"
        f"bpy.ops.preferences.addon_disable(module={MODULE!r})\n"
        f"os.remove(os.path.join(folder, {name!r}))\n"
        f"for found in [key for key in sys.modules if key.startswith({MODULE!r})]:\n"
        "    del sys.modules[found]\n"
        f"assert addon_utils.enable({MODULE!r}) is None\n"
        "assert not hasattr(bpy.types, 'TESSERA_OT_generate')\n"
        "sys.stdout.flush()\n"
        "os._exit(0)\n"
    )
    said = _run(
        [sys.executable, "-c", code], BLENDER_USER_RESOURCES=str(tmp_path), PYTHONUNBUFFERED="1"
    )
    assert f"Add-on Tessera is incomplete: {name} is missing in " in said
    assert "install it again" in said
    assert "Traceback" not in said


def test_state_without_a_generator_says_what_to_do(installed, monkeypatch):
    """P002: what is missing is said in the panel, not found in a traceback."""
    monkeypatch.delenv("TESSERA_PYTHON", raising=False)
    state = importlib.import_module(f"{MODULE}.runtime").state()
    assert not state.is_installed
    assert "Install Generator" in state.message
    with pytest.raises(RuntimeError, match="Install Generator"):
        bpy.ops.tessera.generate(prompt="red brick wall", width=64, height=64, steps=1)


def test_interpreter_is_looked_up_in_order(installed, monkeypatch, tmp_path):
    runtime = importlib.import_module(f"{MODULE}.runtime")
    preferences = bpy.context.preferences.addons[MODULE].preferences
    monkeypatch.setenv("TESSERA_PYTHON", sys.executable)
    assert runtime.generator_command().python == Path(sys.executable)
    preferences.python_path = str(tmp_path / "none")
    try:
        assert not runtime.state().is_installed
        assert str(tmp_path / "none") in runtime.state().message
    finally:
        preferences.python_path = ""


def test_installed_environment_is_used(installed, monkeypatch):
    monkeypatch.delenv("TESSERA_PYTHON", raising=False)
    runtime = importlib.import_module(f"{MODULE}.runtime")
    plan = importlib.import_module(f"{MODULE}.installation.install_plan")
    folder = runtime.runtime_folder()
    assert folder.is_relative_to(os.environ["BLENDER_USER_RESOURCES"])
    python = plan.interpreter_in(folder)
    python.parent.mkdir(parents=True)
    python.write_text("")
    assert not runtime.state().is_installed, "it is not complete"
    (folder / plan.STAMP).write_text(plan.requirements_key())
    assert runtime.state().python == python
    assert not runtime.state().is_outdated
    (folder / plan.STAMP).write_text(
        plan.requirements_key(plan.Options(openvino=True).requirements)
    )
    assert runtime.state().message == "The generator is installed with OpenVINO"
    assert not runtime.state().is_outdated
    assert runtime.generator_command().log_path.is_relative_to(runtime.user_folder())
    (folder / plan.STAMP).write_text("another version")
    assert runtime.state().is_outdated
    assert "update" in runtime.state().message
    python.unlink()
    assert "repair" in runtime.state().message
    assert bpy.ops.tessera.remove_runtime() == {"FINISHED"}
    assert not folder.exists()


def test_installing_respects_online_access(installed, monkeypatch):
    """P013: with online access off no connection is made, and the message says what to change."""
    bpy.context.preferences.system.use_online_access = False
    opened: list[object] = []
    monkeypatch.setattr(socket.socket, "connect", lambda _self, address: opened.append(address))
    with pytest.raises(RuntimeError, match="Allow Online Access"):
        bpy.ops.tessera.install_runtime()
    assert opened == []


def test_failed_installation_leaves_not_installed(installed, monkeypatch, tmp_path):
    """P007: a package that cannot be had fails the set-up as a whole, and the log is there."""
    monkeypatch.delenv("TESSERA_PYTHON", raising=False)
    with pytest.raises(RuntimeError, match=r'"torch==[\d.]+" could not be installed'):
        bpy.ops.tessera.install_runtime(wheel_folder=str(tmp_path))
    runtime = importlib.import_module(f"{MODULE}.runtime")
    assert not runtime.state().is_installed
    assert "torch" in runtime.state().message
    log = runtime.log_folder() / "install.log"
    assert "No matching distribution found for torch" in log.read_text(encoding="utf-8")
    assert not runtime.runtime_folder().exists()


def test_works_under_any_package_name(archive, tmp_path):
    """P002: a copy in a folder of another name works as well."""
    folder = tmp_path / "tessera_main"
    with zipfile.ZipFile(archive) as file:
        file.extractall(folder)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import bpy, tessera_main, os\n"
        "tessera_main.register()\n"
        "assert hasattr(bpy.types, 'TESSERA_OT_generate')\n"
        "from tessera_main import runtime\n"
        "assert runtime.state().message\n"
        "tessera_main.unregister()\n"
        "print('as expected', flush=True)\n"
        "os._exit(0)\n"
    )
    said = _run([sys.executable, "-c", code], BLENDER_USER_RESOURCES=str(tmp_path / "profile"))
    assert "as expected" in said


def test_generates_from_any_folder(archive, tmp_path):
    """P003, P009, P010: non-Latin letters, spaces and shell characters in every path.

    All that is written is in the user's folders: nothing beside Blender, nothing beside the add-on.
    """
    if not os.environ.get("TESSERA_PYTHON"):
        pytest.skip("TESSERA_PYTHON names no generator")
    home = tmp_path / "Пользователь ë 日本 (c) & d"
    home.mkdir()
    script = home / "скрипт 1.py"
    script.write_text(
        "import bpy\n"
        "result = bpy.ops.tessera.generate(\n"
        "    prompt='red brick wall', width=64, height=48, steps=2, seed='7')\n"
        "assert result == {'FINISHED'}, result\n"
        "image = next(i for i in bpy.data.images if i.size[0] == 64)\n"
        "assert tuple(image.size) == (64, 48)\n"
        "assert len(set(image.pixels[:])) > 10\n"
        "print('generated', flush=True)\n",
        encoding="utf-8",
    )
    blender = Path(bpy.__file__).parent
    before = _state_of(blender)
    said = _run(
        [sys.executable, "-X", "utf8", str(LAUNCHER), str(archive), str(script)],
        BLENDER_USER_RESOURCES=str(home / "profile"),
        HOME=str(home),
        LC_ALL="C",
    )
    assert "generated" in said
    log = home / "profile/extensions/.user/user_default/tessera/logs/generator.log"
    assert log.is_file()
    assert _state_of(blender) == before
    own = _state_of(home / "profile/extensions/user_default/tessera")
    with zipfile.ZipFile(archive) as file:
        assert own.keys() == set(file.namelist())
    assert {path.name for path in home.iterdir()} <= {script.name, "profile", ".cache"}


def _state_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of change of every file, but for Python's own bytecode."""
    found = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    states = {path.relative_to(folder).as_posix(): path.stat() for path in found}
    return {name: (state.st_size, state.st_mtime_ns) for name, state in states.items()}


def _run(argv: list[str], **variables: str) -> str:
    result = subprocess.run(
        argv,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, **variables},
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout
