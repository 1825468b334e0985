"""`tessera.save_image`. Bug reports P003, P009 and P022."""

import os
import stat

import bpy
import numpy as np
import pytest
from fakes.painter import pixels_of
from tessera import png
from tessera.metadata import parse_parameters


def _generate(seed="7"):
    bpy.ops.tessera.generate(prompt="苔 wall", width=16, height=8, seed=seed)
    return bpy.data.images[f"苔 wall {seed}"]


@pytest.fixture
def image(painter):
    return _generate()


def test_writes_the_pixels_and_the_text(image, tmp_path, pixels_of_image):
    path = tmp_path / "Пользователь (1) & 日本.png"
    assert bpy.ops.tessera.save_image(filepath=str(path), image=image.name) == {"FINISHED"}
    values = parse_parameters(png.read_text(path.read_bytes())["parameters"])
    assert (values["Prompt"], values["Seed"], values["Size"]) == ("苔 wall", "7", "16x8")
    loaded = bpy.data.images.load(str(path))
    assert np.array_equal(pixels_of_image(loaded)[..., :3], pixels_of(7, 16, 8))
    assert [path] == list(tmp_path.iterdir()), "nothing else is left"


def test_writes_what_was_painted(image, tmp_path, pixels_of_image):
    image.pixels.foreach_set(np.full(16 * 8 * 4, 1.0, np.float32))
    path = tmp_path / "painted.png"
    bpy.ops.tessera.save_image(filepath=str(path), image=image.name)
    assert (pixels_of_image(bpy.data.images.load(str(path))) == 255).all()
    assert "parameters" in png.read_text(path.read_bytes())


def test_writes_any_image(painter, tmp_path, pixels_of_image):
    other = bpy.data.images.new("other", 4, 2, float_buffer=True)
    path = tmp_path / "other.png"
    bpy.ops.tessera.save_image(filepath=str(path), image=other.name)
    assert pixels_of_image(bpy.data.images.load(str(path)))[0, 0].tolist() == [0, 0, 0, 255]
    assert png.read_text(path.read_bytes()) == {}


def test_replaces_a_png_file_only(image, tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(png.encode(np.zeros((1, 1, 3), np.uint8), {}))
    bpy.ops.tessera.save_image(filepath=str(path), image=image.name)
    assert "parameters" in png.read_text(path.read_bytes())
    path.write_text("notes")
    with pytest.raises(RuntimeError, match="exists and is not a PNG file"):
        bpy.ops.tessera.save_image(filepath=str(path), image=image.name)
    assert path.read_text() == "notes"
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(RuntimeError, match="choose another name"):
        bpy.ops.tessera.save_image(filepath=str(tmp_path / "folder.png"), image=image.name)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("missing/a.png", r'Folder ".*missing" does not exist'),
        ("a.jpg", r'"a\.jpg" is not a PNG file'),
        ("a", "ending in .png"),
        ("x" * 300 + ".png", r"cannot be written \(File name too long\)"),
    ],
)
def test_errors_are_sentences(image, tmp_path, name, sentence):
    with pytest.raises(RuntimeError, match=sentence):
        bpy.ops.tessera.save_image(filepath=str(tmp_path / name), image=image.name)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_permission(image, tmp_path, monkeypatch):
    """The tests may run as root, who may write everywhere."""
    from pathlib import Path

    def refuse(self, data):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "write_bytes", refuse)
    with pytest.raises(RuntimeError, match=r"cannot be written \(Permission denied\)"):
        bpy.ops.tessera.save_image(filepath=str(tmp_path / "a.png"), image=image.name)


def test_a_path_relative_to_the_file(image, tmp_path):
    with pytest.raises(RuntimeError, match="not saved yet"):
        bpy.ops.tessera.save_image(filepath="//a.png", image=image.name)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "scene.blend"))
    bpy.ops.tessera.save_image(filepath="//a.png", image=image.name)
    assert (tmp_path / "a.png").is_file()


def test_which_image(image, tmp_path):
    path = str(tmp_path / "a.png")
    with pytest.raises(RuntimeError, match='There is no image "nothing"'):
        bpy.ops.tessera.save_image(filepath=path, image="nothing")
    with pytest.raises(RuntimeError, match="No image is open"):
        bpy.ops.tessera.save_image(filepath=path)
    window = bpy.context.window_manager.windows[0]
    area = window.screen.areas[0]
    area.ui_type = "IMAGE_EDITOR"
    area.spaces.active.image = image
    with bpy.context.temp_override(window=window, area=area):
        assert bpy.ops.tessera.save_image(filepath=path) == {"FINISHED"}


def test_the_file_has_the_usual_permissions(image, tmp_path):
    mask = os.umask(0o022)
    try:
        bpy.ops.tessera.save_image(filepath=str(tmp_path / "a.png"), image=image.name)
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "a.png").stat().st_mode) == 0o644


def test_the_render_settings_are_left_alone(image, tmp_path):
    """P022."""
    settings = bpy.context.scene.render.image_settings
    settings.file_format = "OPEN_EXR"
    bpy.ops.tessera.save_image(filepath=str(tmp_path / "a.png"), image=image.name)
    assert settings.file_format == "OPEN_EXR"
