"""The optimizations as properties: stored for the machine, given for a call, chosen by presets."""

from dataclasses import fields
from enum import Enum

import bpy
import pytest
from fakes.painter import paint
from tessera import api, cli, optimization_presets, preferences, session
from tessera.generator_process.errors import InvalidRequestError
from tessera.generator_process.messages import Finished, Ready
from tessera.optimizations import (
    Attention,
    CpuOffload,
    Engine,
    Environment,
    HalfPrecision,
    Optimizations,
    Quantization,
    StepCache,
    VaeTiling,
)

OTHER = {
    "engine": ("OPENVINO", Engine.OPENVINO),
    "attention": ("SLICED", Attention.SLICED),
    "attention_slice_size": (2, 2),
    "half_precision": ("OFF", HalfPrecision.OFF),
    "tf32": (True, True),
    "cudnn_benchmark": (True, True),
    "channels_last_memory_format": (True, True),
    "cpu_offload": ("SUBMODULE", CpuOffload.SUBMODULE),
    "vae_slicing": (False, False),
    "vae_tiling": ("EXACT", VaeTiling.EXACT),
    "vae_tile_size": (256, 256),
    "vae_tile_blend": (32, 32),
    "batch_size": (4, 4),
    "cfg_end": (0.5, 0.5),
    "torch_compile": (True, True),
    "layerwise_casting": (True, True),
    "quantization": ("TORCHAO_INT8", Quantization.TORCHAO_INT8),
    "step_cache": ("FIRST_BLOCK", StepCache.FIRST_BLOCK),
    "cpu_only": (True, True),
}
"""For each option another value than the default: of the property, and in the request."""

FREE = {"batch_size", "cfg_end", "cpu_only"}
"""What is taken from the settings when Automatic is on."""


def _generate(**given):
    bpy.ops.tessera.generate(prompt="x", width=16, height=8, **given)


def _differences(optimizations):
    return {
        field.name: getattr(optimizations, field.name)
        for field in fields(Optimizations)
        if getattr(optimizations, field.name) != field.default
    }


def test_the_table_has_every_option():
    assert {*OTHER, "automatic"} == {field.name for field in fields(Optimizations)}


def test_properties_say_what_is_declared(machine_preferences):
    group = machine_preferences.optimizations.bl_rna.properties
    operator = bpy.ops.tessera.generate.get_rna_type().properties
    scene = bpy.context.scene.tessera.bl_rna.properties
    for field in fields(Optimizations):
        stored = scene if field.name == "batch_size" else group
        for found in (stored[field.name], operator[field.name]):
            assert (found.name, found.description) == (
                field.metadata["label"],
                field.metadata["description"],
            )
            if isinstance(field.default, Enum):
                assert [
                    (item.identifier, item.name, item.description) for item in found.enum_items
                ] == [
                    (choice.name, about["label"], about["description"])
                    for choice, about in field.metadata["choices"].items()
                ]
                assert found.default == field.default.name
            else:
                assert found.default == field.default
            if "limits" in field.metadata:
                assert (found.soft_min, found.soft_max) == field.metadata["limits"]
    assert "batch_size" not in group, "it is stored with the scene"


def test_by_default_nothing_is_changed(painter, machine_preferences):
    _generate()
    assert painter.sent[0].optimizations == Optimizations()


@pytest.mark.parametrize("option", OTHER)
def test_a_stored_option_reaches_the_request(painter, machine_preferences, option):
    value, expected = OTHER[option]
    group = machine_preferences.optimizations
    group.automatic = False
    owner = bpy.context.scene.tessera if option == "batch_size" else group
    setattr(owner, option, value)
    _generate()
    api.generate(prompt="x", width=16, height=8)
    for request in painter.sent:
        assert _differences(request.optimizations) == {"automatic": False, option: expected}


@pytest.mark.parametrize("option", OTHER)
def test_an_option_of_a_call_reaches_the_request(painter, machine_preferences, option):
    """And turns Automatic off for that call if Automatic would choose it."""
    value, expected = OTHER[option]
    _generate(**{option: value})
    api.generate(prompt="x", width=16, height=8, **{option: value})
    manual = {} if option in FREE else {"automatic": False}
    for request in painter.sent:
        assert _differences(request.optimizations) == {**manual, option: expected}
    assert machine_preferences.optimizations.automatic
    _generate()
    assert painter.sent[-1].optimizations == Optimizations()


def test_an_option_of_a_call_replaces_only_itself(painter, machine_preferences):
    group = machine_preferences.optimizations
    group.automatic, group.vae_tiling, group.tf32 = False, "FAST", True
    _generate(tf32=False, half_precision="FLOAT16")
    assert _differences(painter.sent[0].optimizations) == {
        "automatic": False,
        "vae_tiling": VaeTiling.FAST,
        "half_precision": HalfPrecision.FLOAT16,
    }


def test_what_contradicts_itself_is_refused(painter):
    sentence = (
        "Automatic chooses VAE Tiling by itself. Turn Automatic off, or do not set VAE Tiling."
    )
    with pytest.raises(RuntimeError, match=sentence):
        _generate(automatic=True, vae_tiling="EXACT", batch_size=2)
    with pytest.raises(InvalidRequestError, match=sentence):
        api.generate(prompt="x", automatic=True, vae_tiling="EXACT")
    assert painter.sent == []


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"cfg_end": 1.5}, "Guidance End 1.5 is out of range. Use a value from 0.0 to 1.0."),
        ({"vae_tile_size": 8}, "VAE Tile Size 8 is out of range. Use a value from 64 to 4096."),
        (
            {"vae_tiling": "FAST", "vae_tile_blend": 300},
            "VAE Tile Blend 300 is more than half of VAE Tile Size 512.",
        ),
        ({"attention_slice_size": -1}, "Attention Slice Size -1 is out of range."),
        ({"batch_size": 0}, "Batch Size 0 is out of range. Use a value from 1 to 64."),
    ],
)
def test_wrong_numbers_are_refused(painter, machine_preferences, given, sentence):
    with pytest.raises(RuntimeError, match=sentence):
        _generate(**given)
    group = machine_preferences.optimizations
    group.automatic = False
    for option, value in given.items():
        setattr(bpy.context.scene.tessera if option == "batch_size" else group, option, value)
    with pytest.raises(InvalidRequestError, match=sentence):
        api.generate(prompt="x")
    assert painter.sent == []


