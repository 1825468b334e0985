# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole task on tiny real pipelines: events, cancelling, bad results."""

import gc
import re
import weakref

import numpy as np
import pytest
import torch
from generator.conftest import RecordingContext
from tessera.generator_process.errors import (
    CancelledError,
    InvalidRequestError,
    InvalidResultError,
)
from tessera.generator_process.messages import (
    ImageFinished,
    PreviewMode,
    Progress,
    Scheduler,
    SeamlessAxes,
)
from tessera.optimizations import HalfPrecision, Optimizations


def test_makes_an_image(runner):
    (image,) = runner.images()
    assert image.shape == (64, 64, 3)
    assert image.dtype == np.uint8
    assert image.std() > 1
    assert runner.finished.model == runner.folder.name


def test_equals_the_bare_pipeline(runner):
    """Nothing is added to, or left out of, what diffusers does."""
    model = runner.model
    (image,) = runner.images(seeds=(5,), steps=3, scheduler=Scheduler.EULER_DISCRETE)
    pipeline = model.pipeline
    from diffusers import EulerDiscreteScheduler

    kept, pipeline.scheduler = (
        pipeline.scheduler,
        EulerDiscreteScheduler.from_config(dict(model.scheduler_config)),
    )
    expected = pipeline(
        "red brick wall",
        height=64,
        width=64,
        num_inference_steps=3,
        guidance_scale=5.0,
        generator=torch.Generator().manual_seed(5),
        output_type="np",
    ).images[0]
    pipeline.scheduler = kept
    assert np.array_equal(image, (expected * 255).round().astype(np.uint8))


def test_events_come_in_order(starter):
    context = starter.run(seeds=(1, 2), steps=3)
    seen = [
        event.index if isinstance(event, ImageFinished) else (event.stage, event.step, event.steps)
        for event in context.events
    ]
    assert seen == [
        ("Loading model", 0, 6),
        ("Encoding prompt", 0, 6),
        ("Sampling", 1, 6),
        ("Sampling", 2, 6),
        ("Sampling", 3, 6),
        ("Decoding", 3, 6),
        0,
        ("Sampling", 4, 6),
        ("Sampling", 5, 6),
        ("Sampling", 6, 6),
        ("Decoding", 6, 6),
        1,
    ]
    assert [e.seed for e in context.events if isinstance(e, ImageFinished)] == [1, 2]
    assert [stage for stage, _ in starter.finished.seconds] == [
        "load",
        "encode",
        "sample",
        "decode",
    ]


@pytest.mark.parametrize("scheduler", [Scheduler.HEUN_DISCRETE, Scheduler.PNDM])
def test_progress_counts_steps_also_where_a_step_takes_two_evaluations(starter, scheduler):
    context = starter.run(seeds=(1, 2, 3), steps=4, scheduler=scheduler)
    steps = [event.step for event in context.progress]
    assert steps == sorted(steps)
    assert steps[-1] == context.progress[-1].steps == 12


def test_batches_count_all_their_images(starter):
    context = starter.run(seeds=(1, 2, 3), steps=2, optimizations=Optimizations(batch_size=2))
    sampled = [event.step for event in context.progress if event.stage == "Sampling"]
    assert sampled == [2, 4, 5, 6]
    assert len(context.images) == 3
    assert "batch_size: 2" in starter.finished.applied


@pytest.mark.parametrize("stage", ["Loading model", "Encoding prompt"])
def test_cancelled_before_sampling_nothing_is_sampled(starter, stage):
    context = RecordingContext()
    context.cancel_when = lambda event: isinstance(event, Progress) and event.stage == stage
    with pytest.raises(CancelledError):
        starter.run(context)
    assert context.progress[-1].stage == stage


def test_cancel_takes_effect_within_one_step(starter):
    context = RecordingContext()
    context.cancel_when = lambda event: isinstance(event, Progress) and event.step == 3
    with pytest.raises(CancelledError):
        starter.run(context, steps=20, seeds=(1, 2), seamless=SeamlessAxes.BOTH)
    assert max(event.step for event in context.progress) == 3
    assert context.images == []
    _assert_as_found(starter)


def test_cancelled_after_the_first_image_keeps_it(starter):
    context = RecordingContext()
    context.cancel_when = lambda event: isinstance(event, ImageFinished)
    with pytest.raises(CancelledError):
        starter.run(context, steps=2, seeds=(1, 2, 3))
    assert len(context.images) == 1
    assert max(event.step for event in context.progress) <= 3


def test_cancelled_while_decoding_a_batch_keeps_what_is_done(starter):
    context = RecordingContext()
    context.cancel_when = lambda event: isinstance(event, ImageFinished)
    with pytest.raises(CancelledError):
        starter.run(context, seeds=(1, 2, 3), optimizations=Optimizations(batch_size=3))
    assert len(context.images) == 1


