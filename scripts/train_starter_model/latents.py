# SPDX-License-Identifier: GPL-3.0-or-later
"""The latent space of the starter model: a fixed linear transform of 8 x 8 blocks of pixels.

Of every block it keeps the mean colour (brightness and two colour differences) and five cosine
waves of the brightness. The VAE's encoder and decoder are trained towards this space, so that it
is smooth, local and known before any training: the denoiser needs no trained VAE to start.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

BLOCK = 8
CHANNELS = 8
_COLOUR = np.array([[1, 1, 1], [1, 0, -1], [-0.5, 1, -0.5]])
_COLOUR = _COLOUR / np.linalg.norm(_COLOUR, axis=1, keepdims=True)
_PARTS = (
    (0, 0, 0, 6.1, 1.0),
    (1, 0, 0, 3.8, 1.0),
    (2, 0, 0, 2.0, 1.0),
    (0, 1, 0, 1.3, 0.85),
    (0, 0, 1, 1.2, 0.85),
    (0, 1, 1, 0.55, 0.5),
    (0, 2, 0, 0.9, 0.65),
    (0, 0, 2, 0.8, 0.65),
)
"""Of every latent channel: colour axis, vertical and horizontal wave, deviation in the training
data, and the deviation wanted in the latents: fine waves count less."""


def _basis() -> Tensor:
    """Return the orthonormal blocks (channel, colour, row, column)."""
    index = np.arange(BLOCK)
    waves = np.sqrt(2 / BLOCK) * np.cos(np.pi * (index[None] + 0.5) * index[:, None] / BLOCK)
    waves[0] /= np.sqrt(2)
    blocks = [
        _COLOUR[colour][:, None, None] * waves[down][None, :, None] * waves[across][None, None]
        for colour, down, across, _, _ in _PARTS
    ]
    return torch.tensor(np.stack(blocks), dtype=torch.float32)


_BASIS = _basis()
_GAIN = torch.tensor([wanted / found for *_, found, wanted in _PARTS], dtype=torch.float32)


def to_latents(pixels: Tensor) -> Tensor:
    """Transform pictures with values in -1..1 (count, 3, height, width) to latents."""
    weight = _BASIS * _GAIN[:, None, None, None]
    return torch.nn.functional.conv2d(pixels, weight, stride=BLOCK)


def from_latents(latents: Tensor) -> Tensor:
    """Return the pictures that the transform alone can restore: a blurred preview."""
    weight = _BASIS / _GAIN[:, None, None, None]
    return torch.nn.functional.conv_transpose2d(latents, weight, stride=BLOCK)
