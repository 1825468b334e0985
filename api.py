# SPDX-License-Identifier: GPL-3.0-or-later
"""Tessera for scripts that want more than `bpy.ops.tessera` gives. Side: Blender.

What is here keeps its names. All functions are for the main thread.
"""

from typing import Any

import bpy

from . import properties, session
from .delivery import Delivery, GenerationResult
from .generation_requests import requests_of
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
            `width` and `height` (pixels), `seed` (text or a whole number), `number_of_images`,
            `batch_size`, `steps`, `guidance`, `scheduler`, `seamless`, `preview`, `model`,
            `assign_to_material`. What is not given comes from the scene. And the fields of
            `Optimizations`, by name (choices by their names too, such as `vae_tiling="EXACT"`).
            What is not given comes from the preferences; `automatic` is off if one is given
            that it would choose.

    Returns:
        The names of the images, their seeds, and what the generator said.

    Raises:
        TypeError: There is no such setting.
        TesseraError: Nothing was made, for the reason that its text gives.
    """
    unknown = sorted(set(settings) - set(properties.REQUEST_NAMES))
    if unknown:
        raise TypeError(f"there is no setting {', '.join(unknown)}")
    present = properties.values_of(properties.settings_of(bpy.context))
    given = {name: _checked(name, value, present[name]) for name, value in settings.items()}
    values = properties.values_of_call(present, given)
    request = requests_of(values)[0]
    material = None
    if values["assign_to_material"]:
        from . import materials

        material = materials.target_of(bpy.context)
    delivery = Delivery(seed_text=values["seed"], material=material)
    return run(request, delivery)


def _checked(name: str, value: Any, present: Any) -> Any:  # noqa: ANN401  as above
    """Return a setting in the type of the scene's, where that changes nothing."""
    kind = type(present)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if is_whole and (kind is float or name == "seed"):
        return kind(value)
    if type(value) is not kind:
        wanted = {str: "text", bool: "True or False", int: "a whole number"}.get(kind, "a number")
        raise errors.InvalidRequestError(f"{name} {value!r} is not {wanted}.")
    return value


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
