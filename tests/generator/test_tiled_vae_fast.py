# SPDX-License-Identifier: GPL-3.0-or-later
"""Fast tiling: where tiles lie, how they fade, seamless edges, and diffusers' own expectations."""

from itertools import pairwise

import pytest
import torch
from fakes import tiny_vaes
from tessera.generator_process import tiled_vae
from tessera.generator_process.messages import SeamlessAxes
from tessera.generator_process.seamless import seamless
from tessera.generator_process.tiled_vae import (
    ExactTiling,
    FastTiling,
    TilingSettingsError,
    UnsupportedAutoencoderError,
)
from tessera.generator_process.tiled_vae.fast import _weights, pieces

X, Y = 3, 2


@pytest.mark.parametrize("wrap", [True, False])
@pytest.mark.parametrize(("tile", "blend"), [(8, 0), (8, 2), (8, 4), (64, 8)])
def test_tiles_cover_an_axis_without_slivers_and_weights_add_up_to_one(tile, blend, wrap):
    for length in (*range(tile, 4 * tile), 97):
        parts = pieces(length, tile, blend, wrap=wrap)
        sizes = {part.stop - part.start for part in parts}
        assert len(sizes) == 1, "no slivers"
        assert sizes.pop() <= tile
        if len(parts) > 1:
            for part, following in pairwise(parts):
                assert part.stop - following.start >= blend
            if wrap:
                assert parts[-1].stop - length - parts[0].start >= blend
            else:
                assert (parts[0].start, parts[-1].stop) == (0, length)
        total = torch.zeros(length)
        for part, weight in zip(parts, _weights(parts, length, 1, blend), strict=True):
            total.index_add_(0, torch.arange(part.start, part.stop) % length, weight)
        assert torch.allclose(total, torch.ones(length))


def test_a_length_that_diffusers_cuts_into_slivers():
    """97 latent pixels become tiles of 64, 49 and 1 there."""
    assert [p.stop - p.start for p in pieces(97, 64, 16, wrap=False)] == [57, 57]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tile_px": 8}, r"Tile size 8 is too small. Use 16 pixels or more."),
        ({"tile_px": 64, "blend_px": 40}, r"Tile blend 40 is out of range. Use .* 0 to 32,"),
        ({"tile_px": 64, "blend_px": -1}, r"Tile blend -1 is out of range"),
    ],
)
def test_impossible_sizes_are_refused(settings, words):
    with pytest.raises(TilingSettingsError, match=words):
        FastTiling(**settings)


def test_sizes_that_do_not_fit_the_model_are_refused_and_nothing_is_installed():
    vae = tiny_vaes.sd()
    before = dict(vars(vae))
    with pytest.raises(TilingSettingsError, match=r"Tile size 66 does not fit .* multiple of 4"):
        tiled_vae.install(vae, FastTiling(tile_px=66, blend_px=0))
    assert vars(vae) == before


@pytest.mark.parametrize("make", [tiny_vaes.sd, tiny_vaes.asymmetric, tiny_vaes.tiny])
def test_install_and_remove_leave_the_object_as_it_was(make):
    vae = make()
    before = dict(vars(vae))
    for tiling in (None, FastTiling(tile_px=64, blend_px=16), ExactTiling(tile_px=64)):
        for _ in range(2):
            try:
                tiled_vae.install(vae, tiling)
            except UnsupportedAutoencoderError:
                assert not tiled_vae.installed(vae)
            else:
                assert tiled_vae.installed(vae)
    tiled_vae.remove(vae)
    tiled_vae.remove(vae)
    assert vars(vae) == before
    assert not tiled_vae.installed(vae)


@pytest.mark.parametrize(
    "tiling", [FastTiling(tile_px=48, blend_px=16), ExactTiling(tile_px=48)], ids=["fast", "exact"]
)
def test_what_diffusers_expects_of_tiling(tiling):
    """Same shape, near the untiled result, other sizes too, and off again is the same as before."""
    vae = tiny_vaes.sd()
    numbers = torch.Generator().manual_seed(0)
    images = torch.rand(2, 3, 96, 96, generator=numbers) * 2 - 1
    with torch.inference_mode():
        plain = vae(images).sample
        tiled_vae.install(vae, tiling)
        tiled = vae(images).sample
        assert tiled.shape == plain.shape
        assert float((tiled - plain).abs().max()) < 0.5 * float(plain.max() - plain.min())
        for height, width in ((61, 73), (97, 97), (61, 65), (16, 128)):
            latents = torch.zeros(1, 4, height, width)
            assert vae.decode(latents).sample.shape == (1, 3, 4 * height, 4 * width)
        tiled_vae.remove(vae)
        assert torch.equal(vae(images).sample, plain)


@pytest.mark.parametrize("axes", [SeamlessAxes.X, SeamlessAxes.BOTH])
def test_tiles_go_on_over_seamless_edges(axes):
    """P109: rolled by a whole tile, the result is the same rolled: no edge is special."""
    vae = tiny_vaes.sd()
    numbers = torch.Generator().manual_seed(1)
    latents = torch.randn(1, 4, 24, 24, generator=numbers)
    tiled_vae.install(vae, FastTiling(tile_px=40, blend_px=16))
    count = len(pieces(24, 10, 4, wrap=True))
    step = 24 // count
    with torch.inference_mode():
        with seamless((vae,), axes):
            expected = vae.decode(latents).sample.roll(4 * step, X)
            assert torch.allclose(vae.decode(latents.roll(step, X)).sample, expected, atol=1e-4)
        unrolled = vae.decode(latents).sample.roll(4 * step, X)
        assert not torch.allclose(vae.decode(latents.roll(step, X)).sample, unrolled, atol=0.01)


def test_previews_are_tiled_too():
    vae = tiny_vaes.tiny()
    latents = torch.randn(2, 4, 16, 24)
    with torch.inference_mode():
        plain = vae.decode(latents).sample
        tiled_vae.install(vae, FastTiling(tile_px=96, blend_px=32))
        tiled = vae.decode(latents).sample
    assert tiled.shape == plain.shape
    assert not torch.equal(tiled, plain)
    assert float((tiled - plain).abs().mean()) < 0.02 * float(plain.max() - plain.min())


def test_a_class_without_tiling_is_refused():
    with pytest.raises(UnsupportedAutoencoderError, match="its class has no tiling"):
        tiled_vae.install(tiny_vaes.temporal(), FastTiling())
