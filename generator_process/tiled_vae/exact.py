# SPDX-License-Identifier: GPL-3.0-or-later
"""Decode and encode in tiles with the result of the whole image. Side: generator.

A network runs layer by layer, each layer over all tiles. At most two whole activations exist at a
time, on the store; the device holds a few tiles of them. No gradients.
"""

from typing import TYPE_CHECKING

import torch
from torch import nn

from . import support
from .hooks import computing_device, entered
from .layers import Activation, Layer, Scale, TiledLayers
from .settings import Conditions, ExactTiling

if TYPE_CHECKING:
    from diffusers import AutoencoderKL
    from diffusers.models.autoencoders.vae import Decoder, DecoderOutput, Encoder
    from diffusers.models.unets.unet_2d_blocks import UNetMidBlock2D


class ExactAutoencoder:
    """Stands for `_decode` and `_encode` of an autoencoder.

    Args:
        vae: An `AutoencoderKL` or one that is built like it.
        tiling: The size of tiles and where the rest lies.

    Raises:
        UnsupportedAutoencoderError: The autoencoder has other layers.
    """

    def __init__(self, vae: "AutoencoderKL", tiling: ExactTiling) -> None:
        support.check_exact(vae)
        self._vae, self._tiling = vae, tiling
        self.conditions = Conditions()

    @torch.no_grad()
    def decode(
        self,
        z: torch.Tensor,
        return_dict: bool = True,  # noqa: FBT001, FBT002
    ) -> "DecoderOutput | tuple[torch.Tensor]":
        """Decode (samples, channels, height, width) as `_decode` of the autoencoder does."""
        from diffusers.models.autoencoders.vae import DecoderOutput

        decoder = self._vae.decoder
        if self._vae.post_quant_conv is not None:
            z = self._vae.post_quant_conv(z)
        with entered(decoder):
            layers = self._layers(decoder, z)
            value = layers.convolve(Activation(z), Layer(convolution=decoder.conv_in))
            value = _middle(layers, value, decoder.mid_block)
            for block in decoder.up_blocks:
                value = _block(layers, value, block)
            image = self._finish(layers, value, decoder, z)
        return DecoderOutput(sample=image) if return_dict else (image,)

    @torch.no_grad()
    def encode(self, x: torch.Tensor) -> torch.Tensor:
        """Encode (samples, channels, height, width) to moments as `_encode` does."""
        encoder = self._vae.encoder
        with entered(encoder):
            layers = self._layers(encoder, x)
            value = layers.convolve(Activation(x), Layer(convolution=encoder.conv_in))
            for block in encoder.down_blocks:
                value = _block(layers, value, block)
            value = _middle(layers, value, encoder.mid_block)
            moments = self._finish(layers, value, encoder, x)
        return moments if self._vae.quant_conv is None else self._vae.quant_conv(moments)

    def _layers(self, network: "Encoder | Decoder", given: torch.Tensor) -> TiledLayers:
        device = computing_device(network.conv_in, given)
        values = self._tiling.tile_px**2 * support.widest_at_full_size(network)
        return TiledLayers(device, self._tiling.store, values * given.shape[0], self.conditions)

    def _finish(
        self,
        layers: TiledLayers,
        value: Activation,
        network: "Encoder | Decoder",
        given: torch.Tensor,
    ) -> torch.Tensor:
        """Return the output where the given tensor was computed, whatever the store."""
        layer = Layer(
            convolution=network.conv_out,
            norm=network.conv_norm_out,
            activation=network.conv_act,
        )
        device = computing_device(network.conv_in, given)
        return layers.convolve(value, layer, on=device).values


def _middle(layers: TiledLayers, value: Activation, block: "UNetMidBlock2D") -> Activation:
    with entered(block):
        value = layers.resnet(value, block.resnets[0])
        for attention, resnet in zip(block.attentions, block.resnets[1:], strict=True):
            if attention is not None:
                value = layers.attention(value, attention)
            value = layers.resnet(value, resnet)
    return value


def _block(layers: TiledLayers, value: Activation, block: nn.Module) -> Activation:
    with entered(block):
        attentions = getattr(block, "attentions", None) or [None] * len(block.resnets)
        for resnet, attention in zip(block.resnets, attentions, strict=True):
            value = layers.resnet(value, resnet)
            if attention is not None:
                value = layers.attention(value, attention)
        for name, scale in (("upsamplers", Scale.UP), ("downsamplers", Scale.DOWN)):
            sampler: nn.Module
            for sampler in getattr(block, name, None) or ():
                value = layers.convolve(value, Layer(convolution=sampler, scale=scale))
    return value