def test_wrong_choices_are_refused(painter):
    with pytest.raises(TypeError, match="EXAKT"):
        _generate(vae_tiling="EXAKT")
    sentence = r'VAE Tiling "EXAKT" is not known\. Use one of OFF, FAST, EXACT\.'
    with pytest.raises(InvalidRequestError, match=sentence):
        api.generate(prompt="x", vae_tiling="EXAKT")
    with pytest.raises(InvalidRequestError, match="tf32 'on' is not True or False"):
        api.generate(prompt="x", tf32="on")
    assert painter.sent == []


def test_without_preferences_the_defaults_count(painter):
    """As when a script has registered Tessera. P014."""
    assert preferences.optimizations() is None
    _generate()
    assert painter.sent[0].optimizations == Optimizations()
    assert not bpy.ops.tessera.use_preset.poll()


def test_blender_is_told_to_save_them(machine_preferences):
    bpy.context.preferences.is_dirty = False
    machine_preferences.optimizations.vae_tiling = "EXACT"
    assert bpy.context.preferences.is_dirty


@pytest.mark.parametrize("name", ["automatic", "fastest", "balanced", "smallest"])
def test_presets(painter, machine_preferences, name):
    group = machine_preferences.optimizations
    group.attention, group.cfg_end = "CLASSIC", 0.25
    bpy.context.scene.tessera.batch_size = 3
    assert bpy.ops.tessera.use_preset(preset=name.upper()) == {"FINISHED"}
    _generate(batch_size=1)
    assert painter.sent[0].optimizations == optimization_presets.preset(name)
    assert bpy.context.scene.tessera.batch_size == 3, "which belongs to the scene"


def test_a_preset_leaves_out_what_the_device_lacks(painter, machine_preferences):
    _generate()
    environment = Environment(probed=True)
    painter.ready = Ready(device="mps", device_name="M1", versions=(), environment=environment)
    bpy.ops.tessera.use_preset(preset="SMALLEST")
    group = machine_preferences.optimizations
    assert (group.cpu_offload, group.vae_tiling, group.vae_tile_size) == ("OFF", "EXACT", 256)


def test_presets_are_those_of_the_table():
    items = bpy.ops.tessera.use_preset.get_rna_type().properties["preset"].enum_items
    assert [item.identifier for item in items] == ["AUTOMATIC", "FASTEST", "BALANCED", "SMALLEST"]


def test_what_the_generator_said_is_kept_when_it_is_released(painter):
    assert session.ready() is None
    _generate()
    ready = painter.ready = Ready(device="cpu", device_name="CPU", versions=())
    assert session.ready() is ready
    bpy.ops.tessera.release_memory()
    assert session.ready() is ready


def test_what_was_skipped_is_said(generator, tmp_path, capfd):
    """An option that was asked for and not used is no secret, wherever it was asked for."""
    sentence = "Attention (xFormers) is not available on the CPU."

    def answer(request):
        *events, _ = paint(request)
        return [*events, Finished(job_id=request.job_id, skipped=(sentence,))]

    generator.responder = answer
    _generate(attention="XFORMERS")
    assert f"Info: {sentence}" in capfd.readouterr().out
    assert api.generate(prompt="x", width=16, height=8).skipped == (sentence,)
    arguments = ["generate", "--prompt", "x", "--width", "16", "--height", "8"]
    assert cli.main([*arguments, "--output", str(tmp_path)]) == 0
    assert sentence in capfd.readouterr().err


_VALUES_ON_THE_COMMAND_LINE = {True: "on", False: "off"}


@pytest.mark.parametrize("option", OTHER)
def test_the_command_line_takes_each(painter, tmp_path, option):
    value, expected = OTHER[option]
    text = _VALUES_ON_THE_COMMAND_LINE[value] if isinstance(value, bool) else str(value)
    name = f"--{option.replace('_', '-')}"
    fixed = ["generate", "--prompt", "x", "--width", "16", "--height", "8", "--output"]
    assert cli.main([*fixed, str(tmp_path), name, text.lower().replace("_", "-")]) == 0
    manual = {} if option in FREE else {"automatic": False}
    assert _differences(painter.sent[0].optimizations) == {**manual, option: expected}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--vae-tiling", "exakt"], "invalid choice: 'EXAKT' (choose from"),
        (["--tf32", "perhaps"], "argument --tf32: invalid choice: 'perhaps' (choose from 'on'"),
        (["--cfg-end", "2"], "Guidance End 2.0 is out of range"),
        (["--automatic", "on", "--vae-tiling", "exact"], "Automatic chooses VAE Tiling"),
    ],
)
def test_the_command_line_refuses(painter, tmp_path, capsys, arguments, sentence):
    assert cli.main(["generate", "--prompt", "x", "--output", str(tmp_path), *arguments]) == 2
    assert sentence in capsys.readouterr().err
    assert painter.sent == []
