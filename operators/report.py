# SPDX-License-Identifier: GPL-3.0-or-later
# pyright: reportInvalidTypeForm=false, reportRedeclaration=false
"""Tell the user something by Blender's reports. Side: Blender."""

from typing import TYPE_CHECKING

from bpy.props import EnumProperty, StringProperty
from bpy.types import Context, Event, Operator, Timer

if TYPE_CHECKING:
    from bpy.stub_internal.rna_enums import OperatorReturnItems

_DELAY_S = 0.01


class TESSERA_OT_report(Operator):
    """Show a sentence in the status bar and in the Info editor"""

    bl_idname = "tessera.report"
    bl_label = "Report"
    bl_options = {"INTERNAL"}  # noqa: RUF012  Blender wants a plain set

    kind: EnumProperty(
        name="Kind",
        items=[("INFO", "Information", ""), ("WARNING", "Warning", "")],
        options={"SKIP_SAVE"},
    )
    text: StringProperty(name="Text", options={"SKIP_SAVE"})

    if TYPE_CHECKING:
        kind: str
        text: str

    _timer: Timer | None = None

    def invoke(self, context: Context, event: Event) -> "set[OperatorReturnItems]":
        """Wait for the next event: what an operator reports to a script's call is not shown."""
        manager = context.window_manager
        self._timer = manager.event_timer_add(_DELAY_S, window=context.window)
        manager.modal_handler_add(self)
        return {"RUNNING_MODAL"}

    def modal(self, context: Context, event: Event) -> "set[OperatorReturnItems]":
        """Report, and let the event go on to whom it is for."""
        self.cancel(context)
        self.execute(context)
        return {"FINISHED", "PASS_THROUGH"}

    def cancel(self, context: Context) -> None:
        """Stop waiting."""
        if self._timer is not None:
            context.window_manager.event_timer_remove(self._timer)
            self._timer = None

    def execute(self, context: Context) -> "set[OperatorReturnItems]":
        """Report now."""
        self.report({self.kind}, self.text)  # pyright: ignore[reportArgumentType]
        return {"FINISHED"}
