# SPDX-License-Identifier: GPL-3.0-or-later
"""What a task may use of the process that runs it. Side: generator."""

import threading
from collections.abc import Callable

from .errors import CancelledError
from .messages import ImageFinished, Progress


class TaskContext:
    """Given to every task. May be used from any thread of the task.

    Args:
        job_id: The job that runs.
        emit: Takes each event that the task emits, and returns when it has been written.
        cancelled: Is set, by another thread, as soon as the job is to stop.
    """

    def __init__(
        self,
        job_id: str,
        emit: Callable[[Progress | ImageFinished], None],
        cancelled: threading.Event,
    ) -> None:
        self.job_id = job_id
        self._emit = emit
        self._cancelled = cancelled

    @property
    def is_cancelled(self) -> bool:
        """Whether the job is to stop."""
        return self._cancelled.is_set()

    def emit(self, event: Progress | ImageFinished) -> None:
        """Send an event to Blender. The terminal event is not a task's: it returns or raises.

        Raises:
            ValueError: The event is not of this job, or of a kind that a task cannot emit.
            ProtocolError: The event cannot be sent.
            OSError: Blender is gone.
        """
        if not isinstance(event, Progress | ImageFinished) or event.job_id != self.job_id:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"job {self.job_id} cannot emit {type(event).__name__}")
        self._emit(event)

    def raise_if_cancelled(self) -> None:
        """End the task if the job is to stop. Call at least once for each step.

        Raises:
            CancelledError: The job is to stop.
        """
        if self._cancelled.is_set():
            raise CancelledError(f"Job {self.job_id} was cancelled.")
