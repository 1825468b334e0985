# SPDX-License-Identifier: GPL-3.0-or-later
"""What Blender tells Tessera about undo and files. Side: Blender.

The image in the making must not be in a file that is saved, and what undo or a file brings back of
it goes away. A job that runs shows its preview again at the next pump.
"""

import bpy
from bpy.app.handlers import persistent

from . import session

_PREVIEW_MARK = "tessera_preview"  # as preview.py and materials/live.py write it: both load late


@persistent
def _hide_preview(*_arguments: object) -> None:
    if any(image.get(_PREVIEW_MARK) for image in bpy.data.images):
        _put_back()


@persistent
def _clean_file(*_arguments: object) -> None:
    """Put materials back as they were: an automatic save may have had a preview."""
    if any(
        _PREVIEW_MARK in node or "tessera_before_preview" in node
        for material in bpy.data.materials
        if material.node_tree is not None
        for node in material.node_tree.nodes
    ):
        from .materials import live

        live.end(None)
    _hide_preview()


def _put_back() -> None:
    from .preview import Preview

    current = session.current()
    if current is not None:
        current.hide_preview()
    else:
        Preview().remove()


_HANDLERS = {
    "undo_post": _hide_preview,
    "redo_post": _hide_preview,
    "save_pre": _hide_preview,
    "load_post": _clean_file,
}


def add() -> None:
    """Ask Blender to tell."""
    for name, function in _HANDLERS.items():
        getattr(bpy.app.handlers, name).append(function)


def remove() -> None:
    """Ask it no longer."""
    for name, function in _HANDLERS.items():
        getattr(bpy.app.handlers, name).remove(function)
