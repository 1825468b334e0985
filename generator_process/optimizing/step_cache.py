# SPDX-License-Identifier: GPL-3.0-or-later
"""Take results over from one step to the next, in transformers. Side: generator."""

from contextlib import ExitStack
from typing import Any

from ...optimizations import Optimizations, StepCache
from .hooked import remove_empty_registries
from .target import Target

OPTIONS = ("step_cache",)

FIRST_BLOCK_THRESHOLD = 0.08
"""Relative change of the first block's output below which the others are not computed. The value
that ParaAttention, where the method comes from, gives for Flux."""


def apply(target: Target, options: Optimizations, undo: ExitStack) -> list[str]:
    """Enable the cache of every denoising network that has one."""
    if options.step_cache is StepCache.OFF:
        return []
    label = Optimizations.label_of(f"step_cache.{options.step_cache.value}")
    skipped: list[str] = []
    for name, network in target.predictors().items():
        if not hasattr(network, "enable_cache"):
            skipped.append(f"{label} is not used: this model's {name} has no cache.")
            continue
        _enable(network, options.step_cache, undo)
    return skipped


def forget(target: Target) -> None:
    """Drop what the caches hold, so that no image continues another one."""
    for network in target.predictors().values():
        if getattr(network, "is_cache_enabled", False):
            network._reset_stateful_cache()  # noqa: SLF001  # pyright: ignore[reportCallIssue]


def _enable(network: Any, choice: StepCache, undo: ExitStack) -> None:  # noqa: ANN401
    from diffusers import FirstBlockCacheConfig, TaylorSeerCacheConfig

    configurations = {
        StepCache.FIRST_BLOCK: lambda: FirstBlockCacheConfig(threshold=FIRST_BLOCK_THRESHOLD),
        StepCache.TAYLORSEER: TaylorSeerCacheConfig,
    }
    undo.callback(_disable, network)
    network.enable_cache(configurations[choice]())


def _disable(network: Any) -> None:  # noqa: ANN401
    if network.is_cache_enabled:
        network.disable_cache()
    vars(network).pop("_cache_config", None)  # the class says that there is none
    remove_empty_registries(network)
