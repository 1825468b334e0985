# SPDX-License-Identifier: GPL-3.0-or-later
"""The jobs of one Blender session, and the queue that they wait in. Side: Blender.

The generator is given one job at a time, so that a waiting one can be cancelled here. Not
thread-safe: for the main thread.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
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

_NEWEST_SHARE = 0.25  # of the newest step in the running mean, own choice: calm, yet quick to learn


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

    `preview` is the newest image in the making, or the newest one that is ready, and None when the
    job has ended. `images_done` counts the images that are ready. `is_stopping` tells that the
    generator was asked to stop it. `number` counts the jobs of the session, from 1.
    """

    request: Request
    number: int = 0
    state: JobState = JobState.QUEUED
    step: int = 0
    steps: int = 0
    stage: str = ""
    preview: ImageData | None = None
    images_done: int = 0
    is_stopping: bool = False
    result: Finished | Failed | Cancelled | None = None
    started_s: float | None = None
    ended_s: float | None = None
    _furthest: int = 0
    _last_step: tuple[int, float] | None = None
    _seconds_per_step: float | None = None

    @property
    def job_id(self) -> str:
        """The name of the job on the wire."""
        return self.request.job_id

    @property
    def has_ended(self) -> bool:
        """Whether the terminal event has arrived."""
        return self.result is not None

    @property
    def images_total(self) -> int:
        """How many images were asked for."""
        return len(self.request.sampling.seeds)

    @property
    def sentence(self) -> str:
        """Why the job has failed, for the user. Empty if it has not."""
        return self.result.message if isinstance(self.result, Failed) else ""

    @property
    def progress(self) -> float:
        """The share of the steps that is done, 0..1. It never goes back, not even in a retry."""
        if self.state is JobState.FINISHED:
            return 1.0
        return min(self._furthest / self.steps, 1.0) if self.steps > 0 else 0.0

    def seconds_gone(self, now_s: float) -> float:
        """Return how long the job has run, or ran. 0 while it waits."""
        if self.started_s is None:
            return 0.0
        end_s = now_s if self.ended_s is None else self.ended_s
        return max(end_s - self.started_s, 0.0)

    def seconds_left(self, now_s: float) -> float | None:
        """Return when the job may be done, judged by the steps so far, or None before the first."""
        if self._seconds_per_step is None or self._last_step is None or self.has_ended:
            return None
        step, step_s = self._last_step
        left_s = max(self.steps - step, 0) * self._seconds_per_step
        return max(left_s - (now_s - step_s), 0.0)

    def advance(self, event: Progress, now_s: float) -> None:
        """Note how far the job is, and how long a step takes."""
        if event.steps != self.steps:  # the server's sign of life is of another length than the job
            self._furthest = 0
        self.step, self.steps, self.stage = event.step, event.steps, event.stage
        self._furthest = max(self._furthest, event.step)
        if event.preview is not None:
            self.preview = event.preview
        self._measure(event.step, now_s)

    def _measure(self, step: int, now_s: float) -> None:
        if self._last_step is None or step < self._last_step[0] or step == 0:
            self._last_step = (
                step,
                now_s,
            )  # loading before it, or a failed attempt, does not count
            return
        last, last_s = self._last_step
        if step == last:
            return
        per_step = (now_s - last_s) / (step - last)
        former = self._seconds_per_step
        self._seconds_per_step = (
            per_step if former is None else former + _NEWEST_SHARE * (per_step - former)
        )
        self._last_step = (step, now_s)


class Jobs:
    """All jobs of the session, in the order in which they were added or moved to.

    Args:
        clock: Seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._jobs: dict[str, Job] = {}
        self._added = 0

    def __len__(self) -> int:
        return len(self._jobs)

    def all(self) -> list[Job]:
        """Return the jobs that are known, ended ones included."""
        return list(self._jobs.values())

    def newest(self) -> Job | None:
        """Return the job that was added last, wherever it was moved to."""
        return max(self._jobs.values(), key=lambda job: job.number, default=None)

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
        self._added += 1
        job = Job(request=request, number=self._added)
        self._jobs[job.job_id] = job
        self._forget_old()
        return job

    def move(self, job_id: str, offset: int) -> bool:
        """Move a waiting job among those that wait, by `offset` places: negative is earlier.

        It stops at the ends of the queue. Returns whether anything has changed: no other job moves.

        Raises:
            KeyError: There is no such job.
        """
        job = self._jobs[job_id]
        waiting = self.queued()
        if job not in waiting:
            return False
        place = waiting.index(job)
        target = min(max(place + offset, 0), len(waiting) - 1)
        waiting.insert(target, waiting.pop(place))
        in_order = iter(waiting)
        self._jobs = {
            found.job_id: found
            for known in self._jobs.values()
            for found in [next(in_order) if known.state is JobState.QUEUED else known]
        }
        return target != place

    def forget(self, job_id: str | None = None) -> int:
        """Forget one job that has ended, or all of those. Returns how many."""
        ended = [
            job.job_id
            for job in self._jobs.values()
            if job.has_ended and job_id in {None, job.job_id}
        ]
        for found in ended:
            del self._jobs[found]
        return len(ended)

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
                job.images_done += 1
                job.preview = event.image
            case Finished() | Failed() | Cancelled():
                self._end(job, event)
        return job

    def _end(self, job: Job, event: Finished | Failed | Cancelled) -> None:
        job.state = _STATE_OF_END[type(event)]
        job.result = event
        job.ended_s = self._clock()
        job.preview = None
        if isinstance(event, Failed):
            # Whoever waits reports the sentence; the generator's log has the rest too.
            logger.info("job %s failed: %s\n%s", event.job_id, event.message, event.detail)

    def _forget_old(self) -> None:
        ended = [job.job_id for job in self._jobs.values() if job.has_ended]
        for job_id in ended[: max(len(ended) - KEPT_JOBS, 0)]:
            del self._jobs[job_id]
