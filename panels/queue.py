# SPDX-License-Identifier: GPL-3.0-or-later
"""The jobs: what has become of each, and what can be done with them. Side: Blender."""

import time
from typing import TYPE_CHECKING, cast

from bpy.types import Context, Panel, UILayout

from .. import session, wording
from ..operators.cancel import TESSERA_OT_cancel
from ..operators.queue_jobs import (
    TESSERA_OT_queue_clear,
    TESSERA_OT_queue_move,
    TESSERA_OT_queue_rerun,
)
from . import ImageEditorPanel, ShaderEditorPanel, draw_text
from .status import progress_text

if TYPE_CHECKING:
    from ..generator_process.jobs import Job
    from ..jobs_session import Session

SHOWN_WAITING = 20
"""More rows than this are only counted: they would make the sidebar long and slow."""

SHOWN_ENDED = 10
"""As for `SHOWN_WAITING`."""

_ICONS = {
    "QUEUED": "TIME",
    "RUNNING": "PLAY",
    "FINISHED": "CHECKMARK",
    "FAILED": "ERROR",
    "CANCELLED": "CANCEL",
}
_PROMPT_LETTERS = 80  # Blender cuts what is too long for the sidebar


class QueuePanel(Panel):
    """Not registered itself: every job with its buttons, those that run or wait first."""

    bl_label = "Queue"
    bl_options = {"DEFAULT_CLOSED"}  # noqa: RUF012  Blender wants a plain set

    def draw_header_preset(self, context: Context) -> None:
        """Say how much there is to do, also while the panel is closed."""
        layout = self.layout
        assert layout is not None, "Blender sets it before draw"
        current = session.current()
        count = len(current.jobs.running()) + len(current.jobs.queued()) if current else 0
        if count:
            layout.label(text=f"{count} to do")

    def draw(self, context: Context) -> None:
        layout = self.layout
        assert layout is not None, "Blender sets it before draw"
        current = session.current()
        if current is None or not len(current.jobs):
            layout.label(text="No jobs yet")
            return
        _draw_all(layout, current, width_px=context.region.width)


class TESSERA_PT_queue_image(ImageEditorPanel, QueuePanel):
    """The queue, in the Image Editor."""


class TESSERA_PT_queue_shader(ShaderEditorPanel, QueuePanel):
    """The queue, in the Shader Editor."""


def _draw_all(layout: UILayout, current: "Session", *, width_px: float) -> None:
    for job in current.jobs.running():
        _draw_running(layout, job)
    waiting = current.jobs.queued()
    for job in waiting[:SHOWN_WAITING]:
        _draw_waiting(layout, job, is_first=job is waiting[0], is_last=job is waiting[-1])
    _draw_rest(layout, len(waiting) - SHOWN_WAITING, "waits", "wait")
    ended = [job for job in current.jobs.all() if job.has_ended]
    ended.sort(key=lambda job: job.ended_s or 0.0, reverse=True)
    for job in ended[:SHOWN_ENDED]:
        _draw_ended(layout, job, width_px=width_px)
    _draw_rest(layout, len(ended) - SHOWN_ENDED, "has ended", "have ended")
    row = layout.row(align=True)
    row.operator(TESSERA_OT_cancel.bl_idname, text="Cancel All")
    clear = row.row(align=True)
    clear.enabled = bool(ended)
    clear.operator(TESSERA_OT_queue_clear.bl_idname, text="Clear Ended")


def _draw_rest(layout: UILayout, count: int, one: str, several: str) -> None:
    if count > 0:
        layout.label(text=f"{count} more {one if count == 1 else several}", icon="BLANK1")


def _draw_running(layout: UILayout, job: "Job") -> None:
    box = _draw_title(layout, job)
    row = box.row(align=True)
    row.progress(factor=job.progress, text=progress_text(job))
    _draw_cancel(row, job)
    if job.images_total > 1:
        box.label(text=f"{job.images_done} of {job.images_total} images", icon="BLANK1")


def _draw_waiting(layout: UILayout, job: "Job", *, is_first: bool, is_last: bool) -> None:
    row = _draw_title(layout, job).row(align=True)
    row.label(text=_images(job.images_total), icon="BLANK1")
    for direction, icon, is_off in (
        ("UP", "TRIA_UP", is_first),
        ("DOWN", "TRIA_DOWN", is_last),
    ):
        part = row.row(align=True)
        part.enabled = not is_off
        move = part.operator(TESSERA_OT_queue_move.bl_idname, text="", icon=icon)
        cast(TESSERA_OT_queue_move, move).job_id = job.job_id
        cast(TESSERA_OT_queue_move, move).direction = direction
    _draw_cancel(row, job)


def _draw_ended(layout: UILayout, job: "Job", *, width_px: float) -> None:
    box = _draw_title(layout, job)
    if job.sentence:
        draw_text(box, job.sentence, width_px=width_px, icon="BLANK1")
    row = box.row(align=True)
    row.label(text=_result(job), icon="BLANK1")
    row.operator_context = "INVOKE_DEFAULT"
    rerun = row.operator(TESSERA_OT_queue_rerun.bl_idname, text="", icon="FILE_REFRESH")
    cast(TESSERA_OT_queue_rerun, rerun).job_id = job.job_id
    clear = row.operator(TESSERA_OT_queue_clear.bl_idname, text="", icon="REMOVE")
    cast(TESSERA_OT_queue_clear, clear).job_id = job.job_id


def _draw_title(layout: UILayout, job: "Job") -> UILayout:
    """Lay out the icon and the prompt, and return the box for the rest."""
    box = layout.box().column(align=True)
    prompt = wording.short(job.request.sampling.prompt, _PROMPT_LETTERS)
    box.label(text=prompt or "Without a prompt", icon=_ICONS[job.state.name])  # pyright: ignore[reportArgumentType]
    return box


def _draw_cancel(layout: UILayout, job: "Job") -> None:
    cancel = layout.operator(TESSERA_OT_cancel.bl_idname, text="", icon="X")
    cast(TESSERA_OT_cancel, cancel).job_id = job.job_id


def _result(job: "Job") -> str:
    """Return in a few letters what a job that has ended has made."""
    match job.state.name:
        case "FINISHED":
            taken = wording.duration(job.seconds_gone(time.monotonic()))
            return f"{_images(job.images_done)}, {taken}"
        case "CANCELLED":
            return f"Cancelled, {_images(job.images_done)}" if job.images_done else "Cancelled"
        case _:
            return f"Failed, {_images(job.images_done)}" if job.images_done else "Failed"


def _images(number: int) -> str:
    return wording.counted(number, "image")
