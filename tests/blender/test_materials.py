"""The nodes of real materials, before and after an image was assigned."""

import bpy
import pytest
from blender_scenes import add, assert_nothing_covered, base_color_of, feeding_image, links_of, node
from tessera import materials
from tessera.generator_process.errors import InvalidRequestError
from tessera.materials import shader_nodes


@pytest.fixture
def cube():
    mesh = bpy.data.meshes.new("Cube")
    mesh.from_pydata([(0, 0, 0), (1, 0, 0), (1, 1, 0)], [], [(0, 1, 2)])
    cube = bpy.data.objects.new("Cube", mesh)
    bpy.context.scene.collection.objects.link(cube)
    bpy.context.view_layer.objects.active = cube
    return cube


@pytest.fixture
def image():
    return bpy.data.images.new("red brick wall 7", 4, 4)


@pytest.fixture
def material(cube):
    made = bpy.data.materials.new("Wall")
    shader_nodes.ensure_nodes(made)
    cube.data.materials.append(made)
    return made


def assign(image):
    return materials.assign(materials.target_of(bpy.context), image)


def test_links_to_base_color(material, image):
    before = links_of(material.node_tree)
    assert assign(image) == materials.Assignment(material="Wall")
    assert feeding_image(base_color_of(material.node_tree)) == image
    assert before < links_of(material.node_tree)
    assert len(links_of(material.node_tree)) == len(before) + 1
    assert node(material.node_tree, "ShaderNodeTexImage") == material.node_tree.nodes.active
    assert_nothing_covered(material.node_tree)


def test_makes_a_material_where_the_object_has_none(cube, image):
    # P079: no slot at all
    assert assign(image).material == "red brick wall 7"
    assert [slot.material.name for slot in cube.material_slots] == ["red brick wall 7"]
    tree = cube.active_material.node_tree
    assert feeding_image(base_color_of(tree)) == image
    assert_nothing_covered(tree)


def test_fills_an_empty_slot(cube, material, image):
    # P079: an empty slot
    cube.data.materials.append(None)
    cube.active_material_index = 1
    assign(image)
    assert [slot.material.name for slot in cube.material_slots] == ["Wall", "red brick wall 7"]
    assert not base_color_of(material.node_tree).is_linked


def test_says_what_to_do_without_an_object(image):
    with pytest.raises(InvalidRequestError, match=r"No object is active\. Select"):
        assign(image)


def test_says_what_a_lamp_cannot_do(image):
    lamp = bpy.data.objects.new("Sun", bpy.data.lights.new("Sun", "SUN"))
    bpy.context.scene.collection.objects.link(lamp)
    bpy.context.view_layer.objects.active = lamp
    with pytest.raises(InvalidRequestError, match='"Sun" is a Light, which cannot show a texture'):
        assign(image)


def test_keeps_a_link_of_the_user(material, image):
    tree = material.node_tree
    noise = add(tree, "ShaderNodeTexNoise", (-600, 100))
    tree.links.new(noise.outputs["Color"], base_color_of(tree))
    before = links_of(tree)
    assert "already linked" in assign(image).note
    assert links_of(tree) == before
    assert node(tree, "ShaderNodeTexImage").image == image
    assert_nothing_covered(tree)


def test_keeps_a_muted_link_of_the_user(material, image):
    tree = material.node_tree
    noise = add(tree, "ShaderNodeTexNoise", (-600, 100))
    tree.links.new(noise.outputs["Color"], base_color_of(tree)).is_muted = True
    before = links_of(tree)
    assign(image)
    assert links_of(tree) == before


def test_a_second_image_takes_over_from_the_first(material, image):
    tree = material.node_tree
    assign(image)
    first = node(tree, "ShaderNodeTexImage")
    first.interpolation = "Closest"
    coordinates = add(tree, "ShaderNodeTexCoord", (-900, 100))
    tree.links.new(coordinates.outputs["UV"], first.inputs["Vector"])
    tree.links.new(first.outputs["Color"], node(tree, "ShaderNodeBsdfPrincipled").inputs["Alpha"])
    before = links_of(tree)

    newer = bpy.data.images.new("moss 3", 4, 4)
    assert assign(newer).note == ""
    source = shader_nodes.source_of(base_color_of(tree)).node
    assert source.image == newer
    assert source.interpolation == "Closest"
    assert source.inputs["Vector"].links[0].from_node == coordinates
    assert first.image == image
    lost = before - links_of(tree)
    assert {link[3] for link in lost} == {"Base Color"}
    assert_nothing_covered(tree)


def test_names_do_not_matter(material, image):
    # P018: everything renamed, as a translation or the user would
    for index, found in enumerate(material.node_tree.nodes):
        found.name = f"Prinzipieller Knoten {index}"
        found.label = "原理化"
        for socket in (*found.inputs, *found.outputs):
            socket.name = f"Buchse {index}"
    assign(image)
    assert feeding_image(base_color_of(material.node_tree)) == image


