# SPDX-License-Identifier: GPL-3.0-or-later
"""From latents to pixels, and the check that they are an image. Side: generator."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from .errors import InvalidResultError
from .pipelines import LoadedModel

if TYPE_CHECKING:
    from diffusers import AutoencoderKL


@contextmanager
def safe_precision(model: LoadedModel, *, in_float32: bool = False) -> Iterator[torch.dtype]:
    """Within this context the VAE computes in a type that it can, which is what is yielded.

    A half-precision VAE that is marked `force_upcast` (SDXL's overflows) is float32 meanwhile, and
    any with `in_float32`. Back in half precision its weights are what they were, bit for bit. Bug
    report P047.
    """
    vae = model.pipeline.vae
    before = vae.dtype
    overflows = before == torch.float16 and vae.config.force_upcast
    if before != torch.float32 and (overflows or in_float32):
        _convert(vae, torch.float32)
        try:
            yield torch.float32
        finally:
            _convert(vae, before)
    else:
        yield before


def decode(
    model: LoadedModel,
    latents: torch.Tensor,
    *,
    in_float32: bool = False,
    vae_on_cpu: "AutoencoderKL | None" = None,
) -> torch.Tensor:
    """Decode latents.

    Args:
        model: The model whose VAE decodes.
        latents: (images, channels, height, width), scaled as the UNet sees them.
        in_float32: Whether the VAE computes in 32 bits, whatever its weights have.
        vae_on_cpu: A VAE in main memory that decodes in its place.

    Returns:
        `float32` (images, 3, height, width) on the CPU, nominally -1..1, not clipped.
    """
    if vae_on_cpu is not None:
        value = _unscaled(model, latents.to("cpu", vae_on_cpu.dtype))
        return vae_on_cpu.decode(value, return_dict=False)[0].to(torch.float32)
    with safe_precision(model, in_float32=in_float32) as dtype:
        value = _unscaled(model, latents.to(model.device.torch_device, dtype))
        decoded = model.pipeline.vae.decode(value, return_dict=False)[0]
    return decoded.to(device="cpu", dtype=torch.float32)


def _unscaled(model: LoadedModel, latents: torch.Tensor) -> torch.Tensor:
    shift, scale = _statistics(model)
    value = latents / scale.to(latents)
    return value if shift is None else value + shift.to(latents)


def encode(model: LoadedModel, images: torch.Tensor) -> torch.Tensor:
    """Encode images to the mean of their latents.

    Args:
        model: The model whose VAE encodes.
        images: `float32` (images, 3, height, width) in -1..1, sizes multiples of the factor.

    Returns:
        `float32` (images, channels, height, width) on the CPU, scaled as the UNet sees them.
    """
    shift, scale = _statistics(model)
    with safe_precision(model) as dtype:
        vae = model.pipeline.vae
        value = vae.encode(images.to(model.device.torch_device, dtype)).latent_dist.mode()
        if shift is not None:
            value = value - shift.to(value.device, dtype)
        value = value * scale.to(value.device, dtype)
    return value.to(device="cpu", dtype=torch.float32)


def to_pixels(decoded: torch.Tensor) -> NDArray[np.uint8]:
    """Convert one decoded image (3, height, width) in -1..1 to `uint8` (height, width, 3)."""
    scaled = (decoded / 2 + 0.5).clamp(0, 1).permute(1, 2, 0).mul(255).round()
    return np.ascontiguousarray(scaled.to(torch.uint8).numpy())


def check_latents(model: LoadedModel, latents: torch.Tensor) -> None:
    """Raise `InvalidResultError` if the denoising gave NaN or infinite values."""
    if not bool(torch.isfinite(latents).all()):
        raise InvalidResultError(
            f"The image could not be made: denoising gave values that are not numbers."
            f" {_likely_cause(model, 'unet')}"
        )


def check_image(model: LoadedModel, decoded: torch.Tensor) -> None:
    """Raise `InvalidResultError` if a decoded image holds NaN, is infinite or entirely black.

    Black means that no value of any channel is above the darkest that can be shown: the picture of
    something black has values on both sides of it.
    """
    if not bool(torch.isfinite(decoded).all()):
        raise InvalidResultError(
            f"The image could not be made: decoding gave values that are not numbers."
            f" {_likely_cause(model, 'vae')}"
        )
    if float(decoded.max()) <= -1.0:
        raise InvalidResultError(
            f"The image came out entirely black. {_likely_cause(model, 'vae')}"
        )


def _convert(vae: "AutoencoderKL", dtype: torch.dtype) -> None:
    with torch.inference_mode(mode=False):  # or the weights could be used in no other mode
        vae.to(dtype=dtype)


def _likely_cause(model: LoadedModel, part: str) -> str:
    """Name the cause that is found, or else the one that is usual."""
    damaged = next(filter(None, (_damaged(model, name) for name in (part, "unet", "vae"))), "")
    if damaged:
        return f'The weights of "{model.name}" are damaged ({damaged}). Download the model again.'
    if model.dtype == torch.float16:
        return "Turn Half Precision off in the preferences and try again."
    return "Try lower guidance, another scheduler or another model."


def _damaged(model: LoadedModel, part: str) -> str:
    module = getattr(model.pipeline, part)
    for name, weight in module.named_parameters():
        if not bool(torch.isfinite(weight).all()):
            return f"{part}: {name}"
    return ""


def _statistics(model: LoadedModel) -> tuple[torch.Tensor | None, torch.Tensor]:
    """Return what is added after, and what is divided by before decoding."""
    config: Any = model.pipeline.vae.config
    scale = torch.tensor(float(config.scaling_factor))
    mean = getattr(config, "latents_mean", None)
    deviation = getattr(config, "latents_std", None)
    if mean is None or deviation is None:
        return None, scale
    shape = (1, -1, 1, 1)
    return torch.tensor(mean).view(shape), scale / torch.tensor(deviation).view(shape)
