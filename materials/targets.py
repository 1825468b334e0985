# SPDX-License-Identifier: GPL-3.0-or-later
"""Which material or object was meant, found again after undo and loading a file. Side: Blender."""

from dataclasses import dataclass

import bpy
from bpy.types import Material, Object

from ..generator_process.errors import InvalidRequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class MaterialTarget:
    """Which material gets the image.

    `material_uid` is None where the object has no material yet: one is made then, in slot number
    `slot` (from 0) of the object. Identifiers are those of `ID.session_uid`; names count only
    after `filepath`, where that is not empty, has been loaded again.
    """

    material_uid: int | None
    material_name: str = ""
    object_uid: int | None = None
    object_name: str = ""
    slot: int = 0
    filepath: str = ""


def lookup_material(target: MaterialTarget) -> Material:
    """Return the material of a target that had one.

    Raises:
        InvalidRequestError: It is gone.
    """
    reloaded = bool(target.filepath) and target.filepath == bpy.data.filepath
    for material in bpy.data.materials:
        if material.session_uid == target.material_uid:
            return material
    material = bpy.data.materials.get((target.material_name, None)) if reloaded else None
    if material is None:
        raise InvalidRequestError(
            f'Material "{target.material_name}" is no longer there. The image is kept;'
            " add it to a material with an Image Texture node."
        )
    return material


def lookup_object(target: MaterialTarget) -> Object:
    """Return the object of a target that had no material.

    Raises:
        InvalidRequestError: It is gone.
    """
    reloaded = bool(target.filepath) and target.filepath == bpy.data.filepath
    for found in bpy.data.objects:
        if found.session_uid == target.object_uid:
            return found
    found = bpy.data.objects.get((target.object_name, None)) if reloaded else None
    if found is None:
        raise InvalidRequestError(
            f'Object "{target.object_name}" is no longer there. The image is kept;'
            " add it to a material with an Image Texture node."
        )
    return found
