# SPDX-License-Identifier: GPL-3.0-or-later
# pyright: reportInvalidTypeForm=false, reportRedeclaration=false
"""What is stored for this machine. Side: Blender."""

from typing import TYPE_CHECKING, Any, cast

import bpy
from bpy.props import StringProperty
from bpy.types import AddonPreferences, Context

_CAN_BE_RELATIVE = "is_path_supports_blend_relative" in bpy.types.Property.bl_rna.properties
PATH_OPTIONS: Any = {"PATH_SUPPORTS_BLEND_RELATIVE"} if _CAN_BE_RELATIVE else set()
"""Options of a path that may begin with "//". From Blender 4.5 on it has to be said."""


class TESSERA_AP_preferences(AddonPreferences):
    """Where the generator and the models are."""

    bl_idname = __package__ or ""

    python_path: StringProperty(
        name="Python",
        description="An interpreter that has PyTorch and diffusers."
        " Leave it empty to use the one that Tessera installs",
        subtype="FILE_PATH",
        options=PATH_OPTIONS,
    )
    model_folders: StringProperty(
        name="Model Folders",
        description="Folders with diffusers models, separated by semicolons",
    )

    if TYPE_CHECKING:
        python_path: str
        model_folders: str

    def draw(self, context: Context) -> None:
        from .panels.runtime_rows import draw_runtime

        layout = self.layout
        assert layout is not None, "Blender sets it before draw"
        draw_runtime(layout, width_px=context.region.width, only_problems=False)
        column = layout.column()
        column.use_property_split = True
        column.prop(self, "python_path")
        column.prop(self, "model_folders")


def get() -> TESSERA_AP_preferences | None:
    """Return the preferences, or None when Tessera was registered by a script, without them."""
    addons = bpy.context.preferences.addons
    addon = addons.get(__package__)
    return cast(TESSERA_AP_preferences, addon.preferences) if addon is not None else None


def python_path() -> str:
    """Return the interpreter that the user has chosen. Empty if none."""
    preferences = get()
    return preferences.python_path if preferences is not None else ""


def model_folders() -> list[str]:
    """Return the folders in which the user keeps models."""
    preferences = get()
    text = preferences.model_folders if preferences is not None else ""
    return [folder for folder in text.split(";") if folder.strip()]
