# SPDX-License-Identifier: GPL-3.0-or-later
"""Options whose effect shows in a whole job: the end of guidance, casting, what is loaded again."""

import numpy as np
import pytest
import torch
from tessera.generator_process import devices
from tessera.generator_process.messages import Scheduler
from tessera.optimizations import Environment, HalfPrecision, Optimizations, Quantization, VaeTiling

PLAIN = {"automatic": False, "half_precision": HalfPrecision.OFF}
SIZE = {"width_px": 16, "height_px": 16}


def _options(**more) -> Optimizations:
    return Optimizations(**(PLAIN | more))


@pytest.mark.parametrize("kind", ["starter", "sdxl"])
@pytest.mark.parametrize(
    ("share", "batches"), [(1.0, [4] * 4), (0.5, [4, 4, 2, 2]), (0.3, [4, 4, 2, 2]), (0.0, [2] * 4)]
)
def test_guidance_ends_after_its_share_of_the_steps(runners, kind, share, batches):
    runner = runners[kind]
    seen: list[int] = []
    hook = runner.model.pipeline.unet.register_forward_pre_hook(
        lambda _module, inputs: seen.append(len(inputs[0]))
    )
    settings = SIZE | {"seeds": (1, 2), "steps": 4, "scheduler": Scheduler.EULER_DISCRETE}
    try:
        runner.run(optimizations=_options(batch_size=2, cfg_end=share), **settings)
    finally:
        hook.remove()
    assert seen == batches
    seen.clear()
    full = runner.images(optimizations=_options(), **settings)
    ended = runner.images(optimizations=_options(cfg_end=share), **settings)
    assert np.array_equal(full[0], ended[0]) is (share == 1.0)


def test_ending_guidance_at_once_is_no_guidance(starter):
    ended = starter.images(optimizations=_options(cfg_end=0.0), **SIZE)
    assert np.array_equal(
        ended[0], starter.images(optimizations=_options(), guidance=1.0, **SIZE)[0]
    )


def test_cast_weights_are_eight_bits_wide_and_leave_when_the_option_does(starter):
    plain = starter.images(optimizations=_options(), **SIZE)[0]
    cast = starter.images(optimizations=_options(layerwise_casting=True), **SIZE)[0]
    unet = starter.resources.models._loaded.pipeline.unet
    widths = {weight.element_size() for weight in unet.parameters()}
    assert 1 in widths
    assert "layerwise_casting: on" in starter.finished.applied
    assert np.abs(cast.astype(int) - plain.astype(int)).mean() < 8
    assert np.array_equal(starter.images(optimizations=_options(), **SIZE)[0], plain)


def test_a_model_is_loaded_again_only_when_its_weights_must_change(starter):
    def loaded(**more):
        starter.run(optimizations=_options(**more), **SIZE)
        return starter.resources.models._loaded

    first = loaded()
    assert loaded(channels_last_memory_format=True, batch_size=2, cfg_end=0.5) is first
    assert loaded(cpu_only=True) is first  # it is the CPU already
    cast = loaded(layerwise_casting=True)
    assert cast is not first
    assert loaded(layerwise_casting=True) is cast


def test_what_cannot_be_used_is_said_and_the_job_is_done(starter):
    """Bug report P057."""
    from tessera.optimizations import Attention

    images = starter.images(
        optimizations=_options(
            attention=Attention.XFORMERS,
            quantization=Quantization.BITSANDBYTES_4BIT,
            tf32=True,
        ),
        **SIZE,
    )
    assert np.array_equal(images[0], starter.images(optimizations=_options(), **SIZE)[0])
    starter.run(optimizations=_options(attention=Attention.XFORMERS, tf32=True), **SIZE)
    assert starter.finished.skipped == (
        "Attention (xFormers) is not available on the CPU.",
        "TF32 is not available on the CPU.",
    )


def test_apple_gpus_make_images_one_by_one(starter, monkeypatch):
    """Bug report P041: batches are noise there."""
    apple = devices.Device(
        kind="mps",
        torch_device=torch.device("cpu"),
        name="Apple GPU",
        known=Environment(probed=True, os="macos", os_version=(15,)),
    )
    seen: list[int] = []
    model = starter.resources.models.load(starter.ref, torch.float32)
    monkeypatch.setattr(model, "device", apple)
    monkeypatch.setattr(devices, "chosen", lambda _device, *, cpu_only: apple)
    monkeypatch.setattr(starter.resources.models, "load", lambda *_, **__: model)
    hook = model.pipeline.unet.register_forward_pre_hook(
        lambda _module, inputs: seen.append(len(inputs[0]))
    )
    monkeypatch.setattr(torch.mps, "empty_cache", lambda: None)
    try:
        images = starter.images(optimizations=_options(batch_size=3), seeds=(1, 2, 3), **SIZE)
    finally:
        hook.remove()
    assert len(images) == 3
    assert max(seen) == 2  # one image, with guidance
    assert "Batch Size is not available on an Apple GPU." in starter.finished.skipped


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"vae_tile_size": 64}, "VAE Tile Size is not used: it is for VAE Tiling (Fast) or"),
        (
            {"vae_tiling": VaeTiling.EXACT, "vae_tile_size": 64, "vae_tile_blend": 16},
            "VAE Tile Blend is not used: it is for VAE Tiling (Fast).",
        ),
        ({"attention_slice_size": 2}, "Attention Slice Size is not used: it is for Attention"),
    ],
)
def test_a_number_without_its_choice_is_not_called_applied(starter, options, sentence):
    starter.run(optimizations=_options(**options))
    assert [text for text in starter.finished.skipped if text.startswith(sentence)]
    named = sentence.partition(" is not used")[0].lower().replace(" ", "_")
    assert not [line for line in starter.finished.applied if line.startswith(named)]
