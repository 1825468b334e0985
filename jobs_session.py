# SPDX-License-Identifier: GPL-3.0-or-later
"""A generator and the jobs given to it. Side: Blender.

Jobs wait here, and the generator gets them one at a time. No datablock is kept from one pump to the
next: undo and loading a file remove them.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

from .arrivals import Arrival, Arrivals
from .delivery import Delivery, GenerationResult, Record
from .generator_process.client import Client
from .generator_process.errors import (
    ERROR_OF_KIND,
    CancelledError,
    GeneratorError,
    TesseraError,
    kind_of,
)
from .generator_process.jobs import Job, Jobs
from .generator_process.messages import (
    Cancel,
    Cancelled,
    Event,
    Failed,
    Finished,
    ImageFinished,
    Ready,
    Request,
)
from .generator_process.seeds import seed_from_text, seeds_of_images
from .preview import Preview
from .screen import redraw, remember_undo_step

logger = logging.getLogger(__name__)

_WAIT_S = 0.1  # between two looks at Ctrl-C


class Session:
    """A generator and the jobs given to it. Main thread only.

    Args:
        make_client: Called when the first job needs a generator, and again after `release`.
            Raises NotInstalledError when there is none.
        on_submit: Called when there is something to pump for.
    """

    def __init__(
        self, make_client: Callable[[], Client], on_submit: Callable[[], None] = lambda: None
    ) -> None:
        self.jobs = Jobs()
        self._make_client = make_client
        self._on_submit = on_submit
        self._client: Client | None = None
        self._last_ready: Ready | None = None
        self._records: dict[str, Record] = {}
        self._arrivals = Arrivals()
        self._preview = Preview()

    @property
    def ready(self) -> Ready | None:
        """What the generator said of itself when it last started, or None. Kept by `release`."""
        if self._client is not None and self._client.ready is not None:
            return self._client.ready
        return self._last_ready

    @property
    def is_busy(self) -> bool:
        """Whether a job waits or runs."""
        return bool(self.jobs.running() or self.jobs.queued())

    @property
    def newest(self) -> Job | None:
        """The job that was submitted last."""
        jobs = self.jobs.all()
        return jobs[-1] if jobs else None

    @property
    def last_result(self) -> GenerationResult | None:
        """What the last finished job has made and said, or None."""
        finished = [job for job in self.jobs.all() if isinstance(job.result, Finished)]
        return self.result_of(finished[-1]) if finished else None

    def submit(self, request: Request, delivery: Delivery | None = None) -> Job:
        """Put a job into the queue and return at once. The timer, or `wait`, does the rest.

        Raises:
            GeneratorError: The generator cannot take it. The job has failed then.
        """
        job = self.jobs.add(request)
        self._forget_records()
        self._records[job.job_id] = Record(request=request, delivery=delivery or Delivery())
        if self.jobs.next_queued() is job:
            self._send(job)
            if isinstance(job.result, Failed):
                raise ERROR_OF_KIND[job.result.kind](job.result.message)
        self._on_submit()
        return job

    def pump(self) -> None:
        """Apply what has arrived from the generator, and hand it the next job. Never waits."""
        for event in self._client.poll() if self._client is not None else ():
            self._take(event)
        self._deliver_next()
        job = self.jobs.next_queued()
        if job is not None:
            self._send(job)
        running = self.jobs.running()
        self._preview.show_newest(running[0] if running else None)
        redraw()

    def wait(self, job: Job) -> GenerationResult:
        """Pump until the job has ended, and return what it made. Ctrl-C cancels it.

        Raises:
            CancelledError: It was cancelled. Images that were finished are kept.
            TesseraError: It failed, for the reason that the user is to read.
        """
        try:
            while not job.has_ended:
                self.pump()
                if not (job.has_ended or self._arrivals.wait(_WAIT_S) or self._client is None):
                    self._client.wait(_WAIT_S)
        except KeyboardInterrupt:
            self.cancel(job.job_id)
            raise
        if isinstance(job.result, Failed):
            raise ERROR_OF_KIND[job.result.kind](job.result.message)
        if isinstance(job.result, Cancelled):
            raise CancelledError("The job was cancelled.")
        return self.result_of(job)

    def result_of(self, job: Job) -> GenerationResult:
        """Return what a job has made so far."""
        return self._records[job.job_id].result(job)

    def cancel(self, job_id: str | None = None) -> bool:
        """Stop one job, or all. Returns whether there was one to stop.

        A waiting job ends at once, a running one when the generator has stopped it.
        """
        found = False
        for job in (*self.jobs.queued(), *self.jobs.running()):
            if job_id not in {None, job.job_id}:
                continue
            found = True
            if job in self.jobs.queued():
                self._end(Cancelled(job_id=job.job_id))
            elif self._client is not None:
                self._client.send(Cancel(job_id=job.job_id))
        return found

    def rerun(self, job_id: str) -> Job:
        """Submit a job again, as it was given: without a typed seed another one is drawn.

        Raises:
            KeyError: There is no such job.
            GeneratorError: The generator cannot take it.
        """
        record = self._records[job_id]
        sampling = record.request.sampling
        if not record.delivery.seed_text.strip():
            first = seed_from_text("")
            sampling = replace(sampling, seeds=seeds_of_images(first, len(sampling.seeds)))
        request = replace(record.request, job_id=uuid4().hex, sampling=sampling)
        return self.submit(request, record.delivery)

    def forget(self, job_id: str | None = None) -> int:
        """Take one job that has ended, or all of those, off the list. Returns how many."""
        count = self.jobs.forget(job_id)
        self._forget_records()
        return count

    def release(self) -> None:
        """Cancel all jobs and end the generator, which frees its memory."""
        self._last_ready = self.ready
        client, self._client = self._client, None
        for job in self.jobs.queued():
            self._end(Cancelled(job_id=job.job_id))
        if client is not None:
            client.close()
            for event in client.poll():
                self._take(event)
        while self._arrivals.wait():
            self._deliver_next()
        for job in self.jobs.running():
            self._end(Cancelled(job_id=job.job_id))

    def close(self) -> None:
        """End everything. The session cannot be used afterwards."""
        self.release()
        self._arrivals.close()
        self._preview.close()

    def _forget_records(self) -> None:
        known = {job.job_id for job in self.jobs.all()}
        self._records = {key: value for key, value in self._records.items() if key in known}

    def _send(self, job: Job) -> None:
        try:
            if self._client is None:
                self._client = self._make_client()
            self._client.send(job.request)
        except TesseraError as error:
            self._fail(job.job_id, error)
        else:
            self.jobs.start(job)

    def _take(self, event: Event) -> None:
        match event:
            case ImageFinished() if event.job_id in self._records:
                settings = self._records[event.job_id].settings_of(event)
                self._arrivals.add(event, settings)
            case Finished() | Failed() | Cancelled():
                self._arrivals.add(event)
            case _:
                self.jobs.apply(event)

    def _deliver_next(self) -> None:
        """Deliver one image at most, and end the jobs whose images have all been delivered."""
        while (arrival := self._arrivals.take()) is not None:
            if not isinstance(arrival.event, ImageFinished):
                self._end(arrival.event)
                continue
            self._deliver(arrival)
            return

    def _deliver(self, arrival: Arrival) -> None:
        job_id = arrival.event.job_id
        if self.jobs.get(job_id).has_ended:
            return
        try:
            self._records[job_id].deliver(arrival)
        except Exception as error:  # the pump goes on, whatever a delivery meets
            if not isinstance(error, TesseraError):
                logger.exception("an image of job %s could not be delivered", job_id)
                error = GeneratorError(f"The image could not be put into Blender ({error}).")
            if self._client is not None:
                self._client.send(Cancel(job_id=job_id))
            self._fail(job_id, error)

    def _fail(self, job_id: str, error: TesseraError) -> None:
        self._end(Failed(job_id=job_id, kind=kind_of(error), message=str(error)))

    def _end(self, event: Finished | Failed | Cancelled) -> None:
        job = self.jobs.apply(event)
        if job is None:
            return
        self._preview.remove()
        if self._records[job.job_id].images:
            remember_undo_step("Generate")
