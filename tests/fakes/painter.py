"""What a generator would send for a request, with images that depend on the seed alone."""

import numpy as np
from tessera.generator_process.messages import (
    Event,
    Finished,
    ImageData,
    ImageFinished,
    Progress,
    TextToImage,
)


def pixels_of(seed: int, width: int, height: int, channels: int = 3) -> np.ndarray:
    """`uint8` (height, width, channels), every value at random."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)


def paint(request: TextToImage) -> list[Event]:
    """All events of a job that goes well."""
    sampling = request.sampling
    events: list[Event] = [Progress(job_id=request.job_id, step=0, steps=sampling.steps)]
    for index, seed in enumerate(sampling.seeds):
        pixels = pixels_of(seed, sampling.width_px, sampling.height_px)
        image = ImageData(pixels=pixels)
        events.append(ImageFinished(job_id=request.job_id, index=index, seed=seed, image=image))
    return [*events, Finished(job_id=request.job_id, model="Starter", notes=("A note.",))]
