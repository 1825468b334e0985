# SPDX-License-Identifier: GPL-3.0-or-later
"""Make smaller images, when memory has run out. Side: Blender."""

from typing import TYPE_CHECKING

from bpy.types import Context, Operator

from ..generator_process.choices import MIN_SIZE_PX
from ..properties import settings_of

if TYPE_CHECKING:
    from bpy.stub_internal.rna_enums import OperatorReturnItems

_STEP_PX = 8


class TESSERA_OT_halve_size(Operator):
    """Halve width and height, which takes a quarter of the memory"""

    bl_idname = "tessera.halve_size"
    bl_label = "Halve the Size"
    bl_options = {"UNDO"}  # noqa: RUF012  Blender wants a plain set

    @classmethod
    def poll(cls, context: Context) -> bool:
        settings = settings_of(context)
        if max(settings.width, settings.height) <= MIN_SIZE_PX:
            cls.poll_message_set("The size is the smallest already")
            return False
        return True

    def execute(self, context: Context) -> "set[OperatorReturnItems]":
        settings = settings_of(context)
        settings.width, settings.height = _halved(settings.width), _halved(settings.height)
        return {"FINISHED"}


def _halved(size_px: int) -> int:
    return max(size_px // 2 // _STEP_PX * _STEP_PX, MIN_SIZE_PX)
