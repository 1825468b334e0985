# SPDX-License-Identifier: GPL-3.0-or-later
"""From what is wanted to what takes effect, with a reason for each difference. Side: generator."""

from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any

from ...optimization_rules import automatic_attention, automatic_precision
from ...optimizations import (
    Attention,
    Engine,
    Environment,
    HalfPrecision,
    Optimizations,
)

# What an option is when it may not be used. Not always its default.
_NEUTRAL: dict[str, Any] = {
    "half_precision": HalfPrecision.OFF,
    "vae_slicing": False,
}

# Chosen by `resolve`, or of no effect alone: nothing is said when the device lacks them.
_SILENT = ("automatic", "attention_slice_size", "vae_tile_size", "vae_tile_blend", "cpu_only")


# What a number is for. Without it, it does nothing.
_SHAPES = {
    "attention_slice_size": ("attention.sliced",),
    "vae_tile_size": ("vae_tiling.fast", "vae_tiling.exact"),
    "vae_tile_blend": ("vae_tiling.fast",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """`options` have no "automatic" left; `skipped` are sentences."""

    options: Optimizations
    skipped: tuple[str, ...]


def resolve(
    wanted: Optimizations, device: str, environment: Environment, model_kind: str
) -> Resolved:
    """Return what of the wanted options takes effect.

    Args:
        wanted: The choices of the user or of the automatic mode.
        device: Kind of the device that computes.
        environment: What is known of it.
        model_kind: One of `optimization_choices.MODEL_KINDS`.
    """
    skipped: list[str] = []
    allowed = _allowed(wanted, device, environment, model_kind, skipped)
    compatible = _compatible(_concrete(allowed, device, environment, model_kind), skipped)
    concrete = _concrete(compatible, device, environment, model_kind)
    return Resolved(options=_without_idle(concrete, skipped), skipped=tuple(skipped))


def active_names(options: Optimizations) -> tuple[str, ...]:
    """Return the options that do something, choices by their own name ("attention.sdp")."""
    names: list[str] = []
    for declared in fields(options):
        value = getattr(options, declared.name)
        if isinstance(value, Enum):
            names.append(f"{declared.name}.{value.value}")
        elif value != neutral_value(declared.name):
            names.append(declared.name)
    return tuple(names)


def neutral_value(option: str) -> object:
    """Return the value with which the option does nothing."""
    if option in _NEUTRAL:
        return _NEUTRAL[option]
    return getattr(Optimizations(automatic=False), option)


def conflict(name: str, other: str) -> bool:
    """Return whether two options or choices are not combined, whichever of them declares it."""
    return _declares(name, other) or _declares(other, name)


def _allowed(
    wanted: Optimizations,
    device: str,
    environment: Environment,
    model_kind: str,
    skipped: list[str],
) -> Optimizations:
    changes: dict[str, Any] = {}
    for name in active_names(wanted):
        option = name.partition(".")[0]
        if option in _SILENT:
            continue
        reason = Optimizations.why_not(name, device, environment, model_kind=model_kind)
        if reason and getattr(wanted, option) != neutral_value(option):
            skipped.append(reason)
            changes[option] = neutral_value(option)
    return replace(wanted, **changes)


def _concrete(
    options: Optimizations, device: str, environment: Environment, model_kind: str
) -> Optimizations:
    changes: dict[str, Any] = {"automatic": False}
    if options.half_precision is HalfPrecision.AUTOMATIC:
        changes["half_precision"] = automatic_precision(device, environment, model_kind)
    if options.attention is Attention.AUTOMATIC and options.engine is Engine.TORCH:
        changes["attention"] = automatic_attention(device, environment)
    return replace(options, **changes)


def _compatible(options: Optimizations, skipped: list[str]) -> Optimizations:
    changes: dict[str, Any] = {}
    kept: list[str] = []
    for name in sorted(active_names(options), key=_wins_over):
        option = name.partition(".")[0]
        other = next((other for other in kept if conflict(name, other)), "")
        if not other:
            kept.append(name)
        elif getattr(options, option) != neutral_value(option):
            changes[option] = neutral_value(option)
            label, winner = Optimizations.label_of(name), Optimizations.label_of(other)
            skipped.append(f"{label} is not used: it cannot be combined with {winner}.")
    return replace(options, **changes)


def _without_idle(options: Optimizations, skipped: list[str]) -> Optimizations:
    """Return the options without the numbers that shape a choice which is not in effect."""
    changes: dict[str, Any] = {}
    for name, shaped in _SHAPES.items():
        value = getattr(options, shaped[0].partition(".")[0]).value
        idle = not any(choice.endswith(f".{value}") for choice in shaped)
        if idle and getattr(options, name) != neutral_value(name):
            changes[name] = neutral_value(name)
            choices = " or ".join(Optimizations.label_of(choice) for choice in shaped)
            skipped.append(f"{Optimizations.label_of(name)} is not used: it is for {choices}.")
    return replace(options, **changes)


def _wins_over(name: str) -> int:
    """What saves memory decides whether there is an image at all, so it goes first."""
    if name.startswith("engine."):
        return 0
    return 1 if Optimizations.metadata_of(name)["saves"] == "memory" else 2


def _declares(name: str, other: str) -> bool:
    conflicts = Optimizations.metadata_of(name)["conflicts"]
    parent, _, choice = other.partition(".")
    return other in conflicts or (parent in conflicts and choice != "off")
