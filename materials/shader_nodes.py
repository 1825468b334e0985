# SPDX-License-Identifier: GPL-3.0-or-later
"""Find nodes by type and sockets by identifier, never by a name. Side: Blender.

Names are translated and can be changed by the user; types and identifiers cannot.
"""

from collections.abc import Iterable, Iterator

import bpy
from bpy.types import (
    Material,
    Node,
    NodeGroupOutput,
    NodeLink,
    NodeSocket,
    NodeTree,
    Scene,
    ShaderNodeTree,
)

COLOUR_INPUTS = ("Base Color", "Color")
"""Identifiers of the socket that holds a shader's own colour, in order of preference."""


def has_nodes(material: Material) -> bool:
    """Return whether nodes decide how the material looks. Always so from Blender 5.0 on."""
    if bpy.app.version >= (5, 0):
        return material.node_tree is not None
    return material.use_nodes and material.node_tree is not None


def ensure_nodes(material: Material) -> ShaderNodeTree:
    """Return the node tree of the material, switched on and made when missing."""
    if bpy.app.version < (5, 0) and not material.use_nodes:
        material.use_nodes = True
    tree = material.node_tree
    assert isinstance(tree, ShaderNodeTree), "a material's tree is a shader tree"
    return tree


def output_of(tree: ShaderNodeTree, engine: str) -> Node | None:
    """Return the output node that this render engine uses, else any active one, else None."""
    own = "CYCLES" if engine == "CYCLES" else "EEVEE"
    for target in (own, "ALL", "CYCLES", "EEVEE"):
        node = tree.get_output_node(target)
        if node is not None:
            return node
    return None


def engine_of(scene: Scene | None) -> str:
    """Return the identifier of the scene's render engine, "" without a scene."""
    return "" if scene is None else scene.render.engine


def socket(sockets: Iterable[NodeSocket] | None, *identifiers: str) -> NodeSocket | None:
    """Return the first socket with one of these identifiers, in the order of the identifiers."""
    by_identifier = {found.identifier: found for found in sockets or ()}
    for identifier in identifiers:
        if identifier in by_identifier:
            return by_identifier[identifier]
    return None


def required_socket(sockets: Iterable[NodeSocket] | None, identifier: str) -> NodeSocket:
    """Return the socket with this identifier of a node whose type always has it."""
    found = socket(sockets, identifier)
    assert found is not None, f"socket {identifier} is part of this type of node"
    return found


def tree_of(part: Node | NodeSocket) -> NodeTree:
    """Return the tree that a node or socket is in."""
    tree = part.id_data
    assert isinstance(tree, NodeTree), "nodes are in trees"
    return tree


def node_of(part: NodeSocket) -> Node:
    """Return the node that a socket belongs to."""
    node = part.node
    assert node is not None, "sockets belong to nodes"
    return node


def link_into(target: NodeSocket) -> NodeLink | None:
    """Return the link that feeds this input, or None. Muted links feed nothing."""
    for link in target.links or ():
        if not link.is_muted:
            return link
    return None


def source_of(target: NodeSocket) -> NodeSocket | None:
    """Return the output that feeds this input, looking through reroutes and muted nodes."""
    link = link_into(target)
    while link is not None:
        source = link.from_socket
        assert source is not None, "a link has two ends"
        node = node_of(source)
        if node.bl_idname == "NodeReroute":
            link = link_into(node.inputs[0])
        elif node.mute:
            passed = _passed_through(node, source)
            link = None if passed is None else link_into(passed)
        else:
            return source
    return None


def group_output(tree: NodeTree) -> NodeGroupOutput | None:
    """Return the active output node of a node group."""
    for node in tree.nodes:
        if isinstance(node, NodeGroupOutput) and node.is_active_output:
            return node
    return None


def group_tree(node: Node) -> NodeTree | None:
    """Return the tree inside a group node, or None for other nodes and empty groups."""
    return node.node_tree if isinstance(node, bpy.types.ShaderNodeGroup) else None


def shader_inputs(node: Node) -> Iterator[NodeSocket]:
    """Yield the inputs through which a node takes other shaders."""
    return (found for found in node.inputs if found.type == "SHADER")


def _passed_through(node: Node, output: NodeSocket) -> NodeSocket | None:
    for link in node.internal_links:
        if link.to_socket == output:
            return link.from_socket
    return None
