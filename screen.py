# SPDX-License-Identifier: GPL-3.0-or-later
"""What of Blender's windows Tessera touches. Side: Blender."""

import logging

import bpy
from bpy.types import Area, Image, SpaceImageEditor, Window

_LOG = logging.getLogger(__name__)

_WITH_SIDEBAR = {"IMAGE_EDITOR", "NODE_EDITOR", "VIEW_3D"}


def image_editors() -> list[SpaceImageEditor]:
    """Return the Image Editors that may show another image: UV Editors and pinned ones may not."""
    spaces = [area.spaces.active for area in _areas() if area.ui_type == "IMAGE_EDITOR"]
    return [
        space for space in spaces if isinstance(space, SpaceImageEditor) and not space.use_image_pin
    ]


def show(image: Image) -> None:
    """Show an image in every Image Editor that may show another one."""
    for space in image_editors():
        space.image = image


def redraw() -> None:
    """Have the sidebars drawn in which Tessera tells how far a job is, and the status bars."""
    for area in _areas():
        if area.type == "PREFERENCES":
            area.tag_redraw()
        elif area.type in _WITH_SIDEBAR:
            for region in area.regions:
                if region.type == "UI":
                    region.tag_redraw()
    for window in _windows():
        # Areas of the status bar cannot be reached. It is drawn again when a window's view layer is
        # set, and nothing else changes.
        window.view_layer = window.view_layer


def redraw_images() -> None:
    """Have the Image Editors drawn that show the image in the making."""
    for area in _areas():
        if area.type == "IMAGE_EDITOR":
            area.tag_redraw()


def remember_undo_step(message: str) -> None:
    """Let the user undo what has arrived, and not lose it by undoing what was done before."""
    if bpy.app.background:
        return
    try:
        bpy.ops.ed.undo_push(message=message)
    except RuntimeError as error:  # Blender is in a mode that keeps no such steps
        _LOG.info("No undo step was made: %s", error)


def is_in_action() -> bool:
    """Tell whether the user is in the middle of something that ends with an undo step.

    Such as moving an object: an undo step made now would have it half-way.
    """
    return any(
        "UNDO" in operator.bl_options
        for window in _windows()
        for operator in window.modal_operators
    )


def report(kind: str, text: str) -> None:
    """Tell the user by Blender's own reports, without taking the focus.

    Args:
        kind: "INFO" or "WARNING". Blender shows an "ERROR" in a window at the mouse.
        text: One sentence or two.
    """
    windows = _windows()
    if bpy.app.background or not windows:
        return
    with bpy.context.temp_override(window=windows[0]):
        bpy.ops.tessera.report("INVOKE_DEFAULT", kind=kind, text=text)  # pyright: ignore[reportAttributeAccessIssue]


def _windows() -> list[Window]:
    manager = bpy.context.window_manager
    return list(manager.windows) if manager is not None else []


def _areas() -> list[Area]:
    return [area for window in _windows() for area in window.screen.areas]
