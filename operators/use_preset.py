# SPDX-License-Identifier: GPL-3.0-or-later
# pyright: reportInvalidTypeForm=false, reportRedeclaration=false
"""Set all optimizations of this machine at once. Side: Blender."""

from typing import TYPE_CHECKING

from bpy.props import EnumProperty
from bpy.types import Context, Operator

from .. import optimization_settings, preferences, session
from ..optimization_presets import preset, presets

if TYPE_CHECKING:
    from bpy.stub_internal.rna_enums import OperatorReturnItems


class TESSERA_OT_use_preset(Operator):
    """Set all optimizations of this machine at once. What its device does not have stays off"""

    bl_idname = "tessera.use_preset"
    bl_label = "Use Preset"

    preset: EnumProperty(
        name="Preset",
        description="The set of optimizations",
        items=[(name.upper(), label, description) for name, label, description in presets()],
        options={"SKIP_SAVE"},
    )

    if TYPE_CHECKING:
        preset: str

    @classmethod
    def description(cls, _context: Context, properties: "TESSERA_OT_use_preset") -> str:
        """Return what the preset on the button does."""
        texts = {name.upper(): description for name, _, description in presets()}
        return texts[properties.preset]

    @classmethod
    def poll(cls, _context: Context) -> bool:
        if preferences.optimizations() is None:
            cls.poll_message_set("Tessera was registered by a script and has no preferences")
            return False
        return True

    def execute(self, _context: Context) -> "set[OperatorReturnItems]":
        from ..optimization_machine import machine_of

        group = preferences.optimizations()
        assert group is not None, "poll has looked"
        machine = machine_of(session.ready())
        chosen = preset(self.preset.lower(), machine.device, machine.environment)
        optimization_settings.store(group, chosen)
        return {"FINISHED"}
