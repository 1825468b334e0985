# SPDX-License-Identifier: GPL-3.0-or-later
"""The sidebars. A module for each concern, drawn alike in every editor. Side: Blender."""

from bpy.types import Context, UILayout

CATEGORY = "Tessera"


class ImageEditorPanel:
    """A mix-in: in the sidebar of the Image Editor."""

    bl_space_type = "IMAGE_EDITOR"
    bl_region_type = "UI"
    bl_category = CATEGORY


class ShaderEditorPanel:
    """A mix-in: in the sidebar of the Shader Editor."""

    bl_space_type = "NODE_EDITOR"
    bl_region_type = "UI"
    bl_category = CATEGORY

    @classmethod
    def poll(cls, context: Context) -> bool:
        return getattr(context.space_data, "tree_type", "") == "ShaderNodeTree"


def draw_text(layout: UILayout, text: str, *, width_px: float, icon: str = "NONE") -> None:
    """Lay out a sentence in as many lines as the sidebar needs."""
    column = layout.column(align=True)
    indent = "NONE" if icon == "NONE" else "BLANK1"
    for number, line in enumerate(wrap(text, width_px)):
        column.label(text=line, icon=indent if number else icon)  # pyright: ignore[reportArgumentType]


def wrap(text: str, width_px: float) -> list[str]:
    """Return the text in lines that fit into a region of this width, by a wide average letter."""
    import textwrap

    import bpy

    scale = bpy.context.preferences.system.ui_scale or 1.0  # 0 without a window
    letter_px = 7.0 * scale
    columns = max(int((width_px - 60) / letter_px), 16)
    return textwrap.wrap(text, columns) or [""]
