# SPDX-License-Identifier: GPL-3.0-or-later
# pyright: reportInvalidTypeForm=false, reportRedeclaration=false
"""Change the list of folders in which models are looked for. Side: Blender."""

from pathlib import Path
from typing import TYPE_CHECKING

import bpy
from bpy.props import IntProperty, StringProperty
from bpy.types import Context, Event, Operator

from .. import preferences

if TYPE_CHECKING:
    from bpy.stub_internal.rna_enums import OperatorReturnItems


class _NeedsPreferences(Operator):
    """Not registered itself: an operator on the add-on's preferences."""

    @classmethod
    def poll(cls, _context: Context) -> bool:
        if preferences.get() is None:
            cls.poll_message_set("Tessera was registered by a script and has no preferences")
            return False
        return True


class TESSERA_OT_add_model_folder(_NeedsPreferences):
    """Add a folder with diffusers models, or one such model, to those that are searched"""

    bl_idname = "tessera.add_model_folder"
    bl_label = "Add Model Folder"

    directory: StringProperty(
        name="Folder",
        description="The folder to add",
        subtype="DIR_PATH",
        options={"SKIP_SAVE"},
    )

    if TYPE_CHECKING:
        directory: str

    def invoke(self, context: Context, _event: Event) -> "set[OperatorReturnItems]":
        """Choose the folder in the file browser."""
        context.window_manager.fileselect_add(self)
        return {"RUNNING_MODAL"}

    def execute(self, context: Context) -> "set[OperatorReturnItems]":
        stored = preferences.get()
        assert stored is not None, "poll has looked"
        folder = Path(bpy.path.abspath(self.directory)) if self.directory else None
        if folder is None or not folder.is_dir():
            self.report({"ERROR"}, f'There is no folder "{self.directory}". Choose another one.')
            return {"CANCELLED"}
        preferences.migrate()
        if str(folder) not in preferences.model_folders():
            stored.model_folder_list.add().path = str(folder)
            stored.active_model_folder = len(stored.model_folder_list) - 1
            context.preferences.is_dirty = True
        return {"FINISHED"}


class TESSERA_OT_remove_model_folder(_NeedsPreferences):
    """Search the folder for models no more. It is not deleted"""

    bl_idname = "tessera.remove_model_folder"
    bl_label = "Remove Model Folder"

    index: IntProperty(
        name="Index", description="Which folder of the list, from 0", options={"SKIP_SAVE"}
    )

    if TYPE_CHECKING:
        index: int

    @classmethod
    def poll(cls, context: Context) -> bool:
        if not super().poll(context):
            return False
        stored = preferences.get()
        if stored is None or not stored.model_folder_list:
            cls.poll_message_set("There is no folder in the list")
            return False
        return True

    def execute(self, context: Context) -> "set[OperatorReturnItems]":
        stored = preferences.get()
        assert stored is not None, "poll has looked"
        count = len(stored.model_folder_list)
        if not 0 <= self.index < count:
            self.report(
                {"ERROR"}, f"There is no folder {self.index}. Use a value from 0 to {count - 1}."
            )
            return {"CANCELLED"}
        stored.model_folder_list.remove(self.index)
        stored.active_model_folder = max(min(stored.active_model_folder, count - 2), 0)
        context.preferences.is_dirty = True
        return {"FINISHED"}
