"""What the operator asks the installer for."""

from types import SimpleNamespace

import bpy
import pytest
from tessera.installation import install
from tessera.installation.install_plan import Options


@pytest.fixture
def asked(monkeypatch):
    """The options of the installations that were started. Each has ended at once."""
    found = []

    def make(_folder, _log, _place, options):
        found.append(options)
        return SimpleNamespace(wait=lambda _seconds: True, error=None, is_running=False)

    monkeypatch.setattr(install, "Installation", make)
    monkeypatch.setattr(install, "start", lambda _installation: None)
    return found


def test_openvino_is_installed_if_asked_for(asked, tmp_path):
    folder = str(tmp_path)
    assert bpy.ops.tessera.install_runtime(wheel_folder=folder) == {"FINISHED"}
    assert bpy.ops.tessera.install_runtime(wheel_folder=folder, openvino=True) == {"FINISHED"}
    assert asked == [
        Options(wheel_folder=tmp_path),
        Options(wheel_folder=tmp_path, openvino=True),
    ]
