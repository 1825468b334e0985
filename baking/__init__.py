# SPDX-License-Identifier: GPL-3.0-or-later
"""From what a material shows to an image. Side: Blender.

Baked are colours without light, as `surface_colour` describes them. Everything happens on copies in
a scene of its own, which is removed afterwards, so nothing of the user's can be left changed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import bpy
import numpy as np
from bpy.types import Image, Object, Scene, ShaderNodeTexImage
from numpy.typing import NDArray

from .. import images
from ..generator_process.errors import InvalidRequestError
from ..generator_process.messages import ImageData
from ..materials.shader_nodes import ensure_nodes
from . import surface_colour, uv_maps
from .scratch import evaluated_mesh, inside, mesh_of, scratch_scene
from .surface_colour import UnlitMaterial

MAX_SIZE_PX = 16384
MAX_SAMPLES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class BakeSettings:
    """How to bake.

    `uv_map` names the UV map to bake onto; empty stands for the one that is used for rendering.
    If that one is missing, `make_uv` unwraps the object into a new UV map of this name. `image`
    names the image to write, which is made when there is none of this name; empty makes a new one.
    `margin_px` is how far colours go on beyond the edges of UV islands. With one of `samples` each
    pixel is the colour at its centre, with more the mean over its area.
    """

    uv_map: str = ""
    make_uv: bool = False
    image: str = ""
    width_px: int = 1024
    height_px: int = 1024
    margin_px: int = 16
    samples: int = 1

    def __post_init__(self) -> None:
        _check_range("Width", self.width_px, 1, MAX_SIZE_PX)
        _check_range("Height", self.height_px, 1, MAX_SIZE_PX)
        _check_range("Margin", self.margin_px, 0, MAX_SIZE_PX)
        _check_range("Samples", self.samples, 1, MAX_SAMPLES)


def bake(original: Object, settings: BakeSettings) -> Image:
    """Bake the colours of all materials of a mesh object onto one image.

    Returns:
        The image: 8 bits, packed, in the colour space of colours, with straight alpha: the
        opacity of the materials, and 0 where there is no surface.

    Raises:
        InvalidRequestError: The object, its UV map or the image is not fit for this.
    """
    if original.type != "MESH":
        kind = original.type.replace("_", " ").title()
        raise InvalidRequestError(
            f'"{original.name}" is a {kind}, and only meshes can be baked. Convert it to a mesh.'
        )
    target = _existing_image(settings.image)
    if original.mode == "EDIT":
        original.update_from_editmode()
    made = None
    uv_map = _uv_map_to_use(original, settings.uv_map)
    if uv_map is None:
        made = _unwrapped(original, settings)
        uv_map = settings.uv_map or uv_maps.NEW_NAME
    with scratch_scene(original) as (scene, copy):
        if made is not None:
            uv_maps.add(original, mesh_of(copy), uv_map, made)
        _check_uv_map(original.name, scene, copy, uv_map)
        pixels = _bake_copy(scene, copy, uv_map, settings)
    if made is not None:
        _keep_uv_map(original, uv_map, made)
    return _stored(pixels, target, settings.image or f"{original.name} Baked")


def _existing_image(name: str) -> Image | None:
    image = bpy.data.images.get((name, None)) if name else None  # pyright: ignore[reportArgumentType]
    if image is None:
        return None
    if image.type not in {"IMAGE", "UV_TEST"} or image.source not in {"GENERATED", "FILE"}:
        raise InvalidRequestError(
            f'"{image.name}" is not a single image, so it cannot be baked onto.'
            " Choose another name."
        )
    return image


def _uv_map_to_use(original: Object, wanted: str) -> str | None:
    with scratch_scene(original) as (scene, copy), evaluated_mesh(scene, copy) as mesh:
        return uv_maps.name_to_use(original, mesh, wanted)


def _unwrapped(original: Object, settings: BakeSettings) -> NDArray[np.float32]:
    if not settings.make_uv:
        raise InvalidRequestError(uv_maps.missing_sentence(original, settings.uv_map))
    mesh = mesh_of(original)
    if not mesh.is_editable:
        raise InvalidRequestError(
            f'Mesh "{mesh.name}" is linked from a library, so no UV map can be made.'
            " Make it local first."
        )
    if not mesh.polygons:
        raise InvalidRequestError(f'"{original.name}" has no faces, so there is nothing to bake.')
    return uv_maps.unwrapped(original)


def _keep_uv_map(original: Object, uv_map: str, coordinates: NDArray[np.float32]) -> None:
    if original.mode == "EDIT":
        uv_maps.add_to_edited(mesh_of(original), uv_map, coordinates)
    else:
        uv_maps.add(original, mesh_of(original), uv_map, coordinates)


def _check_uv_map(name: str, scene: Scene, copy: Object, uv_map: str) -> None:
    with evaluated_mesh(scene, copy) as mesh:
        uv_maps.check(name, mesh, uv_map)


def _bake_copy(
    scene: Scene, copy: Object, uv_map: str, settings: BakeSettings
) -> NDArray[np.uint8]:
    _set_up_cycles(scene, settings.samples)
    slots = [slot.material for slot in copy.material_slots]
    with surface_colour.unlit(slots or [None]) as unlit:
        if not slots:
            mesh_of(copy).materials.append(unlit[0].material)
        for slot, flat in zip(copy.material_slots, unlit, strict=True):
            slot.link = "OBJECT"
            slot.material = flat.material
        return _colour_and_alpha(scene, unlit, uv_map, settings)


def _set_up_cycles(scene: Scene, samples: int) -> None:
    try:
        scene.render.engine = "CYCLES"  # pyright: ignore[reportAttributeAccessIssue]
    except TypeError as error:
        raise InvalidRequestError(
            'Baking needs Cycles. Turn on the add-on "Cycles Render Engine" in Preferences.'
        ) from error
    cycles = scene.cycles  # pyright: ignore[reportAttributeAccessIssue]  made by the add-on
    cycles.samples = samples
    cycles.device = "CPU"  # the work is too small for a GPU to be worth its start
    cycles.use_adaptive_sampling = False
    cycles.use_denoising = False
    user_scene = bpy.context.scene
    if user_scene is not None:
        cycles.shading_system = user_scene.cycles.shading_system  # pyright: ignore[reportAttributeAccessIssue]


def _colour_and_alpha(
    scene: Scene, unlit: list[UnlitMaterial], uv_map: str, settings: BakeSettings
) -> NDArray[np.uint8]:
    colour = _bake_pass(scene, unlit, uv_map, settings)
    if not (colour[..., 3] > 0).any():
        raise InvalidRequestError(
            f'No pixel of {settings.width_px} x {settings.height_px} lies on UV map "{uv_map}".'
            " Choose a larger size."
        )
    if any(material.shown.alpha is not None for material in unlit):
        for material in unlit:
            material.emit_alpha()
        opacity = _bake_pass(scene, unlit, uv_map, settings, is_data=True)
        colour[..., 3] *= opacity[..., 0]
    return np.rint(np.clip(colour, 0.0, 1.0) * 255.0).astype(np.uint8)


def _bake_pass(
    scene: Scene,
    unlit: list[UnlitMaterial],
    uv_map: str,
    settings: BakeSettings,
    *,
    is_data: bool = False,
) -> NDArray[np.float32]:
    """Return what the materials emit: `float32` (height, width, 4), row 0 at the top.

    Colours in sRGB encoding, or with `is_data` numbers as they are; alpha 1 where there is a
    surface.
    """
    with _bake_image(settings, is_data=is_data) as image, _targets(unlit, image), inside(scene):
        try:
            bpy.ops.object.bake(
                type="EMIT",
                target="IMAGE_TEXTURES",
                save_mode="INTERNAL",
                use_clear=False,  # clearing makes what lies beside the islands opaque in 4.2
                use_selected_to_active=False,
                margin=settings.margin_px,
                margin_type="EXTEND",
                uv_layer=uv_map,
            )
        except RuntimeError as error:
            reason = str(error).strip().removeprefix("Error: ")
            raise InvalidRequestError(f"Blender could not bake: {reason}") from error
        flat = np.empty(settings.width_px * settings.height_px * 4, np.float32)
        image.pixels.foreach_get(flat)  # pyright: ignore[reportAttributeAccessIssue]
    return flat.reshape(settings.height_px, settings.width_px, 4)[::-1]


@contextmanager
def _bake_image(settings: BakeSettings, *, is_data: bool) -> Iterator[Image]:
    image = bpy.data.images.new(
        "Tessera Bake",
        settings.width_px,
        settings.height_px,
        alpha=True,
        float_buffer=is_data,  # floats are linear, bytes are sRGB, in every configuration
    )
    image.generated_color = (0.0, 0.0, 0.0, 0.0)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield image
    finally:
        bpy.data.images.remove(image)


@contextmanager
def _targets(unlit: list[UnlitMaterial], image: Image) -> Iterator[None]:
    """Show Blender, by the active node of each material, which image to bake onto."""
    nodes = []
    for material in unlit:
        tree = ensure_nodes(material.material)
        node = tree.nodes.new("ShaderNodeTexImage")
        assert isinstance(node, ShaderNodeTexImage), "of the type asked for"
        node.image = image
        tree.nodes.active = node
        nodes.append((tree, node))
    try:
        yield
    finally:
        for tree, node in nodes:
            tree.nodes.remove(node)


def _stored(pixels: NDArray[np.uint8], target: Image | None, name: str) -> Image:
    data = ImageData(pixels=np.ascontiguousarray(pixels))
    made = images.new_image(name, data)
    if target is None:
        return made
    colour_space, usual = target.colorspace_settings, made.colorspace_settings
    assert colour_space is not None and usual is not None, "every image has them"
    colour_space.name = usual.name  # before the pixels, which it would clear
    bpy.data.images.remove(made)
    file = images.png_of(data)
    target.pack(data=file, data_len=len(file))  # pyright: ignore[reportArgumentType]  bytes, as documented
    target.source = "FILE"
    target.buffers_free()  # the pixels are those of the packed file from now on
    target.pop(images.SETTINGS_PROPERTY, None)  # no longer what was generated
    target.update_tag()
    return target


def _check_range(name: str, value: int, lowest: int, highest: int) -> None:
    if not lowest <= value <= highest:
        raise InvalidRequestError(
            f"{name} {value} is out of range. Use a value from {lowest} to {highest}."
        )
