# SPDX-License-Identifier: GPL-3.0-or-later
"""How the end of a job is told to a user who does something else. Side: Blender."""

import time
from collections.abc import Sequence

from . import runtime, screen, wording
from .generator_process.jobs import Job, JobState

LONG_S = 5.0
"""The end of a job that took longer is told: until then the user is taken to be watching."""

_PROMPT_LETTERS = 40


def tell_end(job: Job, images: Sequence[str]) -> None:
    """Report that a job is done, or why it is not, if the user will want to know."""
    seconds = job.seconds_gone(time.monotonic())
    if job.state is JobState.FAILED:
        log = runtime.log_folder() / "generator.log"
        screen.report("WARNING", f"{job.sentence} Log: {log}")
    elif job.state is JobState.FINISHED and seconds > LONG_S:
        screen.report("INFO", _ready(job, images, seconds))


def _ready(job: Job, images: Sequence[str], seconds: float) -> str:
    prompt = wording.short(job.request.sampling.prompt, _PROMPT_LETTERS)
    what = f'"{prompt}"' if prompt else "without a prompt"
    after = f"after {wording.duration(seconds)}"
    if len(images) == 1:
        return f"The image {what} is ready {after}."
    return f"{len(images)} images {what} are ready {after}."
