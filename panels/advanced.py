# SPDX-License-Identifier: GPL-3.0-or-later
"""How the image is made: model, sampling, how many. Side: Blender."""

from bpy.types import Context, Panel

from ..operators.release_memory import TESSERA_OT_release_memory
from ..properties import settings_of
from . import ImageEditorPanel, ShaderEditorPanel


class AdvancedPanel(Panel):
    """Not registered itself: the settings that seldom change."""

    bl_label = "Advanced"
    bl_options = {"DEFAULT_CLOSED"}  # noqa: RUF012  Blender wants a plain set

    def draw(self, context: Context) -> None:
        layout = self.layout
        assert layout is not None, "Blender sets it before draw"
        settings = settings_of(context)
        column = layout.column()
        column.use_property_split = True
        column.use_property_decorate = False
        for name in ("model", "steps", "guidance", "scheduler"):
            column.prop(settings, name)
        column.prop(settings, "style", placeholder="None")
        column.prop(settings, "prompts_text", placeholder="None")
        column.separator()
        for name in ("number_of_images", "preview", "assign_to_material"):
            column.prop(settings, name)
        layout.operator(TESSERA_OT_release_memory.bl_idname)


class TESSERA_PT_advanced_image(ImageEditorPanel, AdvancedPanel):
    """Advanced, in the Image Editor."""


class TESSERA_PT_advanced_shader(ShaderEditorPanel, AdvancedPanel):
    """Advanced, in the Shader Editor."""
