# SPDX-License-Identifier: GPL-3.0-or-later
"""Slicing before tiling, peak memory on the simulated device, and offload hooks."""

from pathlib import Path

import pytest
import torch
from fakes import simulated_device, tiny_vaes
from tessera.generator_process import tiled_vae
from tessera.generator_process.tiled_vae import ExactTiling, FastTiling

STARTER_VAE = Path(__file__).resolve().parents[2] / "starter_model" / "vae"
TILINGS = {
    "exact": ExactTiling(tile_px=32, store="cpu"),
    "fast": FastTiling(tile_px=32, blend_px=16),
}


def _latents(samples: int, size: int = 32) -> torch.Tensor:
    numbers = torch.Generator().manual_seed(2)
    return torch.randn(samples, 4, size, size, generator=numbers)


def _peak(run, value) -> tuple[int, int]:
    """Return the most bytes beyond what is there before, and those of the result."""
    simulated_device.reset_peak()
    before = simulated_device.memory_allocated()
    with torch.inference_mode():
        result = run(value)
    return simulated_device.peak() - before, result.nbytes


@pytest.mark.parametrize("tiling", TILINGS.values(), ids=TILINGS)
def test_several_images_are_the_single_ones_one_after_the_other(tiling):
    vae = tiny_vaes.sd()
    latents, images = _latents(3), torch.rand(3, 3, 128, 128)
    tiled_vae.install(vae, tiling)
    with torch.inference_mode():
        decoded = vae.decode(latents).sample
        encoded = vae.encode(images).latent_dist.parameters
        for index in range(3):
            one = slice(index, index + 1)
            assert torch.equal(vae.decode(latents[one]).sample, decoded[one])
            assert torch.equal(vae.encode(images[one]).latent_dist.parameters, encoded[one])


@pytest.mark.parametrize("tiling", TILINGS.values(), ids=TILINGS)
def test_memory_does_not_grow_with_the_number_of_images(dml, tiling):
    """P054: with slicing and tiling on, slicing comes first, in encode and decode."""
    vae = tiny_vaes.sd().to(dml)

    def decode(value):
        return vae.decode(value).sample

    def encode(value):
        return vae.encode(value).latent_dist.parameters

    given = {decode: _latents(4).to(dml), encode: torch.rand(4, 3, 128, 128).to(dml)}
    for run, values in given.items():
        unsliced, results = _peak(run, values)
        tiled_vae.install(vae, tiling)
        (one, _), (four, _) = _peak(run, values[:1]), _peak(run, values)
        tiled_vae.remove(vae)
        assert four <= one + 5 * results  # parts, joined, and the distribution's four
        assert four < unsliced / 2
        assert one < unsliced / 4


def test_device_memory_is_bounded_by_the_tile_and_the_image_itself(dml):
    vae = tiny_vaes.sd().to(dml)
    peaks = {}
    for size in (16, 32):
        latents = _latents(1, size).to(dml)
        peaks["plain", size] = _peak(lambda value: vae.decode(value).sample, latents)
        tiled_vae.install(vae, TILINGS["exact"])
        peaks["exact", size] = _peak(lambda value: vae.decode(value).sample, latents)
        tiled_vae.remove(vae)
    image = peaks["exact", 32][1]
    assert peaks["plain", 32][0] > 3.5 * peaks["plain", 16][0]
    assert peaks["exact", 32][0] - image < 1.2 * peaks["exact", 16][0]
    assert peaks["exact", 32][0] < peaks["plain", 32][0] / 10


def test_what_is_stored_outside_the_device_gives_the_same(dml):
    vae = tiny_vaes.sd()
    latents, images = _latents(1, 18), torch.rand(1, 3, 40, 72)
    with torch.inference_mode():
        expected = vae.decode(latents).sample, vae.encode(images).latent_dist.parameters
        vae.to(dml)
        tiled_vae.install(vae, TILINGS["exact"])
        found = (
            vae.decode(latents.to(dml)).sample,
            vae.encode(images.to(dml)).latent_dist.parameters,
        )
    for value, plain in zip(found, expected, strict=True):
        assert value.device == dml
        assert torch.allclose(value.cpu(), plain, atol=1e-5)


