# SPDX-License-Identifier: GPL-3.0-or-later
"""The add-on's preferences. Side: Blender."""

from typing import TYPE_CHECKING, cast

from bpy.types import Context, UILayout, UIList

from ..operators.model_folders import (
    TESSERA_OT_add_model_folder,
    TESSERA_OT_remove_model_folder,
)
from ..operators.open_log import TESSERA_OT_open_log
from ..operators.reset_preferences import TESSERA_OT_reset_preferences
from . import draw_text

if TYPE_CHECKING:
    from ..preferences import TESSERA_AP_preferences, TESSERA_PG_model_folder

_GENERATOR = ("python_path", "device", "memory_limit_gib")
_MACHINE = ("preview_interval_ms", "history_limit", "hub_token", "log_level")


class TESSERA_UL_model_folders(UIList):
    """The folders with models."""

    def draw_item(  # noqa: PLR0913, PLR0917  Blender counts them
        self,
        context: Context,
        layout: UILayout,
        data: "TESSERA_AP_preferences | None",
        item: "TESSERA_PG_model_folder | None",
        icon: int | None,
        active_data: object,
        active_property: str | None,
    ) -> None:
        if item is not None:
            layout.prop(item, "path", text="", emboss=False, icon="FILE_FOLDER")


def draw_preferences(
    layout: UILayout, preferences: "TESSERA_AP_preferences", *, width_px: float
) -> None:
    """Lay out all preferences of this machine."""
    from .optimizations import draw_options
    from .runtime_rows import draw_runtime

    draw_runtime(layout, width_px=width_px)
    _draw_column(layout, preferences, _GENERATOR)
    _draw_models(layout, preferences, width_px=width_px)
    _draw_column(layout, preferences, _MACHINE)
    row = layout.row()
    row.operator_context = "INVOKE_DEFAULT"
    row.operator(TESSERA_OT_open_log.bl_idname, icon="TEXT")
    row.operator(TESSERA_OT_reset_preferences.bl_idname, icon="LOOP_BACK")
    layout.label(text="Optimizations")
    draw_options(layout.box(), preferences.optimizations, width_px=width_px)


def _draw_column(
    layout: UILayout, preferences: "TESSERA_AP_preferences", names: tuple[str, ...]
) -> None:
    column = layout.column()
    column.use_property_split = True
    for name in names:
        column.prop(preferences, name)


def _draw_models(
    layout: UILayout, preferences: "TESSERA_AP_preferences", *, width_px: float
) -> None:
    from ..models import find_incomplete
    from ..preferences import model_folders

    column = layout.column()
    column.use_property_split = True
    column.prop(preferences, "default_model", placeholder="Starter")
    layout.label(text="Model Folders")
    row = layout.row()
    row.template_list(
        TESSERA_UL_model_folders.__name__,
        "",
        preferences,
        "model_folder_list",
        preferences,
        "active_model_folder",
        rows=2,
    )
    buttons = row.column(align=True)
    buttons.operator_context = "INVOKE_DEFAULT"
    buttons.operator(TESSERA_OT_add_model_folder.bl_idname, text="", icon="ADD")
    remove = buttons.operator(TESSERA_OT_remove_model_folder.bl_idname, text="", icon="REMOVE")
    cast(TESSERA_OT_remove_model_folder, remove).index = preferences.active_model_folder
    for model in find_incomplete(model_folders()):
        draw_text(layout, f"{model.name}: {model.missing}", width_px=width_px, icon="ERROR")
