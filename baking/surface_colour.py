# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn shaders into the colours that they show without light. Side: Blender.

Works only on copies that are removed after use. What each shader shows:

* Principled BSDF: Base Color, with Alpha. Other shaders: their Color.
* Emission: Color times Strength, where strengths over 1 count as 1.
* Transparent BSDF and Holdout: nothing. Mix and Add Shader: the mixture, by opacity.
* A colour without a shader: itself. Shaders without a colour, and no shader at all: black.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import bpy
from bpy.types import (
    Material,
    Node,
    NodeSocket,
    NodeTree,
    ShaderNodeTree,
)

from ..materials.shader_nodes import (
    COLOUR_INPUTS,
    ensure_nodes,
    group_output,
    group_tree,
    has_nodes,
    link_into,
    node_of,
    output_of,
    required_socket,
    shader_inputs,
    socket,
    source_of,
)
from .scratch import copied

DEFAULT_COLOUR = (0.8, 0.8, 0.8, 1.0)
"""Linear colour of faces without a material, as in a new Blender material."""

_BLACK = (0.0, 0.0, 0.0, 1.0)
_INVISIBLE = {"ShaderNodeBsdfTransparent", "ShaderNodeHoldout"}


@dataclass(frozen=True, slots=True)
class Shown:
    """Outputs of nodes: a colour, and its opacity, where None stands for opaque."""

    colour: NodeSocket
    alpha: NodeSocket | None = None


@dataclass(frozen=True, slots=True)
class UnlitMaterial:
    """A copy of a material that emits what the material shows.

    `emission` is the Color input of the only shader. The colour feeds it at first.
    """

    material: Material
    shown: Shown
    emission: NodeSocket

    def emit_alpha(self) -> None:
        """Emit the opacity, as a grey, in place of the colour."""
        tree = ensure_nodes(self.material)
        if self.shown.alpha is not None:
            tree.links.new(self.shown.alpha, self.emission)
            return
        white = _colour(tree, (1.0, 1.0, 1.0, 1.0))
        tree.links.new(white, self.emission)


@contextmanager
def unlit(materials: list[Material | None]) -> Iterator[list[UnlitMaterial]]:
    """Yield an unlit copy of each material, and remove them afterwards.

    None stands for the look of faces without a material.
    """
    made: list[Material] = []
    groups: list[NodeTree] = []
    try:
        yield [_unlit_copy(material, made, groups) for material in materials]
    finally:
        for material in made:
            bpy.data.materials.remove(material)
        for group in reversed(groups):
            bpy.data.node_groups.remove(group)


def _unlit_copy(
    material: Material | None, made: list[Material], groups: list[NodeTree]
) -> UnlitMaterial:
    with_nodes = material is not None and has_nodes(material)
    copy = copied(material) if material is not None and with_nodes else None
    if copy is None:
        copy = bpy.data.materials.new("Tessera Bake")
    made.append(copy)
    tree = ensure_nodes(copy)
    if with_nodes:
        output = output_of(tree, "CYCLES")
        surface = None if output is None else source_of(required_socket(output.inputs, "Surface"))
        shown = _Shaders(groups).shown(_Scope(tree), surface)
    else:
        tree.nodes.clear()
        flat = DEFAULT_COLOUR if material is None else tuple(material.diffuse_color)  # pyright: ignore[reportArgumentType]
        shown = Shown(_colour(tree, flat))
    return UnlitMaterial(copy, shown, _emit(tree, shown.colour))


def _emit(tree: ShaderNodeTree, colour: NodeSocket) -> NodeSocket:
    for node in list(tree.nodes):
        if node.bl_idname == "ShaderNodeOutputMaterial":
            tree.nodes.remove(node)
    output = tree.nodes.new("ShaderNodeOutputMaterial")
    emission = tree.nodes.new("ShaderNodeEmission")
    tree.links.new(
        required_socket(emission.outputs, "Emission"), required_socket(output.inputs, "Surface")
    )
    target = required_socket(emission.inputs, "Color")
    tree.links.new(colour, target)
    return target


@dataclass(frozen=True, slots=True)
class _Scope:
    """A tree, and the group node through which it was entered."""

    tree: NodeTree
    group: Node | None = None
    outside: "_Scope | None" = None


