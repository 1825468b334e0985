# SPDX-License-Identifier: GPL-3.0-or-later
"""Precision of the VAE, and the way from latents to pixels. Bug report P047."""

import pytest
import torch
from generator.conftest import cpu_resources
from tessera.generator_process import decoding


@pytest.fixture(params=[True, False], ids=["force_upcast", "plain"])
def half_model(request, sdxl):
    model = cpu_resources().models.load(sdxl.ref, torch.float16)
    model.pipeline.vae.register_to_config(force_upcast=request.param)
    return model


def test_a_vae_that_overflows_in_half_precision_decodes_in_full(half_model):
    vae = half_model.pipeline.vae
    before = {name: value.clone() for name, value in vae.state_dict().items()}
    seen = []
    vae.decoder.register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0].dtype))
    with torch.inference_mode():
        decoded = decoding.decode(half_model, torch.zeros(1, 4, 4, 4, dtype=torch.float16))
    assert seen == [torch.float32 if vae.config.force_upcast else torch.float16]
    assert decoded.dtype == torch.float32
    assert vae.dtype == torch.float16
    for name, value in vae.state_dict().items():
        assert torch.equal(value, before[name])
        assert not value.is_inference()


def test_values_are_clipped_and_rounded_as_diffusers_does():
    decoded = torch.tensor([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0]).view(1, 1, 6).repeat(3, 1, 1)
    pixels = decoding.to_pixels(decoded)
    assert pixels.shape == (1, 6, 3)
    assert pixels[0, :, 0].tolist() == [0, 0, 128, 191, 255, 255]


def test_latents_with_mean_and_deviation_are_shifted_and_scaled(starter):
    model = starter.model
    seen = []
    plain = torch.randn(1, 8, 2, 2, generator=torch.Generator().manual_seed(0))
    hook = model.pipeline.vae.decoder.register_forward_pre_hook(
        lambda _module, inputs: seen.append(inputs[0].clone())
    )
    settings = {"latents_mean": [0.5] * 8, "latents_std": [2.0] * 8}
    kept = {name: model.pipeline.vae.config.get(name) for name in settings}
    try:
        with torch.no_grad():
            decoding.decode(model, (plain - 0.5) / 2.0 * 0.7)
            model.pipeline.vae.register_to_config(**settings)
            decoding.decode(model, (plain - 0.5) / 2.0 * 0.7)
            expected = model.pipeline.vae.post_quant_conv(plain)
    finally:
        hook.remove()
        model.pipeline.vae.register_to_config(**kept)
    assert torch.allclose(seen[1], expected, atol=1e-5)
    assert not torch.allclose(seen[0], expected, atol=1e-2)
