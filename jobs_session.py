# SPDX-License-Identifier: GPL-3.0-or-later
"""A generator and the jobs given to it. Side: Blender.

Jobs wait here, and the generator gets them one at a time. No datablock is kept from one pump to the
next: undo and loading a file remove them.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

from . import notifications, preferences, screen
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
from .history.recorder import Recorder
from .preview import Preview

logger = logging.getLogger(__name__)

_WAIT_S = 0.1  # between two looks at Ctrl-C
_LOOK_S = 0.2  # between two redraws of a progress bar
_PUT_OFF_S = 20.0  # an image waits no longer for the user to end what he is doing
_DELIVERY_S = 0.004  # how long one pump may bring images into Blender: the user waits for it


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
        self._recorder = Recorder()
        self._is_closing = False
        self._waited_for: set[str] = set()
        self._put_off_since_s: float | None = None
        self._next_look_s = 0.0

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
    def needs_pump(self) -> bool:
        """Whether a job waits or runs, or the history is being written."""
        return self.is_busy or self._recorder.has_news

    @property
    def newest(self) -> Job | None:
        """The job that was submitted last."""
        return self.jobs.newest()

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

    def pump(self, *, may_wait_for_user: bool = False, is_seen: bool = True) -> None:
        """Apply what has arrived from the generator, and hand it the next job. Never waits.

        Args:
            may_wait_for_user: Images may arrive later while the user is moving something.
            is_seen: Whether Blender redraws its windows afterwards. If not, no preview is shown:
                converting each takes as long as a small step of the generator.
        """
        events = self._client.poll() if self._client is not None else []
        for event in events:
            self._take(event)
        if not (may_wait_for_user and self._is_better_later()):
            self._handle_arrivals()
        job = self.jobs.next_queued()
        if job is not None:
            self._send(job)
        if is_seen:
            self._show(is_news=bool(events))
            for sentence in self._recorder.take_problems():
                screen.report("WARNING", sentence)

    def hide_preview(self) -> None:
        """Put everything back that shows the image in the making. The next pump shows it again."""
        self._preview.remove()

    def wait(self, job: Job) -> GenerationResult:
        """Pump until the job has ended, and return what it made. Ctrl-C cancels it.

        Raises:
            CancelledError: It was cancelled. Images that were finished are kept.
            TesseraError: It failed, for the reason that the user is to read.
        """
        try:
            self._waited_for.add(job.job_id)
            while not job.has_ended:
                self.pump(is_seen=False)
                if not (job.has_ended or self._arrivals.wait(_WAIT_S) or self._client is None):
                    self._client.wait(_WAIT_S)
            self._recorder.wait()
            self._records[job.job_id].notes += self._recorder.take_problems()
        except KeyboardInterrupt:
            self.cancel(job.job_id)
            raise
        finally:
            self._waited_for.discard(job.job_id)
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
                job.is_stopping = True
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
        """Cancel all jobs and end the generator, which frees its memory. Finished images stay."""
        self._last_ready = self.ready
        client, self._client = self._client, None
        for job in self.jobs.queued():
            self._end(Cancelled(job_id=job.job_id))
        if client is not None:
            client.close()
            for event in client.poll():
                self._take(event)
        for job in self.jobs.running():
            if not self._arrivals.has_end_of(job.job_id):
                self._arrivals.add(Cancelled(job_id=job.job_id))
        while self._arrivals.wait():
            self._handle_arrivals()

    def close(self) -> None:
        """End everything. The session cannot be used afterwards."""
        self._is_closing = True
        self.release()
        self._arrivals.close()
        self._preview.close()
        self._recorder.close()

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

    def _handle_arrivals(self) -> None:
        """Keep images, and deliver those of a job that has ended. Stops when time is up."""
        end_s = time.perf_counter() + _DELIVERY_S
        while (arrival := self._arrivals.first()) is not None:
            if not self._handle(arrival):
                self._arrivals.remove_first()
            if time.perf_counter() > end_s:
                return

    def _handle(self, arrival: Arrival) -> bool:
        """Do a small part of what there is to do. Returns whether there is more of it."""
        event = arrival.event
        record = self._records.get(event.job_id)
        if record is None or self.jobs.get(event.job_id).has_ended:
            self.jobs.apply(event)
            return False
        try:
            if isinstance(event, ImageFinished):
                record.keep(arrival)
                self._remember(record, arrival)
                self.jobs.apply(event)
                return False
            self._hide_preview(is_result_near=record.has_files)
            if record.deliver_next():
                return True
        except TesseraError as error:
            self._note_failure(record, error)
        except Exception as error:  # the pump goes on, whatever a delivery meets
            logger.exception("an image of job %s could not be delivered", event.job_id)
            text = f"The image could not be put into Blender ({error})."
            self._note_failure(record, GeneratorError(text))
        else:
            self._hide_preview(is_result_near=False)
            self._end(event)
            return False
        return not isinstance(event, ImageFinished)

    def _remember(self, record: Record, arrival: Arrival) -> None:
        from .history import snapshots

        try:
            snapshots.keep(self._recorder, record, arrival)
        except Exception:  # the image matters more
            logger.exception("an image was not put into the history")

    def _remember_end(self, record: Record, job: Job) -> None:
        from .history import snapshots

        try:
            snapshots.finish(self._recorder, record, job)
        except Exception:
            logger.exception("the end of a job was not put into the history")

    def _hide_preview(self, *, is_result_near: bool) -> None:
        try:
            self._preview.remove(is_result_near=is_result_near)
        except Exception:  # the images matter more
            logger.exception("the preview could not be removed")

    def _is_better_later(self) -> bool:
        """Tell whether to put off what has arrived, for a while at most."""
        now_s = time.monotonic()
        if not self._arrivals or not screen.is_in_action():
            self._put_off_since_s = None
            return False
        if self._put_off_since_s is None:
            self._put_off_since_s = now_s
        return now_s - self._put_off_since_s < _PUT_OFF_S

    def _show(self, *, is_news: bool) -> None:
        """Show the newest preview, and how far the job is, no more often than one can see."""
        running = self.jobs.running()
        job = running[0] if running else None
        target = self._records[job.job_id].delivery.material if job is not None else None
        interval_s = preferences.preview_interval_ms() / 1000
        if self._preview.show_newest(job, target, interval_s):
            screen.redraw_images()
        now_s = time.monotonic()
        is_due = now_s >= self._next_look_s and (is_news or job is not None)
        if is_due or self._next_look_s == 0.0:
            self._next_look_s = now_s + _LOOK_S
            screen.redraw()

    def _note_failure(self, record: Record, error: TesseraError) -> None:
        job_id = record.request.job_id
        record.failure = record.failure or error
        if self._client is not None and not self._arrivals.has_end_of(job_id):
            self._client.send(Cancel(job_id=job_id))

    def _fail(self, job_id: str, error: TesseraError) -> None:
        self._end(Failed(job_id=job_id, kind=kind_of(error), message=str(error)))

    def _end(self, event: Finished | Failed | Cancelled) -> None:
        record = self._records[event.job_id]
        if record.failure is not None and not isinstance(event, Failed):
            error = record.failure
            event = Failed(job_id=event.job_id, kind=kind_of(error), message=str(error))
        job = self.jobs.apply(event)
        if job is None:
            return
        record.forget_files()
        self._remember_end(record, job)
        self._next_look_s = 0.0
        if record.images:
            screen.remember_undo_step("Generate")
        if not self._is_closing and event.job_id not in self._waited_for:
            notifications.tell_end(job, record.images)
