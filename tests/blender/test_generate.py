"""`tessera.generate` from scripts, as the user calls it. Bug reports P125, P126 and P133."""

import json

import bpy
import numpy as np
import pytest
from fakes.painter import pixels_of
from tessera import api, png, session
from tessera.generator_process.errors import ErrorKind, InvalidRequestError
from tessera.generator_process.messages import (
    Failed,
    ModelRef,
    ModelSource,
    PreviewMode,
    Scheduler,
    SeamlessAxes,
)
from tessera.generator_process.seeds import seed_from_text


def test_blocks_until_the_image_is_there(painter, pixels_of_image):
    """The image can be read in the next line. P133."""
    result = bpy.ops.tessera.generate(prompt="green grass", width=200, height=120, seed="7")
    assert result == {"FINISHED"}
    (image,) = bpy.data.images
    assert tuple(image.size) == (200, 120)
    assert image.name == "green grass 7"
    pixels = pixels_of_image(image)
    assert np.array_equal(pixels[..., :3], pixels_of(7, 200, 120))
    assert (pixels[..., 3] == 255).all()


def test_sends_what_was_given(painter, tmp_path):
    bpy.ops.tessera.generate(
        prompt="苔",
        negative_prompt="no",
        width=64,
        height=72,
        seed="moss",
        number_of_images=2,
        batch_size=2,
        steps=3,
        guidance=7.5,
        scheduler="EULER_ANCESTRAL_DISCRETE",
        seamless="X",
        preview="NONE",
        model=str(tmp_path),
    )
    (request,) = painter.sent
    sampling = request.sampling
    assert (sampling.prompt, sampling.negative_prompt) == ("苔", "no")
    assert (sampling.width_px, sampling.height_px) == (64, 72)
    first = seed_from_text("moss")
    assert sampling.seeds == (first, first + 1)
    assert (sampling.steps, sampling.guidance) == (3, 7.5)
    assert sampling.scheduler is Scheduler.EULER_ANCESTRAL_DISCRETE
    assert sampling.seamless is SeamlessAxes.X
    assert sampling.preview is PreviewMode.NONE
    assert request.model == ModelRef(source=ModelSource.FOLDER, location=str(tmp_path))
    assert request.optimizations.batch_size == 2


def test_takes_the_rest_from_the_scene(painter):
    settings = bpy.context.scene.tessera
    settings.prompt, settings.width, settings.height, settings.seed = "scene", 80, 88, "1"
    bpy.ops.tessera.generate(width=96)
    bpy.ops.tessera.generate()
    first, second = (request.sampling for request in painter.sent)
    assert (first.prompt, first.width_px, first.height_px, first.seeds) == ("scene", 96, 88, (1,))
    assert second.width_px == 80, "what was given once is not remembered"


def test_defaults(painter):
    bpy.ops.tessera.generate(prompt="p")
    (request,) = painter.sent
    sampling = request.sampling
    assert (sampling.width_px, sampling.height_px, sampling.steps) == (512, 512, 20)
    assert (sampling.guidance, sampling.scheduler) == (5.0, Scheduler.DPM_SOLVER_MULTISTEP)
    assert (sampling.seamless, len(sampling.seeds)) == (SeamlessAxes.BOTH, 1)
    assert request.model == ModelRef()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"width": 7}, "Width 7 is out of range. Use a value from 8 to 8192."),
        ({"height": 8193}, "Height 8193 is out of range. Use a value from 8 to 8192."),
        ({"steps": 0}, "Steps 0 is out of range"),
        ({"guidance": -1.0}, "Guidance -1.0 is out of range"),
        ({"number_of_images": 0}, "Number of images 0 is out of range"),
        ({"number_of_images": 2**31 - 1}, "Number of images 2147483647 is out of range"),
        ({"model": "nothing"}, 'Model "nothing" is not known'),
        ({"assign_to_material": True}, "No object is active"),
    ],
)
def test_errors_are_sentences(painter, given, sentence):
    with pytest.raises(RuntimeError, match=sentence):
        bpy.ops.tessera.generate(prompt="p", **given)
    assert painter.sent == []
    assert not session.is_busy()


def test_a_failure_of_the_generator_is_reported(generator):
    """P133: the error path raises with the message."""
    sentence = "Not enough memory. Lower the size."
    generator.responder = lambda request: [
        Failed(job_id=request.job_id, kind=ErrorKind.OUT_OF_MEMORY, message=sentence)
    ]
    with pytest.raises(RuntimeError, match=sentence):
        bpy.ops.tessera.generate(prompt="p")
    assert not bpy.data.images
    assert not session.is_busy()


