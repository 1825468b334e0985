# SPDX-License-Identifier: GPL-3.0-or-later
"""Tessera for scripts that want more than `bpy.ops.tessera` gives. Side: Blender.

What is here keeps its names. All functions are for the main thread.
"""

from typing import Any

import bpy

from . import calls, session
from .delivery import Delivery, GenerationResult
from .generation_requests import plan_of
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

    Wildcards, and the lines of a text, give several jobs. If some of them fail, the others are done
    all the same, and `failed` of the result says which failed and why.

    Args:
        settings: Those of `bpy.context.scene.tessera`, by name: `prompt`, `negative_prompt`,
            `prompt_structure` and the tokens of the structures, `style`, `prompts_text`, `width`
            and `height` (pixels), `seed` (text or a whole number), `number_of_images`,
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
    values = calls.values_of_script(settings)
    planned = plan_of(values)
    material = None
    if values["assign_to_material"]:
        from . import materials

        material = materials.target_of(bpy.context)
    return calls.submit(planned, values, material=material).wait()


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
