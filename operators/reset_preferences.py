# SPDX-License-Identifier: GPL-3.0-or-later
"""Set all preferences of Tessera back. Side: Blender."""

from typing import TYPE_CHECKING

from bpy.types import Context, Event, Operator

from .. import preferences

if TYPE_CHECKING:
    from bpy.stub_internal.rna_enums import OperatorReturnItems


class TESSERA_OT_reset_preferences(Operator):
    """Set all preferences of Tessera back. The installed generator, models and images stay"""

    bl_idname = "tessera.reset_preferences"
    bl_label = "Reset Preferences"

    @classmethod
    def poll(cls, _context: Context) -> bool:
        if preferences.get() is None:
            cls.poll_message_set("Tessera was registered by a script and has no preferences")
            return False
        return True

    def invoke(self, context: Context, event: Event) -> "set[OperatorReturnItems]":
        """Ask first."""
        return context.window_manager.invoke_confirm(self, event)

    def execute(self, context: Context) -> "set[OperatorReturnItems]":
        preferences.reset()
        context.preferences.is_dirty = True
        return {"FINISHED"}