def test_the_model_is_left_as_it_was(runner):
    scheduler = runner.model.pipeline.scheduler
    runner.images(seamless=SeamlessAxes.BOTH, preview=PreviewMode.ACCURATE)
    assert runner.model.pipeline.scheduler is scheduler
    _assert_as_found(runner)


def _assert_as_found(runner):
    pipeline = runner.model.pipeline
    for part in (pipeline.unet, pipeline.vae):
        assert part.dtype == torch.float32
        assert not any("_conv_forward" in vars(module) for module in part.modules())


def test_seamless_off_after_on_is_what_it_was_before(starter):
    before = starter.images()[0]
    seamless = starter.images(seamless=SeamlessAxes.BOTH)[0]
    assert not np.array_equal(before, seamless)
    assert np.array_equal(starter.images()[0], before)


def test_more_steps_than_the_model_has_levels_is_explained(starter, monkeypatch):
    monkeypatch.setattr(
        starter.model, "scheduler_config", {"num_train_timesteps": 10, "beta_schedule": "linear"}
    )
    with pytest.raises(InvalidRequestError, match="Use 10 or less"):
        starter.images(steps=11)


def test_half_precision_is_skipped_on_the_cpu_and_said_so(starter):
    """Bug report P045."""
    starter.run(optimizations=Optimizations(automatic=False, half_precision=HalfPrecision.FLOAT16))
    assert starter.model.pipeline.unet.dtype == torch.float32
    assert starter.finished.skipped == ("Half Precision (Float16) is not available on the CPU.",)
    starter.run(optimizations=Optimizations(automatic=False, half_precision=HalfPrecision.OFF))
    assert starter.finished.skipped == ()


@pytest.mark.parametrize(
    ("part", "parameter"), [("unet", "conv_in.weight"), ("vae", "decoder.conv_in.weight")]
)
def test_damaged_weights_are_named(runner, part, parameter):
    """Bug report P046: plain diffusers gives a black image here."""
    weight = getattr(runner.model.pipeline, part).get_parameter(parameter)
    kept = weight.detach().clone()
    try:
        with torch.no_grad():
            weight.view(-1)[0] = float("nan")
        with pytest.raises(InvalidResultError, match=rf"damaged .{part}: {re.escape(parameter)}"):
            runner.images()
    finally:
        with torch.no_grad():
            weight.copy_(kept)
    assert len(runner.images()) == 1


def test_overflow_without_damage_is_explained(starter):
    def overflow(_module, _inputs, output):
        return (output[0] * float("inf"),)

    hook = starter.model.pipeline.unet.register_forward_hook(overflow)
    try:
        with pytest.raises(InvalidResultError, match=r"not numbers\. Try lower guidance"):
            starter.images()
    finally:
        hook.remove()


def test_an_entirely_black_image_is_an_error_and_a_dark_one_is_not(starter):
    level = {"value": -1.5}

    def darken(_module, _inputs, output):
        return output * 0.0 + level["value"]

    hook = starter.model.pipeline.vae.decoder.register_forward_hook(darken)
    try:
        with pytest.raises(InvalidResultError, match="entirely black"):
            starter.images()
        level["value"] = -0.999
        assert starter.images()[0].max() == 0
    finally:
        hook.remove()


def test_slicing_makes_no_difference_but_to_the_batch_that_is_decoded(starter):
    """Bug report P054."""
    batches: list[int] = []
    hook = starter.model.pipeline.vae.decoder.register_forward_pre_hook(
        lambda _module, inputs: batches.append(inputs[0].shape[0])
    )
    try:
        sliced = starter.images(
            seeds=(1, 2, 3),
            optimizations=Optimizations(automatic=False, batch_size=3, vae_slicing=True),
        )
        assert batches == [1, 1, 1]
        whole = starter.images(
            seeds=(1, 2, 3),
            optimizations=Optimizations(automatic=False, batch_size=3, vae_slicing=False),
        )
        assert batches == [1, 1, 1, 3]
    finally:
        hook.remove()
    for one, other in zip(sliced, whole, strict=True):
        assert np.abs(one.astype(int) - other.astype(int)).max() <= 1


def test_nothing_of_a_job_stays_in_memory(starter):
    """Bug report P050."""
    kept: list[weakref.ref] = []

    class Context(RecordingContext):
        def emit(self, event):
            if isinstance(event, ImageFinished):
                kept.append(weakref.ref(event.image.pixels))

    starter.run(Context(), seeds=(1, 2))
    gc.collect()
    assert len(kept) == 2
    assert all(reference() is None for reference in kept)
