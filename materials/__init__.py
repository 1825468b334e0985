# SPDX-License-Identifier: GPL-3.0-or-later
"""From a finished image to the nodes of a material. Side: Blender.

The target is chosen when a job is submitted and used when its image arrives. In between the user
may undo or load a file, so it holds names and session identifiers, never datablocks.
"""

from dataclasses import dataclass

import bpy
from bpy.types import (
    Context,
    Image,
    Material,
    NodeTree,
    Object,
    ShaderNodeTexImage,
    SpaceNodeEditor,
)

from ..generator_process.errors import InvalidRequestError
from . import colour_input, node_layout, shader_nodes

GENERATED_MARK = "tessera_generated"
"""Custom property of the nodes that Tessera added: only those give way to a newer image."""

_WITH_SURFACE = {"MESH", "CURVE", "SURFACE", "META", "FONT", "CURVES", "POINTCLOUD"}
_COPIED_SETTINGS = ("interpolation", "projection", "projection_blend", "extension")


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
        material = _lookup_material(target)
        _check_material(material)
    place = colour_input.find_or_make(material, shader_nodes.engine_of(bpy.context.scene))
    node = place.tree.nodes.new("ShaderNodeTexImage")
    assert isinstance(node, ShaderNodeTexImage), "of the type asked for"
    node.image = image
    node[GENERATED_MARK] = True
    anchor = place.anchor
    former = _former_node(place)
    if former is not None:
        _take_over(node, former)
        anchor = former
    node_layout.place_left_of(place.tree, node, anchor)
    for other in place.tree.nodes:
        other.select = other == node
    if place.is_free or former is not None:
        assert place.socket is not None, "free, or fed by the former node"
        colour = shader_nodes.required_socket(node.outputs, "Color")
        place.tree.links.new(colour, place.socket)
        place.tree.nodes.active = node
        return Assignment(material=material.name)
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
    colour_input.check(material, shader_nodes.engine_of(bpy.context.scene))


def _lookup_material(target: MaterialTarget) -> Material:
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


def _material_of_object(target: MaterialTarget, name: str) -> Material:
    found = _lookup_object(target)
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


def _lookup_object(target: MaterialTarget) -> Object:
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


def _active_slot(found: Object) -> bpy.types.MaterialSlot:
    return found.material_slots[found.active_material_index or 0]


def _former_node(place: colour_input.Place) -> ShaderNodeTexImage | None:
    source = None if place.socket is None else shader_nodes.source_of(place.socket)
    if source is None:
        return None
    node = source.node
    if isinstance(node, ShaderNodeTexImage) and node.get(GENERATED_MARK):
        return node
    return None


def _take_over(node: ShaderNodeTexImage, former: ShaderNodeTexImage) -> None:
    for name in _COPIED_SETTINGS:
        setattr(node, name, getattr(former, name))
    link = shader_nodes.link_into(shader_nodes.required_socket(former.inputs, "Vector"))
    if link is not None and link.from_socket is not None:
        vector = shader_nodes.required_socket(node.inputs, "Vector")
        shader_nodes.tree_of(former).links.new(link.from_socket, vector)
