# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring weights to the device for as long as they compute. Side: generator.

A module's parameters are exchanged for copies on the device and put back afterwards, the same
objects as before. So nothing has to be copied back, and taking a hook off leaves no trace. Works on
every device, as nothing but `Tensor.to` is asked of it.
"""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import wraps
from typing import Any

import torch
from torch import nn


class Weights:
    """The weights of some modules, which are on the device or wait in the computer's memory."""

    def __init__(self, modules: Iterable[nn.Module], device: torch.device) -> None:
        self._modules = tuple(modules)
        self.device = device
        self._waiting: list[tuple[nn.Module, str, torch.Tensor]] = []

    def fetch(self) -> None:
        """Put copies on the device in the place of the weights. Does nothing if they are there."""
        if self._waiting:
            return
        copies: dict[int, torch.Tensor] = {}  # weights that several modules share stay shared
        try:
            for module in self._modules:
                for name, tensor in _own_tensors(module):
                    if id(tensor) not in copies:
                        copies[id(tensor)] = _copy(tensor, self.device)
                    self._waiting.append((module, name, tensor))
                    setattr(module, name, copies[id(tensor)])
        except BaseException:  # also when memory runs out halfway
            self.release()
            raise

    def release(self) -> bool:
        """Put the weights back and forget the copies. Return whether there were any.

        A network that was converted meanwhile (`decoding.safe_precision`) stays converted.
        """
        waiting, self._waiting = self._waiting, []
        for module, name, tensor in reversed(waiting):
            used = getattr(module, name)
            if used.dtype != tensor.dtype:
                with torch.inference_mode(mode=False):
                    tensor.data = tensor.data.to(used.dtype)
            setattr(module, name, tensor)
        return bool(waiting)


class Hook:
    """What diffusers looks for on an offloaded network, by these names.

    `execution_device` is where it computes, and `before` brings its weights there. `pre_forward` is
    also called, without arguments, by methods other than `forward`: `AutoencoderKL.decode`.
    """

    def __init__(self, weights: "Weights", before: Callable[[], None], *, stays: bool) -> None:
        self.execution_device = weights.device
        self.weights = weights
        self._before = before
        self._stays = stays

    def pre_forward(
        self, _module: nn.Module, *args: object, **kwargs: object
    ) -> tuple[Any, dict[str, Any]]:
        """Fetch the weights, and return the arguments on the device."""
        from accelerate.utils import send_to_device

        self._before()
        device = self.execution_device
        return send_to_device(args, device), send_to_device(kwargs, device)

    def post_forward(self) -> None:
        """Give the weights' memory on the device back, unless they stay until others need it."""
        if not self._stays:
            self.weights.release()


def install(module: nn.Module, hook: Hook, undo: ExitStack) -> None:
    """Make the module call the hook before and after `forward`, also when that fails."""
    own = vars(module)
    inner = module.forward
    undo.callback(_put_back, module, own.get("forward"))
    undo.callback(hook.weights.release)

    @wraps(inner)
    def forward(*args: object, **kwargs: object) -> object:
        args, kwargs = hook.pre_forward(module, *args, **kwargs)
        try:
            return inner(*args, **kwargs)
        finally:
            hook.post_forward()

    own["forward"] = forward
    own["_hf_hook"] = hook


def _put_back(module: nn.Module, forward: object) -> None:
    own = vars(module)
    own.pop("_hf_hook", None)
    own.pop("forward", None)
    if forward is not None:
        own["forward"] = forward


def _own_tensors(module: nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]


def _copy(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    copy = tensor.detach().to(device)
    return nn.Parameter(copy, requires_grad=False) if isinstance(tensor, nn.Parameter) else copy
