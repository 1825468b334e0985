# SPDX-License-Identifier: GPL-3.0-or-later
"""Images on their way from the generator to Blender. Side: Blender.

Making a PNG file of a large image takes longer than a pump may block, so a thread does it. Events
keep their order: the end of a job waits for the images before it.
"""

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from . import images
from .generator_process.messages import Cancelled, Failed, Finished, ImageFinished
from .metadata import ImageSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """An event whose turn has come. `settings` and `file` are those of an image's.

    `file.result()` returns the PNG file or raises InvalidResultError.
    """

    event: ImageFinished | Finished | Failed | Cancelled
    settings: ImageSettings | None = None
    file: "Future[bytes] | None" = None


class Arrivals:
    """A queue."""

    def __init__(self) -> None:
        self._queue: deque[Arrival] = deque()
        self._thread: ThreadPoolExecutor | None = None  # none before the first image

    def __bool__(self) -> bool:
        return bool(self._queue)

    def add(
        self,
        event: ImageFinished | Finished | Failed | Cancelled,
        settings: ImageSettings | None = None,
    ) -> None:
        """Put an event at the end, and start to make the file of an image."""
        file = None
        if isinstance(event, ImageFinished):
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, thread_name_prefix="tessera images")
            file = self._thread.submit(images.png_of, event.image, settings)
        self._queue.append(Arrival(event=event, settings=settings, file=file))

    def first(self) -> Arrival | None:
        """Return the next one if it is ready, and leave it there. Never waits."""
        if not self._queue:
            return None
        file = self._queue[0].file
        return self._queue[0] if file is None or file.done() else None

    def remove_first(self) -> None:
        """Forget the next one."""
        self._queue.popleft()

    def has_end_of(self, job_id: str) -> bool:
        """Tell whether the terminal event of a job is waiting."""
        return any(
            arrival.event.job_id == job_id and not isinstance(arrival.event, ImageFinished)
            for arrival in self._queue
        )

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the next one is ready. Returns False at once if there is none."""
        if not self._queue:
            return False
        file = self._queue[0].file
        if file is not None:
            wait([file], timeout_s)
        return True

    def close(self) -> None:
        """End the thread and forget what waits."""
        self._queue.clear()
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)
            self._thread = None
