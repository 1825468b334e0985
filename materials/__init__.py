# SPDX-License-Identifier: GPL-3.0-or-later
"""From a finished image to the nodes of a material. Side: Blender.

The target is chosen when a job is submitted and used when its image arrives. In between the user
may undo or load a file, so it holds names and session identifiers, never datablocks.
"""

from dataclasses import dataclass

import bpy
from bpy.types import Context, Image, Material, NodeTree, Object, SpaceNodeEditor

from ..generator_process.errors import InvalidRequestError
from . import colour_input, image_nodes, live, shader_nodes, targets
from .targets import MaterialTarget

_WITH_SURFACE = {"MESH", "CURVE", "SURFACE", "META", "FONT", "CURVES", "POINTCLOUD"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What has been done: the material's name, and a sentence if the colour was not changed."""

    material: str
    note: str = ""


def target_of(context: Context) -> MaterialTarget:
    """Return where an image generated now belongs.

    In a Shader Editor that is the material shown there, elsewhere the active material of the
    active object.

    Raises:
        InvalidRequestError: There is no such object, or its material cannot be changed.
    """
    material = _edited_material(context)
    if material is None:
        found = context.active_object
        if found is None:
            raise InvalidRequestError(
                "No object is active. Select an object that can have a material, such as a mesh."
            )
        _check_object(found)
        material = found.active_material
        if material is None:
            return MaterialTarget(
                material_uid=None,
                object_uid=found.session_uid,
                object_name=found.name,
                slot=found.active_material_index or 0,
                filepath=bpy.data.filepath,
            )
    _check_material(material)
    return MaterialTarget(
        material_uid=material.session_uid,
        material_name=material.name,
        filepath=bpy.data.filepath,
    )


def assign(target: MaterialTarget, image: Image) -> Assignment:
    """Add the image to the target's material as an Image Texture node.

    The node feeds the Base Color of the Principled BSDF that the active output shows, or the
    colour of the shader that stands in its place. A link of the user's own into it is kept, and
    the new node is then placed beside it without a link; a link from an Image Texture that
    Tessera added earlier moves to the new node, which takes over its settings and its Vector
    link. Materials and nodes are made when missing. Nothing is changed on an error.

    Raises:
        InvalidRequestError: The object or material is gone or cannot take an image.
    """
    if target.material_uid is None:
        material = _material_of_object(target, image.name)
    else:
        material = targets.lookup_material(target)
        _check_material(material)
    place = colour_input.find_or_make(material, shader_nodes.engine_of(bpy.context.scene))
    node = live.take(place.tree)
    if node is None:
        node = image_nodes.add(place)
    node.image = image
    node[image_nodes.GENERATED_MARK] = True
    for other in place.tree.nodes:
        other.select = other == node
    if image_nodes.feeds(node, place):
        place.tree.nodes.active = node
        return Assignment(material=material.name)
    if place.is_free:
        return Assignment(
            material=material.name,
            note=(
                f'The new Image Texture of material "{material.name}" was unlinked while it was'
                " made. Link it in the Shader Editor to use it."
            ),
        )
    return Assignment(
        material=material.name,
        note=(
            f'The colour of material "{material.name}" is already linked, so the new Image Texture'
            " is placed beside it. Link it in the Shader Editor to use it."
        ),
    )


def _edited_material(context: Context) -> Material | None:
    space = context.space_data
    if not isinstance(space, SpaceNodeEditor) or space.tree_type != "ShaderNodeTree":
        return None
    owner = space.id or _owner_of(space.node_tree)
    if owner is None:
        return None
    if not isinstance(owner, Material):
        raise InvalidRequestError(
            f'The Shader Editor shows "{owner.name}", which is not a material.'
            " Switch its shader type to Object."
        )
    return owner


def _owner_of(tree: NodeTree | None) -> Material | None:
    # An editor that has not been drawn since it got its tree does not know the owner yet.
    if tree is None:
        return None
    return next((found for found in bpy.data.materials if found.node_tree == tree), None)


def _check_object(found: Object) -> None:
    if found.type not in _WITH_SURFACE:
        kind = found.type.replace("_", " ").title()
        raise InvalidRequestError(
            f'Object "{found.name}" is a {kind}, which cannot show a texture. Select a mesh.'
        )
    if found.active_material is not None:
        return
    owner = found if found.material_slots and _active_slot(found).link == "OBJECT" else found.data
    assert owner is not None, "these types have data"
    if not (owner.is_editable and found.is_editable):
        raise InvalidRequestError(
            f'Object "{found.name}" has no material, and "{owner.name}" is linked from a library,'
            " so none can be added. Make it local first."
        )


def _check_material(material: Material) -> None:
    if not material.is_editable:
        raise InvalidRequestError(
            f'Material "{material.name}" is linked from a library and cannot be changed.'
            " Make it local, or choose another material."
        )
    if material.is_grease_pencil:
        raise InvalidRequestError(
            f'Material "{material.name}" is a Grease Pencil material, which has no shader.'
            " Choose another material."
        )
    colour_input.find(material, shader_nodes.engine_of(bpy.context.scene))


def _material_of_object(target: MaterialTarget, name: str) -> Material:
    found = targets.lookup_object(target)
    _check_object(found)
    material = found.active_material
    if target.slot < len(found.material_slots):
        material = found.material_slots[target.slot].material
    if material is not None:  # given by the user in the meantime
        _check_material(material)
        return material
    material = bpy.data.materials.new(name)
    shader_nodes.ensure_nodes(material)
    if target.slot < len(found.material_slots):
        found.material_slots[target.slot].material = material
    else:
        found.active_material = material
    return material


def _active_slot(found: Object) -> bpy.types.MaterialSlot:
    return found.material_slots[found.active_material_index or 0]
