# SPDX-License-Identifier: GPL-3.0-or-later
"""Any size, exactly as asked. Bug report P117."""

import numpy as np
import pytest
from tessera.generator_process import sizes
from tessera.generator_process.messages import SeamlessAxes

ASKED = [(200, 120), (8, 8), (70, 93), (7 + 8, 500), (333, 64), (512, 512), (8192, 8), (8, 8192)]


@pytest.mark.parametrize("axes", SeamlessAxes)
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize(("step_px", "unit_px"), [(8, 64), (8, 16)])
def test_made_sizes_suit_the_model_and_are_not_wasteful(asked, axes, step_px, unit_px):
    plan = sizes.plan(*asked, axes, step_px=step_px, unit_px=unit_px)
    assert plan.made_width_px % (unit_px if plan.seamless_x else step_px) == 0
    assert plan.made_height_px % (unit_px if plan.seamless_y else step_px) == 0
    assert plan.made_width_px >= plan.width_px
    assert plan.made_height_px >= plan.height_px
    for made, wanted in ((plan.made_width_px, asked[0]), (plan.made_height_px, asked[1])):
        assert made <= max(1.5 * wanted, 512) + 5 * unit_px


def test_sizes_that_fit_are_made_as_they_are():
    for axes in SeamlessAxes:
        plan = sizes.plan(512, 256, axes, step_px=8, unit_px=64)
        assert (plan.made_width_px, plan.made_height_px) == (512, 256)
        pixels = np.random.default_rng(0).integers(0, 256, (256, 512, 3), np.uint8)
        assert np.array_equal(sizes.finish(pixels, plan), pixels)


@pytest.mark.parametrize("asked", ASKED[:5])
def test_both_axes_are_resized_alike(asked):
    plan = sizes.plan(*asked, SeamlessAxes.BOTH, step_px=8, unit_px=16)
    stretch = (plan.made_width_px / asked[0]) / (plan.made_height_px / asked[1])
    assert 0.9 < stretch < 1.1
    along_x = sizes.plan(*asked, SeamlessAxes.X, step_px=8, unit_px=16)
    scale_x = along_x.made_width_px / along_x.resized_width_px
    scale_y = along_x.made_height_px / along_x.resized_height_px
    assert abs(scale_x / scale_y - 1) < 0.03


def test_the_middle_is_cut_out_without_a_shift():
    plan = sizes.plan(70, 93, SeamlessAxes.OFF, step_px=8, unit_px=64)
    rows, columns = np.mgrid[0 : plan.made_height_px, 0 : plan.made_width_px]
    pixels = np.stack((rows, columns, rows * 0), axis=-1).astype(np.uint8)
    cut = sizes.finish(pixels, plan)
    assert cut.shape == (93, 70, 3)
    assert cut[0, 0].tolist() == [1, 1, 0]  # 96 - 93 = 3 rows and 72 - 70 = 2 columns too many
    assert np.array_equal(np.diff(cut[:, 0, 0].astype(int)), np.ones(92))
    assert np.array_equal(np.diff(cut[0, :, 1].astype(int)), np.ones(69))


@pytest.mark.parametrize("axes", [SeamlessAxes.X, SeamlessAxes.Y, SeamlessAxes.BOTH])
def test_resampling_keeps_the_seam(axes):
    """Rolled by a whole number of periods before, rolled after: the border is like the inside."""
    plan = sizes.plan(200, 120, axes, step_px=8, unit_px=64)
    height, width = plan.made_height_px, plan.made_width_px
    rows, columns = np.mgrid[0:height, 0:width]
    wave = np.sin(2 * np.pi * columns / width * 8) + np.sin(2 * np.pi * rows / height * 8)
    pixels = np.repeat(np.uint8(127 + 60 * wave)[..., None], 3, axis=2)
    done = sizes.finish(pixels, plan).astype(float)
    assert done.shape == (120, 200, 3)
    if plan.seamless_x:
        assert np.abs(done - np.roll(done, 200 // 8, axis=1)).max() <= 2
    if plan.seamless_y:
        assert np.abs(done - np.roll(done, 120 // 8, axis=0)).max() <= 2


@pytest.mark.parametrize("axes", SeamlessAxes)
@pytest.mark.parametrize("asked", [(200, 120), (8, 8), (70, 93), (15, 9)])
def test_the_task_returns_the_size_that_was_asked_for(runner, asked, axes):
    (image,) = runner.images(width_px=asked[0], height_px=asked[1], seamless=axes, steps=1)
    assert image.shape == (asked[1], asked[0], 3)
