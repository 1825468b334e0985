# SPDX-License-Identifier: GPL-3.0-or-later
"""From the material to an image. Side: Blender."""

from bpy.types import Context, Panel

from ..operators.bake import TESSERA_OT_bake
from . import ShaderEditorPanel


class TESSERA_PT_bake_shader(ShaderEditorPanel, Panel):
    """Bake, in the Shader Editor."""

    bl_label = "Bake"
    bl_options = {"DEFAULT_CLOSED"}  # noqa: RUF012  Blender wants a plain set

    def draw(self, context: Context) -> None:
        del context
        layout = self.layout
        assert layout is not None, "Blender sets it before draw"
        layout.operator_context = "INVOKE_DEFAULT"
        layout.operator(TESSERA_OT_bake.bl_idname, icon="RENDER_STILL")
