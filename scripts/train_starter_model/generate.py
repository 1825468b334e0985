# SPDX-License-Identifier: GPL-3.0-or-later
"""Make pictures with the exported pipeline, as the evaluation and the contact sheet need them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from diffusers import StableDiffusionPipeline

from .draw import Array
from .training import set_circular


@dataclass(frozen=True)
class Settings:
    """How pictures are made."""

    size: int = 128
    steps: int = 20
    guidance: float = 3.0
    seamless: bool = True


def load_pipeline(folder: Path) -> StableDiffusionPipeline:
    """Load the pipeline from its folder alone, in single precision."""
    pipeline = StableDiffusionPipeline.from_pretrained(
        folder, dtype=torch.float32, local_files_only=True
    )
    pipeline.set_progress_bar_config(disable=True)
    for part in (pipeline.unet, pipeline.vae):
        part.to(memory_format=torch.channels_last)
    return pipeline


def generate(
    pipeline: StableDiffusionPipeline, prompts: list[str], seed: int, settings: Settings
) -> list[Array]:
    """Return pictures with values in 0..1, one a prompt; prompt ``i`` uses seed ``seed + i``."""
    set_circular(pipeline.unet, circular=settings.seamless)
    set_circular(pipeline.vae, circular=settings.seamless)
    batch = max(1, 16 * 128**2 // settings.size**2)
    pictures: list[Array] = []
    for start in range(0, len(prompts), batch):
        chosen = prompts[start : start + batch]
        seeds = range(seed + start, seed + start + len(chosen))
        result = pipeline(
            chosen,
            height=settings.size,
            width=settings.size,
            num_inference_steps=settings.steps,
            guidance_scale=settings.guidance,
            generator=[torch.Generator().manual_seed(value) for value in seeds],
            output_type="np",
        )
        pictures += [np.asarray(picture, np.float32) for picture in result.images]
    return pictures
