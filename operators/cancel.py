# SPDX-License-Identifier: GPL-3.0-or-later
# pyright: reportInvalidTypeForm=false, reportRedeclaration=false
"""Stop generating. Side: Blender."""

from typing import TYPE_CHECKING

from bpy.props import StringProperty
from bpy.types import Context, Operator

from .. import session

if TYPE_CHECKING:
    from bpy.stub_internal.rna_enums import OperatorReturnItems


class TESSERA_OT_cancel(Operator):
    """Stop generating. Images that are finished are kept"""

    bl_idname = "tessera.cancel"
    bl_label = "Cancel"

    job_id: StringProperty(
        name="Job", description="Which job to stop. Empty stops all", options={"SKIP_SAVE"}
    )

    if TYPE_CHECKING:
        job_id: str

    @classmethod
    def poll(cls, context: Context) -> bool:
        if not session.is_busy():
            cls.poll_message_set("Nothing is being generated")
            return False
        return True

    def execute(self, context: Context) -> "set[OperatorReturnItems]":
        if not session.get().cancel(self.job_id or None):
            self.report({"ERROR"}, f'There is no running job "{self.job_id}".')
            return {"CANCELLED"}
        return {"FINISHED"}
