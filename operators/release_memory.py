# SPDX-License-Identifier: GPL-3.0-or-later
"""Give back the memory that the generator holds. Side: Blender."""

from typing import TYPE_CHECKING

from bpy.types import Context, Operator

from .. import session

if TYPE_CHECKING:
    from bpy.stub_internal.rna_enums import OperatorReturnItems


class TESSERA_OT_release_memory(Operator):
    """End the generator, which frees all memory of its models. It starts again when needed"""

    bl_idname = "tessera.release_memory"
    bl_label = "Release Memory"

    def execute(self, context: Context) -> "set[OperatorReturnItems]":
        session.get().release()
        return {"FINISHED"}
