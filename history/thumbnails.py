# SPDX-License-Identifier: GPL-3.0-or-later
"""Small pictures of images. Side: both."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIZE_PX = 128
"""The longer side of a small picture is at most this."""


def thumbnail_of(pixels: "NDArray[Any]") -> bytes:
    """Return an image as a small PNG file: each pixel is the mean of those that it stands for.

    Args:
        pixels: `uint8` or `float32` (0..1), (height, width, 3 or 4), row 0 at the top.

    Raises:
        ValueError: A float is not a number.
    """
    import numpy as np

    from .. import png

    small = png.bytes_of(pixels)
    longest = max(small.shape[:2])
    for axis in (0, 1):
        size = small.shape[axis]
        wanted = max(round(size * min(SIZE_PX / longest, 1.0)), 1)
        if wanted == size:
            continue
        edges = np.linspace(0, size, wanted + 1).astype(np.intp)
        shape = [1, 1, 1]
        shape[axis] = wanted
        sums = np.add.reduceat(small, edges[:-1], axis=axis, dtype=np.uint32)
        small = np.rint(sums / np.diff(edges).reshape(shape)).astype(np.uint8)
    return png.encode(small, {})