class _Shaders:
    """Builds the colours. `groups` receives the copies of node groups that it makes."""

    def __init__(self, groups: list[NodeTree]) -> None:
        self._groups = groups
        self._known: dict[NodeSocket, Shown] = {}

    def shown(self, scope: _Scope, source: NodeSocket | None) -> Shown:
        """Return what the shader at this output shows, adding nodes to the scope's tree."""
        if source is None:
            return Shown(_colour(scope.tree, _BLACK))
        if source.type != "SHADER":
            return Shown(source)
        if source not in self._known:
            self._known[source] = self._made(scope, source)
        return self._known[source]

    def _made(self, scope: _Scope, source: NodeSocket) -> Shown:
        node = node_of(source)
        if group_tree(node) is not None:
            return self._of_group(scope, node, source)
        if node.bl_idname == "NodeGroupInput":
            return self._of_group_input(scope, source)
        if node.bl_idname == "ShaderNodeMixShader":
            first, second = (self.shown(scope, source_of(item)) for item in shader_inputs(node))
            return _mixed(scope.tree, _fed(scope.tree, node.inputs[0]), first, second)
        if node.bl_idname == "ShaderNodeAddShader":
            first, second = (self.shown(scope, source_of(item)) for item in shader_inputs(node))
            return _added(scope.tree, first, second)
        return _of_shader(scope.tree, node)

    def _of_group(self, scope: _Scope, node: Node, source: NodeSocket) -> Shown:
        identifier = source.identifier
        inner = self._own_tree(node)
        end = group_output(inner)
        behind = None if end is None else socket(end.inputs, identifier)
        within = _Scope(inner, node, scope)
        shown = self.shown(within, None if behind is None else source_of(behind))
        if end is None:
            end = inner.nodes.new("NodeGroupOutput")
        colour = _lead_out(within, end, shown.colour, "NodeSocketColor")
        if shown.alpha is None:
            return Shown(colour)
        return Shown(colour, _lead_out(within, end, shown.alpha, "NodeSocketFloat"))

    def _own_tree(self, node: Node) -> NodeTree:
        assert isinstance(node, bpy.types.ShaderNodeGroup), "checked by the caller"
        assert node.node_tree is not None, "checked by the caller"
        if node.node_tree in self._groups:
            return node.node_tree
        copy = copied(node.node_tree)
        self._groups.append(copy)
        node.node_tree = copy  # pyright: ignore[reportAttributeAccessIssue]
        return copy

    def _of_group_input(self, scope: _Scope, source: NodeSocket) -> Shown:
        if scope.group is None or scope.outside is None:
            return Shown(_colour(scope.tree, _BLACK))
        entry = required_socket(scope.group.inputs, source.identifier)
        shown = self.shown(scope.outside, source_of(entry))
        start = node_of(source)
        colour = _lead_in(scope, start, shown.colour, "NodeSocketColor")
        if shown.alpha is None:
            return Shown(colour)
        return Shown(colour, _lead_in(scope, start, shown.alpha, "NodeSocketFloat"))


def _lead_out(scope: _Scope, end: Node, inner: NodeSocket, kind: str) -> NodeSocket:
    """Return the socket of the group node outside that carries `inner`, a socket inside."""
    assert scope.group is not None, "leads out of a group"
    item = _new_group_socket(scope.tree, "OUTPUT", kind)
    scope.tree.links.new(inner, required_socket(end.inputs, item.identifier))
    return required_socket(scope.group.outputs, item.identifier)


def _lead_in(scope: _Scope, start: Node, outer: NodeSocket, kind: str) -> NodeSocket:
    """Return the socket inside the group that carries `outer`, a socket outside."""
    assert scope.group is not None and scope.outside is not None, "leads into a group"
    item = _new_group_socket(scope.tree, "INPUT", kind)
    scope.outside.tree.links.new(outer, required_socket(scope.group.inputs, item.identifier))
    return required_socket(start.outputs, item.identifier)


def _new_group_socket(
    tree: NodeTree, side: Literal["INPUT", "OUTPUT"], kind: str
) -> bpy.types.NodeTreeInterfaceSocket:
    assert tree.interface is not None, "every tree has one"
    return tree.interface.new_socket("Tessera", in_out=side, socket_type=kind)  # pyright: ignore[reportArgumentType]


