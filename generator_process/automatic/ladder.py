# SPDX-License-Identifier: GPL-3.0-or-later
"""What to do next when memory runs out. Side: generator.

Each stage has its own rungs, the cheapest first; the first that changes something is taken. Every
step saves more by `Plan.strictness`, and there are few values of each kind, so the ladder ends.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ...optimizations import (
    Attention,
    CpuOffload,
    Engine,
    Environment,
    HalfPrecision,
    Optimizations,
    VaeTiling,
)
from .plan import OFFLOADS, PRECISIONS, SMALLEST_TILE_PX, Plan, Stage

FIRST_TILE_PX = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a plan runs: kind of device, what is known of it, the job's images and longest side."""

    device: str
    environment: Environment
    images: int
    longest_px: int
    exact_tiling: bool = True

    def can_use(self, option: str) -> bool:
        """Return whether the option works here."""
        return Optimizations.can_use(option, self.device, self.environment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The plan to go on with, and what is new about it, for the user."""

    plan: Plan
    words: str


_Rung = Callable[[Plan, Place], Step | None]


def next_step(plan: Plan, stage: Stage, place: Place) -> Step | None:
    """Return how to go on after memory ran out, or None if nothing is left to try."""
    for rung in _RUNGS[stage]:
        step = rung(plan, place)
        if step is not None:
            return step
    return None


def wider_step(plan: Plan, stage: Stage, place: Place, precision: HalfPrecision) -> Step | None:
    """Return how to go on after a result that is not numbers, or None.

    Args:
        plan: What ran.
        stage: `SAMPLE` if the denoiser failed, `DECODE` if the VAE did.
        place: Where it ran.
        precision: What the plan's precision was in effect.
    """
    if stage is Stage.DECODE:
        if plan.vae_in_float32 or precision is HalfPrecision.OFF:
            return None
        return Step(plan=replace(plan, vae_in_float32=True), words="the VAE in 32 bits")
    for wider in PRECISIONS[PRECISIONS.index(precision) + 1 :]:
        if wider is HalfPrecision.OFF or place.can_use(f"half_precision.{wider.value}"):
            words = "32 bits" if wider is HalfPrecision.OFF else "bfloat16"
            return _changed(plan, words, half_precision=wider)
    return None


def _changed(plan: Plan, words: str, **changes: Any) -> Step:  # noqa: ANN401
    return Step(plan=replace(plan, options=replace(plan.options, **changes)), words=words)


def _smaller_batch(plan: Plan, place: Place) -> Step | None:
    batch = min(plan.options.batch_size, place.images) // 2
    if batch < 1:
        return None
    words = "one image at a time" if batch == 1 else f"{batch} images at a time"
    return _changed(plan, words, batch_size=batch)


def _slicing(plan: Plan, _place: Place) -> Step | None:
    if plan.options.vae_slicing:
        return None
    return _changed(plan, "VAE slicing", vae_slicing=True)


def _tiling(plan: Plan, place: Place) -> Step | None:
    tiling = VaeTiling.EXACT if place.exact_tiling else VaeTiling.FAST
    if plan.options.vae_tiling in (tiling, VaeTiling.EXACT) or plan.vae_on_cpu:
        return None
    tile = FIRST_TILE_PX
    if plan.options.vae_tiling is not VaeTiling.OFF:
        tile = plan.options.vae_tile_size
    while tile >= place.longest_px and tile > SMALLEST_TILE_PX:
        tile //= 2
    words = f"{tiling.value} VAE tiling"
    return _changed(plan, words, vae_tiling=tiling, **_tile(plan, tile, tiling))


def _smaller_tiles(plan: Plan, _place: Place) -> Step | None:
    tile = plan.options.vae_tile_size // 2
    if plan.options.vae_tiling is VaeTiling.OFF or tile < SMALLEST_TILE_PX or plan.vae_on_cpu:
        return None
    return _changed(
        plan, f"VAE tiles of {tile} pixels", **_tile(plan, tile, plan.options.vae_tiling)
    )


def _tile(plan: Plan, tile: int, tiling: VaeTiling) -> dict[str, int]:
    tile = max(tile, SMALLEST_TILE_PX)
    if tiling is not VaeTiling.FAST:
        return {"vae_tile_size": tile}
    return {"vae_tile_size": tile, "vae_tile_blend": min(plan.options.vae_tile_blend, tile // 2)}


def _torch_engine(plan: Plan, _place: Place) -> Step | None:
    if plan.options.engine is Engine.TORCH:
        return None
    return _changed(plan, "PyTorch in the place of OpenVINO", engine=Engine.TORCH)


def _offload_to(choice: CpuOffload) -> _Rung:
    def rung(plan: Plan, place: Place) -> Step | None:
        now = OFFLOADS.index(plan.options.cpu_offload)
        if now >= OFFLOADS.index(choice) or not place.can_use(f"cpu_offload.{choice.value}"):
            return None
        return _changed(plan, f"CPU offload by {choice.value}", cpu_offload=choice)

    return rung


def _sliced_attention(plan: Plan, place: Place) -> Step | None:
    if plan.options.attention is Attention.SLICED and plan.options.attention_slice_size == 1:
        return None
    if not place.can_use("attention.sliced") or plan.options.engine is not Engine.TORCH:
        return None
    return _changed(plan, "sliced attention", attention=Attention.SLICED, attention_slice_size=1)


def _sliced_where_not_fused(plan: Plan, place: Place) -> Step | None:
    return _sliced_attention(plan, place) if place.device == "dml" else None


def _vae_on_cpu(plan: Plan, place: Place) -> Step | None:
    if plan.vae_on_cpu or place.device == "cpu":
        return None
    return Step(plan=replace(plan, vae_on_cpu=True), words="decoding on the CPU")


def _on_cpu(plan: Plan, place: Place) -> Step | None:
    """Leave the device. What was set for it does not count there."""
    if plan.options.cpu_only or place.device == "cpu":
        return None
    words = "the CPU in the place of the GPU"
    step = _changed(
        plan,
        words,
        cpu_only=True,
        cpu_offload=CpuOffload.OFF,
        attention=Attention.AUTOMATIC,
        attention_slice_size=0,
        half_precision=HalfPrecision.AUTOMATIC,
        batch_size=1,
    )
    return replace(step, plan=replace(step.plan, vae_on_cpu=False))


_MODEL, _GROUP, _SUBMODULE = (_offload_to(choice) for choice in OFFLOADS[1:])

_DENOISING: tuple[_Rung, ...] = (
    _smaller_batch,
    _sliced_where_not_fused,
    _MODEL,
    _GROUP,
    _SUBMODULE,
    _sliced_attention,
    _torch_engine,
    _on_cpu,
)

_RUNGS: dict[Stage, tuple[_Rung, ...]] = {
    Stage.LOAD: (_MODEL, _GROUP, _SUBMODULE, _torch_engine, _on_cpu),
    Stage.ENCODE: (_MODEL, _GROUP, _SUBMODULE, _on_cpu),
    Stage.SAMPLE: _DENOISING,
    Stage.DECODE: (
        _slicing,
        _tiling,
        _smaller_tiles,
        _MODEL,
        _vae_on_cpu,
        _GROUP,
        _SUBMODULE,
        _on_cpu,
    ),
}