def test_restores_what_was_deleted(material, image):
    # P018: the shader is gone, then the output is gone too
    tree = material.node_tree
    tree.nodes.remove(node(tree, "ShaderNodeBsdfPrincipled"))
    assign(image)
    assert feeding_image(base_color_of(tree)) == image
    tree.nodes.clear()
    assign(image)
    assert feeding_image(base_color_of(tree)) == image
    surface = node(tree, "ShaderNodeOutputMaterial").inputs["Surface"]
    assert surface.links[0].from_node == node(tree, "ShaderNodeBsdfPrincipled")
    assert_nothing_covered(tree)


def test_takes_an_unused_principled_for_a_new_output(material, image):
    tree = material.node_tree
    tree.nodes.remove(node(tree, "ShaderNodeOutputMaterial"))
    node(tree, "ShaderNodeBsdfPrincipled").inputs["Roughness"].default_value = 0.125
    assign(image)
    assert node(tree, "ShaderNodeBsdfPrincipled").inputs["Roughness"].default_value == 0.125
    assert node(tree, "ShaderNodeOutputMaterial").inputs["Surface"].is_linked


def test_follows_the_active_output(material, image):
    tree = material.node_tree
    second = add(tree, "ShaderNodeOutputMaterial", (600, -400))
    diffuse = add(tree, "ShaderNodeBsdfDiffuse", (300, -400))
    tree.links.new(diffuse.outputs[0], second.inputs["Surface"])
    second.is_active_output = True
    assign(image)
    assert feeding_image(base_color_of(tree, "ShaderNodeBsdfDiffuse")) == image
    assert not base_color_of(tree).is_linked


def test_follows_the_output_of_the_render_engine(material, image):
    tree = material.node_tree
    node(tree, "ShaderNodeOutputMaterial").target = "EEVEE"
    second = add(tree, "ShaderNodeOutputMaterial", (600, -400))
    second.target = "CYCLES"
    emission = add(tree, "ShaderNodeEmission", (300, -400))
    tree.links.new(emission.outputs[0], second.inputs["Surface"])
    bpy.context.scene.render.engine = "CYCLES"
    assign(image)
    assert feeding_image(base_color_of(tree, "ShaderNodeEmission")) == image
    assert not base_color_of(tree).is_linked


def test_finds_the_principled_behind_other_shaders(material, image):
    tree = material.node_tree
    principled = node(tree, "ShaderNodeBsdfPrincipled")
    mix = add(tree, "ShaderNodeMixShader", (150, 0))
    diffuse = add(tree, "ShaderNodeBsdfDiffuse", (0, -400))
    reroute = add(tree, "NodeReroute", (100, 300))
    tree.links.new(principled.outputs[0], reroute.inputs[0])
    tree.links.new(diffuse.outputs[0], mix.inputs[1])
    tree.links.new(reroute.outputs[0], mix.inputs[2])
    tree.links.new(mix.outputs[0], node(tree, "ShaderNodeOutputMaterial").inputs["Surface"])
    assign(image)
    assert feeding_image(base_color_of(tree)) == image
    assert not diffuse.inputs["Color"].is_linked


def group_material(material, *, has_colour_input):
    """Move the Principled BSDF into a node group, with or without an input for its colour."""
    tree = material.node_tree
    group = bpy.data.node_groups.new("Paint", "ShaderNodeTree")
    group.interface.new_socket("Shader", in_out="OUTPUT", socket_type="NodeSocketShader")
    end, start = add(group, "NodeGroupOutput", (300, 0)), add(group, "NodeGroupInput", (-300, 0))
    principled = add(group, "ShaderNodeBsdfPrincipled")
    group.links.new(principled.outputs[0], end.inputs[0])
    if has_colour_input:
        group.interface.new_socket("Colour", in_out="INPUT", socket_type="NodeSocketColor")
        group.links.new(start.outputs[0], principled.inputs["Base Color"])
    tree.nodes.remove(node(tree, "ShaderNodeBsdfPrincipled"))
    outer = add(tree, "ShaderNodeGroup")
    outer.node_tree = group
    tree.links.new(outer.outputs[0], node(tree, "ShaderNodeOutputMaterial").inputs["Surface"])
    return group, outer


def test_links_to_the_input_of_a_node_group(material, image):
    # P018: use a group
    _, outer = group_material(material, has_colour_input=True)
    assign(image)
    assert feeding_image(outer.inputs[0]) == image
    assert_nothing_covered(material.node_tree)


def test_enters_a_node_group_that_is_used_once(material, image):
    group, _ = group_material(material, has_colour_input=False)
    assign(image)
    assert feeding_image(base_color_of(group)) == image


def test_leaves_a_shared_node_group_alone(material, image):
    group, _ = group_material(material, has_colour_input=False)
    other = bpy.data.materials.new("Other")
    add(shader_nodes.ensure_nodes(other), "ShaderNodeGroup").node_tree = group
    with pytest.raises(InvalidRequestError, match='inside the node group "Paint"'):
        materials.target_of(bpy.context)
    assert not base_color_of(group).is_linked


