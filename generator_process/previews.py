# SPDX-License-Identifier: GPL-3.0-or-later
"""Show an image while it is being made, without changing it. Side: generator."""

import time
from math import ceil

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from . import decoding
from .messages import ImageData, PreviewMode
from .pipelines import LoadedModel
from .sizes import SizePlan

INTERVAL_S = 0.25
MAX_SIZE_PX = 512
COST_LIMIT = 4  # previews take at most a fifth of the time: they wait this many times their cost

_FIT_SIZE_LATENTS = 16
_FIT_IMAGES = 4
_FIT_DAMPING = 1e-3


class Previews:
    """Makes the previews of one job, no more often than is worth it."""

    def __init__(self, model: LoadedModel, mode: PreviewMode, size: SizePlan) -> None:
        self._model = model
        self._mode = mode
        shrink = min(1.0, MAX_SIZE_PX / max(size.width_px, size.height_px))
        self._shown_px = (
            max(1, round(size.width_px * shrink)),
            max(1, round(size.height_px * shrink)),
        )
        if mode is PreviewMode.FAST:
            linear_factors(model)
        self._next_s = time.monotonic() + INTERVAL_S

    def make(self, latents: torch.Tensor) -> ImageData | None:
        """Return a preview, or None if it is too early or none is wanted.

        Args:
            latents: (images, channels, height, width) after a step. The first image is shown.

        Returns:
            `uint8` (height, width, 3), neither side longer than `MAX_SIZE_PX`.
        """
        started_s = time.monotonic()
        if self._mode is PreviewMode.NONE or started_s < self._next_s:
            return None
        newest = _without_noise_scale(latents[:1].detach())
        if self._mode is PreviewMode.FAST:
            pixels = linear(self._model, newest)
        else:
            pixels = accurate(self._model, newest)
        shown = _resize(pixels, self._shown_px)
        ended_s = time.monotonic()
        self._next_s = ended_s + max(INTERVAL_S, COST_LIMIT * (ended_s - started_s))
        return ImageData(pixels=shown)


def linear(model: LoadedModel, latents: torch.Tensor) -> NDArray[np.uint8]:
    """Approximate each latent's colour by a linear function: `uint8` (height, width, 3)."""
    factors = linear_factors(model)
    values = latents[0].to(device="cpu", dtype=torch.float32)
    colours = torch.einsum("chw,cd->dhw", values, factors[:-1]) + factors[-1][:, None, None]
    return decoding.to_pixels(torch.nan_to_num(colours))


def accurate(model: LoadedModel, latents: torch.Tensor) -> NDArray[np.uint8]:
    """Decode with the VAE, made smaller first if the result would be larger than is shown."""
    limit = MAX_SIZE_PX // model.latent_factor
    shrink = ceil(max(latents.shape[-2:]) / limit)
    if shrink > 1:
        latents = functional.avg_pool2d(latents, shrink, ceil_mode=True)
    return decoding.to_pixels(torch.nan_to_num(decoding.decode(model, latents)[0]))


def linear_factors(model: LoadedModel) -> torch.Tensor:
    """Return `float32` (channels + 1, 3): colours in -1..1 by latent channel, then the constant.

    Fitted once for each VAE by least squares: it encodes smooth and plain colour fields, and each
    latent is compared with the mean colour of its square.
    """
    if "linear_factors" not in model.cache:
        model.cache["linear_factors"] = _fit(model)
    return model.cache["linear_factors"]


def _fit(model: LoadedModel) -> torch.Tensor:
    numbers = np.random.default_rng(0)  # its own generator: results must not depend on previews
    size_px = _FIT_SIZE_LATENTS * model.latent_factor
    coarse = torch.from_numpy(numbers.uniform(-1, 1, (_FIT_IMAGES, 3, 4, 4)).astype(np.float32))
    half = _FIT_IMAGES // 2
    smooth = functional.interpolate(coarse[:half], size=size_px, mode="bilinear")
    plain = functional.interpolate(coarse[half:], size=size_px, mode="nearest")
    images = torch.cat((smooth, plain))
    latents = torch.cat([decoding.encode(model, image[None]) for image in images])
    known = functional.avg_pool2d(images, model.latent_factor).permute(0, 2, 3, 1).reshape(-1, 3)
    seen = latents.permute(0, 2, 3, 1).reshape(-1, latents.shape[1])
    seen = torch.cat((seen, torch.ones(len(seen), 1)), dim=1)
    damping = _FIT_DAMPING * len(seen) * torch.eye(seen.shape[1])
    return torch.linalg.solve(seen.T @ seen + damping, seen.T @ known)


def _without_noise_scale(latents: torch.Tensor) -> torch.Tensor:
    """Bring the large values that some schedulers start with down to what the VAE knows."""
    return latents / latents.float().std().clamp(min=1.0).to(latents.dtype)


def _resize(pixels: NDArray[np.uint8], size_px: tuple[int, int]) -> NDArray[np.uint8]:
    from PIL import Image

    return np.array(Image.fromarray(pixels).resize(size_px, Image.Resampling.BILINEAR))
