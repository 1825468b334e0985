# SPDX-License-Identifier: GPL-3.0-or-later
"""Whole jobs whose UNet OpenVINO computes, chosen like any other optimization."""

from dataclasses import replace

import numpy as np
import pytest
from fakes import openvino_needed  # noqa: F401
from tessera.generator_process import environments
from tessera.generator_process.messages import SeamlessAxes
from tessera.generator_process.openvino_engine import availability, cache, in_use
from tessera.optimizations import Engine, HalfPrecision, Optimizations

TORCH = Optimizations(automatic=False)
OPENVINO = Optimizations(automatic=False, engine=Engine.OPENVINO)
SETTINGS = {"seamless": SeamlessAxes.BOTH, "prompt": "red brick wall " * 40, "width_px": 72}


@pytest.fixture
def jobs(sdxl, tmp_path, monkeypatch):
    """A model whose device is known, as in the worker, and a cache of this test's own."""
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setenv(availability.DEVICE_VARIABLE, "CPU")
    device = environments.probed(sdxl.resources.device)
    monkeypatch.setattr(sdxl, "resources", replace(sdxl.resources, device=device))
    yield sdxl
    sdxl.run(optimizations=TORCH)


def test_same_images_and_no_trace_when_it_is_taken_out(jobs):
    """Axes, prompts of several windows and sizes as with torch, and torch afterwards as before."""
    torch_32 = replace(TORCH, half_precision=HalfPrecision.OFF)
    openvino_32 = replace(OPENVINO, half_precision=HalfPrecision.OFF)
    (expected,) = jobs.images(optimizations=torch_32, **SETTINGS)
    context = jobs.run(optimizations=openvino_32, **SETTINGS)
    assert "engine: openvino" in jobs.finished.applied
    assert not jobs.finished.skipped
    stages = [progress.stage for progress in context.progress]
    assert "Converting the model for OpenVINO" in stages
    assert np.abs(context.images[0].astype(int) - expected).max() <= 1

    again = jobs.run(optimizations=openvino_32, **SETTINGS)
    assert "OpenVINO" not in " ".join(progress.stage for progress in again.progress)
    assert np.array_equal(again.images[0], context.images[0])

    (after,) = jobs.images(optimizations=torch_32, **SETTINGS)
    assert np.array_equal(after, expected)
    assert in_use(jobs.model) is None


def test_without_it_torch_computes_and_the_reason_is_told(jobs, monkeypatch):
    monkeypatch.setattr(availability, "installed_version", lambda: "")
    (expected,) = jobs.images(optimizations=TORCH)
    (image,) = jobs.images(optimizations=OPENVINO)
    assert np.array_equal(image, expected)
    assert any("OpenVINO is not installed" in reason for reason in jobs.finished.skipped)
    assert "engine: openvino" not in jobs.finished.applied