def test_says_what_to_do_without_a_shader(material, image):
    tree = material.node_tree
    surface = node(tree, "ShaderNodeOutputMaterial").inputs["Surface"]
    tree.links.new(add(tree, "ShaderNodeTexNoise").outputs["Color"], surface)
    with pytest.raises(InvalidRequestError, match="a colour without a shader"):
        materials.target_of(bpy.context)
    tree.links.new(add(tree, "ShaderNodeHoldout").outputs[0], surface)
    with pytest.raises(InvalidRequestError, match="No shader of material"):
        materials.target_of(bpy.context)
    tree.nodes.remove(surface.links[0].from_node)
    volume = add(tree, "ShaderNodeVolumeScatter")
    tree.links.new(volume.outputs[0], node(tree, "ShaderNodeOutputMaterial").inputs["Volume"])
    with pytest.raises(InvalidRequestError, match="has a volume and no surface"):
        materials.target_of(bpy.context)


def test_nothing_is_made_on_an_error(material, image):
    # P094: the material is as before when it cannot take the image
    target = materials.target_of(bpy.context)
    tree = material.node_tree
    surface = node(tree, "ShaderNodeOutputMaterial").inputs["Surface"]
    tree.links.new(add(tree, "ShaderNodeHoldout").outputs[0], surface)
    before = (len(tree.nodes), links_of(tree))
    with pytest.raises(InvalidRequestError):
        materials.assign(target, image)
    assert (len(tree.nodes), links_of(tree)) == before


def test_library_material_is_refused(cube, image, tmp_path):
    # P079: a linked library material
    library = tmp_path / "Bibliothek (ä).blend"
    bpy.data.libraries.write(str(library), {bpy.data.materials.new("Shared")})
    with bpy.data.libraries.load(str(library), link=True) as (_, wanted):
        wanted.materials = ["Shared"]
    cube.data.materials.append(wanted.materials[0])
    with pytest.raises(InvalidRequestError, match=r'"Shared" is linked .* Make it local'):
        materials.target_of(bpy.context)


def test_target_survives_renaming_and_a_new_choice(material, image):
    target = materials.target_of(bpy.context)
    material.name = "Renamed"
    bpy.data.materials.new("Wall")
    bpy.context.view_layer.objects.active = None
    assert materials.assign(target, image).material == "Renamed"


def test_material_made_in_the_meantime_is_used(cube, image):
    target = materials.target_of(bpy.context)
    made = bpy.data.materials.new("Mine")
    cube.data.materials.append(made)
    assert materials.assign(target, image).material == "Mine"


def test_target_that_is_gone(material, image):
    target = materials.target_of(bpy.context)
    bpy.data.materials.remove(material)
    bpy.data.materials.new("Wall")  # another one of the same name is not the target
    with pytest.raises(InvalidRequestError, match='Material "Wall" is no longer there'):
        materials.assign(target, image)
    assert image.name in bpy.data.images


def test_object_that_is_gone(cube, image):
    target = materials.target_of(bpy.context)
    bpy.data.objects.remove(cube)
    with pytest.raises(InvalidRequestError, match='Object "Cube" is no longer there'):
        materials.assign(target, image)


def test_loading_the_file_again_keeps_the_target(material, tmp_path):
    path = str(tmp_path / "scene.blend")
    bpy.ops.wm.save_as_mainfile(filepath=path)
    target = materials.target_of(bpy.context)
    bpy.ops.wm.open_mainfile(filepath=path)
    assert materials.assign(target, bpy.data.images.new("new", 4, 4)).material == "Wall"
    bpy.ops.wm.read_factory_settings(use_empty=True)
    bpy.data.materials.new("Wall")
    with pytest.raises(InvalidRequestError, match="no longer there"):
        materials.assign(target, bpy.data.images.new("new", 4, 4))


def test_undo_keeps_the_target(material):
    window = bpy.context.window_manager.windows[0]
    with bpy.context.temp_override(window=window, area=window.screen.areas[0]):
        bpy.context.preferences.edit.use_global_undo = True
        bpy.ops.ed.undo_push(message="one")
        target = materials.target_of(bpy.context)
        bpy.data.objects["Cube"].location.x = 3
        bpy.ops.ed.undo_push(message="two")
        bpy.ops.ed.undo()
    assert bpy.data.objects["Cube"].location.x == 0
    image = bpy.data.images.new("new", 4, 4)
    assert materials.assign(target, image).material == "Wall"
    tree = bpy.data.materials["Wall"].node_tree
    assert feeding_image(base_color_of(tree)) == image


def test_shader_editor_shows_which_material(material, image):
    other = bpy.data.materials.new("Edited")
    tree = shader_nodes.ensure_nodes(other)
    window = bpy.context.window_manager.windows[0]
    area = window.screen.areas[0]
    area.ui_type = "ShaderNodeTree"
    area.spaces.active.pin = True
    area.spaces.active.node_tree = tree
    with bpy.context.temp_override(window=window, area=area):
        target = materials.target_of(bpy.context)
    assert target.material_name == "Edited"


def test_long_name_of_a_new_material(cube):
    # P019: names are cut by Blender, on a whole letter
    image = bpy.data.images.new("石垣" * 60, 4, 4)
    name = assign(image).material
    assert bpy.data.materials[name] == cube.active_material
    assert name.startswith("石垣石垣")
