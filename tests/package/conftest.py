"""Blender with a private profile, and the archive as "dev.py build" makes it."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("BLENDER_USER_RESOURCES", tempfile.mkdtemp(prefix="tessera-test-"))

import pytest

bpy = pytest.importorskip("bpy")

from extension_helpers import MODULE, install, uninstall  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from scripts.devtools import packaging  # noqa: E402


@pytest.fixture(scope="session")
def blender_tool():
    """Return a function that runs Blender's own extension tool and returns what it says."""
    tool = Path(bpy.utils.system_resource("SCRIPTS"), "addons_core/bl_pkg/cli/blender_ext.py")

    def run(*arguments: str) -> str:
        result = subprocess.run(
            [sys.executable, str(tool), *arguments],
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    return run


@pytest.fixture(scope="session")
def archive(blender_tool, tmp_path_factory) -> Path:
    """The extension's archive."""
    path = tmp_path_factory.mktemp("archive") / "tessera.zip"
    blender_tool("build", "--source-dir", str(ROOT), "--output-filepath", str(path))
    packaging.add_file_list(path)
    return path


@pytest.fixture
def installed(archive):
    """The extension, installed and enabled; disabled and uninstalled afterwards."""
    install(archive)
    yield sys.modules[MODULE]
    if MODULE in bpy.context.preferences.addons:
        bpy.ops.preferences.addon_disable(module=MODULE)
    uninstall()


_STATUS = pytest.StashKey[int]()


def pytest_sessionfinish(session, exitstatus):
    session.config.stash[_STATUS] = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config):
    """End without the interpreter's own clean-up, in which Blender 4.2 crashes after installing."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(config.stash.get(_STATUS, 1))
