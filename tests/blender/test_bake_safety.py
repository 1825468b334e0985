"""What a bake leaves as it was, in every mode and after errors."""

from contextlib import nullcontext

import bpy
import pytest
from blender_scenes import (
    SQUARE,
    assert_colour,
    bake,
    file_state,
    flat_material,
    linear,
    make_object,
    new_material,
    pixels_of,
    uv_state,
)
from tessera import baking
from tessera.generator_process.errors import InvalidRequestError


@pytest.fixture
def plane():
    return make_object("Plane", 1, SQUARE)


@pytest.mark.parametrize("mode", ["OBJECT", "EDIT"])
def test_made_uv_map_leaves_the_others_alone(plane, mode):
    # P091: the user's UV maps never change
    before = uv_state(plane)
    bpy.ops.object.mode_set(mode=mode)
    bake(make_uv=True, uv_map="Second")
    assert plane.mode == mode
    bpy.ops.object.mode_set(mode="OBJECT")
    after = uv_state(plane)
    made = after.pop("Second")
    assert after == before
    assert min(made[0]) >= 0
    assert max(made[0]) <= 1
    assert max(made[0]) - min(made[0]) > 0.5
    assert made[1:] == (False, False, False)


def test_ninth_uv_map_is_refused(plane):
    # P098: the limit is checked, and nothing half-made is left
    for index in range(7):
        plane.data.uv_layers.new(name=f"Map {index}")
    with pytest.raises(InvalidRequestError, match="has 8 UV maps, and no more are possible"):
        bake(make_uv=True, uv_map="Ninth")
    assert len(plane.data.uv_layers) == 8


@pytest.fixture
def busy_scene(plane):
    """A scene in which much could go wrong: hidden, linked twice, animated, other engine."""
    plane.data.uv_layers.new(name="Second").active = True
    material, tree = new_material("Wall", cleared=False)
    plane.data.materials.append(material)
    texture = tree.nodes.new("ShaderNodeTexImage")
    texture.image = bpy.data.images.new("Existing", 4, 4)
    tree.nodes.active = texture
    other = bpy.data.objects.new("Other", plane.data)
    bpy.context.scene.collection.objects.link(other)
    other.select_set(state=True)
    plane.select_set(state=False)
    plane.hide_render = plane.hide_viewport = plane.hide_select = True
    plane.keyframe_insert("hide_render")
    plane.modifiers.new("Subdivision", "SUBSURF")
    bpy.context.view_layer.objects.active = other
    bpy.context.scene.render.engine = "BLENDER_WORKBENCH"
    bpy.context.scene.frame_set(7)
    return plane


def test_nothing_of_the_user_is_changed(busy_scene):
    before = file_state()
    bake(busy_scene)
    assert file_state() == before


def test_nothing_is_changed_on_an_error(busy_scene):
    for uv in busy_scene.data.uv_layers["UVMap"].uv:
        uv.vector *= 9
    before = file_state()
    with pytest.raises(InvalidRequestError, match='"UVMap" of "Plane" leaves the square'):
        bake(busy_scene)
    assert file_state() == before
    assert [image.name for image in bpy.data.images] == ["Existing"]


def test_failure_of_blender_is_told_and_cleaned_up(busy_scene, monkeypatch):
    before = file_state()
    monkeypatch.setattr(baking, "inside", lambda _scene: nullcontext())
    bpy.context.view_layer.objects.active = None
    with pytest.raises(InvalidRequestError, match=r"Blender could not bake: .*poll"):
        bake(busy_scene)
    bpy.context.view_layer.objects.active = bpy.data.objects["Other"]
    assert file_state() == before
    assert [image.name for image in bpy.data.images] == ["Existing"]


@pytest.mark.parametrize("mode", ["EDIT", "SCULPT", "VERTEX_PAINT", "TEXTURE_PAINT"])
def test_any_mode(plane, mode):
    plane.data.materials.append(flat_material("Flat", (200, 100, 50)))
    bpy.ops.object.mode_set(mode=mode)
    before = file_state()
    assert_colour(pixels_of(bake()), (200, 100, 50, 255))
    assert file_state() == before
    assert plane.mode == mode


def test_unsaved_edits_are_baked(plane):
    import bmesh

    plane.data.materials.append(flat_material("Flat", (200, 100, 50)))
    bpy.ops.object.mode_set(mode="EDIT")
    edited = bmesh.from_edit_mesh(plane.data)
    uv = edited.loops.layers.uv["UVMap"]
    for face in edited.faces:
        for corner in face.loops:
            corner[uv].uv.x *= 0.5
    bmesh.update_edit_mesh(plane.data)
    pixels = pixels_of(bake())
    assert (pixels[:, :8, 3] == 255).all()
    assert (pixels[:, 8:, 3] == 0).all()


def test_materials_from_geometry_nodes(plane):
    plane.data.materials.append(flat_material("Slot", (255, 0, 0)))
    tree = bpy.data.node_groups.new("Set", "GeometryNodeTree")
    tree.interface.new_socket("Geometry", in_out="INPUT", socket_type="NodeSocketGeometry")
    tree.interface.new_socket("Geometry", in_out="OUTPUT", socket_type="NodeSocketGeometry")
    start, end = tree.nodes.new("NodeGroupInput"), tree.nodes.new("NodeGroupOutput")
    setter = tree.nodes.new("GeometryNodeSetMaterial")
    setter.inputs["Material"].default_value = flat_material("Given", (200, 100, 50))
    tree.links.new(start.outputs[0], setter.inputs[0])
    tree.links.new(setter.outputs[0], end.inputs[0])
    plane.modifiers.new("Nodes", "NODES").node_group = tree
    assert_colour(pixels_of(bake()), (200, 100, 50, 255))
    assert len(plane.modifiers) == 1


def test_material_without_nodes(plane):
    if bpy.app.version >= (5, 0):
        pytest.skip("from Blender 5.0 on every material has nodes")
    material = bpy.data.materials.new("Plain")
    material.diffuse_color = (linear(200), linear(100), linear(50), 1)
    plane.data.materials.append(material)
    assert_colour(pixels_of(bake()), (200, 100, 50, 255))
    assert not material.use_nodes


def test_library_object(tmp_path):
    library = str(tmp_path / "library.blend")
    shared = make_object("Shared", 1, SQUARE)
    shared.data.materials.append(flat_material("Flat", (200, 100, 50)))
    bpy.data.libraries.write(library, {shared})
    bpy.ops.wm.read_factory_settings(use_empty=True)
    with bpy.data.libraries.load(library, link=True) as (_, wanted):
        wanted.objects = ["Shared"]
    bpy.context.scene.collection.objects.link(wanted.objects[0])
    assert_colour(pixels_of(bake(wanted.objects[0])), (200, 100, 50, 255))
    assert len(bpy.data.meshes) == len(bpy.data.materials) == 1
