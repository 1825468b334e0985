# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs that run out of memory: injected at every stage, and really, on the simulated device."""

import gc

import numpy as np
import pytest
import torch
from fakes import simulated_device
from generator.conftest import RecordingContext, Runner
from tessera.generator_process import decoding, devices, optimizing, prompts, sampling
from tessera.generator_process.errors import CancelledError, ErrorKind, InvalidResultError
from tessera.generator_process.explanations import explain
from tessera.generator_process.messages import ImageFinished, Progress, SeamlessAxes
from tessera.generator_process.pipelines import Models
from tessera.generator_process.sampling import Resources
from tessera.optimizations import Environment, HalfPrecision, Optimizations

ERRORS = {
    "torch": lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    "directml": lambda: RuntimeError(
        "Could not allocate tensor with 1 bytes. There is not enough GPU video memory available!"
    ),
    "python": MemoryError,
}
STAGES = {
    "load": (optimizing, "apply"),
    "encode": (prompts, "encode"),
    "sample": (sampling, "sample"),
    "decode": (decoding, "decode"),
}
GPU = Environment(probed=True, packages=(("accelerate", "1"),))


def _runner(folder, torch_device="cpu", kind="xpu") -> Runner:
    """A runner on what passes as a GPU, so that every rung of the ladder is there."""
    device = devices.Device(
        kind=kind, torch_device=torch.device(torch_device), name="Simulated", known=GPU
    )
    return Runner(folder, Resources(device=device, models=Models(device)))


def _failing(monkeypatch, stage: str, times: int, error=ERRORS["torch"]) -> list[int]:
    """Let a stage run out of memory as many times; return what counts the calls."""
    module, name = STAGES[stage]
    original = getattr(module, name)
    calls = [0]

    def fails(*arguments, **named):
        calls[0] += 1
        if calls[0] <= times:
            raise error()
        return original(*arguments, **named)

    monkeypatch.setattr(module, name, fails)
    return calls


@pytest.fixture
def expected(runners):
    exact = Optimizations(automatic=False, half_precision=HalfPrecision.OFF)
    return runners["starter"].images(optimizations=exact, seeds=(1, 2, 3))


FULL = Optimizations(automatic=False, half_precision=HalfPrecision.OFF, batch_size=2)


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
@pytest.mark.parametrize("stage", STAGES)
def test_goes_on_after_memory_ran_out(model_folders, monkeypatch, expected, stage, error):
    """Bug reports P048 and P049: in all forms of the error, at every stage."""
    runner = _runner(model_folders["starter"])
    _failing(monkeypatch, stage, times=1, error=error)
    context = runner.run(optimizations=FULL, seeds=(1, 2, 3))
    assert len(context.images) == 3
    for image, wanted in zip(context.images, expected, strict=True):
        assert np.abs(image.astype(int) - wanted.astype(int)).max() <= 1
    assert len(runner.finished.notes) == 1
    assert "out of memory: trying again with" in runner.finished.notes[0]
    assert any(event.stage.startswith("Out of memory: trying again") for event in context.progress)


@pytest.mark.parametrize("stage", STAGES)
def test_ends_with_the_error_when_nothing_helps_and_the_next_job_works(
    model_folders, monkeypatch, expected, stage
):
    runner = _runner(model_folders["starter"])
    with monkeypatch.context() as patch:
        calls = _failing(patch, stage, times=10**6)
        with pytest.raises(torch.OutOfMemoryError) as caught:
            runner.run(optimizations=FULL, seeds=(1, 2, 3))
    assert 2 < calls[0] < 20
    kind, sentence = explain(caught.value, device_kind="xpu", size="64 x 64")
    assert kind is ErrorKind.OUT_OF_MEMORY
    assert sentence.startswith("Not enough GPU memory for 64 x 64 with this model. Lower the size")
    images = runner.images(optimizations=FULL, seeds=(1, 2, 3))
    assert np.abs(images[2].astype(int) - expected[2].astype(int)).max() <= 1


def test_images_that_are_done_are_not_made_again(model_folders, monkeypatch):
    runner = _runner(model_folders["starter"])
    original, sampled = sampling.sample, []

    def fails_in_the_second_batch(job, first, seeds):
        sampled.append(tuple(seeds))
        if len(sampled) == 2:
            raise ERRORS["torch"]()
        return original(job, first, seeds)

    monkeypatch.setattr(sampling, "sample", fails_in_the_second_batch)
    context = runner.run(optimizations=FULL, seeds=(1, 2, 3, 4))
    assert sampled == [(1, 2), (3, 4), (3,), (4,)]
    finished = [event for event in context.events if isinstance(event, ImageFinished)]
    assert [event.seed for event in finished] == [1, 2, 3, 4]
    assert [event.index for event in finished] == [0, 1, 2, 3]


