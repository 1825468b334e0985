# SPDX-License-Identifier: GPL-3.0-or-later
"""Tessera for scripts that want more than `bpy.ops.tessera` gives. Side: Blender.

What is here keeps its names. All functions are for the main thread.
"""

from typing import Any

import bpy

from . import properties, session
from .delivery import Delivery, GenerationResult
from .generator_process import errors, messages, seeds
from .models import FoundModel, find_models

__all__ = [
    "Delivery",
    "FoundModel",
    "GenerationResult",
    "errors",
    "find_models",
    "generate",
    "messages",
    "release_memory",
    "run",
    "seeds",
]


def generate(**settings: Any) -> GenerationResult:  # noqa: ANN401  as many types as settings
    """Generate images and wait for them.

    Args:
        settings: Those of `bpy.context.scene.tessera`, by name: `prompt`, `negative_prompt`,
            `width` and `height` (pixels), `seed` (text), `number_of_images`, `batch_size`,
            `steps`, `guidance`, `scheduler`, `seamless`, `preview`, `model`,
            `assign_to_material`. What is not given comes from the scene.

    Returns:
        The names of the images, their seeds, and what the generator said.

    Raises:
        TypeError: There is no such setting.
        TesseraError: Nothing was made, for the reason that its text gives.
    """
    unknown = sorted(set(settings) - set(properties.SETTING_NAMES))
    if unknown:
        raise TypeError(f"there is no setting {', '.join(unknown)}")
    values = properties.values_of(properties.settings_of(bpy.context)) | settings
    request = properties.text_to_image(values)
    material = None
    if values["assign_to_material"]:
        from . import materials

        material = materials.target_of(bpy.context)
    delivery = Delivery(seed_text=values["seed"], material=material)
    return run(request, delivery)


def run(request: messages.Request, delivery: Delivery | None = None) -> GenerationResult:
    """Give a request to the generator and wait for its images.

    Args:
        request: Such as `messages.TextToImage`, with a `job_id` that was not used before.
        delivery: Where the images go besides into the file.

    Returns:
        The names of the images, their seeds, and what the generator said.

    Raises:
        TesseraError: Nothing was made, for the reason that its text gives.
    """
    return session.get().wait(session.get().submit(request, delivery))


def release_memory() -> None:
    """End the generator process, which frees all memory of its models."""
    session.get().release()
