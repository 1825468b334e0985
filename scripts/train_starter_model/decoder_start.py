# SPDX-License-Identifier: GPL-3.0-or-later
"""A start for the decoder that already paints the right colours.

Twelve channels of every layer carry the mean colour of each block unchanged from the latents to
the picture; all residual blocks begin by leaving them alone, so that training only has to add
detail. For each of red, green and blue there are four channels: the value, its negative and two
constants. The constants keep the group normalisation at the end from rescaling the value, and
``silu(x) - silu(-x) == x`` carries it through the last activation.
"""

from __future__ import annotations

import torch
from diffusers import AutoencoderKL
from diffusers.models.resnet import ResnetBlock2D
from diffusers.models.upsampling import Upsample2D
from torch import nn

from .latents import CHANNELS, from_latents

CARRIED = 12
CONSTANT = 3.0
_TYPICAL_SQUARE = 0.4
"""Mean square of the pixel values, -1..1, in the training data."""


def _constants(bias: nn.Parameter) -> None:
    """Set the biases of the carried channels: only the constants have one."""
    bias[:CARRIED] = torch.tensor([0.0, 0.0, CONSTANT, -CONSTANT]).repeat(3)


def _carry(convolution: nn.Conv2d) -> None:
    """Make a convolution hand on the carried channels."""
    centre = convolution.kernel_size[0] // 2
    convolution.weight[:CARRIED] = 0
    for channel in range(CARRIED):
        if channel % 4 < 2:
            convolution.weight[channel, channel, centre, centre] = 1
    _constants(convolution.bias)


@torch.no_grad()
def start_decoder(vae: AutoencoderKL) -> None:
    """Prepare an untrained decoder."""
    decoder = vae.decoder
    vae.post_quant_conv.weight.copy_(torch.eye(CHANNELS)[:, :, None, None])
    vae.post_quant_conv.bias.zero_()
    units = torch.eye(CHANNELS)[:, :, None, None]
    colours = from_latents(units).mean((2, 3))
    decoder.conv_in.weight[:CARRIED] = 0
    for colour in range(3):
        decoder.conv_in.weight[4 * colour, :, 1, 1] = colours[:, colour]
        decoder.conv_in.weight[4 * colour + 1, :, 1, 1] = -colours[:, colour]
    _constants(decoder.conv_in.bias)
    for module in decoder.modules():
        if isinstance(module, ResnetBlock2D):
            module.conv2.weight[:CARRIED] = 0
            module.conv2.bias[:CARRIED] = 0
            if module.conv_shortcut is not None:
                _carry(module.conv_shortcut)
        if isinstance(module, Upsample2D):
            _carry(module.conv)
    decoder.conv_norm_out.weight.fill_(((_TYPICAL_SQUARE + CONSTANT**2) / 2) ** 0.5)
    decoder.conv_norm_out.weight[CARRIED:] = 1
    decoder.conv_norm_out.bias.zero_()
    decoder.conv_out.weight.zero_()
    decoder.conv_out.bias.zero_()
    for colour in range(3):
        decoder.conv_out.weight[colour, 4 * colour, 1, 1] = 1
        decoder.conv_out.weight[colour, 4 * colour + 1, 1, 1] = -1
