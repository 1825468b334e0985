"""Image datablocks and arrays. Bug reports P019, P114, P115, P118, P121, P122 and P126."""

import json
import subprocess
import sys

import bpy
import numpy as np
import pytest
from fakes.painter import pixels_of
from tessera import image_settings, images, png
from tessera.generator_process.errors import InvalidRequestError, InvalidResultError
from tessera.generator_process.messages import ImageData
from tessera.metadata import ImageSettings, parse_parameters

SETTINGS = ImageSettings(
    prompt="red brick wall",
    negative_prompt="moss\nand rain",
    width=48,
    height=32,
    steps=20,
    guidance=5.0,
    scheduler="EULER_ANCESTRAL_DISCRETE",
    seed=2**64 - 1,
    seed_text="moss",
    seamless="X",
    model="Starter",
)


def _ramp():
    values = np.arange(256, dtype=np.uint8).reshape(16, 16)
    planes = [values, values[::-1], values.T, 255 - values]
    return np.ascontiguousarray(np.stack(planes, axis=2))


@pytest.mark.parametrize("channels", [3, 4])
@pytest.mark.parametrize("size", [(1, 1), (48, 32), (7, 500), (333, 64)])
def test_pixels_are_exact(pixels_of_image, channels, size):
    """Also under transparent pixels. P117 for the sizes."""
    pixels = pixels_of(1, *size, channels)
    image = images.new_image("noise", ImageData(pixels=pixels))
    assert tuple(image.size) == size
    found = pixels_of_image(image)
    assert np.array_equal(found[..., :channels], pixels)
    if channels == 3:
        assert (found[..., 3] == 255).all()


def test_a_new_image_is_a_packed_colour_that_is_kept():
    image = images.new_image("a", ImageData(pixels=pixels_of(1, 8, 8)), SETTINGS)
    assert image.packed_file is not None
    assert not image.is_float
    assert image.use_fake_user
    assert not image.is_dirty
    assert image.colorspace_settings.name == "sRGB"
    assert not image.colorspace_settings.is_data
    assert image.alpha_mode == "STRAIGHT"


def test_the_colour_is_what_a_render_would_see():
    """Byte 188 is 0.5029 in linear light: the file is read as sRGB, once. P113."""
    grey = np.full((4, 4, 3), 188, np.uint8)
    image = images.new_image("grey", ImageData(pixels=grey))
    target = bpy.data.images.new("linear", 4, 4, float_buffer=True)
    scene = bpy.context.scene
    scene.render.engine = "CYCLES"
    assert _baked_colour(image, target) == pytest.approx(0.5029, abs=0.002)


def _baked_colour(image, target):
    """What an emission with this texture is baked to, by Cycles."""
    bpy.ops.mesh.primitive_plane_add()
    material = bpy.data.materials.new("m")
    if not material.node_tree:
        material.use_nodes = True
    tree = material.node_tree
    tree.nodes.clear()
    texture = tree.nodes.new("ShaderNodeTexImage")
    texture.image = image
    emission = tree.nodes.new("ShaderNodeEmission")
    output = tree.nodes.new("ShaderNodeOutputMaterial")
    tree.links.new(texture.outputs["Color"], emission.inputs["Color"])
    tree.links.new(emission.outputs[0], output.inputs["Surface"])
    node = tree.nodes.new("ShaderNodeTexImage")
    node.image = target
    tree.nodes.active = node
    bpy.context.object.data.materials.append(material)
    bpy.context.scene.cycles.samples = 1
    bpy.ops.object.bake(type="EMIT")
    return target.pixels[0]


def test_floats_are_rounded(pixels_of_image):
    """P115: values beyond the range, and none at all."""
    pixels = np.array([[[-1.0, 0.5, 2.0], [0.0, 1.0, 127.4 / 255]]], np.float32)
    image = images.new_image("f", ImageData(pixels=pixels))
    assert pixels_of_image(image)[..., :3].tolist() == [[[0, 128, 255], [0, 255, 127]]]
    pixels[0, 0, 0] = np.inf
    assert pixels_of_image(images.new_image("i", ImageData(pixels=pixels)))[0, 0, 0] == 255
    pixels[0, 0, 0] = np.nan
    with pytest.raises(InvalidResultError, match="pixels without a value"):
        images.new_image("n", ImageData(pixels=pixels))


@pytest.mark.parametrize("is_data", [False, True])
def test_bytes_come_back_however_often(is_data):
    """Five rounds through Blender change nothing. P114."""
    first = ImageData(pixels=_ramp())
    data = first
    for _ in range(5):
        image = images.new_image("ramp", data)
        if is_data:
            image.colorspace_settings.is_data = True
        data = images.image_data_of(image)
    assert data.pixels.dtype == np.uint8
    assert np.array_equal(data.pixels, first.pixels)


