# SPDX-License-Identifier: GPL-3.0-or-later
"""What stops generation, and what ended a job, with the buttons that repair it. Side: Blender."""

from typing import TYPE_CHECKING, Any, cast

from bpy.types import Context, UILayout

from .. import problems
from ..operators.copy_text import TESSERA_OT_copy_text
from ..operators.open_log import TESSERA_OT_open_log
from . import draw_text
from .runtime_rows import draw_progress

if TYPE_CHECKING:
    from ..generator_process.messages import Failed
    from ..problems import Problem, Remedy


def draw_problems(layout: UILayout, context: Context) -> bool:
    """Lay out the installation that is going on, and what stops generation.

    Returns whether nothing can be generated now, so that the button can be greyed.
    """
    is_installing = draw_progress(layout)
    found = problems.problems_of(context)
    for problem in found:
        icon = "ERROR" if problem.stops else "INFO"
        draw_problem(layout.box(), problem, width_px=context.region.width, icon=icon)
    return is_installing or problems.stops(found)


def draw_problem(layout: UILayout, problem: "Problem", *, width_px: float, icon: str) -> None:
    """Lay out the sentence, and below it a button for each remedy."""
    draw_text(layout, problem.sentence, width_px=width_px, icon=icon)
    _draw_remedies(layout, problem.remedies)


def draw_failed(layout: UILayout, failed: "Failed", *, width_px: float) -> None:
    """Lay out why a job failed, what helps, and how to pass the message on."""
    box = layout.box()
    draw_text(box, failed.message, width_px=width_px, icon="ERROR")
    remedies = problems.REMEDIES.get(failed.kind, ())
    _draw_remedies(box, remedies)
    row = box.row(align=True)
    copy = row.operator(TESSERA_OT_copy_text.bl_idname, text="Copy", icon="COPYDOWN")
    cast(TESSERA_OT_copy_text, copy).text = failed.message
    row.operator(TESSERA_OT_open_log.bl_idname, icon="TEXT")


def _draw_remedies(layout: UILayout, remedies: "tuple[Remedy, ...]") -> None:
    column = layout.column(align=True)
    column.operator_context = "INVOKE_DEFAULT"
    for remedy in remedies:
        button: Any = column.operator(remedy.operator, text=remedy.button)
        for name, value in remedy.properties.items():
            setattr(button, name, value)
