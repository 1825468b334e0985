# SPDX-License-Identifier: GPL-3.0-or-later
# pyright: reportInvalidTypeForm=false, reportRedeclaration=false
"""Copy a message to the clipboard. Side: Blender."""

from typing import TYPE_CHECKING

from bpy.props import StringProperty
from bpy.types import Context, Operator

if TYPE_CHECKING:
    from bpy.stub_internal.rna_enums import OperatorReturnItems


class TESSERA_OT_copy_text(Operator):
    """Copy the message to the clipboard"""

    bl_idname = "tessera.copy_text"
    bl_label = "Copy"

    text: StringProperty(name="Text", description="What to copy", options={"SKIP_SAVE"})

    if TYPE_CHECKING:
        text: str

    def execute(self, context: Context) -> "set[OperatorReturnItems]":
        context.window_manager.clipboard = self.text
        return {"FINISHED"}
