# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the socket of a material that decides its colour. Side: Blender."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from bpy.types import Material, Node, NodeSocket, NodeTree, ShaderNodeTree

from ..generator_process.errors import InvalidRequestError
from . import node_layout
from .shader_nodes import (
    COLOUR_INPUTS,
    ensure_nodes,
    group_output,
    group_tree,
    has_nodes,
    node_of,
    output_of,
    required_socket,
    shader_inputs,
    socket,
    source_of,
    tree_of,
)

_PRINCIPLED = "ShaderNodeBsdfPrincipled"
_MAX_DEPTH = 32


@dataclass(frozen=True, slots=True)
class Place:
    """Where an image belongs: the input that takes it, and the node to stand left of.

    Only valid until Blender changes something: not to be stored.
    """

    tree: NodeTree
    anchor: Node
    socket: NodeSocket | None

    @property
    def is_free(self) -> bool:
        """Whether no link, not even a muted one, leads to the socket."""
        return self.socket is not None and not self.socket.is_linked


@dataclass(frozen=True, slots=True)
class _Found:
    """A node in a tree, and the group nodes that lead to it from the material, outermost first."""

    node: Node
    groups: tuple[Node, ...]


def find(material: Material, engine: str) -> Place | None:
    """Return the place for an image, or None where something is missing. Changes nothing.

    Raises:
        InvalidRequestError: The material has no colour that an image could replace.
    """
    return _find(material, ensure_nodes(material), engine) if has_nodes(material) else None


def find_or_make(material: Material, engine: str) -> Place:
    """Return the place for an image, adding an output and a Principled BSDF when missing.

    Raises:
        InvalidRequestError: The material has no colour that an image could replace.
    """
    if not has_nodes(material):
        ensure_nodes(material)
    tree = ensure_nodes(material)
    place = _find(material, tree, engine)
    return _make(tree, engine) if place is None else place


def _find(material: Material, tree: ShaderNodeTree, engine: str) -> Place | None:
    output = output_of(tree, engine)
    surface = None if output is None else socket(output.inputs, "Surface")
    if output is None or surface is None:
        return None
    source = source_of(surface)
    if source is None:
        volume = socket(output.inputs, "Volume")
        if volume is not None and source_of(volume) is not None:
            raise InvalidRequestError(
                f'Material "{material.name}" has a volume and no surface, so it cannot show an'
                " image. Choose another material."
            )
        return None
    if source.type != "SHADER":
        raise InvalidRequestError(
            f'The surface of material "{material.name}" is a colour without a shader. Put a'
            " Principled BSDF in between."
        )
    found = _coloured_shader(source)
    if found is None:
        raise InvalidRequestError(
            f'No shader of material "{material.name}" has a colour that an image could replace.'
            " Add a Principled BSDF to it."
        )
    return _place(material, tree, found)


def _coloured_shader(source: NodeSocket) -> _Found | None:
    """Return the nearest Principled BSDF, else the nearest shader with a colour, else None."""
    others: list[_Found] = []
    for found in _shaders(source):
        if found.node.bl_idname == _PRINCIPLED:
            return found
        if socket(found.node.inputs, *COLOUR_INPUTS) is not None:
            others.append(found)
    return others[0] if others else None


def _shaders(source: NodeSocket) -> Iterator[_Found]:
    """Yield the shader nodes behind an output, nearest first, those inside groups included."""
    waiting: deque[tuple[NodeSocket, tuple[Node, ...]]] = deque([(source, ())])
    seen: set[tuple[Node, ...]] = set()
    while waiting:
        output, groups = waiting.popleft()
        node = node_of(output)
        key = (*groups, node)
        if key in seen or len(groups) > _MAX_DEPTH:
            continue
        seen.add(key)
        inner = group_tree(node)
        if inner is not None:
            end = group_output(inner)
            entry = None if end is None else socket(end.inputs, output.identifier)
            inputs, groups = ([] if entry is None else [entry]), key
        elif node.bl_idname == "NodeGroupInput" and groups:
            entry = socket(groups[-1].inputs, output.identifier)
            inputs, groups = ([] if entry is None else [entry]), groups[:-1]
        else:
            yield _Found(node, groups)
            inputs = list(shader_inputs(node))
        for entry in inputs:
            behind = source_of(entry)
            if behind is not None:
                waiting.append((behind, groups))


def _place(material: Material, tree: ShaderNodeTree, found: _Found) -> Place:
    target = socket(found.node.inputs, *COLOUR_INPUTS)
    groups = found.groups
    source = None if target is None else source_of(target)
    while source is not None and node_of(source).bl_idname == "NodeGroupInput" and groups:
        target = socket(groups[-1].inputs, source.identifier)
        groups = groups[:-1]
        source = None if target is None else source_of(target)
    assert target is not None, "found by its colour"
    if not groups:
        return Place(tree, node_of(target), target)
    if source is not None:  # linked inside the group, by the user: the node stands outside
        return Place(tree, groups[0], None)
    inner = tree_of(target)
    if not inner.is_editable or inner.users - int(inner.use_fake_user) > 1:
        raise InvalidRequestError(
            f'The colour of material "{material.name}" is set inside the node group'
            f' "{inner.name}", which is used elsewhere too or linked. Make the group single-user,'
            " or give it an input for the colour."
        )
    return Place(inner, node_of(target), target)


def _make(tree: ShaderNodeTree, engine: str) -> Place:
    output = output_of(tree, engine)
    if output is None:
        output = tree.nodes.new("ShaderNodeOutputMaterial")
        node_layout.place_right_of_all(tree, output)
    principled = next(
        (
            node
            for node in tree.nodes
            if node.bl_idname == _PRINCIPLED and not any(out.is_linked for out in node.outputs)
        ),
        None,
    )
    if principled is None:
        principled = tree.nodes.new(_PRINCIPLED)
        node_layout.place_left_of(tree, principled, output)
    tree.links.new(
        required_socket(principled.outputs, "BSDF"), required_socket(output.inputs, "Surface")
    )
    return Place(tree, principled, socket(principled.inputs, "Base Color"))
