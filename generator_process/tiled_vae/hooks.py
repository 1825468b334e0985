# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules that are used without being called, although hooks load their weights on a call.

Side: generator.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

_GROUP_OFFLOADING = "group_offloading"


@contextmanager
def weights_at_hand(module: nn.Module) -> Iterator[None]:
    """Within this context weights that an accelerate hook keeps elsewhere can be read."""
    hook: Any = getattr(module, "_hf_hook", None)
    if hook is None or all(part.device.type != "meta" for part in module.parameters()):
        yield
        return
    hook.pre_forward(module)
    try:
        yield
    finally:
        hook.post_forward(module, None)


@contextmanager
def entered(module: nn.Module) -> Iterator[None]:
    """Within this context the group of weights is loaded that diffusers loads on a call."""
    registry: Any = getattr(module, "_diffusers_hook", None)
    hook = registry.get_hook(_GROUP_OFFLOADING) if registry is not None else None
    if hook is None:
        yield
        return
    hook.pre_forward(module)
    try:
        yield
    finally:
        hook.post_forward(module, None)


def computing_device(module: nn.Module, value: torch.Tensor) -> torch.device:
    """Return where a module's hook moves its input, or else where the input is."""
    hook: Any = getattr(module, "_hf_hook", None)
    device = getattr(hook, "execution_device", None)
    return value.device if device is None else torch.empty(0, device=device).device
