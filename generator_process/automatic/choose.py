# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose optimizations by the cost model, each with its reason. Side: generator.

What is on by itself follows the table of recommended defaults; what saves memory is switched on
when the cost model says that the job does not fit without it, the cheapest first: fewer images at
the same time, tiles as large as fit, parts of the model in the computer's memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ...optimization_rules import automatic_precision
from ...optimizations import (
    CpuOffload,
    Engine,
    Environment,
    HalfPrecision,
    Optimizations,
    VaeTiling,
)
from . import cost_model
from .cost_model import Job, Placement
from .facts import ModelFacts

TILES_PX = (1024, 512, 256, 128)
"""Sides of exact tiles, largest first: larger ones take less time."""

TILED_ABOVE_PX = 1024**2
"""Where it is not known what is free, larger images are tiled."""

DEFAULT_TILE_PX = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What was chosen, and why, by the name of the option."""

    options: Optimizations
    reasons: dict[str, str] = field(default_factory=dict[str, str])

    def explained(self, applied: tuple[str, ...]) -> tuple[str, ...]:
        """Return "name: value" lines with the reasons behind them."""
        lines: list[str] = []
        for line in applied:
            reason = self.reasons.get(line.partition(":")[0])
            lines.append(f"{line} ({reason})" if reason else line)
        return tuple(lines)


def choose(
    device: str,
    environment: Environment,
    facts: ModelFacts,
    size: tuple[int, int],
    batch: int,
    wanted: Optimizations,
) -> Optimizations:
    """Return `decide(...).options`."""
    return decide(device, environment, facts, size, batch, wanted).options


def decide(
    device: str,
    environment: Environment,
    facts: ModelFacts,
    size: tuple[int, int],
    batch: int,
    wanted: Optimizations,
) -> Decision:
    """Choose for one job.

    Args:
        device: Kind of the device, one of `optimizations.DEVICES`.
        environment: What is known of it. `free_memory` is what a job may use.
        facts: What is known of the model.
        size: Width and height that the model makes, in pixels.
        batch: How many images are to be made.
        wanted: The user's choices. If they are not automatic, they are the decision.
    """
    if not wanted.automatic:
        return Decision(options=wanted)
    precision = automatic_precision(device, environment, "unet")
    job = Job(
        facts=facts,
        width_px=size[0],
        height_px=size[1],
        value_bytes=4 if precision is HalfPrecision.OFF else 2,
        on_cpu=device == "cpu",
    )
    changes, reasons = _for_speed(device, environment, facts, precision)
    limit = max(1, min(batch, wanted.batch_size))
    if device == "mps":
        limit = 1
    free = cost_model.budget(device, environment.free_memory)
    placements = _placements(device, environment)
    fit = _without_knowing(job, limit) if free is None else _fitting(job, limit, free, placements)
    changes |= fit.changes(job, free, reasons)
    options = Optimizations(
        automatic=False, cpu_only=wanted.cpu_only, cfg_end=wanted.cfg_end, **changes
    )
    if fit.batch < min(batch, wanted.batch_size):
        reasons["batch_size"] = "more images at the same time would not fit"
    return Decision(options=options, reasons=reasons)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    """What is needed to make a job fit."""

    placement: Placement = Placement.OFF
    batch: int
    tile_px: int | None

    def changes(self, job: Job, free: int | None, reasons: dict[str, str]) -> dict[str, Any]:
        changes: dict[str, Any] = {"batch_size": self.batch, "vae_slicing": True}
        if self.tile_px is not None:
            exact = VaeTiling.EXACT if job.facts.exact_tiling else VaeTiling.FAST
            changes |= {"vae_tiling": exact, "vae_tile_size": self.tile_px}
            reasons["vae_tiling"] = (
                "large image, and it is not known how much memory is free"
                if free is None
                else f"{_needs(job)} of {cost_model.text(free)} that may be used"
            )
        if self.placement is not Placement.OFF and free is not None:
            changes["cpu_offload"] = CpuOffload[self.placement.name]
            whole = cost_model.weights(job, Placement.OFF, decoding=False)
            reasons["cpu_offload"] = (
                f"the model has {cost_model.text(whole)}, and {cost_model.text(free)} may be used"
            )
        return changes


def _needs(job: Job) -> str:
    return f"the whole image would need {cost_model.text(cost_model.decoding(job, None))} more"


def _for_speed(
    device: str, environment: Environment, facts: ModelFacts, precision: HalfPrecision
) -> tuple[dict[str, Any], dict[str, str]]:
    changes: dict[str, Any] = {"half_precision": precision}
    reasons: dict[str, str] = {}
    if precision is HalfPrecision.OFF:
        if Optimizations.can_use("tf32", device, environment) and environment.probed:
            changes["tf32"] = True
            reasons["tf32"] = "faster in 32 bits"
    elif device == "cpu":
        changes["channels_last_memory_format"] = True
        reasons["channels_last_memory_format"] = "faster with bfloat16 on processors"
    if (
        device == "cpu"
        and facts.denoiser_parameters >= cost_model.CPU_OPENVINO_PARAMETERS
        and Optimizations.can_use("engine.openvino", device, environment)
    ):
        changes["engine"] = Engine.OPENVINO
        reasons["engine"] = "two to three times faster than PyTorch on processors"
    return changes, reasons


def _placements(device: str, environment: Environment) -> list[Placement]:
    """Return how the model may be placed, the fastest way first."""
    return [
        placement
        for placement in Placement
        if placement is Placement.OFF
        or Optimizations.can_use(f"cpu_offload.{placement.name.lower()}", device, environment)
    ]


def _without_knowing(job: Job, limit: int) -> _Fit:
    tiled = job.pixels > TILED_ABOVE_PX
    return _Fit(batch=limit, tile_px=DEFAULT_TILE_PX if tiled else None)


def _fitting(job: Job, limit: int, free: int, placements: list[Placement]) -> _Fit:
    """Return the first that fits, or else the smallest: the ladder goes on from there."""
    for placement in placements:
        while_decoding = free - cost_model.weights(job, placement, decoding=True)
        while_denoising = free - cost_model.weights(job, placement, decoding=False)
        tiles = [
            tile
            for tile in (None, *_useful_tiles(job))
            if cost_model.decoding(job, tile) <= while_decoding
        ]
        for batch in _halved(limit):
            if tiles and cost_model.denoising(job, batch) <= while_denoising:
                return _Fit(placement=placement, batch=batch, tile_px=tiles[0])
    return _Fit(placement=placements[-1], batch=1, tile_px=min(_useful_tiles(job), default=None))


def _useful_tiles(job: Job) -> list[int]:
    return [tile for tile in TILES_PX if tile**2 < job.pixels]


def _halved(limit: int) -> Iterator[int]:
    while limit > 1:
        yield limit
        limit //= 2
    yield 1
