# SPDX-License-Identifier: GPL-3.0-or-later
"""What is going on, and what came of the last job. Side: Blender."""

import time
from typing import TYPE_CHECKING, cast

from bpy.types import Context, UILayout

from .. import session, wording
from ..operators.cancel import TESSERA_OT_cancel
from ..operators.reuse_seed import TESSERA_OT_reuse_seed
from ..operators.save_image import TESSERA_OT_save_image
from . import draw_text
from .problems import draw_failed

if TYPE_CHECKING:
    from ..delivery import GenerationResult
    from ..generator_process.jobs import Job
    from ..jobs_session import Session

_PREVIEW_SCALE = 8.0  # in units of a button's height


def draw_status(layout: UILayout, context: Context) -> None:
    """Lay out the running job, the waiting ones, and how the last one ended."""
    current = session.current()
    if current is not None:
        _draw_jobs(layout, current, context)
    _draw_image(layout, context, current)


def progress_text(job: "Job") -> str:
    """Return what a running job does, and how far it is, in a few letters."""
    if job.is_stopping:
        return "Stopping"
    stage = job.stage or "Starting"
    return f"{stage} {job.step}/{job.steps}" if job.steps else stage


def time_text(job: "Job", now_s: float) -> str:
    """Return how long a running job has taken, and will take if that can be told."""
    gone = wording.clock(job.seconds_gone(now_s))
    left_s = job.seconds_left(now_s)
    return gone if left_s is None else f"{gone}, {wording.clock(left_s)} left"


def _draw_jobs(layout: UILayout, current: "Session", context: Context) -> None:
    waiting = current.jobs.queued()
    for job in current.jobs.running():
        _draw_running(layout, job, is_only=not waiting)
        _draw_preview(layout, context)
    if waiting:
        verb = "waits" if len(waiting) == 1 else "wait"
        layout.label(text=f"{wording.counted(len(waiting), 'job')} {verb}", icon="TIME")
    newest = current.newest
    if newest is not None and newest.has_ended:
        _draw_end(layout, newest, current.result_of(newest), width_px=context.region.width)


def _draw_running(layout: UILayout, job: "Job", *, is_only: bool) -> None:
    """Lay out a job. A button of its own stops it where the one beside Generate stops more."""
    row = layout.row(align=True)
    row.progress(factor=job.progress, text=progress_text(job))
    if not is_only:
        cancel = row.operator(TESSERA_OT_cancel.bl_idname, text="", icon="X")
        cast(TESSERA_OT_cancel, cancel).job_id = job.job_id
    column = layout.column(align=True)
    column.label(text=time_text(job, time.monotonic()))
    if job.images_total > 1:
        column.label(text=f"{job.images_done} of {job.images_total} images")


def _draw_preview(layout: UILayout, context: Context) -> None:
    """Show the image in the making where no editor shows it at full size."""
    if context.space_data is None or context.space_data.type == "IMAGE_EDITOR":
        return
    from ..preview import find

    image = find()
    if image is not None and image.preview is not None:
        layout.template_icon(icon_value=image.preview.icon_id, scale=_PREVIEW_SCALE)


def _draw_end(layout: UILayout, job: "Job", result: "GenerationResult", *, width_px: float) -> None:
    from ..generator_process.messages import Cancelled, Failed

    if isinstance(job.result, Failed):
        draw_failed(layout, job.result, width_px=width_px)
        return
    if isinstance(job.result, Cancelled):
        layout.label(text="Cancelled", icon="CANCEL")
        return
    taken = wording.duration(job.seconds_gone(time.monotonic()))
    images = wording.counted(len(result.images), "image")
    layout.label(text=f"{images} in {taken}", icon="CHECKMARK")
    for note in result.notes:
        draw_text(layout, note, width_px=width_px, icon="INFO")
    for seed in result.seeds[-1:]:
        _draw_seed(layout, seed)


def _draw_image(layout: UILayout, context: Context, current: "Session | None") -> None:
    from .. import image_settings

    image = getattr(context.space_data, "image", None)
    settings = image_settings.of_image(image) if image is not None else None
    if image is None or settings is None:
        return
    layout.separator()
    newest = current.newest if current is not None else None
    if (
        current is None
        or newest is None
        or settings.seed not in current.result_of(newest).seeds[-1:]
    ):
        _draw_seed(layout, settings.seed)
    layout.operator_context = "INVOKE_DEFAULT"
    properties = layout.operator(TESSERA_OT_save_image.bl_idname, icon="FILE_TICK")
    cast(TESSERA_OT_save_image, properties).image = image.name


def _draw_seed(layout: UILayout, seed: int) -> None:
    row = layout.row(align=True)
    row.label(text=f"Seed {seed}")
    properties = row.operator(TESSERA_OT_reuse_seed.bl_idname, text="", icon="PASTEDOWN")
    cast(TESSERA_OT_reuse_seed, properties).seed = str(seed)
