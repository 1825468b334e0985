# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a model treat opposite edges as neighbours. Side: generator.

Every 2D convolution that pads with zeros gets an instance attribute `_conv_forward` that pads with
the opposite edge along the chosen axes. `torch.nn.Conv2d.forward` and PEFT's wrapped layers both
go through it, so LoRA layers are covered, and hooks that replace `forward` are not disturbed.
Leaving the context deletes the attribute: nothing of the model is changed or left behind.

The VAE's encoder pads by hand on the right and at the bottom before its stride-2 convolutions.
There the padded row or column is replaced by the first one.

A tiled VAE is told which edges are neighbours, because a tile ends before they do.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn
from torch.nn import functional

from . import tiled_vae
from .errors import ModelError
from .messages import SeamlessAxes

_ConvForward = Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None], torch.Tensor]


@runtime_checkable
class SelfSeamless(Protocol):
    """Stands for a model without being one, and becomes seamless in a way of its own."""

    def seamless(self, axes: SeamlessAxes) -> AbstractContextManager[None]:
        """Within this context, what it makes continues on the opposite edge."""
        ...


@contextmanager
def seamless(models: Iterable[nn.Module | SelfSeamless], axes: SeamlessAxes) -> Iterator[None]:
    """Within this context, what the models make continues on the opposite edge.

    Args:
        models: For example the UNet and the VAE, possibly with LoRA layers and offload hooks, or
            what stands for them.
        axes: X makes the left and right edges fit, Y the top and bottom ones.

    Raises:
        ModelError: A model has layers that cannot be made seamless.
    """
    with ExitStack() as stack:
        for model in models:
            if isinstance(model, SelfSeamless):
                stack.enter_context(model.seamless(axes))
            else:
                stack.enter_context(_patched(model, axes))
        yield


@contextmanager
def _patched(model: nn.Module, axes: SeamlessAxes) -> Iterator[None]:
    along_x = axes in (SeamlessAxes.X, SeamlessAxes.BOTH)
    along_y = axes in (SeamlessAxes.Y, SeamlessAxes.BOTH)
    patched: list[nn.Conv2d] = []
    tiling = tiled_vae.conditions(model, wrap_x=along_x, wrap_y=along_y)
    try:
        if along_x or along_y:
            _refuse_unknown_layers(model)
            padded_by_hand = _convolutions_padded_by_hand(model)
            for module in model.modules():
                replacement = _replacement(module, padded_by_hand, along_x=along_x, along_y=along_y)
                if replacement is not None and isinstance(module, nn.Conv2d):
                    vars(module)["_conv_forward"] = replacement
                    patched.append(module)
        with tiling:
            yield
    finally:
        for module in patched:
            vars(module).pop("_conv_forward", None)


def _replacement(
    module: nn.Module, padded_by_hand: set[nn.Module], *, along_x: bool, along_y: bool
) -> _ConvForward | None:
    if not isinstance(module, nn.Conv2d) or module.padding_mode != "zeros":
        return None
    if module in padded_by_hand:
        return _wrap_last(module, along_x=along_x, along_y=along_y)
    left, right, top, bottom = _padding_of(module)
    if not (along_x and (left or right)) and not (along_y and (top or bottom)):
        return None
    return _pad_circular(module, along_x=along_x, along_y=along_y)


def _pad_circular(conv: nn.Conv2d, *, along_x: bool, along_y: bool) -> _ConvForward:
    left, right, top, bottom = _padding_of(conv)
    wrapped_x = (left, right) if along_x else (0, 0)
    wrapped_y = (top, bottom) if along_y else (0, 0)
    zeros_x = (0, 0) if along_x else (left, right)
    zeros_y = (0, 0) if along_y else (top, bottom)
    by_convolution = zeros_x[0] == zeros_x[1] and zeros_y[0] == zeros_y[1]

    def forward(
        value: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        value = functional.pad(value, (*wrapped_x, *wrapped_y), mode="circular")
        padding = (zeros_y[0], zeros_x[0])
        if not by_convolution:  # padding="same" with an even kernel
            value = functional.pad(value, (*zeros_x, *zeros_y))
            padding = (0, 0)
        return functional.conv2d(
            value, weight, bias, conv.stride, padding, conv.dilation, conv.groups
        )

    return forward


def _wrap_last(conv: nn.Conv2d, *, along_x: bool, along_y: bool) -> _ConvForward:
    def forward(
        value: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        if along_x:
            value = torch.cat((value[..., :-1], value[..., :1]), dim=-1)
        if along_y:
            value = torch.cat((value[..., :-1, :], value[..., :1, :]), dim=-2)
        return functional.conv2d(value, weight, bias, conv.stride, 0, conv.dilation, conv.groups)

    return forward


def _padding_of(conv: nn.Conv2d) -> tuple[int, int, int, int]:
    """Return (left, right, top, bottom), also for padding="same"."""
    if conv.padding == "valid":
        return 0, 0, 0, 0
    if isinstance(conv.padding, str):  # "same"
        totals = [d * (k - 1) for d, k in zip(conv.dilation, conv.kernel_size, strict=True)]
        (top, bottom), (left, right) = [(total // 2, total - total // 2) for total in totals]
        return left, right, top, bottom
    vertical, horizontal = (int(side) for side in conv.padding)
    return horizontal, horizontal, vertical, vertical


def _convolutions_padded_by_hand(model: nn.Module) -> set[nn.Module]:
    """Return the convolutions of down-sampling layers that pad one row and column of zeros."""
    from diffusers.models.downsampling import Downsample2D

    found: set[nn.Module] = set()
    for module in model.modules():
        if isinstance(module, Downsample2D) and module.use_conv and module.padding == 0:
            inner: Any = module.conv
            found |= {part for part in inner.modules() if isinstance(part, nn.Conv2d)}
    return {conv for conv in found if isinstance(conv, nn.Conv2d) and max(conv.kernel_size) > 1}


def _refuse_unknown_layers(model: nn.Module) -> None:
    for name, module in model.named_modules():
        if isinstance(module, nn.ConvTranspose2d):
            raise ModelError(
                f'The model\'s layer "{name}" cannot be made seamless. Turn Seamless off or use'
                " another model."
            )
