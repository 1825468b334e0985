# SPDX-License-Identifier: GPL-3.0-or-later
"""Compile the blocks of the denoising networks. Side: generator.

Blocks that are repeated are compiled once each kind, which takes a fraction of the time that the
whole network would. Compiling happens at the first step of the first image.
"""

from contextlib import ExitStack
from typing import Any

from torch import nn

from ...optimizations import Optimizations
from .target import Target

OPTIONS = ("torch_compile",)


def apply(target: Target, options: Optimizations, undo: ExitStack) -> list[str]:
    """Mark the blocks to be compiled at their first use."""
    if options.torch_compile:
        for network in target.predictors().values():
            for block in _blocks(network):
                undo.callback(_restore, block, vars(block).get("_compiled_call_impl"))
                block.compile()
    return []


def _blocks(network: nn.Module) -> list[nn.Module]:
    names: Any = getattr(network, "_repeated_blocks", None) or ()
    repeated = [module for module in network.modules() if type(module).__name__ in names]
    return repeated or [network]


def _restore(block: nn.Module, compiled: object) -> None:
    if compiled is None:
        vars(block).pop("_compiled_call_impl", None)
    else:
        vars(block)["_compiled_call_impl"] = compiled
