# SPDX-License-Identifier: GPL-3.0-or-later
# pyright: reportInvalidTypeForm=false, reportRedeclaration=false
"""Bake. Side: Blender."""

from typing import TYPE_CHECKING

import bpy
from bpy.props import BoolProperty, IntProperty, StringProperty
from bpy.types import Context, Event, Object, Operator

from ..generator_process.errors import InvalidRequestError, TesseraError

if TYPE_CHECKING:
    from bpy.stub_internal.rna_enums import OperatorReturnItems

    from .. import baking

_MAX_SIZE_PX = 16384  # as in baking.py, which is imported when it is needed: it loads NumPy


def _search_uv_maps(operator: "TESSERA_OT_bake", context: Context, text: str) -> list[str]:
    found = _named_or_active(operator.object, context)
    if found is None or found.type != "MESH":
        return []
    from ..baking.scratch import mesh_of

    names = (layer.name for layer in mesh_of(found).uv_layers)
    return [name for name in names if text.casefold() in name.casefold()]


def _search_images(_operator: object, _context: Context, text: str) -> list[str]:
    return [found.name for found in bpy.data.images if text.casefold() in found.name.casefold()]


def _search_objects(_operator: object, context: Context, text: str) -> list[str]:
    found = (item for item in context.scene.objects if item.type == "MESH")
    return [item.name for item in found if text.casefold() in item.name.casefold()]


class TESSERA_OT_bake(Operator):
    """Bake what the materials of an object show, without light, onto an image"""

    bl_idname = "tessera.bake"
    bl_label = "Bake to Image"
    bl_options = {"REGISTER", "UNDO"}  # noqa: RUF012  Blender's own form

    object: StringProperty(
        name="Object",
        description="The mesh object to bake. Leave it empty for the active one",
        search=_search_objects,
        options={"SKIP_SAVE"},
    )
    uv_map: StringProperty(
        name="UV Map",
        description="The UV map to bake onto. Leave it empty for the one used for rendering",
        search=_search_uv_maps,
        search_options={"SUGGESTION"},
        options={"SKIP_SAVE"},
    )
    make_uv: BoolProperty(
        name="Make UV Map",
        description="Unwrap the object into a new UV map if the UV map is missing",
        default=False,
        options={"SKIP_SAVE"},
    )
    image: StringProperty(
        name="Image",
        description="The image to write, made when there is none of this name."
        " Leave it empty for a new image",
        search=_search_images,
        search_options={"SUGGESTION"},
        options={"SKIP_SAVE"},
    )
    width: IntProperty(
        name="Width",
        description="Width of the image",
        default=1024,
        soft_min=1,
        soft_max=_MAX_SIZE_PX,
        subtype="PIXEL",
    )
    height: IntProperty(
        name="Height",
        description="Height of the image",
        default=1024,
        soft_min=1,
        soft_max=_MAX_SIZE_PX,
        subtype="PIXEL",
    )
    margin: IntProperty(
        name="Margin",
        description="How far colours go on beyond the edges of UV islands",
        default=16,
        soft_min=0,
        soft_max=64,
        subtype="PIXEL",
    )
    samples: IntProperty(
        name="Samples",
        description="With one sample each pixel is the colour at its centre, with more the mean"
        " over its area",
        default=1,
        soft_min=1,
        soft_max=64,
    )

    if TYPE_CHECKING:
        object: str
        uv_map: str
        make_uv: bool
        image: str
        width: int
        height: int
        margin: int
        samples: int

    def invoke(self, context: Context, _event: Event) -> "set[OperatorReturnItems]":  # pyright: ignore[reportIncompatibleMethodOverride]
        return context.window_manager.invoke_props_dialog(self)

    def execute(self, context: Context) -> "set[OperatorReturnItems]":
        from .. import baking

        try:
            image = baking.bake(self._object(context), self._settings())
        except TesseraError as error:
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        self.report({"INFO"}, f'Baked onto image "{image.name}"')
        return {"FINISHED"}

    def _object(self, context: Context) -> Object:
        found = _named_or_active(self.object, context)
        if found is not None:
            return found
        if self.object:
            raise InvalidRequestError(
                f'There is no object "{self.object}" in this scene. Choose another one.'
            )
        raise InvalidRequestError("No object is active. Select the mesh object to bake.")

    def _settings(self) -> "baking.BakeSettings":
        from .. import baking

        return baking.BakeSettings(
            uv_map=self.uv_map,
            make_uv=self.make_uv,
            image=self.image,
            width_px=self.width,
            height_px=self.height,
            margin_px=self.margin,
            samples=self.samples,
        )


def _named_or_active(name: str, context: Context) -> Object | None:
    return context.scene.objects.get(name) if name else context.active_object
