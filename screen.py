# SPDX-License-Identifier: GPL-3.0-or-later
"""What of Blender's windows Tessera touches. Side: Blender."""

import logging

import bpy
from bpy.types import Image, SpaceImageEditor

_LOG = logging.getLogger(__name__)


def image_editors() -> list[SpaceImageEditor]:
    """Return the Image Editors that may show another image: UV Editors and pinned ones may not."""
    spaces = [
        area.spaces.active
        for window in bpy.context.window_manager.windows
        for area in window.screen.areas
        if area.ui_type == "IMAGE_EDITOR"
    ]
    return [
        space for space in spaces if isinstance(space, SpaceImageEditor) and not space.use_image_pin
    ]


def show(image: Image) -> None:
    """Show an image in every Image Editor that may show another one."""
    for space in image_editors():
        space.image = image


def redraw() -> None:
    """Have the editors drawn in which Tessera shows something."""
    for window in bpy.context.window_manager.windows:
        for area in window.screen.areas:
            if area.type in {"IMAGE_EDITOR", "NODE_EDITOR", "PREFERENCES"}:
                area.tag_redraw()


def remember_undo_step(message: str) -> None:
    """Let the user undo what has arrived, and not lose it by undoing what was done before."""
    if bpy.app.background:
        return
    try:
        bpy.ops.ed.undo_push(message=message)
    except RuntimeError as error:  # Blender is in a mode that keeps no such steps
        _LOG.info("No undo step was made: %s", error)
