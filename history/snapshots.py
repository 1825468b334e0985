# SPDX-License-Identifier: GPL-3.0-or-later
"""From a job and an image of it to an entry of the history. Side: Blender."""

import json
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

import bpy

from .. import metadata, models
from ..optimization_settings import FIELDS
from .entries import Entry, new_name, time_of_name

if TYPE_CHECKING:
    from ..arrivals import Arrival
    from ..delivery import Record
    from ..generator_process.jobs import Job
    from ..generator_process.messages import ImageFinished, TextToImage
    from ..metadata import ImageSettings
    from .recorder import Recorder


def keep(recorder: "Recorder", record: "Record", arrival: "Arrival") -> None:
    """Give a finished image to the history."""
    from .. import preferences
    from ..generator_process.messages import ImageFinished
    from . import place

    event = arrival.event
    assert isinstance(event, ImageFinished)
    assert arrival.settings is not None
    assert arrival.file is not None
    entry = entry_of(record.request, record.delivery.typed, event, arrival.settings)
    limit = preferences.history_limit()
    recorder.keep(place.store(), entry, arrival.file.result(), event.image.pixels, limit=limit)


def finish(recorder: "Recorder", record: "Record", job: "Job") -> None:
    """Tell the history how a job has ended."""
    result = record.result(job)
    said = {
        "model": result.model,
        "applied": list(result.applied),
        "skipped": list(result.skipped),
        "notes": list(result.notes),
        "seconds": [list(pair) for pair in result.seconds],
    }
    recorder.finish(job.job_id, job.state.name, said)


def entry_of(
    request: "TextToImage",
    typed: Mapping[str, Any],
    event: "ImageFinished",
    used: "ImageSettings",
) -> Entry:
    """Return the entry of a finished image.

    Args:
        request: What its job was.
        typed: The settings of the call, by name, as far as they are known.
        event: The image.
        used: What it was made with.
    """
    name = new_name()
    return Entry(
        name=name,
        time=time_of_name(name),
        settings={**settings_of_request(request), **typed},
        image=json.loads(used.to_json()),
        state="RUNNING",
        job=request.job_id,
        number=event.index,
        tessera=metadata.version(),
        blender=bpy.app.version_string,
    )


def settings_of_request(request: "TextToImage") -> dict[str, Any]:
    """Return the settings by name that describe a request, and its first seed."""
    from ..generation_requests import typed_as

    sampling = request.sampling
    options = {name: getattr(request.optimizations, name) for name in FIELDS}
    return {
        **typed_as(sampling.prompt, sampling.negative_prompt),
        "width": sampling.width_px,
        "height": sampling.height_px,
        "seed": str(sampling.seeds[0]),
        "number_of_images": len(sampling.seeds),
        "steps": sampling.steps,
        "guidance": sampling.guidance,
        "scheduler": sampling.scheduler.name,
        "seamless": sampling.seamless.name,
        "preview": sampling.preview.name,
        "model": models.model_text(request.model),
        **{
            name: value.name if isinstance(value, Enum) else value
            for name, value in options.items()
        },
    }