@pytest.mark.parametrize("store", [None, "cpu"])
def test_weights_that_are_loaded_call_by_call(dml, store):
    """With sequential offload the weights are on the meta device between calls."""
    from accelerate import cpu_offload

    vae = tiny_vaes.sd()
    latents, images = _latents(1, 18), torch.rand(1, 3, 40, 72)
    with torch.inference_mode():
        expected = vae.decode(latents).sample, vae.encode(images).latent_dist.parameters
    cpu_offload(vae, dml)
    assert vae.decoder.conv_norm_out.weight.device.type == "meta"
    tiled_vae.install(vae, ExactTiling(tile_px=32, store=store))
    with torch.inference_mode():
        found = vae.decode(latents).sample, vae.encode(images).latent_dist.parameters
    assert vae.decoder.conv_norm_out.weight.device.type == "meta"
    for value, plain in zip(found, expected, strict=True):
        assert torch.allclose(value.cpu(), plain, atol=1e-5)


@pytest.mark.parametrize("level", ["leaf_level", "block_level"])
def test_weights_that_are_loaded_in_groups(level):
    """Groups are loaded by hooks on modules that exact tiling does not call."""
    vae = tiny_vaes.sd()
    latents, images = _latents(1, 18), torch.rand(1, 3, 40, 72)
    with torch.inference_mode():
        expected = vae.decode(latents).sample, vae.encode(images).latent_dist.parameters
    groups = {"num_blocks_per_group": 1} if level == "block_level" else {}
    vae.enable_group_offload(
        onload_device=torch.device("cpu"),
        offload_device=torch.device("cpu"),
        offload_type=level,
        **groups,
    )
    loaded = []
    for name in ("decoder", "encoder") if level == "block_level" else ():
        group = getattr(vae, name)._diffusers_hook.get_hook("group_offloading").group
        original = group.onload_
        group.onload_ = lambda name=name, original=original: (loaded.append(name), original())
    tiled_vae.install(vae, ExactTiling(tile_px=32))
    with torch.inference_mode():
        found = vae.decode(latents).sample, vae.encode(images).latent_dist.parameters
    for value, plain in zip(found, expected, strict=True):
        assert torch.allclose(value, plain, atol=1e-5)
    if level == "block_level":
        assert loaded == ["decoder", "encoder"]


def test_a_class_that_does_not_slice_is_helped():
    vae = tiny_vaes.asymmetric()
    latents, images = _latents(3, 8), torch.rand(3, 3, 16, 16)
    masks = torch.ones(3, 1, 16, 16)
    with torch.inference_mode():
        decoded = vae.decode(latents, None, images, masks).sample
        encoded = vae.encode(images).latent_dist.parameters
    batches = []
    for part in (vae.decoder, vae.encoder):
        part.register_forward_pre_hook(lambda _, given: batches.append(given[0].shape[0]))
    tiled_vae.install(vae)
    with torch.inference_mode():
        found = vae.decode(latents, None, image=images, mask=masks, return_dict=False)[0]
        assert torch.allclose(found, decoded, atol=1e-6)
        found = vae.encode(images).latent_dist.parameters
        assert torch.allclose(found, encoded, atol=1e-6)
    assert batches == [1] * 6


def test_the_starter_model_with_its_real_weights():
    """P055: colours of the tiled result are those of the whole image."""
    from diffusers import AutoencoderKL

    vae = AutoencoderKL.from_pretrained(STARTER_VAE).eval()
    numbers = torch.Generator().manual_seed(5)
    side = 512 // tiled_vae.factor_of(vae)
    latents = torch.randn(1, vae.config.latent_channels, side, side, generator=numbers)
    with torch.inference_mode():
        plain = vae.decode(latents).sample
        tiled_vae.install(vae, ExactTiling(tile_px=256))
        exact = vae.decode(latents).sample
        tiled_vae.install(vae, FastTiling(tile_px=256, blend_px=32))
        fast = vae.decode(latents).sample
    span = float(plain.max() - plain.min())
    assert plain.shape == (1, 3, 512, 512)
    assert float((exact - plain).abs().max()) < 1e-5 * span
    assert float((fast - plain).abs().max()) > 1e-2 * span
