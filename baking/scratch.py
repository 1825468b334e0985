# SPDX-License-Identifier: GPL-3.0-or-later
"""A scene of its own in which a copy of an object can be worked on. Side: Blender.

Operators change modes, selections and settings. Here they change only what is thrown away.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import bpy
from bpy.types import ID, Depsgraph, Mesh, Object, Scene

_Block = TypeVar("_Block", bound=ID)


@contextmanager
def scratch_scene(
    original: Object, *, with_modifiers: bool = True
) -> Iterator[tuple[Scene, Object]]:
    """Yield a new scene and, active and selected in it, a copy of a mesh object.

    The copy has a mesh of its own and shows what the original shows now.
    """
    scene = bpy.data.scenes.new("Tessera")
    meshes: list[Mesh] = []
    objects: list[Object] = []
    try:
        user_scene = bpy.context.scene
        if user_scene is not None:
            scene.frame_current = user_scene.frame_current
            scene.frame_subframe = user_scene.frame_subframe
        meshes.append(copied(mesh_of(original)))
        copy = copied(original)
        objects.append(copy)
        copy.animation_data_clear()  # the values of this moment stay
        copy.data = meshes[0]
        copy.hide_render = copy.hide_viewport = copy.hide_select = False
        scene.collection.objects.link(copy)
        layer = scene.view_layers[0]
        layer.objects.active = copy
        copy.select_set(True, view_layer=layer)  # noqa: FBT003  Blender's signature
        if with_modifiers:
            _freeze_added_materials(scene, copy, meshes)
        else:
            copy.modifiers.clear()
        yield scene, copy
    finally:
        for found in objects:
            bpy.data.objects.remove(found)
        for mesh in meshes:
            bpy.data.meshes.remove(mesh)
        bpy.data.scenes.remove(scene)


@contextmanager
def inside(scene: Scene, *, edited: Object | None = None) -> Iterator[None]:
    """Let operators and the dependency graph work in this scene, whatever the window shows.

    `edited` is the object that is in edit mode there, which Blender takes from the window else.
    """
    layer = scene.view_layers[0]
    with bpy.context.temp_override(  # pyright: ignore[reportAttributeAccessIssue]
        scene=scene,
        view_layer=layer,
        active_object=layer.objects.active,
        object=layer.objects.active,
        selected_objects=[layer.objects.active],
        selected_editable_objects=[layer.objects.active],
        edit_object=edited,
    ):
        yield


@contextmanager
def evaluated_mesh(scene: Scene, copy: Object) -> Iterator[Mesh]:
    """Yield the mesh of the scene's object with modifiers, for reading."""
    with inside(scene):
        yield mesh_of(copy.evaluated_get(_depsgraph()))


def copied(block: _Block) -> _Block:
    """Return a copy of a datablock, of the same type and part of this file."""
    copy = block.copy()
    assert isinstance(copy, type(block)), "Blender copies by type"
    return copy


def mesh_of(found: Object) -> Mesh:
    """Return the data of an object that is a mesh."""
    assert isinstance(found.data, Mesh), "of type MESH"
    return found.data


def _depsgraph() -> Depsgraph:
    return bpy.context.evaluated_depsgraph_get()


def _freeze_added_materials(scene: Scene, copy: Object, meshes: list[Mesh]) -> None:
    """Apply the modifiers if one of them brings materials that the object's slots do not have."""
    with inside(scene):
        depsgraph = _depsgraph()
        evaluated = copy.evaluated_get(depsgraph)
        own = {slot.material for slot in copy.material_slots} | set(meshes[0].materials)
        added = {item.original for item in mesh_of(evaluated).materials if item is not None}
        if added <= own:
            return
        mesh = bpy.data.meshes.new_from_object(
            evaluated, preserve_all_data_layers=True, depsgraph=depsgraph
        )
    meshes.append(mesh)
    copy.modifiers.clear()
    copy.data = mesh
    for slot in copy.material_slots:
        slot.link = "DATA"
