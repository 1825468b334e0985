# SPDX-License-Identifier: GPL-3.0-or-later
# pyright: reportInvalidTypeForm=false, reportRedeclaration=false
"""What can be done with the jobs of the queue, besides cancelling. Side: Blender."""

from typing import TYPE_CHECKING

from bpy.props import EnumProperty, StringProperty
from bpy.types import Context, Event, Operator

from .. import session
from ..generator_process.errors import TesseraError

if TYPE_CHECKING:
    from bpy.stub_internal.rna_enums import OperatorReturnItems

    from ..generator_process.jobs import Job

_EVERY_PLACE = 1_000_000  # more than a queue has
_OFFSETS = {"UP": -1, "DOWN": 1, "FIRST": -_EVERY_PLACE, "LAST": _EVERY_PLACE}


class _NeedsJobs:
    """A mix-in for operators that need at least one job, in whatever state."""

    @classmethod
    def poll(cls, _context: Context) -> bool:
        current = session.current()
        if current is None or not len(current.jobs):
            cls.poll_message_set("There are no jobs")  # pyright: ignore[reportAttributeAccessIssue]
            return False
        return True


class TESSERA_OT_queue_move(_NeedsJobs, Operator):
    """Let a waiting job run earlier or later"""

    bl_idname = "tessera.queue_move"
    bl_label = "Move Job"

    job_id: StringProperty(name="Job", options={"SKIP_SAVE"})
    direction: EnumProperty(
        name="Direction",
        items=[
            ("UP", "Up", "One place earlier"),
            ("DOWN", "Down", "One place later"),
            ("FIRST", "First", "Before all jobs that wait"),
            ("LAST", "Last", "After all jobs that wait"),
        ],
        options={"SKIP_SAVE"},
    )

    if TYPE_CHECKING:
        job_id: str
        direction: str

    def execute(self, context: Context) -> "set[OperatorReturnItems]":
        try:
            moved = session.get().jobs.move(self.job_id, _OFFSETS[self.direction])
        except KeyError:
            return _unknown(self, self.job_id)
        return {"FINISHED"} if moved else {"CANCELLED"}


class TESSERA_OT_queue_rerun(_NeedsJobs, Operator):
    """Make the images of a job again: the same ones if a seed was typed, others if it was not"""

    bl_idname = "tessera.queue_rerun"
    bl_label = "Run Again"

    job_id: StringProperty(
        name="Job", description="Which job. Empty means the newest", options={"SKIP_SAVE"}
    )

    if TYPE_CHECKING:
        job_id: str

    def invoke(self, context: Context, event: Event) -> "set[OperatorReturnItems]":
        """Start the job and return at once."""
        return {"CANCELLED"} if self._submit() is None else {"FINISHED"}

    def execute(self, context: Context) -> "set[OperatorReturnItems]":
        """Start the job and wait for its images."""
        job = self._submit()
        if job is None:
            return {"CANCELLED"}
        try:
            session.get().wait(job)
        except TesseraError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        return {"FINISHED"}

    def _submit(self) -> "Job | None":
        current = session.get()
        newest = current.newest
        assert newest is not None, "poll has looked"
        try:
            return current.rerun(self.job_id or newest.job_id)
        except KeyError:
            _unknown(self, self.job_id)
        except TesseraError as error:
            self.report({"ERROR"}, str(error))
        return None


class TESSERA_OT_queue_clear(_NeedsJobs, Operator):
    """Take jobs that have ended off the list. Their images stay"""

    bl_idname = "tessera.queue_clear"
    bl_label = "Clear Ended Jobs"

    job_id: StringProperty(
        name="Job", description="Which job. Empty means all that have ended", options={"SKIP_SAVE"}
    )

    if TYPE_CHECKING:
        job_id: str

    def execute(self, context: Context) -> "set[OperatorReturnItems]":
        count = session.get().forget(self.job_id or None)
        if self.job_id and not count:
            self.report({"ERROR"}, f'There is no job "{self.job_id}" that has ended.')
            return {"CANCELLED"}
        return {"FINISHED"}


def _unknown(operator: Operator, job_id: str) -> "set[OperatorReturnItems]":
    operator.report({"ERROR"}, f'There is no job "{job_id}".')
    return {"CANCELLED"}
