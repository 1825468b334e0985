# SPDX-License-Identifier: GPL-3.0-or-later
"""Put the user's choices into effect on a model. Side: generator.

Each job sets every option, on or off, so a job with fewer options after one with more leaves
nothing behind. Nothing is swallowed: what could not be used comes back as a sentence.
"""

from dataclasses import dataclass

from ..optimizations import HalfPrecision, Optimizations
from .pipelines import LoadedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What is in effect.

    `applied` are "name: value", `skipped` sentences, `batch_size` the number of images at a time.
    """

    applied: tuple[str, ...]
    skipped: tuple[str, ...]
    batch_size: int


def apply_optimizations(model: LoadedModel, wanted: Optimizations) -> Applied:
    """Set every option on the model as wanted, as far as the device allows."""
    device = model.device
    half = f"half_precision.{wanted.half_precision.value}"
    refusals = {
        option: Optimizations.why_not(option, device.kind, device.environment)
        for option in (half, "batch_size")
    }
    applied: list[str] = []
    skipped: list[str] = []

    # The precision is chosen when the model is loaded.
    if refusals[half]:
        skipped.append(refusals[half])
    elif wanted.half_precision is not HalfPrecision.OFF:
        applied.append(f"half_precision: {str(model.dtype).removeprefix('torch.')}")

    vae = model.pipeline.vae
    if wanted.vae_slicing:
        vae.enable_slicing()
        applied.append("vae_slicing: on")
    else:
        vae.disable_slicing()

    batch_size = wanted.batch_size
    if batch_size > 1 and refusals["batch_size"]:
        skipped.append(refusals["batch_size"])
        batch_size = 1
    applied.append(f"batch_size: {batch_size}")
    return Applied(applied=tuple(applied), skipped=tuple(skipped), batch_size=batch_size)