def test_what_was_sampled_is_kept_when_decoding_fails(model_folders, monkeypatch):
    runner = _runner(model_folders["starter"])
    calls = _failing(monkeypatch, "decode", times=2)
    sampled = []
    original = sampling.sample
    monkeypatch.setattr(
        sampling, "sample", lambda *given: sampled.append(given[2]) or original(*given)
    )
    runner.run(optimizations=FULL, seeds=(1, 2))
    assert len(sampled) == 1
    assert calls[0] == 4


def test_a_vae_in_main_memory_decodes_when_nothing_less_helps(model_folders, monkeypatch, expected):
    """Seamless along both axes too, in tiles."""
    runner = _runner(model_folders["starter"])
    settings = {"seeds": (1,), "seamless": SeamlessAxes.BOTH}
    (plain,) = runner.images(optimizations=FULL, **settings)
    _failing(monkeypatch, "decode", times=3)
    (image,) = runner.images(optimizations=FULL, **settings)
    assert runner.finished.notes[-1].endswith("trying again with decoding on the CPU.")
    assert np.abs(image.astype(int) - plain.astype(int)).max() <= 1
    assert not np.array_equal(plain, expected[0])


def test_what_helped_is_remembered(model_folders, monkeypatch):
    runner = _runner(model_folders["starter"])
    with monkeypatch.context() as patch:
        _failing(patch, "sample", times=1)
        runner.run(optimizations=FULL, seeds=(1, 2))
    seen = []
    original = sampling.sample
    monkeypatch.setattr(
        sampling, "sample", lambda *given: seen.append(len(given[2])) or original(*given)
    )
    runner.run(optimizations=FULL, seeds=(1, 2))
    assert seen == [1, 1]
    runner.run(optimizations=FULL, seeds=(1, 2), width_px=16, height_px=16)
    assert seen == [1, 1, 2], "a small image fits"


def test_can_be_cancelled_between_two_attempts(model_folders, monkeypatch):
    runner = _runner(model_folders["starter"])
    calls = _failing(monkeypatch, "sample", times=10**6)
    context = RecordingContext()
    context.cancel_when = lambda event: (
        isinstance(event, Progress) and event.stage.startswith("Out of memory")
    )
    with pytest.raises(CancelledError):
        runner.run(context, optimizations=FULL)
    assert calls[0] == 1


def test_other_errors_are_not_tried_again(model_folders, monkeypatch):
    runner = _runner(model_folders["starter"])
    calls = _failing(monkeypatch, "sample", 1, error=lambda: RuntimeError("shapes do not fit"))
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        runner.run(optimizations=FULL)
    assert calls[0] == 1


@pytest.mark.parametrize("stage", ["sample", "decode"])
def test_values_that_are_not_numbers_are_tried_in_more_bits(model_folders, monkeypatch, stage):
    """Bug report P045: half precision that overflows is no end of the job."""
    runner = _runner(model_folders["starter"])
    module, name = {
        "sample": (decoding, "check_latents"),
        "decode": (decoding, "check_image"),
    }[stage]
    calls = []

    def fails_once(model, _values):
        calls.append(model.pipeline.unet.dtype)
        if len(calls) == 1:
            raise InvalidResultError("not numbers")

    monkeypatch.setattr(module, name, fails_once)
    half = Optimizations(automatic=False, half_precision=HalfPrecision.BFLOAT16)
    context = runner.run(optimizations=half)
    assert len(context.images) == 1
    assert len(calls) == 2
    words = {"sample": "32 bits", "decode": "the VAE in 32 bits"}[stage]
    assert f"not a picture: trying again with {words}." in runner.finished.notes[0]
    assert calls[1] is (torch.float32 if stage == "sample" else torch.bfloat16)


@pytest.mark.skipif(simulated_device.why_not() is not None, reason=str(simulated_device.why_not()))
@pytest.mark.parametrize("wording", ["dml", "cuda"])
def test_a_job_ends_with_a_picture_on_a_device_that_is_too_small(model_folders, runners, wording):
    """The ladder finds what fits in half of the memory."""
    settings = {"width_px": 96, "height_px": 96, "steps": 1, "seamless": SeamlessAxes.BOTH}
    exact = Optimizations(automatic=False, half_precision=HalfPrecision.OFF)
    (wanted,) = runners["starter"].images(optimizations=exact, **settings)
    with simulated_device.present() as torch_device:
        runner = _runner(model_folders["starter"], torch_device)
        runner.run(optimizations=exact, **settings | {"width_px": 16, "height_px": 16})
        gc.collect()
        before = simulated_device.memory_allocated()
        simulated_device.reset_peak()
        runner.run(optimizations=exact, **settings)
        needed = simulated_device.peak() - before
        assert runner.finished.notes == ()
        gc.collect()
        with simulated_device.limited(free=needed // 2, wording=wording):
            (image,) = runner.images(optimizations=exact, **settings)
        assert all("out of memory: trying again" in note for note in runner.finished.notes)
        assert runner.finished.notes
        assert np.abs(image.astype(int) - wanted.astype(int)).max() <= 1
        runner.resources.models.release()
        del runner
        gc.collect()
