# SPDX-License-Identifier: GPL-3.0-or-later
# pyright: reportInvalidTypeForm=false, reportRedeclaration=false
"""Save an image as a PNG file that tells how it was made. Side: Blender."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import bpy
from bpy.props import StringProperty
from bpy.types import Context, Event, Image, Operator
from bpy_extras.io_utils import ExportHelper

from ..generator_process.errors import InvalidRequestError, TesseraError
from ..preferences import PATH_OPTIONS

if TYPE_CHECKING:
    from bpy.stub_internal.rna_enums import OperatorReturnItems


class TESSERA_OT_save_image(ExportHelper, Operator):
    """Save an image as a PNG file, with its prompt and settings in it"""

    bl_idname = "tessera.save_image"
    bl_label = "Save Image"
    filename_ext = ".png"

    filepath: StringProperty(
        name="File Path",
        description="The PNG file to write",
        subtype="FILE_PATH",
        options=PATH_OPTIONS,
    )
    image: StringProperty(
        name="Image",
        description="Name of the image. Empty means the one in the Image Editor",
        options={"SKIP_SAVE"},
    )
    filter_glob: StringProperty(default="*.png", options={"HIDDEN"})

    if TYPE_CHECKING:
        filepath: str
        image: str

    @classmethod
    def poll(cls, context: Context) -> bool:
        if not bpy.data.images:
            cls.poll_message_set("There is no image to save")
            return False
        return True

    def invoke(self, context: Context, event: Event) -> "set[OperatorReturnItems]":  # pyright: ignore[reportIncompatibleMethodOverride]
        try:
            image = _image_for(context, self.image)
        except TesseraError as error:
            return self._fail(error)
        self.image = image.name
        if not self.filepath:
            self.filepath = bpy.path.clean_name(image.name) + self.filename_ext
        return super().invoke(context, event)  # pyright: ignore[reportReturnType]

    def execute(self, context: Context) -> "set[OperatorReturnItems]":
        try:
            image = _image_for(context, self.image)
            path = _path_of(self.filepath)
            save(image, path)
        except TesseraError as error:
            return self._fail(error)
        self.report({"INFO"}, f'Saved "{path}"')
        return {"FINISHED"}

    def _fail(self, error: TesseraError) -> "set[OperatorReturnItems]":
        self.report({"ERROR"}, str(error))
        return {"CANCELLED"}


def save(image: Image, path: Path) -> None:
    """Write an image to a PNG file with its settings as text.

    A PNG file of that name is replaced, at once and whole; anything else of that name is kept.

    Raises:
        InvalidRequestError: The image has no pixels, or the file cannot be written.
    """
    try:
        _check_place(path)
        _replace(path, png_of_image(image))
    except OSError as error:
        raise InvalidRequestError(
            f'"{path}" cannot be written ({error.strerror}). Choose another name or folder.'
        ) from error


def png_of_image(image: Image) -> bytes:
    """Return an image as a PNG file with its settings as text, if it has settings.

    Raises:
        InvalidRequestError: The image has no pixels that can be read.
    """
    from .. import image_settings, images, png

    settings = image_settings.of_image(image)
    text = settings.to_png_text() if settings is not None else {}
    packed = image_settings.packed_bytes(image)
    if png.is_png(packed) and not image.is_dirty:
        return png.with_text(packed, text)
    return png.encode(png.bytes_of(images.image_data_of(image).pixels), text)


def _image_for(context: Context, name: str) -> Image:
    image = bpy.data.images.get(name) if name else getattr(context.space_data, "image", None)
    if image is not None:
        return image
    if name:
        raise InvalidRequestError(f'There is no image "{name}". Choose one of this file.')
    raise InvalidRequestError("No image is open. Open one in the Image Editor or give its name.")


def _path_of(text: str) -> Path:
    if not text:
        raise InvalidRequestError("No file name is given. Enter one that ends in .png.")
    if text.startswith("//") and not bpy.data.filepath:
        raise InvalidRequestError(
            f'"{text}" is relative to the .blend file, which is not saved yet. Save it first.'
        )
    path = Path(bpy.path.abspath(text)).expanduser().absolute()
    if path.suffix.lower() != ".png":
        raise InvalidRequestError(f'"{path.name}" is not a PNG file. Use a name ending in .png.')
    return path


def _check_place(path: Path) -> None:
    if not path.parent.is_dir():
        raise InvalidRequestError(
            f'Folder "{path.parent}" does not exist. Make it first or choose another one.'
        )
    if path.is_dir() or (path.exists() and not _is_png(path)):
        raise InvalidRequestError(
            f'"{path}" exists and is not a PNG file. It is kept: choose another name.'
        )


def _is_png(path: Path) -> bool:
    from .. import png

    with path.open("rb") as file:
        return png.is_png(file.read(8))


def _replace(path: Path, file: bytes) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(file)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