def _of_shader(tree: NodeTree, node: Node) -> Shown:
    if node.bl_idname in _INVISIBLE:
        return Shown(_colour(tree, _BLACK), _value(tree, 0.0))
    own = socket(node.inputs, *COLOUR_INPUTS)
    if own is None:
        return Shown(_colour(tree, _BLACK))
    colour = _fed(tree, own)
    if node.bl_idname == "ShaderNodeEmission":
        strength = _limited(tree, _fed(tree, required_socket(node.inputs, "Strength")))
        return Shown(_mix(tree, strength, _colour(tree, _BLACK), colour))
    alpha = socket(node.inputs, "Alpha")
    if alpha is None or (link_into(alpha) is None and alpha.default_value >= 1.0):  # pyright: ignore[reportAttributeAccessIssue]
        return Shown(colour)
    return Shown(colour, _limited(tree, _fed(tree, alpha)))


def _mixed(tree: NodeTree, factor: NodeSocket, first: Shown, second: Shown) -> Shown:
    factor = _limited(tree, factor)
    if first.alpha is None and second.alpha is None:
        return Shown(_mix(tree, factor, first.colour, second.colour))
    one = _value(tree, 1.0)
    rest = _math(tree, "SUBTRACT", one, factor)
    weight_1 = _math(tree, "MULTIPLY", rest, first.alpha or one)
    weight_2 = _math(tree, "MULTIPLY", factor, second.alpha or one)
    alpha = _math(tree, "ADD", weight_1, weight_2)
    share = _math(tree, "DIVIDE", weight_2, alpha)  # 0 where both are invisible
    return Shown(_mix(tree, share, first.colour, second.colour), alpha)


def _added(tree: NodeTree, first: Shown, second: Shown) -> Shown:
    black = _colour(tree, _BLACK)
    colours = [
        part.colour if part.alpha is None else _mix(tree, part.alpha, black, part.colour)
        for part in (first, second)
    ]
    both = _mix(tree, _value(tree, 1.0), *colours, blend="ADD")
    if first.alpha is None or second.alpha is None:
        return Shown(both)
    return Shown(both, _math(tree, "MAXIMUM", first.alpha, second.alpha))


def _fed(tree: NodeTree, entry: NodeSocket) -> NodeSocket:
    """Return what feeds this input, as an output: its link, or a node with its value."""
    link = link_into(entry)
    if link is not None and link.from_socket is not None:
        return link.from_socket
    value = entry.default_value  # pyright: ignore[reportAttributeAccessIssue]
    return _value(tree, value) if isinstance(value, float) else _colour(tree, tuple(value))


def _colour(tree: NodeTree, rgba: tuple[float, ...]) -> NodeSocket:
    output = tree.nodes.new("ShaderNodeRGB").outputs[0]
    output.default_value = (*rgba[:3], 1.0)  # pyright: ignore[reportAttributeAccessIssue]
    return output


def _value(tree: NodeTree, value: float) -> NodeSocket:
    output = tree.nodes.new("ShaderNodeValue").outputs[0]
    output.default_value = value  # pyright: ignore[reportAttributeAccessIssue]
    return output


def _limited(tree: NodeTree, value: NodeSocket) -> NodeSocket:
    node = tree.nodes.new("ShaderNodeClamp")  # 0 to 1
    tree.links.new(value, required_socket(node.inputs, "Value"))
    return node.outputs[0]


def _math(tree: NodeTree, operation: str, first: NodeSocket, second: NodeSocket) -> NodeSocket:
    node = tree.nodes.new("ShaderNodeMath")
    node.operation = operation  # pyright: ignore[reportAttributeAccessIssue]
    tree.links.new(first, node.inputs[0])
    tree.links.new(second, node.inputs[1])
    return node.outputs[0]


def _mix(
    tree: NodeTree, factor: NodeSocket, first: NodeSocket, second: NodeSocket, blend: str = "MIX"
) -> NodeSocket:
    node = tree.nodes.new("ShaderNodeMix")
    node.data_type = "RGBA"  # pyright: ignore[reportAttributeAccessIssue]
    node.blend_type = blend  # pyright: ignore[reportAttributeAccessIssue]
    tree.links.new(factor, required_socket(node.inputs, "Factor_Float"))
    tree.links.new(first, required_socket(node.inputs, "A_Color"))
    tree.links.new(second, required_socket(node.inputs, "B_Color"))
    return required_socket(node.outputs, "Result_Color")
