# SPDX-License-Identifier: GPL-3.0-or-later
"""What a job runs with: options, and what only the ladder sets. Side: generator."""

from dataclasses import dataclass, replace
from enum import Enum

from ...optimizations import Attention, CpuOffload, Engine, HalfPrecision, Optimizations, VaeTiling
from ..messages import ModelRef

SMALLEST_TILE_PX = 64

OFFLOADS = (CpuOffload.OFF, CpuOffload.MODEL, CpuOffload.GROUP, CpuOffload.SUBMODULE)
"""In the order in which they save memory."""

PRECISIONS = (HalfPrecision.FLOAT16, HalfPrecision.BFLOAT16, HalfPrecision.OFF)
"""In the order of what they can represent."""

_NO_SLICES = 1000


class Stage(Enum):
    """Where a job is, as a sentence calls it."""

    LOAD = "loading the model"
    ENCODE = "reading the prompt"
    SAMPLE = "sampling"
    DECODE = "decoding"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`vae_on_cpu`: a second VAE in main memory decodes. `vae_in_float32`: whatever the others."""

    options: Optimizations
    vae_on_cpu: bool = False
    vae_in_float32: bool = False

    def strictness(self) -> tuple[int, ...]:
        """Return how much memory the plan saves, by kind of saving; more is more.

        The first that differs counts: on the CPU everything else starts afresh.
        """
        options = self.options
        tiled = options.vae_tiling is not VaeTiling.OFF
        sliced = options.attention is Attention.SLICED
        return (
            int(options.cpu_only),
            int(self.vae_on_cpu),
            OFFLOADS.index(options.cpu_offload),
            int(options.engine is Engine.TORCH),
            -(options.attention_slice_size or _NO_SLICES) if sliced else -_NO_SLICES - 1,
            -options.batch_size,
            int(options.vae_slicing),
            (VaeTiling.OFF, VaeTiling.FAST, VaeTiling.EXACT).index(options.vae_tiling),
            -options.vae_tile_size if tiled else -SMALLEST_TILE_PX * 1000,
        )


Remembered = dict[tuple[ModelRef, str, int], Plan]
"""Plans that have helped, by model, kind of device and pixels of the image."""


def at_least(plan: Plan, known: Plan) -> Plan:
    """Return the plan with all that saved memory in a known one, if both are for one device."""
    ours, theirs = plan.options, known.options
    options = replace(
        ours,
        batch_size=min(ours.batch_size, theirs.batch_size),
        vae_slicing=ours.vae_slicing or theirs.vae_slicing,
        cpu_offload=max(ours.cpu_offload, theirs.cpu_offload, key=OFFLOADS.index),
    )
    if theirs.vae_tiling is not VaeTiling.OFF:
        size = theirs.vae_tile_size
        if ours.vae_tiling is not VaeTiling.OFF:
            size = min(size, ours.vae_tile_size)
        blend = ours.vae_tile_blend
        if theirs.vae_tiling is VaeTiling.FAST:
            blend = min(blend, size // 2)
        options = replace(
            options, vae_tiling=theirs.vae_tiling, vae_tile_size=size, vae_tile_blend=blend
        )
    if theirs.attention is Attention.SLICED:
        options = replace(
            options, attention=theirs.attention, attention_slice_size=theirs.attention_slice_size
        )
    if theirs.engine is Engine.TORCH:
        options = replace(options, engine=Engine.TORCH)
    return Plan(
        options=options,
        vae_on_cpu=plan.vae_on_cpu or known.vae_on_cpu,
        vae_in_float32=plan.vae_in_float32 or known.vae_in_float32,
    )
