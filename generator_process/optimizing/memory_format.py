# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the channels of a pixel together in memory, in networks that convolve. Side: generator."""

from contextlib import ExitStack

import torch
from torch import nn

from ...optimizations import Optimizations
from .target import Target

OPTIONS = ("channels_last_memory_format",)


def apply(target: Target, options: Optimizations, undo: ExitStack) -> list[str]:
    """Change the layout of all weights of two-dimensional convolutions."""
    if options.channels_last_memory_format:
        for network in (*target.denoisers().values(), *target.autoencoders().values()):
            for module in network.modules():
                if isinstance(module, nn.Conv2d):
                    _change(module, undo)
    return []


def _change(convolution: nn.Conv2d, undo: ExitStack) -> None:
    weight = convolution.weight
    strides = weight.stride()
    weight.data = weight.data.contiguous(memory_format=torch.channels_last)
    undo.callback(_restore, convolution, strides)


def _restore(convolution: nn.Conv2d, strides: tuple[int, ...]) -> None:
    """Give the weight its own strides again: `contiguous` leaves 1 x 1 kernels as they are."""
    weight = convolution.weight
    if weight.stride() != strides:
        plain = torch.empty_strided(weight.shape, strides, dtype=weight.dtype, device=weight.device)
        weight.data = plain.copy_(weight.data)
