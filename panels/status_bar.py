# SPDX-License-Identifier: GPL-3.0-or-later
"""How far the running job is, in Blender's status bar. Side: Blender."""

import time
from typing import cast

import bpy
from bpy.types import Context, Header

from .. import session
from ..operators.cancel import TESSERA_OT_cancel
from .status import progress_text, time_text

_WIDTH = 11.0  # in units of a button's height


def draw(self: Header, _context: Context) -> None:
    """Lay out the progress of the running job, how many wait, and a button that stops it."""
    current = session.current()
    layout = self.layout
    assert layout is not None, "Blender sets it before draw"
    for job in current.jobs.running() if current is not None else ():
        assert current is not None, "it has the job"
        row = layout.row(align=True)
        bar = row.row(align=True)
        bar.ui_units_x = _WIDTH
        bar.progress(factor=job.progress, text=f"Tessera: {progress_text(job)}")
        cancel = row.operator(TESSERA_OT_cancel.bl_idname, text="", icon="X", emboss=False)
        cast(TESSERA_OT_cancel, cancel).job_id = job.job_id
        waiting = len(current.jobs.queued())
        more = f", {waiting} more" if waiting else ""
        layout.label(text=time_text(job, time.monotonic()) + more)


def add() -> None:
    """Draw in the status bar from now on."""
    bpy.types.STATUSBAR_HT_header.append(draw)


def remove() -> None:
    """Draw there no longer."""
    bpy.types.STATUSBAR_HT_header.remove(draw)
