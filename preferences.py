# SPDX-License-Identifier: GPL-3.0-or-later
# pyright: reportInvalidTypeForm=false, reportRedeclaration=false
"""What is stored for this machine. Side: Blender."""

from typing import TYPE_CHECKING, Any, cast

import bpy
from bpy.props import BoolProperty, PointerProperty, StringProperty
from bpy.types import AddonPreferences, Context

from .optimization_settings import TESSERA_PG_optimizations

_CAN_BE_RELATIVE = "is_path_supports_blend_relative" in bpy.types.Property.bl_rna.properties
PATH_OPTIONS: Any = {"PATH_SUPPORTS_BLEND_RELATIVE"} if _CAN_BE_RELATIVE else set()
"""Options of a path that may begin with "//". From Blender 4.5 on it has to be said."""

OPENVINO_DESCRIPTION = (
    "Install Intel's engine too, with which processors and Intel GPUs make images faster. Choose it"
    " as the Engine of the optimizations"
)


class TESSERA_AP_preferences(AddonPreferences):
    """Where the generator and the models are, and how this machine makes images."""

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
    install_openvino: BoolProperty(
        name="With OpenVINO", description=OPENVINO_DESCRIPTION, default=False
    )
    optimizations: PointerProperty(type=TESSERA_PG_optimizations)

    if TYPE_CHECKING:
        python_path: str
        model_folders: str
        install_openvino: bool
        optimizations: TESSERA_PG_optimizations

    def draw(self, context: Context) -> None:
        from .panels.optimizations import draw_options
        from .panels.runtime_rows import draw_runtime

        layout, width_px = self.layout, context.region.width
        assert layout is not None, "Blender sets it before draw"
        draw_runtime(layout, width_px=width_px, only_problems=False)
        column = layout.column()
        column.use_property_split = True
        column.prop(self, "python_path")
        column.prop(self, "model_folders")
        layout.label(text="Optimizations")
        draw_options(layout.box(), self.optimizations, width_px=width_px)


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


def optimizations() -> TESSERA_PG_optimizations | None:
    """Return the optimizations of this machine, or None when Tessera has no preferences."""
    preferences = get()
    return preferences.optimizations if preferences is not None else None
