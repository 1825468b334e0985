# SPDX-License-Identifier: GPL-3.0-or-later
"""Between Blender's images and arrays: the only place that converts. Side: Blender.

A result becomes a packed PNG file: Blender reads the very bytes that it stores, so nothing is
rounded twice, and the file keeps its text when it is unpacked. Colour spaces are never named here:
a new image gets the one that Blender's configuration has for its kind.
"""

from typing import cast

import bpy
import numpy as np
from bpy.types import ColorManagedInputColorspaceSettings, Image
from numpy.typing import NDArray

from . import png
from .generator_process.errors import InvalidRequestError, InvalidResultError
from .generator_process.messages import ImageData
from .image_settings import SETTINGS_PROPERTY, cut_name
from .metadata import ImageSettings


def new_image(name: str, data: ImageData, settings: ImageSettings | None = None) -> Image:
    """Return a new packed image that shows `data` exactly, and is kept when the file is saved.

    Floats are rounded to 8 bits. `settings` are stored on the image and in its file.

    Raises:
        InvalidResultError: A pixel is not a number.
    """
    return new_image_from_png(name, png_of(data, settings), settings)


def png_of(data: ImageData, settings: ImageSettings | None = None) -> bytes:
    """Return the file for `new_image_from_png`. Touches nothing of Blender: any thread may do it.

    Raises:
        InvalidResultError: A pixel is not a number.
    """
    try:
        pixels = png.bytes_of(data.pixels)
    except ValueError as error:
        raise InvalidResultError(
            "The image has pixels without a value. Choose another seed or model."
        ) from error
    return png.encode(pixels, settings.to_png_text() if settings is not None else {})


def new_image_from_png(name: str, file: bytes, settings: ImageSettings | None = None) -> Image:
    """Return a new image that holds this PNG file, and is kept when the .blend is saved.

    Ask the image for its name: Blender makes it unique.
    """
    image = bpy.data.images.new(cut_name(name), 1, 1, alpha=png.has_alpha(file))
    image.pack(data=file, data_len=len(file))  # pyright: ignore[reportArgumentType]  bytes, as documented
    image.source = "FILE"  # from now on the pixels are those of the packed file
    image.use_fake_user = True
    if settings is not None:
        image[SETTINGS_PROPERTY] = settings.to_json()
    return image


def image_data_of(image: Image) -> ImageData:
    """Return the pixels of an image in sRGB encoding, or as they are if they are not a colour.

    `uint8` (height, width, 4) for an image of bytes, `float32` for one of floats, in which colours
    are limited to 0..1.

    Raises:
        InvalidRequestError: The image has no pixels that can be read, or is in a colour space
            that cannot be converted.
    """
    _raise_if_unreadable(image)
    width, height = size_of(image)
    flat = np.empty(width * height * 4, np.float32)
    image.pixels.foreach_get(flat)  # pyright: ignore[reportAttributeAccessIssue]
    pixels = flat.reshape(height, width, 4)[::-1]
    if _space_of(image).is_data:
        encoded = pixels
    elif image.is_float:
        encoded = _srgb_of_linear(_straight(pixels, image))
    else:
        encoded = _srgb_of_bytes(pixels, image)
    if image.is_float:
        return ImageData(pixels=np.ascontiguousarray(encoded))
    return ImageData(pixels=png.bytes_of(encoded))


def size_of(image: Image) -> tuple[int, int]:
    """Return width and height in pixels, 0 for an image that could not be loaded."""
    width, height = cast("tuple[int, int]", image.size)
    return width, height


def _space_of(image: Image) -> ColorManagedInputColorspaceSettings:
    assert image.colorspace_settings is not None, "every image has a colour space"
    return image.colorspace_settings


def _raise_if_unreadable(image: Image) -> None:
    if image.type in {"RENDER_RESULT", "COMPOSITING"}:
        raise InvalidRequestError(
            f'"{image.name}" cannot be read directly. Save it as an image file and open that.'
        )
    if image.source == "TILED":
        raise InvalidRequestError(
            f'"{image.name}" has several tiles. Choose an image without tiles.'
        )
    if 0 in size_of(image):
        raise InvalidRequestError(
            f'"{image.name}" has no pixels. Load its file again or choose another image.'
        )


def _straight(pixels: NDArray[np.float32], image: Image) -> NDArray[np.float32]:
    if image.alpha_mode not in {"STRAIGHT", "PREMUL"}:
        return pixels
    alpha = pixels[..., 3:]
    colour = np.divide(pixels[..., :3], alpha, out=np.zeros_like(pixels[..., :3]), where=alpha > 0)
    return np.concatenate((colour, alpha), axis=2)


def _srgb_of_linear(pixels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Encode colours of scene-linear Rec. 709 primaries. Source: IEC 61966-2-1:1999."""
    encoded = np.clip(np.nan_to_num(pixels, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
    colour = encoded[..., :3]
    curve = 1.055 * np.power(colour, 1 / 2.4) - 0.055
    encoded[..., :3] = np.where(colour <= 0.0031308, colour * 12.92, curve)
    return encoded


def _srgb_of_bytes(pixels: NDArray[np.float32], image: Image) -> NDArray[np.float32]:
    name = _space_of(image).name
    if name == _default_space(is_float=False):
        return pixels
    if name == _default_space(is_float=True):
        return _srgb_of_linear(pixels)
    raise InvalidRequestError(
        f'"{image.name}" is in the colour space "{name}", which cannot be converted.'
        f' Set it to "{_default_space(is_float=False)}" or mark it as data.'
    )


def _default_space(*, is_float: bool) -> str:
    """Return the name that Blender's configuration has for colours of this kind."""
    probe = bpy.data.images.new("Tessera", 1, 1, float_buffer=is_float)
    try:
        return _space_of(probe).name
    finally:
        bpy.data.images.remove(probe)
