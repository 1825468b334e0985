# SPDX-License-Identifier: GPL-3.0-or-later
"""How the autoencoders treat batches and large images. Side: generator."""

from contextlib import ExitStack

from torch import nn

from ...optimizations import Optimizations, VaeTiling
from .. import tiled_vae
from .target import Target

OPTIONS = ("vae_slicing", "vae_tiling", "vae_tile_size", "vae_tile_blend")


def apply(target: Target, options: Optimizations, undo: ExitStack) -> list[str]:
    """Slice and tile as wanted. Slicing comes first, so memory does not grow with the batch."""
    skipped: list[str] = []
    tiling = _tiling(target, options)
    if tiling is None and not options.vae_slicing:
        return []
    for network in target.autoencoders().values():
        undo.callback(tiled_vae.remove, network)
        reason = _install(network, tiling, slicing=options.vae_slicing)
        if reason:
            skipped.append(reason)
    return skipped


def _tiling(target: Target, options: Optimizations) -> tiled_vae.Tiling | None:
    size = options.vae_tile_size
    if options.vae_tiling is VaeTiling.FAST:
        return tiled_vae.FastTiling(tile_px=size, blend_px=options.vae_tile_blend)
    if options.vae_tiling is VaeTiling.EXACT:
        # Apple GPUs and the CPU share the computer's memory: there is nothing to save by moving.
        has_own_memory = target.device.kind not in ("cpu", "mps")
        return tiled_vae.ExactTiling(tile_px=size, store="cpu" if has_own_memory else None)
    return None


def _install(network: nn.Module, tiling: tiled_vae.Tiling | None, *, slicing: bool) -> str:
    """Return the sentence that says why it is not tiled, or an empty text."""
    try:
        tiled_vae.install(network, tiling, slicing=slicing)
    except tiled_vae.TiledVaeError as error:
        tiled_vae.install(network, slicing=slicing)
        return str(error)
    return ""
