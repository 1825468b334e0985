"""The blocks of docs/scripting.md are run as they stand there, from top to bottom."""

import re
import shlex
import sys
import types
from dataclasses import fields
from pathlib import Path

import bpy
import pytest
from tessera import cli, png
from tessera.optimizations import Optimizations, VaeTiling

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "scripting.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language):
    text = GUIDE.read_text(encoding="utf-8")
    return [body for found, body in BLOCK.findall(text) if found == language]


@pytest.fixture
def _as_installed(monkeypatch):
    """The names under which an installed extension is imported."""
    import tessera.api

    for name in ("bl_ext", "bl_ext.user_default"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "bl_ext.user_default.tessera", tessera)


@pytest.mark.usefixtures("_as_installed")
def test_python_blocks(painter, machine_preferences, tmp_path):
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "scene.blend"))
    names = {}
    for body in blocks("python"):
        exec(compile(body, str(GUIDE), "exec"), names)
    assert len(blocks("python")) >= 11
    assert machine_preferences.optimizations.automatic
    assert VaeTiling.EXACT in [request.optimizations.vae_tiling for request in painter.sent]
    assert names["result"].seeds[1] == names["result"].seeds[0] + 1
    assert "parameters" in png.read_text((tmp_path / "grass.png").read_bytes())
    (node,) = [n for n in names["material"].node_tree.nodes if n.bl_idname == "ShaderNodeTexImage"]
    assert node.image.name == "red brick wall 1"
    assert tuple(names["baked"].size) == (512, 512)
    assert [layer.name for layer in bpy.context.object.data.uv_layers] == ["UVMap", "Bake"]


def test_command_lines(painter, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TESSERA_PYTHON", raising=False)
    lines = [line for body in blocks("bash") for line in body.splitlines() if "--command" in line]
    assert len(lines) == 5
    for line in lines:
        blender, option, name, *arguments = shlex.split(line)
        assert (blender, option, name) == ("blender", "--command", "tessera")
        assert cli.main(arguments) == 0, line
    assert len(list(tmp_path.glob("*.png"))) == 6


def test_every_option_is_named():
    text = GUIDE.read_text(encoding="utf-8")
    for field in fields(Optimizations):
        assert f"`{field.name}`" in text
        for choice in field.metadata.get("choices", ()):
            assert f'`"{choice.name}"`' in text
