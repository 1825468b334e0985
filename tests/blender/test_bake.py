"""Real bakes through Cycles, compared with what the materials hold."""

import bpy
import numpy as np
import pytest
from blender_scenes import (
    SQUARE,
    assert_colour,
    bake,
    corner_uvs,
    flat_material,
    linear,
    make_object,
    new_material,
    pixels_of,
    shader,
    surface_of,
)
from tessera import images, materials
from tessera.generator_process.errors import InvalidRequestError
from tessera.generator_process.messages import ImageData


@pytest.fixture
def plane():
    return make_object("Plane", 1, SQUARE)


def random_picture(height, width, seed=0):
    """A picture of random bytes: `uint8` (height, width, 3)."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def test_picture_comes_back(plane):
    picture = random_picture(21, 37)
    image = images.new_image("Source", ImageData(pixels=picture))
    materials.assign(materials.target_of(bpy.context), image)
    (node,) = [n for n in plane.active_material.node_tree.nodes if n.bl_idname.endswith("TexImage")]
    for interpolation in ("Closest", "Linear"):
        node.interpolation = interpolation
        baked = pixels_of(bake(width_px=37, height_px=21))
        assert_colour(baked, picture, tolerance=1)
        assert (baked[..., 3] == 255).all()


def test_image_is_packed_named_and_a_colour(plane):
    image = bake()
    assert image.name == "Plane Baked"
    assert tuple(image.size) == (16, 16)
    assert image.packed_file is not None
    assert not image.is_float
    assert image.colorspace_settings.name == "sRGB"
    assert not image.is_dirty


@pytest.mark.parametrize("idname", ["ShaderNodeBsdfDiffuse", "ShaderNodeBsdfGlossy"])
def test_flat_colour(plane, idname):
    plane.data.materials.append(flat_material("Flat", (200, 100, 50), idname))
    assert_colour(pixels_of(bake()), (200, 100, 50, 255))


def test_metal_has_its_base_color(plane):
    # A diffuse pass would be black here.
    material, tree = new_material("Metal", cleared=False)
    (node,) = [node for node in tree.nodes if node.bl_idname == "ShaderNodeBsdfPrincipled"]
    node.inputs["Base Color"].default_value = (linear(250), linear(180), linear(3), 1)
    node.inputs["Metallic"].default_value = 1
    plane.data.materials.append(material)
    assert_colour(pixels_of(bake()), (250, 180, 3, 255))


def test_procedural_nodes(plane):
    material, tree = new_material("Checker")
    checker = shader(tree, "ShaderNodeTexChecker", Scale=4.0)
    checker.inputs["Color1"].default_value = (linear(10), linear(20), linear(30), 1)
    checker.inputs["Color2"].default_value = (linear(240), linear(230), linear(220), 1)
    coordinates = tree.nodes.new("ShaderNodeTexCoord")
    mapping = shader(tree, "ShaderNodeMapping")
    mapping.inputs["Location"].default_value = (0.01, 0.01, 0.1)  # off the planes between cells
    tree.links.new(coordinates.outputs["UV"], mapping.inputs["Vector"])
    tree.links.new(mapping.outputs[0], checker.inputs["Vector"])
    diffuse = shader(tree, "ShaderNodeBsdfDiffuse")
    tree.links.new(checker.outputs["Color"], diffuse.inputs["Color"])
    tree.links.new(diffuse.outputs[0], surface_of(tree))
    plane.data.materials.append(material)
    pixels = pixels_of(bake())
    cells = (np.add.outer(np.arange(16) // 4, np.arange(16) // 4)) % 2
    bottom_left = pixels[-1, 0]
    assert bottom_left[0] in (10, 240)
    first = (10, 20, 30) if bottom_left[0] == 10 else (240, 230, 220)
    second = (240, 230, 220) if bottom_left[0] == 10 else (10, 20, 30)
    assert_colour(pixels[::-1][cells == 0], first)
    assert_colour(pixels[::-1][cells == 1], second)


def test_every_slot(plane):
    bpy.data.objects.remove(plane)
    quarters = [uv for index in range(4) for uv in corner_uvs(index / 4, 0, 1 / 4, 1)]
    row = make_object("Row", 4, quarters, [0, 1, 2, 3])
    row.data.materials.append(flat_material("Red", (255, 0, 0)))
    row.data.materials.append(None)
    row.data.materials.append(flat_material("Blue", (0, 0, 255), "ShaderNodeEmission"))
    row.data.materials.append(flat_material("Green", (0, 255, 0)))
    row.material_slots[3].link = "OBJECT"
    row.material_slots[3].material = flat_material("Yellow", (255, 255, 0))
    pixels = pixels_of(bake(row))
    assert_colour(pixels[:, :4], (255, 0, 0, 255))
    assert_colour(pixels[:, 4:8], (231, 231, 231, 255))  # linear 0.8: faces without a material
    assert_colour(pixels[:, 8:12], (0, 0, 255, 255))
    assert_colour(pixels[:, 12:], (255, 255, 0, 255))
    assert [slot.material and slot.material.name for slot in row.material_slots] == [
        "Red",
        None,
        "Blue",
        "Yellow",
    ]


def test_mixed_and_added_shaders(plane):
    material, tree = new_material("Mix")
    mix = shader(tree, "ShaderNodeMixShader")
    mix.inputs[0].default_value = 0.25
    tree.links.new(shader(tree, "ShaderNodeBsdfDiffuse", (255, 0, 0)).outputs[0], mix.inputs[1])
    tree.links.new(shader(tree, "ShaderNodeBsdfDiffuse", (0, 255, 0)).outputs[0], mix.inputs[2])
    add = shader(tree, "ShaderNodeAddShader")
    glow = shader(tree, "ShaderNodeEmission", (0, 0, 255), Strength=0.5)
    tree.links.new(mix.outputs[0], add.inputs[0])
    tree.links.new(glow.outputs[0], add.inputs[1])
    tree.links.new(add.outputs[0], surface_of(tree))
    plane.data.materials.append(material)
    # linear (0.75, 0.25, 0.5)
    assert_colour(pixels_of(bake()), (225, 137, 188, 255))


def test_transparency_becomes_alpha(plane):
    material, tree = new_material("Decal")
    mix = shader(tree, "ShaderNodeMixShader")
    mix.inputs[0].default_value = 0.4
    tree.links.new(shader(tree, "ShaderNodeBsdfTransparent").outputs[0], mix.inputs[1])
    leaf = shader(tree, "ShaderNodeBsdfPrincipled", (20, 200, 40), Alpha=0.5)
    tree.links.new(leaf.outputs[0], mix.inputs[2])
    tree.links.new(mix.outputs[0], surface_of(tree))
    plane.data.materials.append(material)
    assert_colour(pixels_of(bake()), (20, 200, 40, 51))


@pytest.mark.parametrize("through_group_input", [False, True])
def test_shaders_inside_node_groups(plane, through_group_input):
    # P018: use a group
    material, tree = new_material("Grouped")
    group = bpy.data.node_groups.new("Paint", "ShaderNodeTree")
    group.interface.new_socket("Out", in_out="OUTPUT", socket_type="NodeSocketShader")
    group.interface.new_socket("In", in_out="INPUT", socket_type="NodeSocketShader")
    end, start = group.nodes.new("NodeGroupOutput"), group.nodes.new("NodeGroupInput")
    inside = shader(group, "ShaderNodeBsdfPrincipled", (30, 60, 90), Alpha=0.8)
    source = start.outputs[0] if through_group_input else inside.outputs[0]
    group.links.new(source, end.inputs[0])
    outer = tree.nodes.new("ShaderNodeGroup")
    outer.node_tree = group
    outside = shader(tree, "ShaderNodeBsdfPrincipled", (90, 60, 30), Alpha=0.2)
    tree.links.new(outside.outputs[0], outer.inputs[0])
    tree.links.new(outer.outputs[0], surface_of(tree))
    plane.data.materials.append(material)
    wanted = (90, 60, 30, 51) if through_group_input else (30, 60, 90, 204)
    assert_colour(pixels_of(bake()), wanted)
    assert outer.node_tree == group
    assert [item.name for item in group.interface.items_tree] == ["Out", "In"]


def test_chosen_uv_map_and_margin(plane):
    # P093: islands go on by the margin, and not farther
    second = plane.data.uv_layers.new(name="Second")
    for corner, uv in enumerate(corner_uvs(0.25, 0.25, 0.5, 0.5)):
        second.uv[corner].vector = uv
    plane.data.materials.append(flat_material("Flat", (200, 100, 50)))
    without = pixels_of(bake(uv_map="Second"))
    assert_colour(without[4:12, 4:12], (200, 100, 50, 255))
    outside = np.ones((16, 16), bool)
    outside[3:13, 3:13] = False  # newer versions of Blender count pixels that are touched
    assert (without[outside] == 0).all()
    widened = pixels_of(bake(uv_map="Second", margin_px=2))
    assert_colour(widened[4:12, 2:14], (200, 100, 50, 255))
    outside[1:15, 1:15] = False
    assert (widened[outside] == 0).all()
    assert plane.data.uv_layers.active.name == "UVMap"
    assert plane.data.uv_layers["UVMap"].active_render


def test_default_uv_map_is_the_one_for_rendering(plane):
    # P090: the documented rule
    second = plane.data.uv_layers.new(name="Second")
    for corner, uv in enumerate(corner_uvs(0, 0, 0.5, 1)):
        second.uv[corner].vector = uv
    second.active_render = True
    pixels = pixels_of(bake())
    assert (pixels[:, :8, 3] == 255).all()
    assert (pixels[:, 8:, 3] == 0).all()


def test_existing_image_is_written(plane):
    # P095: also twice, and onto an image that the material itself shows
    image = images.new_image("Mine", ImageData(pixels=random_picture(8, 8)))
    uid = image.session_uid
    materials.assign(materials.target_of(bpy.context), image)
    assert bake(image="Mine", width_px=4, height_px=4, samples=64) == image
    assert tuple(image.size) == (4, 4)
    plane.active_material = flat_material("Flat", (200, 100, 50))
    assert bake(image="Mine") == image
    assert image.session_uid == uid
    assert tuple(image.size) == (16, 16)
    assert_colour(pixels_of(image), (200, 100, 50, 255))
    assert len(bpy.data.images) == 1


def test_float_and_data_images_become_colours(plane):
    # P114: no conversion is left to chance
    plane.data.materials.append(flat_material("Flat", (200, 100, 50)))
    image = bpy.data.images.new("Float", 8, 8, float_buffer=True, is_data=True)
    bake(image="Float")
    assert not image.is_float
    assert_colour(pixels_of(image), (200, 100, 50, 255))


def test_baked_image_survives_saving(plane, tmp_path):
    # P122: packed
    plane.data.materials.append(flat_material("Flat", (200, 100, 50)))
    bpy.data.images.new("Mine", 4, 4)
    bake(image="Mine").use_fake_user = True
    path = str(tmp_path / "saved.blend")
    bpy.ops.wm.save_as_mainfile(filepath=path)
    bpy.ops.wm.open_mainfile(filepath=path)
    assert_colour(pixels_of(bpy.data.images["Mine"]), (200, 100, 50, 255))


@pytest.mark.parametrize(
    ("uvs", "sentence"),
    [
        (None, r'"Bad" has no UV map\. Unwrap it, or turn on Make UV Map'),
        ([(0.5, 0.5)] * 4, "gives the faces no area"),
        (corner_uvs(0, 0, 3, 3), "leaves the square from 0 to 1"),
        (corner_uvs(-0.5, 0, 1, 1), "leaves the square from 0 to 1"),
    ],
)
def test_unfit_uv_maps_are_told(uvs, sentence):
    # P099: a black texture is never the answer
    bad = make_object("Bad", 1, uvs)
    with pytest.raises(InvalidRequestError, match=sentence):
        bake(bad)
    assert len(bpy.data.images) == 0


def test_island_smaller_than_a_pixel_is_told_or_baked():
    # P099: newer versions of Blender bake the pixel that it touches
    bad = make_object("Bad", 1, corner_uvs(0.01, 0.01, 0.01, 0.01))
    bad.data.materials.append(flat_material("Flat", (200, 100, 50)))
    try:
        pixels = pixels_of(bake(bad))
    except InvalidRequestError as error:
        assert "No pixel of 16 x 16 lies on" in str(error)
    else:
        assert_colour(pixels[-1, 0], (200, 100, 50, 255))


def test_unknown_uv_map_is_told(plane):
    with pytest.raises(InvalidRequestError, match=r'no UV map "Other"\. Choose "UVMap", or'):
        bake(uv_map="Other")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"width_px": 0}, "Width 0 is out of range"),
        ({"height_px": 16385}, "Height 16385 is out of range. Use a value from 1 to 16384"),
        ({"margin_px": -1}, "Margin -1 is out of range"),
        ({"samples": 0}, "Samples 0 is out of range"),
    ],
)
def test_limits(plane, settings, sentence):
    with pytest.raises(InvalidRequestError, match=sentence):
        bake(**settings)


def test_unfit_objects_and_images_are_told(plane):
    empty = make_object("Empty Mesh", 0, [])
    with pytest.raises(InvalidRequestError, match='"Empty Mesh" has no faces'):
        bake(empty)
    curve = bpy.data.objects.new("Path", bpy.data.curves.new("Path", "CURVE"))
    with pytest.raises(InvalidRequestError, match='"Path" is a Curve, and only meshes'):
        bake(curve)
    tiled = bpy.data.images.new("Tiles", 4, 4, tiled=True)
    with pytest.raises(InvalidRequestError, match='"Tiles" is not a single image'):
        bake(plane, image=tiled.name)


def test_makes_a_uv_map_when_asked():
    bpy.ops.mesh.primitive_cube_add()
    cube = bpy.context.active_object
    while cube.data.uv_layers:
        cube.data.uv_layers.remove(cube.data.uv_layers[0])
    cube.data.materials.append(flat_material("Flat", (200, 100, 50)))
    pixels = pixels_of(bake(cube, make_uv=True, width_px=64, height_px=64))
    assert [layer.name for layer in cube.data.uv_layers] == ["UVMap"]
    covered = pixels[..., 3] == 255
    assert covered.mean() > 0.4
    assert_colour(pixels[covered], (200, 100, 50))


def test_operator(plane):
    plane.data.materials.append(flat_material("Flat", (200, 100, 50)))
    result = bpy.ops.tessera.bake(
        object="Plane", uv_map="UVMap", image="Result", width=8, height=4, margin=0
    )
    assert result == {"FINISHED"}
    assert tuple(bpy.data.images["Result"].size) == (8, 4)
    assert_colour(pixels_of(bpy.data.images["Result"]), (200, 100, 50, 255))


def test_operator_tells_what_is_wrong(plane):
    # P133: a script gets the sentence that the user sees
    with pytest.raises(RuntimeError, match='There is no object "Sphere" in this scene'):
        bpy.ops.tessera.bake(object="Sphere")
    bpy.context.view_layer.objects.active = None
    with pytest.raises(RuntimeError, match="No object is active"):
        bpy.ops.tessera.bake()
