# SPDX-License-Identifier: GPL-3.0-or-later
"""How the autoencoders treat batches and large images. Side: generator."""

from contextlib import ExitStack
from typing import Any

from ...optimizations import Optimizations
from .target import Target

OPTIONS = ("vae_slicing", "vae_tiling", "vae_tile_size", "vae_tile_blend")


def apply(target: Target, options: Optimizations, undo: ExitStack) -> list[str]:
    """Slice and tile as wanted. Slicing comes first, so memory does not grow with the batch."""
    if options.vae_slicing:
        for network in target.autoencoders().values():
            _slice(network, undo)
    return []


def _slice(network: Any, undo: ExitStack) -> None:  # noqa: ANN401
    undo.callback(setattr, network, "use_slicing", network.use_slicing)
    network.enable_slicing()
