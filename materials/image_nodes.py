# SPDX-License-Identifier: GPL-3.0-or-later
"""Image Texture nodes that Tessera adds. Side: Blender."""

from bpy.types import ShaderNodeTexImage

from . import node_layout, shader_nodes
from .colour_input import Place

GENERATED_MARK = "tessera_generated"
"""Custom property of the nodes that Tessera added: only those give way to a newer image."""

_COPIED_SETTINGS = ("interpolation", "projection", "projection_blend", "extension")


def add(place: Place) -> ShaderNodeTexImage:
    """Add a node without an image, linked to the place where that breaks no link of the user."""
    node = place.tree.nodes.new("ShaderNodeTexImage")
    assert isinstance(node, ShaderNodeTexImage), "of the type asked for"
    former = generated_at(place)
    if former is not None:
        _take_over(node, former)
    node_layout.place_left_of(place.tree, node, place.anchor if former is None else former)
    if place.is_free or former is not None:
        assert place.socket is not None, "free, or fed by the former node"
        colour = shader_nodes.required_socket(node.outputs, "Color")
        place.tree.links.new(colour, place.socket)
    return node


def feeds(node: ShaderNodeTexImage, place: Place) -> bool:
    """Tell whether the node is linked to the place."""
    source = None if place.socket is None else shader_nodes.source_of(place.socket)
    return source is not None and source.node == node


def generated_at(place: Place) -> ShaderNodeTexImage | None:
    """Return the node that Tessera has added and that feeds the place, if there is one."""
    source = None if place.socket is None else shader_nodes.source_of(place.socket)
    if source is None:
        return None
    node = source.node
    return node if isinstance(node, ShaderNodeTexImage) and node.get(GENERATED_MARK) else None


def _take_over(node: ShaderNodeTexImage, former: ShaderNodeTexImage) -> None:
    for name in _COPIED_SETTINGS:
        setattr(node, name, getattr(former, name))
    link = shader_nodes.link_into(shader_nodes.required_socket(former.inputs, "Vector"))
    if link is not None and link.from_socket is not None:
        vector = shader_nodes.required_socket(node.inputs, "Vector")
        shader_nodes.tree_of(former).links.new(link.from_socket, vector)
