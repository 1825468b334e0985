# SPDX-License-Identifier: GPL-3.0-or-later
"""The image in the making, in Image Editors and on a material. Side: Blender.

One image datablock shows all previews. It is never packed, never saved and never a result, and is
looked for again each time, because undo and loading a file move or remove it.
"""

import time
from concurrent.futures import Future, ThreadPoolExecutor

import bpy
import numpy as np
from bpy.types import Image
from numpy.typing import NDArray

from . import images, screen
from .generator_process.jobs import Job
from .generator_process.messages import ImageData
from .materials import MaterialTarget, live

MAX_SIZE_PX = 512
"""Larger previews are made smaller, as the generator itself does: setting the pixels of 1024 x 1024
takes 8 ms of the user's time, of 512 x 512 2 ms (Blender 5.2)."""

ICON_SIZE_PX = 256
"""Icons are drawn in the sidebar, where larger ones show nothing more."""

_NAME = "Tessera Preview"
_MARK = "tessera_preview"


class Preview:
    """Shows the newest preview of a job. Arrays are converted on a thread, into the same memory."""

    def __init__(self) -> None:
        self._shown: ImageData | None = None
        self._next_s = 0.0
        self._pixels: NDArray[np.float32] = np.empty((0, 0, 4), np.float32)
        self._icon: NDArray[np.uint8] = np.empty((0, 0, 4), np.uint8)
        self._conversion: Future[None] | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._is_on_material = False
        self._replaced: dict[int, str] = {}  # space -> the image that it showed before

    def show_newest(
        self, job: Job | None, target: MaterialTarget | None = None, interval_s: float = 0.0
    ) -> bool:
        """Show the last conversion if it is ready, and start the next. Never waits.

        Args:
            job: The one that runs, if any.
            target: The material that will get its images.
            interval_s: How much time has to pass between two previews.

        Returns:
            Whether another preview is on screen now.
        """
        changed = False
        if self._conversion is not None:
            if not self._conversion.done():
                return False
            self._conversion = None
            if job is not None and job.preview is not None:
                self._put_on_screen(target)
                changed = True
        newest = job.preview if job is not None else None
        now_s = time.monotonic()
        if newest is None or newest is self._shown or now_s < self._next_s:
            return changed
        self._shown = newest
        self._next_s = now_s + interval_s
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="tessera preview")
        self._conversion = self._thread.submit(self._convert, newest)
        return changed

    def remove(self, *, is_result_near: bool = False) -> None:
        """Remove the preview, and show what was shown before it.

        With `is_result_near` the node that was added to a material stays, for the result.
        """
        image = find()
        self._shown = None
        self._next_s = 0.0
        if image is not None or self._is_on_material:
            live.end(image, keep_added=is_result_near)
            self._is_on_material = is_result_near
        for space in screen.image_editors() if image is not None else ():
            if space.image == image:
                space.image = bpy.data.images.get(self._replaced.get(space.as_pointer(), ""))
        if image is not None:
            bpy.data.images.remove(image)
        self._replaced.clear()

    def close(self) -> None:
        """Remove the preview and end the thread."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
        self._conversion = None
        self.remove()

    def _convert(self, data: ImageData) -> None:
        step = _step_for(data)
        height, width = (max(size // step, 1) for size in data.pixels.shape[:2])
        if self._pixels.shape != (height, width, 4):
            self._pixels = np.empty((height, width, 4), np.float32)
        fill(self._pixels, data)
        thin = -(-max(height, width) // ICON_SIZE_PX)
        self._icon = np.ascontiguousarray((self._pixels[::thin, ::thin] * 255.0).astype(np.uint8))

    def _put_on_screen(self, target: MaterialTarget | None) -> None:
        height, width, _ = self._pixels.shape
        image = find()
        is_new = image is None
        if image is None:
            image = bpy.data.images.new(_NAME, width, height, alpha=True)
            image[_MARK] = True
            image.is_runtime_data = True  # what a file saved meanwhile does not have
        if images.size_of(image) != (width, height):
            image.scale(width, height)
        image.pixels.foreach_set(self._pixels.reshape(-1))  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]
        image.update()
        self._put_on_icon(image)
        if is_new and target is not None:
            self._is_on_material = live.show(target, image) or self._is_on_material
        for space in screen.image_editors():
            if space.image != image:
                self._replaced[space.as_pointer()] = space.image.name if space.image else ""
                space.image = image

    def _put_on_icon(self, image: Image) -> None:
        """Give a sidebar that shows no image at full size something to show."""
        icon = image.preview_ensure()
        if icon is None:  # without a window there are no icons
            return
        height, width, _ = self._icon.shape
        icon.image_size = (width, height)
        icon.image_pixels.foreach_set(self._icon.view(np.int32).reshape(-1))  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]


def find() -> Image | None:
    """Return the preview image, if there is one."""
    return next((image for image in bpy.data.images if image.get(_MARK)), None)


def fill(target: NDArray[np.float32], data: ImageData) -> None:
    """Write an image as Blender wants it: from the bottom row up, and the mean where it is larger.

    Args:
        target: `float32` (height, width, 4).
        data: An image that is a whole number of times as large. A rest at its right and lower edge
            is left out.
    """
    step = _step_for(data)
    height, width, _ = target.shape
    channels = data.pixels.shape[2]
    source = data.pixels[: height * step, : width * step][::-1]
    scale = np.float32(1 / (step * step * (255 if data.pixels.dtype == np.uint8 else 1)))
    colours = target[..., :channels]
    np.multiply(source[::step, ::step], scale, out=colours, dtype=np.float32)
    part = np.empty_like(colours) if step > 1 else colours
    for place in range(1, step * step):
        row, column = divmod(place, step)
        np.multiply(source[row::step, column::step], scale, out=part, dtype=np.float32)
        colours += part
    if channels == 3:
        target[..., 3] = 1.0


def _step_for(data: ImageData) -> int:
    return -(-max(data.pixels.shape[:2]) // MAX_SIZE_PX)
