# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the generator is installed, and the buttons that change it. Side: Blender."""

from typing import cast

from bpy.types import UILayout

from .. import preferences, runtime
from ..operators.install_runtime import (
    TESSERA_OT_cancel_installation,
    TESSERA_OT_install_runtime,
    TESSERA_OT_remove_runtime,
)
from . import draw_text


def draw_progress(layout: UILayout) -> bool:
    """Lay out how far a running installation is, and the button that stops it.

    Returns whether one is running.
    """
    from ..installation import install

    installation = install.current()
    if installation is None or not installation.is_running:
        return False
    row = layout.row(align=True)
    row.progress(factor=installation.progress.fraction, text=installation.progress.text)
    row.operator(TESSERA_OT_cancel_installation.bl_idname, text="", icon="X")
    return True


def draw_runtime(layout: UILayout, *, width_px: float) -> None:
    """Lay out the state of the runtime environment, and the buttons that change it."""
    from ..installation import install

    if draw_progress(layout):
        return
    installation = install.current()
    state = runtime.state()
    box = layout.box()
    icon = "CHECKMARK" if state.is_installed and not state.is_outdated else "INFO"
    draw_text(box, state.message, width_px=width_px, icon=icon)
    if installation is not None and installation.error is not None:
        draw_text(box, str(installation.error), width_px=width_px, icon="ERROR")
    row = box.row()
    row.operator_context = "INVOKE_DEFAULT"
    button = row.operator(TESSERA_OT_install_runtime.bl_idname)
    stored = preferences.get()
    if stored is not None:
        cast(TESSERA_OT_install_runtime, button).openvino = stored.install_openvino
    row.operator(TESSERA_OT_remove_runtime.bl_idname)
    if stored is not None:
        box.prop(stored, "install_openvino")
