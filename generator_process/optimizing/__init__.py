# SPDX-License-Identifier: GPL-3.0-or-later
"""Put optimizations into effect on a model, and take them back without a trace. Side: generator.

`load`, `apply` and `parking` are all that a task needs. Each concern is a module
with `OPTIONS` and `apply(target, options, undo)`, which registers on `undo` how to restore exactly
what it changes. Concerns are applied in the order of `_CONCERNS`; when the options of one change,
it and those after it are undone and applied again. So what is in effect depends on the last set of
options alone. What cannot be undone, as it loses bits of the weights, is decided in `load`.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import torch

from ...optimizations import HalfPrecision, Optimizations
from .. import openvino_engine
from ..devices import Device
from ..messages import ModelRef, SeamlessAxes
from ..openvino_engine import Watch
from ..pipelines import LoadedModel, Models
from . import attention, compiling, engine, memory_format, numeric_modes, placement, step_cache, vae
from .resolving import active_names, resolve
from .target import Target, kind_of

_CONCERNS: tuple[ModuleType, ...] = (
    placement,
    numeric_modes,
    memory_format,
    attention,
    step_cache,
    vae,
    compiling,
    engine,
)

_DTYPES = {
    HalfPrecision.FLOAT16: torch.float16,
    HalfPrecision.BFLOAT16: torch.bfloat16,
    HalfPrecision.OFF: torch.float32,
}

_CACHE_KEY = "optimizing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What is in effect.

    `applied` are "name: value", `skipped` sentences, `batch_size` the number of images at a time,
    and `options` all of it, with nothing left to choose automatically.
    """

    applied: tuple[str, ...]
    skipped: tuple[str, ...]
    batch_size: int
    options: Optimizations


def load(models: Models, device: Device, model: ModelRef, wanted: Optimizations) -> LoadedModel:
    """Load a model so that the wanted options can be applied to it.

    The model in memory is used again unless its type, its device or the bits of its weights differ.

    Raises:
        ModelError: The model cannot be loaded.
    """
    options = resolve(wanted, device.kind, device.environment, "unet").options
    return models.load(
        model,
        _DTYPES[options.half_precision],
        device=device,
        quantization=options.quantization,
        layerwise_casting=options.layerwise_casting,
    )


def apply(
    model: LoadedModel,
    wanted: Optimizations,
    *,
    axes: SeamlessAxes = SeamlessAxes.OFF,
    watch: Watch | None = None,
) -> Applied:
    """Make exactly the wanted options effective, as far as device and model allow.

    Args:
        model: On which.
        wanted: The choices of the user or of the automatic mode.
        axes: The seamless axes of the job, for which an engine converts the network.
        watch: Told of the stages of such a conversion, which can take minutes.

    Returns:
        What took effect, and a sentence for everything that did not.
    """
    device = model.device
    target = replace(target_of(model), axes=axes, watch=watch or Watch())
    in_use = openvino_engine.in_use(model)
    if in_use is not None:
        in_use.watch = target.watch
    resolved = resolve(wanted, device.kind, device.environment, kind_of(target.pipelines))
    state: _State = model.cache.setdefault(_CACHE_KEY, _State())
    with torch.inference_mode(mode=False), torch.no_grad():
        skipped = state.become(target, resolved.options)
    not_applied = {name for name, sentences in skipped.items() if sentences}
    return Applied(
        applied=tuple(
            line
            for name in active_names(resolved.options)
            if name.partition(".")[0] not in not_applied and (line := _line(resolved.options, name))
        ),
        skipped=(*resolved.skipped, *(text for texts in skipped.values() for text in texts)),
        batch_size=resolved.options.batch_size,
        options=resolved.options,
    )


@contextmanager
def parking(model: LoadedModel) -> Iterator[None]:
    """Free the device's memory of what a job leaves there, whatever its end.

    Offloaded weights go back to the computer's memory, and what is kept from step to step is
    forgotten.
    """
    try:
        yield
    finally:
        target = target_of(model)
        placement.park(target)
        step_cache.forget(target)


def target_of(model: LoadedModel) -> Target:
    """Return the networks of a model."""
    pipelines = (model.pipeline, *model.companions)
    return Target(pipelines=pipelines, device=model.device, dtype=model.dtype, model=model)


@dataclass(slots=True)
class _Step:
    """One concern in effect: with which options, what it could not do, and how it is undone."""

    key: tuple[object, ...]
    skipped: list[str]
    undo: ExitStack


@dataclass(slots=True)
class _State:
    """What is in effect on one model."""

    signature: tuple[int, ...] = ()
    steps: list[_Step] = field(default_factory=list["_Step"])

    def become(self, target: Target, options: Optimizations) -> dict[str, list[str]]:
        """Undo from the first concern that differs on, and apply from there. Return what failed."""
        placement.park(target)  # a job that failed may have left weights on the device
        keys = [tuple(getattr(options, name) for name in concern.OPTIONS) for concern in _CONCERNS]
        kept = 0
        if self.signature == target.signature():
            same = [key == step.key for key, step in zip(keys, self.steps, strict=False)]
            kept = next((place for place, is_same in enumerate(same) if not is_same), len(same))
        self._undo(kept)
        for concern, key in list(zip(_CONCERNS, keys, strict=True))[kept:]:
            self._do(concern.apply, key, target, options)
        self.signature = target.signature()
        return {
            concern.OPTIONS[0]: step.skipped
            for concern, step in zip(_CONCERNS, self.steps, strict=True)
        }

    def _do(
        self,
        concern: Callable[[Target, Optimizations, ExitStack], list[str]],
        key: tuple[object, ...],
        target: Target,
        options: Optimizations,
    ) -> None:
        with ExitStack() as undo:
            skipped = concern(target, options, undo)
            self.steps.append(_Step(key, skipped, undo.pop_all()))

    def _undo(self, kept: int) -> None:
        while len(self.steps) > kept:
            self.steps.pop().undo.close()


def _line(options: Optimizations, name: str) -> str:
    option, _, choice = name.partition(".")
    if choice in ("off", "automatic"):
        return ""
    value: Any = choice or getattr(options, option)
    return f"{option}: {'on' if value is True else value}"
