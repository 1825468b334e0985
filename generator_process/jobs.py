# SPDX-License-Identifier: GPL-3.0-or-later
"""The jobs of one Blender session, and the queue that they wait in. Side: Blender.

The generator is given one job at a time, so that a waiting one can be cancelled here. Not
thread-safe: for the main thread.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from .messages import (
    Cancelled,
    Event,
    Failed,
    Finished,
    ImageData,
    ImageFinished,
    Progress,
    Ready,
    Request,
)

logger = logging.getLogger(__name__)

KEPT_JOBS = 100
"""Ended jobs beyond this number are forgotten, oldest first."""


class JobState(Enum):
    """A job ends when its one terminal event arrives, and then stays as it is."""

    QUEUED = auto()
    RUNNING = auto()
    FINISHED = auto()
    FAILED = auto()
    CANCELLED = auto()


_STATE_OF_END = {
    Finished: JobState.FINISHED,
    Failed: JobState.FAILED,
    Cancelled: JobState.CANCELLED,
}


@dataclass(slots=True, kw_only=True, eq=False)
class Job:
    """What is known of a request. Times are of the clock of `Jobs`, in seconds.

    `images` are those that have arrived and have not been taken. `preview` is the newest image in
    the making, None when the job has ended.
    """

    request: Request
    state: JobState = JobState.QUEUED
    step: int = 0
    steps: int = 0
    stage: str = ""
    preview: ImageData | None = None
    images: list[ImageFinished] = field(default_factory=list[ImageFinished])
    result: Finished | Failed | Cancelled | None = None
    started_s: float | None = None
    ended_s: float | None = None
    seconds_left: float | None = None
    _first_step: tuple[int, float] | None = None

    @property
    def job_id(self) -> str:
        """The name of the job on the wire."""
        return self.request.job_id

    @property
    def has_ended(self) -> bool:
        """Whether the terminal event has arrived."""
        return self.result is not None

    @property
    def progress(self) -> float:
        """The share of the steps that is done, 0..1."""
        if self.state is JobState.FINISHED:
            return 1.0
        return min(self.step / self.steps, 1.0) if self.steps > 0 else 0.0

    def take_images(self) -> list[ImageFinished]:
        """Hand over the images that have arrived since the last call, and forget them."""
        images, self.images = self.images, []
        return images

    def advance(self, event: Progress, now_s: float) -> None:
        """Note how far the job is, and estimate `seconds_left` from the steps so far."""
        self.step, self.steps, self.stage = event.step, event.steps, event.stage
        if event.preview is not None:
            self.preview = event.preview
        if self._first_step is None or event.step <= self._first_step[0]:
            self._first_step = (event.step, now_s)  # loading before it does not count
        first, first_s = self._first_step
        done = event.step - first
        if done > 0:
            self.seconds_left = max(event.steps - event.step, 0) * (now_s - first_s) / done


class Jobs:
    """All jobs of the session, in the order in which they were added.

    Args:
        clock: Seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._jobs: dict[str, Job] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def all(self) -> list[Job]:
        """Return the jobs that are known, ended ones included."""
        return list(self._jobs.values())

    def queued(self) -> list[Job]:
        """Return the jobs that wait, the next one first."""
        return [job for job in self._jobs.values() if job.state is JobState.QUEUED]

    def running(self) -> list[Job]:
        """Return the jobs that the generator has: one, or none."""
        return [job for job in self._jobs.values() if job.state is JobState.RUNNING]

    def next_queued(self) -> Job | None:
        """Return the job to send now, or None while one is running or none waits."""
        return None if self.running() else next(iter(self.queued()), None)

    def get(self, job_id: str) -> Job:
        """Return one job.

        Raises:
            KeyError: There is no such job, or it ended long ago.
        """
        return self._jobs[job_id]

    def add(self, request: Request) -> Job:
        """Put a request at the end of the queue.

        Raises:
            ValueError: There is a job of this name.
        """
        if request.job_id in self._jobs:
            raise ValueError(f"job {request.job_id} was added twice")
        job = Job(request=request)
        self._jobs[job.job_id] = job
        self._forget_old()
        return job

    def start(self, job: Job) -> None:
        """Note that the job has been sent."""
        assert job.state is JobState.QUEUED
        job.state = JobState.RUNNING
        job.started_s = self._clock()

    def apply(self, event: Event) -> Job | None:
        """Change the job as the event says, and return it.

        A terminal event also ends a job that waits: that is how one is cancelled, or fails because
        it could not be sent. An event of an ended or unknown job is only logged, and `Ready` is
        not about a job: both return None.
        """
        if isinstance(event, Ready):
            return None
        job = self._jobs.get(event.job_id)
        if job is None or job.has_ended:
            logger.warning("%s of job %s, which has ended", type(event).__name__, event.job_id)
            return None
        match event:
            case Progress():
                job.advance(event, self._clock())
            case ImageFinished():
                job.images.append(event)
            case Finished() | Failed() | Cancelled():
                self._end(job, event)
        return job

    def _end(self, job: Job, event: Finished | Failed | Cancelled) -> None:
        job.state = _STATE_OF_END[type(event)]
        job.result = event
        job.ended_s = self._clock()
        job.preview = None
        job.seconds_left = None
        if isinstance(event, Failed):
            # Whoever waits reports the sentence; the generator's log has the rest too.
            logger.info("job %s failed: %s\n%s", event.job_id, event.message, event.detail)

    def _forget_old(self) -> None:
        ended = [job.job_id for job in self._jobs.values() if job.has_ended]
        for job_id in ended[: max(len(ended) - KEPT_JOBS, 0)]:
            del self._jobs[job_id]
