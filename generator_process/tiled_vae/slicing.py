# SPDX-License-Identifier: GPL-3.0-or-later
"""One image after the other, for autoencoders whose class does not do it, or after tiling.

Side: generator.

diffusers slices in `decode` and `encode` and tiles in `_decode` and `_encode` in nearly all
classes. The exceptions that decode single images are `AsymmetricAutoencoderKL` (slices nothing)
and `ConsistencyDecoderVAE` (tiles before it slices in `encode`, slices nothing in `decode`).
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch import nn

_CLASSES = frozenset({"AsymmetricAutoencoderKL", "ConsistencyDecoderVAE"})


def needs_slices(vae: nn.Module) -> bool:
    """Return whether the class of an autoencoder has to be helped to slice."""
    return type(vae).__name__ in _CLASSES


class Sliced:
    """Calls a method for one image at a time and joins the results.

    Tensors and lists among the arguments with as many samples as the first are split too. One
    generator for all images is passed on, and goes on from image to image.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def __call__(self, value: torch.Tensor, *arguments: object, **options: object) -> object:
        samples = value.shape[0]
        if samples <= 1:
            return self._method(value, *arguments, **options)

        def part(given: Any, index: int) -> object:  # noqa: ANN401
            several = isinstance(given, list) or (isinstance(given, torch.Tensor) and given.ndim)
            return given[index : index + 1] if several and len(given) == samples else given

        results = [
            self._method(
                part(value, index),
                *(part(given, index) for given in arguments),
                **{name: part(given, index) for name, given in options.items()},
            )
            for index in range(samples)
        ]
        return joined(results)


def joined(results: list[Any]) -> object:
    """Join results for single images: tensors, distributions, tuples or diffusers' outputs."""
    from diffusers.models.autoencoders.vae import DiagonalGaussianDistribution

    first = results[0]
    if isinstance(first, torch.Tensor):
        return torch.cat(results)
    if isinstance(first, DiagonalGaussianDistribution):
        return DiagonalGaussianDistribution(torch.cat([part.parameters for part in results]))
    if is_dataclass(first):
        names = [field.name for field in fields(first) if getattr(first, field.name) is not None]
        parts = {name: joined([getattr(result, name) for result in results]) for name in names}
        return type(first)(**parts)  # type: ignore[arg-type]
    return type(first)(joined(list(parts)) for parts in zip(*results, strict=True))
