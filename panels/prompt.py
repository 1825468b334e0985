# SPDX-License-Identifier: GPL-3.0-or-later
"""What the image should show, and the button that makes it. Side: Blender."""

from bpy.types import Context, Panel, UILayout

from .. import session
from ..operators.cancel import TESSERA_OT_cancel
from ..operators.generate import TESSERA_OT_generate
from ..prompting.structures import CUSTOM, STRUCTURES
from ..properties import TESSERA_PG_settings, settings_of
from . import ImageEditorPanel, ShaderEditorPanel
from .problems import draw_problems
from .status import draw_status


class PromptPanel(Panel):
    """Not registered itself: prompt, size, seed, the button and what is going on."""

    bl_label = "Generate"

    def draw(self, context: Context) -> None:
        layout = self.layout
        assert layout is not None, "Blender sets it before draw"
        settings = settings_of(context)
        is_stopped = draw_problems(layout, context)
        _draw_prompt(layout, settings)
        _draw_size(layout, settings)
        _draw_button(layout, is_enabled=not is_stopped)
        draw_status(layout, context)


class TESSERA_PT_prompt_image(ImageEditorPanel, PromptPanel):
    """Generate, in the Image Editor."""


class TESSERA_PT_prompt_shader(ShaderEditorPanel, PromptPanel):
    """Generate, in the Shader Editor."""


def _draw_prompt(layout: UILayout, settings: TESSERA_PG_settings) -> None:
    structure = STRUCTURES[settings.prompt_structure or CUSTOM]
    layout.prop(settings, "prompt_structure", text="")
    column = layout.column(align=True)
    column.prop(settings, "prompt", text="", placeholder="Prompt")
    column.prop(settings, "negative_prompt", text="", placeholder="Negative prompt")
    if structure.tokens:
        column = layout.column(align=True)
        for token in structure.tokens:
            column.prop(settings, token.name, text="", placeholder=token.label)


def _draw_size(layout: UILayout, settings: TESSERA_PG_settings) -> None:
    column = layout.column(align=True)
    column.prop(settings, "width")
    column.prop(settings, "height")
    layout.row(align=True).prop(settings, "seamless", expand=True)
    layout.prop(settings, "seed", text="", icon="RNDCURVE", placeholder="Random seed")


def _draw_button(layout: UILayout, *, is_enabled: bool) -> None:
    row = layout.row(align=True)
    row.scale_y = 1.5
    row.operator_context = "INVOKE_DEFAULT"
    button = row.row(align=True)
    button.enabled = is_enabled
    button.operator(TESSERA_OT_generate.bl_idname, icon="IMAGE_DATA")
    if session.is_busy():
        row.operator(TESSERA_OT_cancel.bl_idname, text="", icon="X")
