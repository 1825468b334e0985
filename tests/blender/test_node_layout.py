"""A new node covers no other node and no frame."""

import pytest
from blender_scenes import add, assert_nothing_covered, new_material, node
from tessera.materials import node_layout


@pytest.fixture
def tree():
    return new_material("Wall", cleared=False)[1]


def test_place_among_many_nodes(tree):
    anchor = node(tree, "ShaderNodeBsdfPrincipled")
    x, y = anchor.location
    for column in range(1, 7):
        for row in range(-4, 5):
            add(tree, "ShaderNodeMath", (x - 190 * column, y + 210 * row))
    node_layout.place_left_of(tree, add(tree, "ShaderNodeTexImage"), anchor)
    assert_nothing_covered(tree)


def test_place_outside_frames(tree):
    anchor = node(tree, "ShaderNodeBsdfPrincipled")
    frame = add(tree, "NodeFrame", (-700, 300))
    inside = add(tree, "ShaderNodeMath")
    inside.parent = frame
    inside.location = (100, -50)
    anchor.parent = frame
    new = add(tree, "ShaderNodeTexImage")
    node_layout.place_left_of(tree, new, anchor)
    assert not node_layout.rectangle_of(new).overlaps(node_layout.rectangle_of(frame))
    assert node_layout.rectangle_of(inside).left == pytest.approx(-600)
