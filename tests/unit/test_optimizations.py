# SPDX-License-Identifier: GPL-3.0-or-later
"""What is declared about each option and choice, and which sets of them are refused."""

from dataclasses import fields

import pytest
from tessera import optimization_presets
from tessera.generator_process.errors import InvalidRequestError
from tessera.optimization_choices import MODEL_KINDS
from tessera.optimization_rules import OPTIONAL_PACKAGES, REQUIREMENTS
from tessera.optimizations import DEVICES, CpuOffload, Environment, Optimizations, VaeTiling

OPTIONS = [field.name for field in fields(Optimizations)]
NAMES = [name for option in OPTIONS for name in (option, *Optimizations.choices_of(option))]
KEYS = {"label", "description", "devices", "requires", "model_kinds", "conflicts", "saves"}


@pytest.mark.parametrize("name", NAMES)
def test_every_option_and_choice_is_described(name):
    about = Optimizations.metadata_of(name)
    assert set(about) - {"limits", "choices"} == KEYS
    assert about["label"]
    assert len(about["description"]) > 10
    assert not about["description"].endswith(".")  # Blender adds it
    assert about["saves"] in ("memory", "speed")
    assert about["devices"]
    assert set(about["devices"]) <= set(DEVICES)
    assert set(about["model_kinds"]) <= set(MODEL_KINDS)
    assert set(about["requires"]) <= set(REQUIREMENTS)
    assert set(about["conflicts"]) <= set(NAMES)


def test_there_is_no_amp():
    assert not [name for name in NAMES if "amp" in name or "autocast" in name]


def test_every_choice_of_an_enumeration_is_declared():
    for field in fields(Optimizations):
        if "choices" in field.metadata:
            assert set(field.metadata["choices"]) == set(type(field.default))
        assert field.default is not None


def test_each_package_that_is_required_is_looked_for():
    wanted = {name.partition(">")[0] for name in REQUIREMENTS}
    assert set(OPTIONAL_PACKAGES) - {"triton"} <= wanted


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match='no device "tpu"'):
        Optimizations.device_supports("half_precision", "tpu")
    for name in ("warp_drive", "attention.magic", "tf32.on"):
        with pytest.raises(ValueError, match=f'no optimization "{name}"'):
            Optimizations.can_use(name, "cpu")
    with pytest.raises(ValueError, match='no preset "tiny"'):
        optimization_presets.preset("tiny")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, "Batch Size 0 is out of range. Use a value from 1 to 64."),
        ({"batch_size": 65}, "Batch Size 65 is out of range. Use a value from 1 to 64."),
        ({"cfg_end": 1.5}, "Guidance End 1.5 is out of range. Use a value from 0.0 to 1.0."),
        ({"cfg_end": float("nan")}, "Guidance End nan is out of range."),
        ({"attention_slice_size": -1}, "Attention Slice Size -1 is out of range."),
        ({"vae_tile_size": 32}, "VAE Tile Size 32 is out of range. Use a value from 64 to 4096."),
        (
            {"vae_tiling": VaeTiling.FAST, "vae_tile_size": 64, "vae_tile_blend": 33},
            "VAE Tile Blend 33 is more than half of VAE Tile Size 64. Use at most 32.",
        ),
    ],
)
def test_a_value_out_of_range_is_refused(settings, message):
    with pytest.raises(InvalidRequestError) as raised:
        Optimizations(**settings)
    assert message in str(raised.value)


def test_presets():
    assert [name for name, _, _ in optimization_presets.presets()] == [
        "automatic",
        "fastest",
        "balanced",
        "smallest",
    ]
    assert optimization_presets.preset("automatic") == Optimizations()
    smallest = optimization_presets.preset("smallest")
    assert not smallest.automatic
    assert smallest.cpu_offload is CpuOffload.SUBMODULE
    assert smallest.vae_tiling is VaeTiling.EXACT


def test_a_preset_leaves_out_what_cannot_be_used():
    apple = optimization_presets.preset("smallest", "mps", Environment(os="macos"))
    assert apple.cpu_offload is CpuOffload.OFF
    assert apple.vae_tiling is VaeTiling.EXACT
    ampere = Environment(compute_capability=(8, 6))
    assert optimization_presets.preset("fastest", "cuda", ampere).tf32
    assert not optimization_presets.preset("fastest", "cuda", Environment(is_rocm=True)).tf32
