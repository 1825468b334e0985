# SPDX-License-Identifier: GPL-3.0-or-later
"""What the automatic mode chooses, written out, and that the ladder always ends."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tessera.generator_process.automatic.choose import choose, decide
from tessera.generator_process.automatic.facts import ModelFacts
from tessera.generator_process.automatic.ladder import Place, next_step, wider_step
from tessera.generator_process.automatic.plan import Plan, Stage, at_least
from tessera.optimizations import (
    DEVICES,
    Attention,
    CpuOffload,
    Engine,
    Environment,
    HalfPrecision,
    Optimizations,
    VaeTiling,
)

GIBIBYTE = 2**30

SD = ModelFacts(
    denoiser_parameters=860_000_000,
    block_parameters=180_000_000,
    vae_parameters=84_000_000,
    text_parameters=123_000_000,
    denoiser_width=320,
    vae_width=256,
)
SDXL = replace(
    SD,
    denoiser_parameters=2_567_000_000,
    block_parameters=900_000_000,
    text_parameters=818_000_000,
    vae_upcasts=True,
)
STARTER = ModelFacts(
    denoiser_parameters=5_560_000,
    block_parameters=1_500_000,
    vae_parameters=500_000,
    text_parameters=600_000,
    denoiser_width=64,
    vae_width=16,
)

# device, free GiB (0: not known), model, side in pixels: precision, offload, tile (0: off), batch
CHOICES = [
    ("cuda", 0, SD, 512, ("float16", "off", 0, 4)),
    ("cuda", 0, SD, 2048, ("float16", "off", 512, 4)),
    ("cuda", 4, SD, 512, ("float16", "off", 0, 4)),
    ("cuda", 4, SD, 1024, ("float16", "off", 512, 2)),
    ("cuda", 4, SD, 2048, ("float16", "group", 1024, 1)),
    ("cuda", 8, SD, 2048, ("float16", "off", 1024, 2)),
    ("cuda", 24, SD, 2048, ("float16", "off", 0, 4)),
    ("cuda", 4, SDXL, 512, ("float16", "group", 0, 4)),
    ("cuda", 4, SDXL, 2048, ("float16", "submodule", 512, 1)),
    ("cuda", 8, SDXL, 1024, ("float16", "model", 0, 2)),
    ("cuda", 12, SDXL, 2048, ("float16", "off", 512, 1)),
    ("cuda", 24, SDXL, 1024, ("float16", "off", 0, 4)),
    ("xpu", 8, SDXL, 1024, ("float16", "model", 0, 2)),
    ("mps", 8, SD, 1024, ("float16", "off", 0, 1)),
    ("mps", 12, SDXL, 1024, ("float16", "off", 512, 1)),
    ("dml", 0, SD, 2048, ("float16", "off", 512, 4)),
    ("dml", 4, SDXL, 512, ("float16", "submodule", 0, 4)),
    ("cpu", 24, SD, 1024, ("off", "off", 0, 4)),
    ("cpu", 12, SD, 1024, ("off", "off", 256, 2)),
    ("cpu", 4, STARTER, 512, ("off", "off", 0, 4)),
]


def _machine(free_gibibytes: int, device: str, *packages: str) -> Environment:
    return Environment(
        probed=True,
        free_memory=free_gibibytes * GIBIBYTE,
        compute_capability=(8, 6) if device == "cuda" else (0, 0),
        packages=tuple((name, "2026.4.1") for name in ("accelerate", *packages)),
    )


@pytest.mark.parametrize(("device", "free", "facts", "side_px", "expected"), CHOICES)
def test_chooses_by_device_memory_model_and_size(device, free, facts, side_px, expected):
    wanted = Optimizations(batch_size=4)
    options = choose(device, _machine(free, device), facts, (side_px, side_px), 4, wanted)
    tile = 0 if options.vae_tiling is VaeTiling.OFF else options.vae_tile_size
    found = (options.half_precision.value, options.cpu_offload.value, tile, options.batch_size)
    assert found == expected
    assert not options.automatic
    assert options.vae_slicing


def test_the_users_own_choices_are_the_decision():
    wanted = Optimizations(automatic=False, vae_slicing=False, batch_size=3)
    assert choose("cuda", _machine(1, "cuda"), SDXL, (4096, 4096), 8, wanted) is wanted


def test_batch_guidance_end_and_device_are_taken_from_the_settings():
    wanted = Optimizations(batch_size=2, cfg_end=0.5, cpu_only=True)
    options = choose("cpu", _machine(64, "cpu"), SD, (512, 512), 8, wanted)
    assert (options.batch_size, options.cfg_end, options.cpu_only) == (2, 0.5, True)


@pytest.mark.parametrize(
    ("device", "facts", "packages", "engine"),
    [
        ("cpu", SD, ("openvino",), Engine.OPENVINO),
        ("cpu", SD, (), Engine.TORCH),
        ("cpu", STARTER, ("openvino",), Engine.TORCH),
        ("cuda", SD, ("openvino",), Engine.TORCH),
    ],
)
def test_chooses_openvino_for_processors_and_large_models(device, facts, packages, engine):
    machine = _machine(64, device, *packages)
    assert choose(device, machine, facts, (512, 512), 1, Optimizations()).engine is engine


def test_a_processor_with_bfloat16_uses_it_with_channels_last():
    machine = replace(_machine(64, "cpu"), cpu_flags=("avx512_bf16",))
    options = choose("cpu", machine, SD, (512, 512), 1, Optimizations())
    assert options.half_precision is HalfPrecision.BFLOAT16
    assert options.channels_last_memory_format


def test_says_why():
    decision = decide("cuda", _machine(8, "cuda"), SDXL, (1024, 1024), 1, Optimizations())
    lines = decision.explained(("cpu_offload: model", "vae_slicing: on"))
    assert lines == (
        "cpu_offload: model (the model has 7.1 GB, and 7.2 GB may be used)",
        "vae_slicing: on",
    )


_PLANS = st.builds(
    Plan,
    options=st.builds(
        Optimizations,
        automatic=st.just(False),  # noqa: FBT003
        engine=st.sampled_from(Engine),
        attention=st.sampled_from([Attention.AUTOMATIC, Attention.SDP, Attention.SLICED]),
        attention_slice_size=st.integers(0, 8),
        cpu_offload=st.sampled_from(CpuOffload),
        vae_slicing=st.booleans(),
        vae_tiling=st.sampled_from(VaeTiling),
        vae_tile_size=st.sampled_from([64, 100, 512, 4096]),
        vae_tile_blend=st.sampled_from([0, 32]),
        batch_size=st.integers(1, 64),
        cpu_only=st.booleans(),
    ),
    vae_on_cpu=st.booleans(),
)


@given(
    plan=_PLANS,
    stages=st.lists(st.sampled_from(Stage), min_size=80, max_size=80),
    device=st.sampled_from(DEVICES),
    images=st.integers(1, 64),
    exact_tiling=st.booleans(),
)
def test_the_ladder_saves_more_with_each_step_and_ends(plan, stages, device, images, exact_tiling):
    for stage in stages:
        on = "cpu" if plan.options.cpu_only else device
        place = Place(
            device=on,
            environment=_machine(4, on),
            images=images,
            longest_px=1024,
            exact_tiling=exact_tiling,
        )
        step = next_step(plan, stage, place)
        if step is None:
            return
        assert step.words
        assert step.plan.strictness() > plan.strictness()
        plan = step.plan
    while step is not None:
        step = next_step(step.plan, stages[-1], place)
        assert len(stages) < 200
        stages.append(stages[-1])


def test_the_ladder_of_decoding_on_an_nvidia_gpu():
    place = Place(device="cuda", environment=_machine(8, "cuda"), images=1, longest_px=1024)
    plan = Plan(options=Optimizations(automatic=False, vae_slicing=False))
    words = []
    while (step := next_step(plan, Stage.DECODE, place)) is not None:
        words.append(step.words)
        plan = step.plan
        if plan.options.cpu_only:
            break
    assert words == [
        "VAE slicing",
        "exact VAE tiling",
        "VAE tiles of 256 pixels",
        "VAE tiles of 128 pixels",
        "VAE tiles of 64 pixels",
        "CPU offload by model",
        "decoding on the CPU",
        "CPU offload by group",
        "CPU offload by submodule",
        "the CPU in the place of the GPU",
    ]


def test_more_bits_are_tried_once():
    place = Place(device="cuda", environment=_machine(8, "cuda"), images=1, longest_px=512)
    plan = Plan(options=Optimizations(automatic=False))
    step = wider_step(plan, Stage.SAMPLE, place, HalfPrecision.FLOAT16)
    assert step is not None
    assert step.plan.options.half_precision is HalfPrecision.BFLOAT16
    assert wider_step(plan, Stage.SAMPLE, place, HalfPrecision.OFF) is None
    decoding = wider_step(plan, Stage.DECODE, place, HalfPrecision.FLOAT16)
    assert decoding is not None
    assert wider_step(decoding.plan, Stage.DECODE, place, HalfPrecision.FLOAT16) is None


def test_what_is_known_to_help_is_kept():
    known = Plan(
        options=Optimizations(
            automatic=False,
            cpu_offload=CpuOffload.GROUP,
            vae_tiling=VaeTiling.EXACT,
            vae_tile_size=128,
            vae_tile_blend=0,
        ),
        vae_on_cpu=True,
    )
    wanted = Plan(options=Optimizations(automatic=False, tf32=True, batch_size=4))
    plan = at_least(wanted, known)
    assert plan.vae_on_cpu
    assert plan.options.tf32
    assert plan.options.batch_size == 1
    assert plan.options.cpu_offload is CpuOffload.GROUP
    assert plan.options.vae_tile_size == 128
