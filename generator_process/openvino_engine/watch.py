# SPDX-License-Identifier: GPL-3.0-or-later
"""How the engine tells what it does, and learns that it is to stop. Side: generator."""

from collections.abc import Callable
from dataclasses import dataclass

CONVERTING = "Converting the model for OpenVINO"
PREPARING = "Preparing the model for OpenVINO"


def _ignore(_stage: str) -> None:
    pass


def _go_on() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Both functions are called on the thread of the task.

    `report` takes the name of the stage that begins, for the user. `raise_if_cancelled` raises
    `CancelledError` if the job is to stop.
    """

    report: Callable[[str], None] = _ignore
    raise_if_cancelled: Callable[[], None] = _go_on

    def begin(self, stage: str) -> None:
        """Start a stage, unless the job is to stop.

        Raises:
            CancelledError: The job is to stop.
        """
        self.raise_if_cancelled()
        self.report(stage)
