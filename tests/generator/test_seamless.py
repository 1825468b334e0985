# SPDX-License-Identifier: GPL-3.0-or-later
"""Seamless axes, exactly: what goes round the edge comes out round the edge."""

import pytest
import torch
from tessera.generator_process.errors import ModelError
from tessera.generator_process.messages import SeamlessAxes
from tessera.generator_process.seamless import seamless
from torch import nn

X, Y = 3, 2
ALONG = {
    SeamlessAxes.OFF: (),
    SeamlessAxes.X: (X,),
    SeamlessAxes.Y: (Y,),
    SeamlessAxes.BOTH: (X, Y),
}


class Maps:
    """The three maps of a model: UNet, decoder and encoder, with their factor on each side."""

    def __init__(self, model) -> None:
        self.unet, self.vae = model.pipeline.unet, model.pipeline.vae
        self.levels = model.unit_px // model.latent_factor
        self.factor = model.latent_factor
        numbers = torch.Generator().manual_seed(3)
        shape = (1, model.latent_channels, self.levels, 2 * self.levels)
        self.latents = torch.randn(shape, generator=numbers)
        pixels = (1, 3, 2 * self.factor, 4 * self.factor)
        self.pixels = torch.rand(pixels, generator=numbers) * 2 - 1
        self.text = torch.randn((1, 77, self.unet.config.cross_attention_dim), generator=numbers)
        self.added = None
        if self.unet.config.addition_embed_type == "text_time":
            self.added = {"text_embeds": torch.ones(1, 16), "time_ids": torch.ones(1, 6)}

    def denoise(self, latents):
        return self.unet(latents, 500, self.text, added_cond_kwargs=self.added).sample

    def decode(self, latents):
        return self.vae.decode(latents).sample

    def encode(self, pixels):
        return self.vae.encode(pixels).latent_dist.mode()

    def all(self):
        """(map, input, roll of the input, roll of the output) for each map."""
        return (
            (self.denoise, self.latents, self.levels, self.levels),
            (self.decode, self.latents, 3, 3 * self.factor),
            (self.encode, self.pixels, self.factor, 1),
        )


@pytest.fixture
def maps(runner):
    with torch.no_grad():
        yield Maps(runner.model)


def _difference(function, value, before, after, axis):
    return float(
        (function(value.roll(before, axis)) - function(value).roll(after, axis)).abs().max()
    )


@pytest.mark.parametrize("axes", SeamlessAxes)
def test_rolled_input_gives_rolled_output_along_chosen_axes_only(maps, axes):
    with seamless((maps.unet, maps.vae), axes):
        for function, value, before, after in maps.all():
            for axis in (X, Y):
                if value.shape[axis] <= before:
                    continue  # a whole turn
                difference = _difference(function, value, before, after, axis)
                if axis in ALONG[axes]:
                    assert difference < 1e-4
                else:
                    assert difference > 0.01


def test_off_again_is_the_model_bit_for_bit(maps):
    def outputs():
        return [function(value) for function, value, *_ in maps.all()]

    modules = [*maps.unet.modules(), *maps.vae.modules()]
    before = outputs()
    attributes = [set(vars(module)) for module in modules]
    with seamless((maps.unet, maps.vae), SeamlessAxes.BOTH):
        assert not torch.equal(outputs()[0], before[0])
    assert all(torch.equal(a, b) for a, b in zip(outputs(), before, strict=True))
    assert [set(vars(module)) for module in modules] == attributes


def test_an_error_inside_restores_the_model(maps):
    with pytest.raises(ZeroDivisionError), seamless((maps.vae,), SeamlessAxes.BOTH):
        raise ZeroDivisionError
    assert not any("_conv_forward" in vars(module) for module in maps.vae.modules())


class LoraConv(nn.Module):
    """As PEFT wraps a convolution: the base layer plus two that are trained."""

    def __init__(self, base: nn.Conv2d) -> None:
        super().__init__()
        self.base_layer = base
        self.lora_a = nn.Conv2d(base.in_channels, 2, 3, base.stride, base.padding, bias=False)
        self.lora_b = nn.Conv2d(2, base.out_channels, 1, bias=False)

    def forward(self, value):
        return self.base_layer(value) + self.lora_b(self.lora_a(value))


def test_wrapped_convolutions_are_covered():
    torch.manual_seed(0)
    model = nn.Sequential(LoraConv(nn.Conv2d(3, 3, 3, padding=1)))
    value = torch.randn(1, 3, 8, 8)
    with torch.no_grad(), seamless((model,), SeamlessAxes.BOTH):
        assert _difference(model, value, 3, 3, X) < 1e-5


@pytest.mark.parametrize("kernel", [2, 3, 5])
def test_same_padding_wraps(kernel):
    torch.manual_seed(0)
    model = nn.Conv2d(1, 1, kernel, padding="same", dilation=2)
    value = torch.randn(1, 1, 10, 12)
    with torch.no_grad():
        plain = model(value)
        with seamless((model,), SeamlessAxes.X):
            assert model(value).shape == plain.shape
            assert _difference(model, value, 1, 1, X) < 1e-5
            assert _difference(model, value, 1, 1, Y) > 1e-3
            # Away from the left and right edges nothing changes.
            assert torch.allclose(model(value)[..., 4:-4], plain[..., 4:-4], atol=1e-6)


def test_a_layer_that_cannot_be_seamless_is_refused_by_name():
    model = nn.Sequential(nn.ConvTranspose2d(1, 1, 4))
    refused = pytest.raises(ModelError, match='layer "0" cannot be made seamless')
    with refused, seamless((model,), SeamlessAxes.X):
        pass
