# SPDX-License-Identifier: GPL-3.0-or-later
"""Find a place for a new node that covers no other. Side: Blender.

Only positions are computed here; nothing is moved. Units are those of `Node.location`, y upwards.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import bpy
from bpy.types import Node, NodeTree

from . import shader_nodes

GAP = 40.0
"""Free space kept around the new node."""

_COLUMNS = 4
_HEADER = 60.0
_SOCKET = 22.0
_FRAME_MARGIN = 30.0
_FRAME_LABEL = 40.0
_EXTRA_HEIGHT = {"ShaderNodeTexImage": 190.0, "ShaderNodeValToRGB": 130.0}


@dataclass(frozen=True, slots=True)
class Rectangle:
    """`left`, `top` is the corner that `Node.location` gives; it extends right and down."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top - self.height

    def overlaps(self, other: "Rectangle", gap: float = 0.0) -> bool:
        """Return whether less than `gap` is free between the two."""
        return (
            self.left < other.right + gap
            and other.left < self.right + gap
            and self.bottom < other.top + gap
            and other.bottom < self.top + gap
        )


def rectangle_of(node: Node) -> Rectangle:
    """Return the place that a node takes, frames with all that they hold.

    Blender knows a node's height only once it has been drawn; before that it is estimated, rather
    too high than too low.
    """
    if node.bl_idname == "NodeFrame":
        return _frame_rectangle(node)
    left, top = _absolute_location(node)
    scale = bpy.context.preferences.system.ui_scale or 1.0
    width, height = (side / scale for side in node.dimensions)
    if node.hide:
        return Rectangle(left, top, max(width, node.width), max(height, 2 * _SOCKET))
    return Rectangle(left, top, max(width, node.width), height or _estimated_height(node))


def place_left_of(tree: NodeTree, node: Node, anchor: Node) -> None:
    """Move `node` to the left of `anchor`, or as near to that as nothing else is covered."""
    size = rectangle_of(node)
    right_end = rectangle_of(anchor)
    taken = [rectangle_of(other) for other in tree.nodes if other != node]
    candidates = []
    for column in range(_COLUMNS):
        left = right_end.left - (size.width + 2 * GAP) * (column + 1) + GAP
        for top in _free_tops(Rectangle(left, right_end.top, size.width, size.height), taken):
            away = abs(top - right_end.top) + (right_end.left - left - size.width)
            candidates.append((away, left, top))
    _, left, top = min(candidates)
    node.location = (left, top)


def place_right_of_all(tree: NodeTree, node: Node) -> None:
    """Move `node` to the right of all others, at the height of the rightmost one."""
    taken = [rectangle_of(other) for other in tree.nodes if other != node]
    if taken:
        rightmost = max(taken, key=lambda found: found.right)
        node.location = (rightmost.right + 2 * GAP, rightmost.top)


def _free_tops(wanted: Rectangle, taken: list[Rectangle]) -> Iterable[float]:
    """Yield the tops, at or nearest to the wanted one, at which the rectangle is free."""
    tops = [wanted.top]
    for other in taken:
        tops += [other.bottom - GAP, other.top + GAP + wanted.height]
    for top in tops:
        moved = Rectangle(wanted.left, top, wanted.width, wanted.height)
        if not any(moved.overlaps(other, GAP - 1.0) for other in taken):
            yield top


def _absolute_location(node: Node) -> tuple[float, float]:
    left, top = node.location
    frame = node.parent
    while frame is not None:  # locations are relative to the frame
        left, top = left + frame.location[0], top + frame.location[1]
        frame = frame.parent
    return left, top


def _frame_rectangle(frame: Node) -> Rectangle:
    left, top = _absolute_location(frame)
    rectangles = [Rectangle(left, top, frame.width, frame.height)]
    for child in shader_nodes.tree_of(frame).nodes:
        if child.parent == frame:
            inner = rectangle_of(child)
            rectangles.append(
                Rectangle(
                    inner.left - _FRAME_MARGIN,
                    inner.top + _FRAME_LABEL,
                    inner.width + 2 * _FRAME_MARGIN,
                    inner.height + _FRAME_MARGIN + _FRAME_LABEL,
                )
            )
    left = min(found.left for found in rectangles)
    top = max(found.top for found in rectangles)
    right = max(found.right for found in rectangles)
    bottom = min(found.bottom for found in rectangles)
    return Rectangle(left, top, right - left, top - bottom)


def _estimated_height(node: Node) -> float:
    if node.bl_idname == "NodeReroute":
        return _SOCKET
    sockets = [found for found in (*node.inputs, *node.outputs) if found.enabled and not found.hide]
    return _HEADER + _SOCKET * len(sockets) + _EXTRA_HEIGHT.get(node.bl_idname, 60.0)
