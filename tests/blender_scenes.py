"""Real objects and materials for tests in Blender, and what is in them."""

import bpy
import numpy as np
from tessera import baking
from tessera.materials import node_layout, shader_nodes

SQUARE = [(0, 0), (1, 0), (1, 1), (0, 1)]


def make_object(name, quads, uvs, material_indices=None):
    """Make a mesh object of separate quads in the XY plane, quad i at x = i, with one UV map."""
    mesh = bpy.data.meshes.new(name)
    points = [(x + index, y, 0) for index in range(quads) for x, y in SQUARE]
    mesh.from_pydata(points, [], [tuple(range(4 * i, 4 * i + 4)) for i in range(quads)])
    if uvs is not None:
        layer = mesh.uv_layers.new(name="UVMap")
        for corner, uv in enumerate(uvs):
            layer.uv[corner].vector = uv
    for polygon, index in zip(mesh.polygons, material_indices or [0] * quads, strict=True):
        polygon.material_index = index
    made = bpy.data.objects.new(name, mesh)
    bpy.context.scene.collection.objects.link(made)
    bpy.context.view_layer.objects.active = made
    return made


def corner_uvs(left, bottom, width, height):
    return [(left + width * u, bottom + height * v) for u, v in SQUARE]


def new_material(name, *, cleared=True):
    material = bpy.data.materials.new(name)
    tree = shader_nodes.ensure_nodes(material)
    if cleared:
        tree.nodes.clear()
        tree.nodes.new("ShaderNodeOutputMaterial")
    return material, tree


def surface_of(tree):
    (output,) = [node for node in tree.nodes if node.bl_idname == "ShaderNodeOutputMaterial"]
    return output.inputs["Surface"]


def shader(tree, idname, rgb=None, **inputs):
    node = tree.nodes.new(idname)
    if rgb is not None:
        node.inputs[0].default_value = (*[linear(value) for value in rgb], 1)
    for name, value in inputs.items():
        node.inputs[name].default_value = value
    return node


def flat_material(name, rgb, idname="ShaderNodeBsdfDiffuse"):
    material, tree = new_material(name)
    tree.links.new(shader(tree, idname, rgb).outputs[0], surface_of(tree))
    return material


def linear(byte):
    """The linear value of an sRGB byte. Source: IEC 61966-2-1:1999."""
    value = byte / 255
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def bake(target=None, **settings):
    values = {"width_px": 16, "height_px": 16, "margin_px": 0} | settings
    return baking.bake(target or bpy.context.active_object, baking.BakeSettings(**values))


def pixels_of(image):
    """`uint8` (height, width, 4), row 0 at the top."""
    width, height = image.size
    flat = np.empty(width * height * 4, np.float32)
    image.pixels.foreach_get(flat)
    return np.rint(flat * 255).astype(np.uint8).reshape(height, width, 4)[::-1]


def assert_colour(pixels, rgb, tolerance=1):
    wanted = np.array(rgb, int)
    away = np.abs(pixels[..., : wanted.shape[-1]].astype(int) - wanted).max()
    assert away <= tolerance, f"{pixels.reshape(-1, 4)[0]} instead of {wanted}"


def uv_state(found):
    state = {}
    for layer in found.data.uv_layers:
        flat = np.empty(len(found.data.loops) * 2, np.float32)
        layer.uv.foreach_get("vector", flat)
        state[layer.name] = (flat.tolist(), layer.active, layer.active_render, layer.active_clone)
    return state


DATABLOCKS = (
    *("scenes", "objects", "meshes", "materials", "node_groups", "worlds", "collections"),
    *("actions", "linestyles", "cameras", "lights", "brushes", "shape_keys", "textures"),
)


def file_state():
    """All that a bake could change, as text and numbers."""
    layer = bpy.context.view_layer
    scene = bpy.context.scene
    state = {
        name: sorted((block.name, block.users) for block in getattr(bpy.data, name))
        for name in DATABLOCKS
    }
    state["context"] = (scene.name, bpy.context.window.scene.name, bpy.context.mode)
    state["active"] = layer.objects.active and layer.objects.active.name
    state["selected"] = sorted(item.name for item in scene.objects if item.select_get())
    state["hidden"] = sorted(
        (item.name, item.hide_get(), item.hide_viewport, item.hide_render, item.hide_select)
        for item in scene.objects
    )
    render = scene.render
    state["render"] = (render.engine, render.resolution_x, render.bake.margin, render.filepath)
    state["bake"] = (render.bake.target, render.bake.use_clear, render.bake.use_selected_to_active)
    state["frame"] = scene.frame_current
    state["uv"] = {item.name: uv_state(item) for item in scene.objects if item.mode != "EDIT"}
    for material in bpy.data.materials:
        tree = material.node_tree
        if tree is None:
            continue
        state[material.name] = (
            sorted((n.name, n.bl_idname, tuple(n.location), n.select, n.mute) for n in tree.nodes),
            sorted(f"{x.from_node.name}.{x.from_socket.name}>{x.to_node.name}" for x in tree.links),
            tree.nodes.active and tree.nodes.active.name,
        )
    return state


def node(tree, idname):
    (found,) = [node for node in tree.nodes if node.bl_idname == idname]
    return found


def add(tree, idname, location=(0, 0)):
    made = tree.nodes.new(idname)
    made.location = location
    return made


def links_of(tree):
    return {
        (
            link.from_node.name,
            link.from_socket.identifier,
            link.to_node.name,
            link.to_socket.identifier,
        )
        for link in tree.links
    }


def base_color_of(tree, idname="ShaderNodeBsdfPrincipled"):
    return shader_nodes.socket(node(tree, idname).inputs, *shader_nodes.COLOUR_INPUTS)


def feeding_image(target):
    source = shader_nodes.source_of(target)
    assert source.identifier == "Color"
    return source.node.image


def assert_nothing_covered(tree):
    nodes = [node for node in tree.nodes if node.bl_idname != "NodeFrame"]
    places = [(node.name, node_layout.rectangle_of(node)) for node in nodes]
    for index, (name, place) in enumerate(places):
        for other_name, other in places[index + 1 :]:
            assert not place.overlaps(other), f"{name} covers {other_name}"
