# SPDX-License-Identifier: GPL-3.0-or-later
"""The exact tiled VAE gives what the whole image gives: decode and encode, edges, types, sizes."""

import copy

import pytest
import torch
from fakes import tiny_vaes
from tessera.generator_process import tiled_vae
from tessera.generator_process.messages import SeamlessAxes
from tessera.generator_process.seamless import seamless
from tessera.generator_process.tiled_vae import ExactTiling, UnsupportedAutoencoderError

TOLERANCE = 1e-5
"""Of the range, in float32; 1e-4 is promised. Tiles summed in another order differ by 1e-6."""

SIZES = ((16, 16), (17, 26), (5, 40), (1, 1))
"""Latent heights and widths: square, odd, a strip, a single pixel."""


def _difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the largest difference as a share of the range."""
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    assert found.device == expected.device
    span = expected.max() - expected.min()
    return float((found - expected).abs().max() / span)


def _results(vae, latents, pixels) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.inference_mode():
        return vae.decode(latents).sample, vae.encode(pixels).latent_dist.parameters


def _inputs(vae, height: int, width: int, *, samples: int = 1, extra_px: int = 0):
    numbers = torch.Generator().manual_seed(height * 100 + width)
    factor = tiled_vae.factor_of(vae)
    latents = torch.randn(samples, vae.config.latent_channels, height, width, generator=numbers)
    size = (height * factor + extra_px, width * factor + extra_px)
    return latents, torch.rand(samples, 3, *size, generator=numbers) * 2 - 1


@pytest.mark.parametrize("kind", sorted(tiny_vaes.MAKERS))
def test_every_kind_of_autoencoder(kind):
    vae = tiny_vaes.MAKERS[kind]()
    latents, pixels = _inputs(vae, 17, 26)
    decoded, encoded = _results(vae, latents, pixels)
    tiled_vae.install(vae, ExactTiling(tile_px=24))
    found = _results(vae, latents, pixels)
    assert _difference(found[0], decoded) < TOLERANCE
    assert _difference(found[1], encoded) < TOLERANCE


@pytest.mark.parametrize("axes", SeamlessAxes)
@pytest.mark.parametrize("size", SIZES)
def test_every_seamless_axis_and_size(axes, size):
    vae = tiny_vaes.sd()
    inputs = _inputs(vae, *size)
    with seamless((vae,), axes):
        expected = _results(vae, *inputs)
    tiled_vae.install(vae, ExactTiling(tile_px=40))
    with seamless((vae,), axes):
        found = _results(vae, *inputs)
    assert _difference(found[0], expected[0]) < TOLERANCE
    assert _difference(found[1], expected[1]) < TOLERANCE


def test_axes_that_are_not_told_are_not_seamless():
    """So that the test above can fail: without the halo the edges differ."""
    vae = tiny_vaes.sd()
    inputs = _inputs(vae, 24, 24)
    with seamless((vae,), SeamlessAxes.BOTH):
        expected = _results(vae, *inputs)
        tiled_vae.install(vae, ExactTiling(tile_px=40))
        found = _results(vae, *inputs)
    assert _difference(found[0], expected[0]) > 0.01
    assert _difference(found[1], expected[1]) > 0.01


def test_images_whose_sides_are_no_multiple_of_the_factor_are_encoded():
    vae = tiny_vaes.sd()
    latents, pixels = _inputs(vae, 9, 12, extra_px=3)
    expected = _results(vae, latents, pixels)
    tiled_vae.install(vae, ExactTiling(tile_px=24))
    assert _difference(_results(vae, latents, pixels)[1], expected[1]) < TOLERANCE


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("slicing", [True, False])
def test_batches_with_and_without_slicing(samples, slicing):
    vae = tiny_vaes.sd()
    inputs = _inputs(vae, 12, 9, samples=samples)
    expected = _results(vae, *inputs)
    tiled_vae.install(vae, ExactTiling(tile_px=24), slicing=slicing)
    found = _results(vae, *inputs)
    assert _difference(found[0], expected[0]) < TOLERANCE
    assert _difference(found[1], expected[1]) < TOLERANCE


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_no_worse_than_untiled_half_precision(dtype):
    vae = tiny_vaes.sd()
    inputs = _inputs(vae, 17, 26)
    exact = _results(vae, *inputs)
    vae.to(dtype)
    inputs = tuple(value.to(dtype) for value in inputs)
    untiled = _results(vae, *inputs)
    tiled_vae.install(vae, ExactTiling(tile_px=24))
    tiled = _results(vae, *inputs)
    for true, plain, found in zip(exact, untiled, tiled, strict=True):
        assert found.dtype == dtype
        error_untiled = (plain.float() - true).abs()
        error_tiled = (found.float() - true).abs()
        assert float(error_tiled.mean()) < 1.2 * float(error_untiled.mean())
        assert float(error_tiled.max()) < 2 * float(error_untiled.max())


def test_channels_last_stays_channels_last():
    vae = tiny_vaes.sd()
    inputs = _inputs(vae, 17, 26)
    expected = _results(vae, *inputs)
    vae.to(memory_format=torch.channels_last)
    tiled_vae.install(vae, ExactTiling(tile_px=24))
    found = _results(vae, *inputs)
    assert _difference(found[0], expected[0]) < TOLERANCE
    assert _difference(found[1], expected[1]) < TOLERANCE
    assert found[0].is_contiguous(memory_format=torch.channels_last)


def test_a_copy_of_the_autoencoder_is_independent():
    vae = tiny_vaes.sd()
    latents, pixels = _inputs(vae, 12, 12)
    expected = _results(vae, latents, pixels)
    tiled_vae.install(vae, ExactTiling(tile_px=24))
    other = copy.deepcopy(vae)
    with torch.no_grad():
        vae.decoder.conv_out.weight.zero_()
    assert _difference(_results(other, latents, pixels)[0], expected[0]) < TOLERANCE


def test_cancelling_between_tiles():
    class StopError(Exception):
        pass

    tiles = 0

    def stop_at_the_tenth() -> None:
        nonlocal tiles
        tiles += 1
        if tiles == 10:
            raise StopError

    vae = tiny_vaes.sd()
    latents, pixels = _inputs(vae, 24, 24)
    expected = _results(vae, latents, pixels)
    tiled_vae.install(vae, ExactTiling(tile_px=16))
    with pytest.raises(StopError), tiled_vae.conditions(vae, before_tile=stop_at_the_tenth):
        vae.decode(latents)
    assert tiles == 10
    assert _difference(_results(vae, latents, pixels)[0], expected[0]) < TOLERANCE
    assert tiles == 10


@pytest.mark.parametrize("make", [tiny_vaes.asymmetric, tiny_vaes.tiny, tiny_vaes.temporal])
def test_unknown_autoencoders_are_refused_in_words_and_left_alone(make):
    vae = make()
    before = dict(vars(vae))
    assert tiled_vae.why_not_exact(vae)
    with pytest.raises(UnsupportedAutoencoderError, match=r"cannot be tiled exactly: .* Use fast"):
        tiled_vae.install(vae, ExactTiling())
    assert vars(vae) == before


def test_unusual_layers_are_refused():
    vae = tiny_vaes.sd()
    vae.decoder.mid_block.resnets[0].output_scale_factor = 2
    assert tiled_vae.why_not_exact(vae) == "its decoder has a ResnetBlock2D of another kind"
