# SPDX-License-Identifier: GPL-3.0-or-later
"""The image in the making, on screen. Side: Blender.

One image datablock shows all previews. It is never packed and never a result, and is looked for
again each time, because undo and loading a file move or remove it.
"""

from concurrent.futures import Future, ThreadPoolExecutor

import bpy
import numpy as np
from bpy.types import Image
from numpy.typing import NDArray

from . import images, screen
from .generator_process.jobs import Job
from .generator_process.messages import ImageData

_NAME = "Tessera Preview"
_MARK = "tessera_preview"


class Preview:
    """Shows the newest preview of a job. Arrays are converted on a thread, into the same memory."""

    def __init__(self) -> None:
        self._shown: ImageData | None = None
        self._pixels: NDArray[np.float32] = np.empty((0, 0, 4), np.float32)
        self._conversion: Future[None] | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._replaced: dict[int, str] = {}  # space -> the image that it showed before

    def show_newest(self, job: Job | None) -> None:
        """Show the last conversion if it is ready, and start the next. Never waits."""
        if self._conversion is not None:
            if not self._conversion.done():
                return
            self._conversion = None
            if job is not None:
                self._put_on_screen()
        newest = job.preview if job is not None else None
        if newest is None or newest is self._shown:
            return
        self._shown = newest
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="tessera preview")
        self._conversion = self._thread.submit(self._convert, newest)

    def remove(self) -> None:
        """Remove the preview, and show what was shown before it."""
        image = find()
        for space in screen.image_editors() if image is not None else ():
            if space.image == image:
                space.image = bpy.data.images.get(self._replaced.get(space.as_pointer(), ""))
        if image is not None:
            bpy.data.images.remove(image)
        self._replaced.clear()
        self._shown = None

    def close(self) -> None:
        """Remove the preview and end the thread."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
        self._conversion = None
        self.remove()

    def _convert(self, data: ImageData) -> None:
        shape = (*data.pixels.shape[:2], 4)
        if self._pixels.shape != shape:
            self._pixels = np.empty(shape, np.float32)
        fill(self._pixels, data)

    def _put_on_screen(self) -> None:
        height, width, _ = self._pixels.shape
        image = find()
        if image is None:
            image = bpy.data.images.new(_NAME, width, height, alpha=True)
            image[_MARK] = True
        if images.size_of(image) != (width, height):
            image.scale(width, height)
        image.pixels.foreach_set(self._pixels.reshape(-1))  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]
        image.update()
        self._put_on_icon(image)
        for space in screen.image_editors():
            if space.image != image:
                self._replaced[space.as_pointer()] = space.image.name if space.image else ""
                space.image = image

    def _put_on_icon(self, image: Image) -> None:
        """Give a sidebar that shows no image at full size something to show."""
        icon = image.preview_ensure()
        if icon is None:  # without a window there are no icons
            return
        height, width, _ = self._pixels.shape
        icon.image_size = (width, height)
        icon.image_pixels_float.foreach_set(self._pixels.reshape(-1))  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]


def find() -> Image | None:
    """Return the preview image, if there is one."""
    return next((image for image in bpy.data.images if image.get(_MARK)), None)


def fill(target: NDArray[np.float32], data: ImageData) -> None:
    """Write an image as Blender wants it: `float32` (height, width, 4), from the bottom row up."""
    channels = data.pixels.shape[2]
    source = data.pixels[::-1]
    if data.pixels.dtype == np.uint8:
        np.multiply(source, np.float32(1 / 255), out=target[..., :channels], dtype=np.float32)
    else:
        target[..., :channels] = source
    if channels == 3:
        target[..., 3] = 1.0