def test_a_float_image_is_encoded_once():
    """Linear floats to sRGB, and straight alpha. P113 and P114."""
    image = bpy.data.images.new("float", 2, 1, float_buffer=True, alpha=True)
    image.alpha_mode = "PREMUL"
    image.pixels.foreach_set(np.array([0.2159, 0.0, 4.0, 1.0, 0.25, 0.5, 0.0, 0.5], np.float32))
    pixels = images.image_data_of(image).pixels
    assert pixels.dtype == np.float32
    assert pixels[0, 0] == pytest.approx([0.502, 0.0, 1.0, 1.0], abs=1e-3)
    assert pixels[0, 1] == pytest.approx([0.7354, 1.0, 0.0, 0.5], abs=1e-3)


def test_a_float_image_of_data_is_not_encoded():
    image = bpy.data.images.new("data", 1, 1, float_buffer=True, is_data=True)
    image.pixels.foreach_set(np.array([0.25, -2.0, 3.0, 1.0], np.float32))
    assert images.image_data_of(image).pixels[0, 0].tolist() == [0.25, -2.0, 3.0, 1.0]


def test_linear_bytes_are_encoded():
    image = bpy.data.images.new("bytes", 1, 1)
    image.colorspace_settings.name = "Linear Rec.709"
    image.pixels.foreach_set(np.array([128 / 255, 0, 1, 1], np.float32))
    assert images.image_data_of(image).pixels[0, 0].tolist() == [188, 0, 255, 255]


def test_another_colour_space_is_refused():
    image = bpy.data.images.new("log", 1, 1)
    image.colorspace_settings.name = "ACEScg"
    with pytest.raises(InvalidRequestError, match=r'colour space "ACEScg".* Set it to "sRGB"'):
        images.image_data_of(image)
    assert [image.name for image in bpy.data.images] == ["log"], "the probe is gone"


def test_an_image_without_pixels_is_refused(tmp_path):
    """P121."""
    missing = bpy.data.images.new("missing", 4, 4)
    missing.source = "FILE"
    missing.filepath = str(tmp_path / "nothing.png")
    with pytest.raises(InvalidRequestError, match='"missing" has no pixels'):
        images.image_data_of(missing)
    tiled = bpy.data.images.new("tiled", 4, 4, tiled=True)
    with pytest.raises(InvalidRequestError, match="several tiles"):
        images.image_data_of(tiled)


def test_a_render_result_is_refused():
    """P121."""
    scene = bpy.context.scene
    scene.camera = bpy.data.objects.new("camera", bpy.data.cameras.new("camera"))
    scene.render.engine = "CYCLES"
    scene.cycles.samples = 1
    scene.render.resolution_x = scene.render.resolution_y = 8
    bpy.ops.render.render()
    with pytest.raises(InvalidRequestError, match="Save it as an image file"):
        images.image_data_of(bpy.data.images["Render Result"])


def test_width_and_height_are_not_swapped():
    """P121: a picture that tells left from right and top from bottom."""
    pixels = np.zeros((32, 64, 3), np.uint8)
    pixels[0, :, 0] = np.arange(64)
    pixels[:, 0, 1] = np.arange(32)
    found = images.image_data_of(images.new_image("g", ImageData(pixels=pixels))).pixels
    assert np.array_equal(found[..., :3], pixels)


@pytest.mark.parametrize("prompt", ["é" * 150, "苔" * 100, "🧱" * 75, "x" * 300, "  ", "a\nb\tc"])
def test_long_names_are_cut_between_letters(prompt):
    """Twice the same name makes two images, and both are found. P019."""
    from dataclasses import replace

    settings = replace(SETTINGS, prompt=prompt)
    limit = 255 if bpy.app.version >= (5, 0, 0) else 63
    data = ImageData(pixels=pixels_of(1, 8, 8))
    made = [images.new_image(image_settings.name_of(settings), data, settings) for _ in range(2)]
    assert made[0].name != made[1].name
    for image in made:
        assert len(image.name.encode()) <= limit
        assert "18446744073709551615" in image.name
        assert bpy.data.images[image.name] == image
    if len(prompt) > 60:
        assert made[0].name.startswith(prompt[:9])
        assert len(made[0].name.encode()) > limit - 9
    assert image_settings.name_of(replace(SETTINGS, prompt="a\nb\tc", seed=1)) == "a b c 1"
    assert image_settings.name_of(replace(SETTINGS, prompt=" ", seed=1)) == "Image 1"


@pytest.mark.parametrize(
    ("typed", "index", "name"),
    [
        ("moss", 0, "grass moss"),
        ("moss", 2, "grass moss 3"),
        ("-5", 0, "grass -5"),
        (" 007", 0, "grass 7"),
        ("a long sentence as a seed", 1, "grass a long sent… 2"),
    ],
)
def test_seed_is_named_as_it_was_typed(typed, index, name):
    """A word stands for a number of up to twenty digits, which says nothing to a reader."""
    from dataclasses import replace

    from tessera.generator_process.seeds import seed_from_text

    seed = seed_from_text(typed) + index
    settings = replace(SETTINGS, prompt="grass", seed=seed, seed_text=typed)
    assert image_settings.name_of(settings) == name


