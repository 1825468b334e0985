# SPDX-License-Identifier: GPL-3.0-or-later
"""Previews show the image in the making and never change it."""

import itertools

import numpy as np
import pytest
import torch
from tessera.generator_process import decoding, previews, sizes
from tessera.generator_process.messages import PreviewMode, SeamlessAxes


@pytest.fixture
def every_step(monkeypatch):
    monkeypatch.setattr(previews, "INTERVAL_S", 0.0)
    monkeypatch.setattr(previews, "COST_LIMIT", 0)


def _shown(context):
    return [event.preview.pixels for event in context.progress if event.preview is not None]


@pytest.mark.parametrize("mode", PreviewMode)
def test_the_image_is_the_same_with_and_without(runner, every_step, mode):
    settings = {"seeds": (1, 2), "steps": 3}
    plain = runner.images(**settings, preview=PreviewMode.NONE)
    context = runner.run(**settings, preview=mode)
    assert all(np.array_equal(a, b) for a, b in zip(plain, context.images, strict=True))
    shown = _shown(context)
    assert len(shown) == (0 if mode is PreviewMode.NONE else 6)
    for pixels in shown:
        assert pixels.dtype == np.uint8
        assert pixels.shape == (64, 64, 3)


@pytest.mark.parametrize("mode", [PreviewMode.FAST, PreviewMode.ACCURATE])
def test_previews_of_large_images_are_small_and_have_their_shape(starter, every_step, mode):
    context = starter.run(width_px=1200, height_px=16, steps=1, preview=mode)
    (pixels,) = _shown(context)
    assert pixels.shape == (7, 512, 3)


def test_previews_come_at_most_every_quarter_of_a_second(starter, monkeypatch):
    now = {"s": 100.0}
    monkeypatch.setattr(previews.time, "monotonic", lambda: now["s"])
    size = sizes.plan(64, 64, SeamlessAxes.OFF, step_px=8, unit_px=16)
    maker = previews.Previews(starter.model, PreviewMode.FAST, size)
    latents = torch.zeros(1, 8, 16, 16)
    due = []
    for _step in range(20):
        now["s"] += 0.1
        with torch.no_grad():
            due.append(maker.make(latents) is not None)
    assert sum(due) == 6
    assert not any(one and next_one for one, next_one in itertools.pairwise(due))


def test_expensive_previews_wait_longer(starter, monkeypatch):
    times = iter([0.0, 1.0, 4.0, 7.0, 20.0, 20.5])
    monkeypatch.setattr(previews.time, "monotonic", lambda: next(times))
    size = sizes.plan(64, 64, SeamlessAxes.OFF, step_px=8, unit_px=16)
    maker = previews.Previews(starter.model, PreviewMode.ACCURATE, size)
    latents = torch.zeros(1, 8, 16, 16)
    with torch.no_grad():
        assert maker.make(latents) is not None  # from 1 to 4 s: the next one not before 16 s
        assert maker.make(latents) is None  # at 7 s
        assert maker.make(latents) is not None  # at 20 s


def test_fast_previews_show_the_colours_of_a_linear_model(starter, monkeypatch):
    """With a VAE that is linear the fit is exact, which proves the arithmetic."""
    model = starter.model
    mixing = torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(4)))[0]

    def encode(_model, images):
        small = torch.nn.functional.avg_pool2d(images, 4)
        return torch.einsum("bchw,cd->bdhw", small, mixing[:3]) * 2 + 0.3

    monkeypatch.setattr(decoding, "encode", encode)
    monkeypatch.setattr(model, "cache", {})
    colours = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(5)) * 2 - 1
    colours = torch.nn.functional.interpolate(colours, scale_factor=4)
    shown = previews.linear(model, encode(model, colours))
    expected = decoding.to_pixels(colours[0, :, ::4, ::4])
    assert np.abs(shown.astype(int) - expected.astype(int)).max() <= 2


def test_factors_are_fitted_once_and_do_not_touch_the_global_numbers(starter, monkeypatch):
    monkeypatch.setattr(starter.model, "cache", {})
    torch.manual_seed(1)
    np.random.seed(1)
    before = torch.get_rng_state().clone(), np.random.get_state()[1].copy()
    with torch.no_grad():
        first = previews.linear_factors(starter.model)
        assert previews.linear_factors(starter.model) is first
    assert first.shape == (9, 3)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])


def test_values_that_are_not_numbers_do_not_break_a_preview(starter):
    latents = torch.full((1, 8, 4, 4), float("nan"))
    with torch.no_grad():
        assert previews.linear(starter.model, latents).shape == (4, 4, 3)
        assert previews.accurate(starter.model, latents).shape == (16, 16, 3)
