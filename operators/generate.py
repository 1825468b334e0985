# SPDX-License-Identifier: GPL-3.0-or-later
"""Generate images from the prompt. Side: Blender."""

from typing import TYPE_CHECKING

from bpy.types import Context, Event, Operator

from .. import properties
from ..generator_process.errors import TesseraError
from ..optimization_settings import OptimizationSettings
from ..properties import GenerationSettings

if TYPE_CHECKING:
    from bpy.stub_internal.rna_enums import OperatorReturnItems

    from ..calls import Call
    from ..materials import MaterialTarget


class TESSERA_OT_generate(GenerationSettings, OptimizationSettings, Operator):
    """Generate images from the prompt"""

    bl_idname = "tessera.generate"
    bl_label = "Generate"

    @classmethod
    def poll(cls, context: Context) -> bool:
        if context.scene is None:
            cls.poll_message_set("There is no scene to take the settings from")
            return False
        return True

    def invoke(self, context: Context, event: Event) -> "set[OperatorReturnItems]":
        """Start the jobs and return at once."""
        try:
            self._submit(context)
        except TesseraError as error:
            return self._fail(error)
        return {"FINISHED"}

    def execute(self, context: Context) -> "set[OperatorReturnItems]":
        """Start the jobs and wait for their images."""
        try:
            result = self._submit(context).wait()
        except TesseraError as error:
            return self._fail(error)
        for sentence in (*result.notes, *result.skipped):
            self.report({"INFO"}, sentence)
        for sentence in result.failed:  # for scripts an exception: what was made is kept
            self.report({"ERROR"}, sentence)
        return {"FINISHED"}

    def _submit(self, context: Context) -> "Call":
        from .. import calls
        from ..generation_requests import plan_of

        values = properties.values_of_operator(self, context)
        planned = plan_of(values)
        wanted = values["assign_to_material"] or (
            in_shader_editor(context) and not self.properties.is_property_set("assign_to_material")
        )
        material = _material_target(context) if wanted else None
        return calls.submit(planned, values, material=material)

    def _fail(self, error: TesseraError) -> "set[OperatorReturnItems]":
        self.report({"ERROR"}, str(error))
        return {"CANCELLED"}


def in_shader_editor(context: Context) -> bool:
    """Tell whether the user works on a material's nodes."""
    return getattr(context.space_data, "tree_type", "") == "ShaderNodeTree"


def _material_target(context: Context) -> "MaterialTarget":
    from .. import materials

    return materials.target_of(context)