def test_settings_stay_on_the_image():
    """P126."""
    image = images.new_image("a", ImageData(pixels=pixels_of(1, 48, 32)), SETTINGS)
    assert image_settings.of_image(image) == SETTINGS
    del image["tessera"]
    assert image_settings.of_image(image) == SETTINGS, "from the file"
    assert image_settings.of_image(bpy.data.images.new("b", 8, 8)) is None
    damaged = bpy.data.images.new("c", 8, 8)
    damaged["tessera"] = "{"
    assert image_settings.of_image(damaged) is None


def test_unpacking_gives_the_file_with_its_text(tmp_path):
    pixels = pixels_of(1, 48, 32)
    image = images.new_image("brick", ImageData(pixels=pixels), SETTINGS)
    bpy.ops.wm.save_as_mainfile(filepath=str(tmp_path / "scene.blend"))
    image.unpack(method="WRITE_LOCAL")
    (path,) = tmp_path.glob("textures/*")
    text = png.read_text(path.read_bytes())
    values = parse_parameters(text["parameters"])
    assert values["Prompt"] == "red brick wall"
    assert values["Negative prompt"] == "moss\nand rain"
    assert values["Sampler"] == "Euler a"
    assert values["Seed"] == str(2**64 - 1)
    assert np.array_equal(images.image_data_of(image).pixels[..., :3], pixels)


def test_blender_keeps_the_text_when_it_saves_the_image(tmp_path):
    image = images.new_image("brick", ImageData(pixels=pixels_of(1, 8, 8)), SETTINGS)
    path = tmp_path / "copy.png"
    image.save(filepath=str(path))
    assert png.read_text(path.read_bytes())["parameters"] == SETTINGS.to_parameters()


_REOPEN = """
import json, sys, bpy, numpy as np
bpy.ops.wm.open_mainfile(filepath=sys.argv[1])
image = bpy.data.images["brick"]
flat = np.empty(image.size[0] * image.size[1] * 4, np.float32)
image.pixels.foreach_get(flat)
pixels = np.rint(flat * 255).astype(int).reshape(image.size[1], image.size[0], 4)[::-1]
print("RESULT" + json.dumps([pixels.tolist(), image["tessera"], image.colorspace_settings.name]))
"""


def test_saved_and_opened_in_another_process(tmp_path):
    """Nobody uses the image, and yet it is kept. P122 and P126."""
    pixels = pixels_of(1, 48, 32, 4)
    images.new_image("brick", ImageData(pixels=pixels), SETTINGS)
    path = tmp_path / "scene.blend"
    bpy.ops.wm.save_as_mainfile(filepath=str(path))
    output = subprocess.run(
        [sys.executable, "-c", _REOPEN, str(path)], capture_output=True, text=True, check=True
    ).stdout
    line = next(line for line in output.splitlines() if line.startswith("RESULT"))
    found, settings, space = json.loads(line.removeprefix("RESULT"))
    assert np.array_equal(np.array(found), pixels)
    assert ImageSettings.from_json(settings) == SETTINGS
    assert space == "sRGB"


_OCIO = """ocio_profile_version: 2
roles:
  default: plain
  scene_linear: lin
  default_byte: display
  default_float: lin
  data: plain
  aces_interchange: lin
displays:
  screen:
    - !<View> {name: Look, colorspace: display}
active_displays: [screen]
active_views: [Look]
colorspaces:
  - !<ColorSpace>
    name: lin
  - !<ColorSpace>
    name: plain
    isdata: true
  - !<ColorSpace>
    name: display
    to_scene_reference: !<ExponentWithLinearTransform> {gamma: 2.4, offset: 0.055}
"""

_WITH_CONFIG = """
import sys
sys.path.insert(0, sys.argv[1])
import conftest
import bpy, numpy as np, tessera
from tessera import images
from tessera.generator_process.messages import ImageData
tessera.register()
try:
    pixels = np.random.default_rng(1).integers(0, 256, (8, 8, 4), dtype=np.uint8)
    image = images.new_image("a", ImageData(pixels=pixels))
    print("SPACE", image.colorspace_settings.name, image.colorspace_settings.is_data)
    assert np.array_equal(images.image_data_of(image).pixels, pixels)
finally:
    tessera.unregister()
print("WORKED")
"""


def test_works_with_colour_spaces_of_other_names(tmp_path):
    """A configuration without "sRGB" and "Non-Color". P118."""
    import os
    from pathlib import Path

    config = tmp_path / "config.ocio"
    config.write_text(_OCIO)
    done = subprocess.run(
        [sys.executable, "-c", _WITH_CONFIG, str(Path(__file__).parents[1])],
        env={**os.environ, "OCIO": str(config)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "WORKED" in done.stdout, done.stdout + done.stderr
    assert "SPACE display False" in done.stdout
