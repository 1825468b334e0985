# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose, check and make the UV map that is baked onto. Side: Blender."""

import bmesh
import bpy
import numpy as np
from bpy.types import Mesh, Object
from numpy.typing import NDArray

from ..generator_process.errors import InvalidRequestError
from .scratch import inside, mesh_of, scratch_scene

NEW_NAME = "UVMap"

_OUTSIDE = 1e-3  # rounding of UV editors and packers is smaller
_NO_AREA = 1e-12
_ISLAND_GAP = 0.02


def name_to_use(original: Object, evaluated: Mesh, wanted: str) -> str | None:
    """Return the name of the UV map to bake onto, or None where there is none.

    Args:
        original: The object as the user has it.
        evaluated: Its mesh with modifiers, which may have more UV maps.
        wanted: A name, or "" for the UV map that is used for rendering.
    """
    if wanted:
        return wanted if wanted in evaluated.uv_layers else None
    for layers in (mesh_of(original).uv_layers, evaluated.uv_layers):
        for layer in layers:
            if layer.active_render:
                return layer.name
    return next((layer.name for layer in evaluated.uv_layers), None)


def missing_sentence(original: Object, wanted: str) -> str:
    """Return what to tell when the UV map is not there."""
    names = ", ".join(f'"{layer.name}"' for layer in mesh_of(original).uv_layers)
    remedy = "turn on Make UV Map (make_uv=True) to have it unwrapped"
    if not names:
        return f'"{original.name}" has no UV map. Unwrap it, or {remedy}.'
    return f'"{original.name}" has no UV map "{wanted}". Choose {names}, or {remedy}.'


def check(name: str, mesh: Mesh, uv_map: str) -> None:
    """Raise if a mesh cannot be baked onto this UV map.

    Raises:
        InvalidRequestError: No face has an area on it, or it leaves the unit square.
    """
    if not mesh.polygons:
        raise InvalidRequestError(f'"{name}" has no faces, so there is nothing to bake.')
    coordinates = _read(mesh, uv_map)
    if not np.isfinite(coordinates).all() or _area(mesh, coordinates) < _NO_AREA:
        raise InvalidRequestError(
            f'UV map "{uv_map}" of "{name}" gives the faces no area. Unwrap the object first.'
        )
    if coordinates.min() < -_OUTSIDE or coordinates.max() > 1.0 + _OUTSIDE:
        raise InvalidRequestError(
            f'UV map "{uv_map}" of "{name}" leaves the square from 0 to 1, so parts would be'
            " missing. Choose another UV map, or give the name of a new one and turn on Make UV"
            " Map (make_uv=True)."
        )


def unwrapped(original: Object) -> NDArray[np.float32]:
    """Return coordinates of a Smart UV Project: `float32` (corners, 2), 0..1. Changes nothing."""
    with scratch_scene(original, with_modifiers=False) as (scene, copy), inside(scene):
        mesh = mesh_of(copy)
        while mesh.uv_layers:
            mesh.uv_layers.remove(mesh.uv_layers[0])
        mesh.uv_layers.new(name=NEW_NAME, do_init=False)
        bpy.ops.object.mode_set(mode="EDIT")
        with inside(scene, edited=copy):
            bpy.ops.mesh.reveal(select=False)
            bpy.ops.mesh.select_all(action="SELECT")
            bpy.ops.uv.smart_project(island_margin=_ISLAND_GAP)
        bpy.ops.object.mode_set(mode="OBJECT")
        return np.clip(_read(mesh, NEW_NAME), 0.0, 1.0).astype(np.float32)


def add(original: Object, mesh: Mesh, uv_map: str, coordinates: NDArray[np.float32]) -> None:
    """Add a UV map to a mesh in object mode, without changing which one is active.

    Raises:
        InvalidRequestError: There are as many as Blender allows.
    """
    layers = mesh.uv_layers
    active = max(layers.active_index or 0, 0)
    layer = layers.new(name=uv_map, do_init=False)
    if layer is None:
        raise InvalidRequestError(
            f'"{original.name}" has {len(layers)} UV maps, and no more are possible. Remove one,'
            " or choose one of them."
        )
    layer.uv.foreach_set("vector", coordinates.ravel())
    layers.active_index = active


def add_to_edited(mesh: Mesh, uv_map: str, coordinates: NDArray[np.float32]) -> None:
    """Do the same for a mesh that the user is editing."""
    edited = bmesh.from_edit_mesh(mesh)
    layer = edited.loops.layers.uv.new(uv_map)
    corners = (corner for face in edited.faces for corner in face.loops)
    for corner, (u, v) in zip(corners, coordinates.tolist(), strict=True):
        corner[layer].uv = (u, v)
    bmesh.update_edit_mesh(mesh, loop_triangles=False, destructive=False)


def _read(mesh: Mesh, uv_map: str) -> NDArray[np.float64]:
    flat = np.empty(len(mesh.loops) * 2, np.float32)
    mesh.uv_layers[uv_map].uv.foreach_get("vector", flat)
    return flat.reshape(-1, 2).astype(np.float64)


def _area(mesh: Mesh, coordinates: NDArray[np.float64]) -> float:
    """Return the area of all faces together, overlaps counted again (the shoelace formula)."""
    count = len(mesh.polygons)
    starts, lengths = np.empty(count, np.int32), np.empty(count, np.int32)
    mesh.polygons.foreach_get("loop_start", starts)
    mesh.polygons.foreach_get("loop_total", lengths)
    following = np.arange(1, len(coordinates) + 1)
    following[starts + lengths - 1] = starts
    u, v = coordinates.T
    crosses = u * v[following] - u[following] * v
    return float(np.abs(np.add.reduceat(crosses, starts)).sum() / 2)