@pytest.mark.parametrize(
    "seed", ["0", "2147483647", "2147483648", "4294967295", str(2**64 - 1), "-1", str(10**30), "苔"]
)
def test_every_seed_can_be_used_again(painter, seed):
    """What is recorded can be typed, and gives the same. P125."""
    bpy.ops.tessera.generate(prompt="p", width=8, height=8, seed=seed)
    recorded = json.loads(bpy.data.images[0]["tessera"])
    assert recorded["seed_text"] == seed
    assert bpy.ops.tessera.reuse_seed(seed=recorded["seed"]) == {"FINISHED"}
    bpy.ops.tessera.generate(prompt="p", width=8, height=8)
    first, second = painter.sent
    assert first.sampling.seeds == second.sampling.seeds


def test_a_random_seed_is_recorded(painter):
    """P126."""
    for _ in range(2):
        bpy.ops.tessera.generate(prompt="p", width=8, height=8)
    seeds = [request.sampling.seeds[0] for request in painter.sent]
    assert seeds[0] != seeds[1]
    assert [int(json.loads(i["tessera"])["seed"]) for i in bpy.data.images] in (seeds, seeds[::-1])


def test_each_image_has_its_own_seed(painter, pixels_of_image):
    bpy.ops.tessera.generate(prompt="p", width=16, height=8, seed="5", number_of_images=3)
    for seed in (5, 6, 7):
        image = bpy.data.images[f"p {seed}"]
        assert np.array_equal(pixels_of_image(image)[..., :3], pixels_of(seed, 16, 8))
        assert json.loads(image["tessera"])["seed"] == str(seed)
        assert f"Seed: {seed}," in png.read_text(image.packed_file.data)["parameters"]


def test_assigns_to_the_active_material(painter):
    bpy.ops.mesh.primitive_cube_add()
    bpy.ops.tessera.generate(prompt="p", width=8, height=8, seed="1", assign_to_material=True)
    material = bpy.context.object.active_material
    nodes = [node for node in material.node_tree.nodes if node.type == "TEX_IMAGE"]
    assert [node.image.name for node in nodes] == ["p 1"]
    assert nodes[0].outputs["Color"].links[0].to_socket.name == "Base Color"


def test_invoke_returns_at_once(generator):
    """Without an event Blender calls `execute`, so `invoke` is called as a button would."""
    from tessera.operators.generate import TESSERA_OT_generate

    def invoke(self, context):
        return TESSERA_OT_generate.invoke(self, context, None)

    patched = pytest.MonkeyPatch()
    patched.setattr(TESSERA_OT_generate, "execute", invoke)
    try:
        assert bpy.ops.tessera.generate("INVOKE_DEFAULT", prompt="p") == {"FINISHED"}
    finally:
        patched.undo()
    assert session.is_busy()
    assert len(generator.sent) == 1


def test_the_api_returns_the_result(painter):
    result = api.generate(prompt="p", width=8, height=16, seed="3", number_of_images=2)
    assert result.images == ("p 3", "p 4")
    assert result.seeds == (3, 4)
    assert (result.model, result.notes) == ("Starter", ("A note.",))


def test_the_api_raises_errors_of_its_own(painter):
    with pytest.raises(InvalidRequestError, match="Width 1 is out of range"):
        api.generate(prompt="p", width=1)
    with pytest.raises(TypeError, match="colour"):
        api.generate(prompt="p", colour="red")
    with pytest.raises(
        InvalidRequestError, match=r'Scheduler "Best" is not known\. Use one of DDIM'
    ):
        api.generate(prompt="p", scheduler="Best")


@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        ("width", "128", "width '128' is not a whole number"),
        ("width", 128.5, "width 128.5 is not a whole number"),
        ("guidance", "5", "guidance '5' is not a number"),
        ("model", None, "model None is not text"),
        ("assign_to_material", "no", "assign_to_material 'no' is not True or False"),
        ("seed", "\ud800", "has a character that is not one"),
    ],
)
def test_the_api_refuses_values_of_other_types(generator, setting, value, sentence):
    with pytest.raises(api.errors.InvalidRequestError, match=sentence):
        api.generate(prompt="x", **{setting: value})
    assert generator.sent == []


def test_the_api_takes_a_number_as_the_seed(painter):
    result = api.generate(prompt="x", seed=7, guidance=3, width=16, height=8)
    assert result.seeds == (7,)
