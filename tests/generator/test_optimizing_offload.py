# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole jobs on the simulated device with every kind of CPU offload.

DirectML has no group offload by its rules, so for this one the device passes as an Intel GPU.
"""

import gc

import numpy as np
import pytest
import torch
from fakes import simulated_device
from generator.conftest import RecordingContext, Runner
from tessera.generator_process import devices, optimizing
from tessera.generator_process.errors import CancelledError
from tessera.generator_process.messages import PreviewMode, Progress, SeamlessAxes
from tessera.generator_process.optimizing import placement
from tessera.generator_process.pipelines import Models
from tessera.generator_process.sampling import Resources
from tessera.optimizations import CpuOffload, Environment, HalfPrecision, Optimizations, VaeTiling

pytestmark = pytest.mark.skipif(
    simulated_device.why_not() is not None, reason=str(simulated_device.why_not())
)

FULL = {"automatic": False, "half_precision": HalfPrecision.OFF}


@pytest.fixture
def on_device(model_folders):
    """A maker of runners whose models are on the simulated device."""
    with simulated_device.present() as torch_device:
        made: list[Runner] = []

        def make(kind: str, offload: CpuOffload = CpuOffload.OFF) -> Runner:
            device = devices.Device(
                kind="xpu" if offload is CpuOffload.GROUP else "dml",
                torch_device=torch_device,
                name="Simulated",
                known=Environment(probed=True, packages=(("accelerate", "1"),)),
            )
            resources = Resources(device=device, models=Models(device))
            made.append(Runner(model_folders[kind], resources))
            return made[-1]

        yield make
        for runner in made:
            runner.resources.models.release()
        gc.collect()


def _options(offload: CpuOffload, **more) -> Optimizations:
    return Optimizations(**FULL, cpu_offload=offload, **more)


def _weights_on_the_device(runner: Runner) -> int:
    model = runner.resources.models._loaded
    return sum(
        weight.nbytes
        for network in optimizing.target_of(model).networks().values()
        for weight in (*network.parameters(), *network.buffers())
        if weight.device.type == "dml"
    )


@pytest.mark.parametrize(("kind", "size_px"), [("sd", 64), ("sdxl", 16)])
@pytest.mark.parametrize("offload", list(CpuOffload))
def test_a_job_with_offload_makes_the_same_image(on_device, runners, kind, size_px, offload):
    """Twice, as applying again must not break the device that computes."""
    size = {"width_px": size_px, "height_px": size_px}
    settings = {"seeds": (1, 2), "steps": 1, "seamless": SeamlessAxes.X} | size
    expected = runners[kind].images(optimizations=_options(CpuOffload.OFF), **settings)
    runner = on_device(kind, offload)
    for preview in (PreviewMode.NONE, PreviewMode.ACCURATE):
        options = _options(offload, batch_size=2)
        images = runner.images(optimizations=options, **settings | {"preview": preview})
        for image, wanted in zip(images, expected, strict=True):
            assert np.abs(image.astype(int) - wanted.astype(int)).max() <= 1
        assert (_weights_on_the_device(runner) > 0) is (offload is CpuOffload.OFF)
    line = f"cpu_offload: {offload.value}"
    assert (line in runner.finished.applied) is (offload is not CpuOffload.OFF)
    assert runner.finished.skipped == ()


@pytest.mark.parametrize("half", [HalfPrecision.FLOAT16, HalfPrecision.OFF])
@pytest.mark.parametrize("offload", list(CpuOffload)[1:])
def test_a_vae_that_needs_full_precision_is_converted_also_when_it_waits(on_device, offload, half):
    """Bug report P047, with offload: SDXL's VAE is float32 while it decodes, and only then."""
    runner = on_device("sdxl", offload)
    options = Optimizations(automatic=False, half_precision=half, cpu_offload=offload)
    size = {"width_px": 16, "height_px": 16, "steps": 1}
    first, second = (runner.images(optimizations=options, **size)[0] for _ in range(2))
    vae = runner.resources.models._loaded.pipeline.vae
    dtype = torch.float16 if half is HalfPrecision.FLOAT16 else torch.float32
    assert {weight.dtype for weight in vae.parameters()} == {dtype}
    assert np.array_equal(first, second)


def test_each_kind_of_offload_takes_less_memory_than_the_one_before(on_device):
    peaks = []
    for offload in (CpuOffload.OFF, CpuOffload.MODEL, CpuOffload.GROUP, CpuOffload.SUBMODULE):
        gc.collect()
        before = simulated_device.memory_allocated()
        simulated_device.reset_peak()
        runner = on_device("starter", offload)
        runner.run(optimizations=_options(offload), width_px=16, height_px=16, steps=1)
        peaks.append(simulated_device.peak() - before)
        runner.resources.models.release()
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[-1] < peaks[0] / 2


@pytest.mark.parametrize("offload", list(CpuOffload)[1:])
@pytest.mark.parametrize("end", ["cancelled", "out of memory"])
def test_nothing_stays_on_the_device_when_a_job_does_not_finish(on_device, offload, end):
    runner = on_device("starter", offload)
    options = _options(offload)
    expected = runner.images(optimizations=options)[0]
    context = RecordingContext()
    if end == "cancelled":
        context.cancel_when = lambda event: isinstance(event, Progress) and event.step == 1
        with pytest.raises(CancelledError):
            runner.run(context, optimizations=options)
    else:
        with simulated_device.limited(free=4096):
            runner.run(context, optimizations=options)
        assert "the CPU in the place of the GPU" in runner.finished.notes[-1]
    assert _weights_on_the_device(runner) == 0
    image = runner.images(optimizations=options)[0]
    assert np.abs(image.astype(int) - expected.astype(int)).max() <= 1
    assert runner.finished.notes == ()


@pytest.mark.parametrize("offload", list(CpuOffload)[1:])
@pytest.mark.parametrize("tiling", [VaeTiling.FAST, VaeTiling.EXACT])
def test_tiling_works_with_offload(on_device, runners, offload, tiling):
    more = {"vae_tiling": tiling, "vae_tile_size": 64}
    if tiling is VaeTiling.FAST:
        more["vae_tile_blend"] = 16
    settings = {"width_px": 128, "height_px": 96, "seamless": SeamlessAxes.BOTH, "steps": 1}
    plain = _options(CpuOffload.OFF, **({} if tiling is VaeTiling.EXACT else more))
    expected = runners["starter"].images(optimizations=plain, **settings)[0]
    runner = on_device("starter", offload)
    image = runner.images(optimizations=_options(offload, **more), **settings)[0]
    assert runner.finished.skipped == ()
    assert np.abs(image.astype(int) - expected.astype(int)).max() <= 1


@pytest.mark.parametrize("missing", ["text_encoder", "vae", "unet"])
@pytest.mark.parametrize("offload", list(CpuOffload))
def test_any_component_may_be_missing(on_device, missing, offload):
    """From the first founding document: offload broke on pipelines without some part."""
    runner = on_device("starter", offload)
    model = optimizing.load(
        runner.resources.models, runner.resources.device, runner.ref, _options(offload)
    )
    setattr(model.pipeline, missing, None)
    optimizing.apply(model, _options(offload))
    optimizing.apply(model, _options(offload))
    assert model.pipeline._execution_device.type == "dml"
    placement.park(optimizing.target_of(model))
    optimizing.apply(model, _options(CpuOffload.OFF))
    assert model.pipeline.device.type == "dml"
    if missing != "vae":
        latents = torch.zeros(1, 8, 4, 4, device="dml")
        assert model.pipeline.vae.decode(latents).sample.device.type == "dml"
