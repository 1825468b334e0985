# SPDX-License-Identifier: GPL-3.0-or-later
# pyright: reportInvalidTypeForm=false, reportRedeclaration=false
"""Open the log that error messages speak of. Side: Blender."""

from pathlib import Path
from typing import TYPE_CHECKING

import bpy
from bpy.props import EnumProperty
from bpy.types import Context, Operator

from .. import runtime

if TYPE_CHECKING:
    from bpy.stub_internal.rna_enums import OperatorReturnItems

_ITEMS = [
    ("GENERATOR", "Generator", "What the generator wrote"),
    ("INSTALLATION", "Installation", "What the installation of the generator wrote"),
]
_FILES = {"GENERATOR": "generator.log", "INSTALLATION": "install.log"}


class TESSERA_OT_open_log(Operator):
    """Open the generator's log in the program that this computer has for texts"""

    bl_idname = "tessera.open_log"
    bl_label = "Open Log"

    log: EnumProperty(
        name="Log", description="Which log to open", items=_ITEMS, options={"SKIP_SAVE"}
    )

    if TYPE_CHECKING:
        log: str

    def execute(self, context: Context) -> "set[OperatorReturnItems]":
        path: Path = runtime.log_folder() / _FILES[self.log]
        if not path.is_file():
            self.report({"ERROR"}, f"There is no log yet. It will be {path}.")
            return {"CANCELLED"}
        return bpy.ops.wm.path_open(filepath=str(path))
