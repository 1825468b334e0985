# SPDX-License-Identifier: GPL-3.0-or-later
# pyright: reportInvalidTypeForm=false, reportRedeclaration=false
"""Take the seed of an image for the next one. Side: Blender."""

from typing import TYPE_CHECKING

from bpy.props import StringProperty
from bpy.types import Context, Operator

from ..properties import settings_of

if TYPE_CHECKING:
    from bpy.stub_internal.rna_enums import OperatorReturnItems


class TESSERA_OT_reuse_seed(Operator):
    """Use this seed for the next image: with the same settings it becomes the same image"""

    bl_idname = "tessera.reuse_seed"
    bl_label = "Reuse Seed"

    seed: StringProperty(name="Seed", options={"SKIP_SAVE"})

    if TYPE_CHECKING:
        seed: str

    def execute(self, context: Context) -> "set[OperatorReturnItems]":
        settings_of(context).seed = self.seed
        return {"FINISHED"}
