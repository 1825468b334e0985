# SPDX-License-Identifier: GPL-3.0-or-later
"""From the size that was asked for to one that the model can make, and back. Side: generator.

An axis that need not be seamless is made at the next multiple of 8 or of the VAE's factor, and the
middle is cut out: at most a few pixels are lost and nothing is resized.

On a seamless axis cutting would break the seam, so the whole image is resampled, with borders
that continue on the opposite side. Such an axis is made at a multiple of the whole model's factor
(VAE times UNet), because a layer of odd size is not the same after a shift. Both axes are resized
by as nearly the same factor as possible, so that squares stay squares: within 5 % where a size up
to four units larger allows it, and where the axis that is not seamless need not become larger than
1.5 times what was asked for or 512 pixels.
"""

from dataclasses import dataclass
from math import ceil, log

import numpy as np
from numpy.typing import NDArray

from .messages import SeamlessAxes

UNITS_SEARCHED = 4
TOLERATED_STRETCH = 0.05
MAX_ENLARGEMENT = 1.5
FREE_ENLARGEMENT_PX = 512
_LANCZOS_REACH_PX = 3  # on either side, in pixels of the smaller image


@dataclass(frozen=True, slots=True, kw_only=True)
class SizePlan:
    """How an image of one size is made from one of another.

    `width_px` and `height_px` were asked for. The model makes `made_width_px` x `made_height_px`,
    which is resampled to `resized_width_px` x `resized_height_px`, out of whose middle the image
    is cut.
    """

    width_px: int
    height_px: int
    made_width_px: int
    made_height_px: int
    resized_width_px: int
    resized_height_px: int
    seamless_x: bool
    seamless_y: bool


def plan(
    width_px: int, height_px: int, seamless: SeamlessAxes, *, step_px: int, unit_px: int
) -> SizePlan:
    """Choose the size to make.

    Args:
        width_px: Asked for, at least 1.
        height_px: Asked for, at least 1.
        seamless: The axes that have to continue on the opposite edge.
        step_px: What sizes have to be a multiple of: the pixels for one latent, or 8 if more.
        unit_px: Pixels for one value on the UNet's coarsest level: a multiple of `step_px`.
    """
    along_x = seamless in (SeamlessAxes.X, SeamlessAxes.BOTH)
    along_y = seamless in (SeamlessAxes.Y, SeamlessAxes.BOTH)
    if along_x and along_y:
        made_width, made_height = _nearly_same_shape(width_px, height_px, unit_px)
        resized = (width_px, height_px)
    elif along_x:
        made_width = _round_up(width_px, unit_px)
        made_height, resized_height = _follow(height_px, made_width / width_px, step_px)
        resized = (width_px, resized_height)
    elif along_y:
        made_height = _round_up(height_px, unit_px)
        made_width, resized_width = _follow(width_px, made_height / height_px, step_px)
        resized = (resized_width, height_px)
    else:
        made_width = _round_up(width_px, step_px)
        made_height = _round_up(height_px, step_px)
        resized = (made_width, made_height)
    return SizePlan(
        width_px=width_px,
        height_px=height_px,
        made_width_px=made_width,
        made_height_px=made_height,
        resized_width_px=resized[0],
        resized_height_px=resized[1],
        seamless_x=along_x,
        seamless_y=along_y,
    )


def finish(pixels: NDArray[np.uint8], size: SizePlan) -> NDArray[np.uint8]:
    """Bring what the model made to the size that was asked for.

    Args:
        pixels: (made height, made width, 3), row 0 at the top.
        size: The plan by which it was made.

    Returns:
        (height, width, 3), contiguous. The same values if no change was needed.
    """
    if (size.resized_width_px, size.resized_height_px) != (size.made_width_px, size.made_height_px):
        pixels = _resample(pixels, size)
    top = (size.resized_height_px - size.height_px) // 2
    left = (size.resized_width_px - size.width_px) // 2
    cut = pixels[top : top + size.height_px, left : left + size.width_px]
    return np.ascontiguousarray(cut)


def _round_up(value: int, multiple: int) -> int:
    return ceil(value / multiple) * multiple


def _follow(asked_px: int, scale: float, step_px: int) -> tuple[int, int]:
    """Return (made, resized) of the axis that is not seamless, enlarged like the one that is."""
    scale = min(scale, max(MAX_ENLARGEMENT, FREE_ENLARGEMENT_PX / asked_px))
    made = _round_up(ceil(asked_px * scale - 1e-9), step_px)
    return made, max(asked_px, round(made / scale))


def _nearly_same_shape(width_px: int, height_px: int, unit_px: int) -> tuple[int, int]:
    """Return the smallest size in whole units whose shape is that of the size asked for."""
    first_width, first_height = _round_up(width_px, unit_px), _round_up(height_px, unit_px)
    candidates = [
        (first_width + across * unit_px, first_height + down * unit_px)
        for across in range(UNITS_SEARCHED + 1)
        for down in range(UNITS_SEARCHED + 1)
    ]

    def stretch(made: tuple[int, int]) -> float:
        return abs(log((made[0] / width_px) / (made[1] / height_px)))

    def cost(made: tuple[int, int]) -> tuple[float, int]:
        return (max(stretch(made), TOLERATED_STRETCH), made[0] * made[1])

    return min(candidates, key=cost)


def _resample(pixels: NDArray[np.uint8], size: SizePlan) -> NDArray[np.uint8]:
    from PIL import Image

    border_x = _border(size.made_width_px, size.resized_width_px) if size.seamless_x else 0
    border_y = _border(size.made_height_px, size.resized_height_px) if size.seamless_y else 0
    widths = ((border_y, border_y), (border_x, border_x), (0, 0))
    padded = np.pad(pixels, widths, mode="wrap")
    box = (border_x, border_y, border_x + size.made_width_px, border_y + size.made_height_px)
    target = (size.resized_width_px, size.resized_height_px)
    image = Image.fromarray(padded).resize(target, Image.Resampling.LANCZOS, box=box)
    return np.asarray(image)


def _border(made_px: int, resized_px: int) -> int:
    return ceil(_LANCZOS_REACH_PX * max(1.0, made_px / resized_px)) + 1
