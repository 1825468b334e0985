# SPDX-License-Identifier: GPL-3.0-or-later
"""Measures of a picture against its description: colours, layout and seams."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from .colours import PALETTE
from .draw import SIZE, Array
from .textures import COLOURS_OF, GRID, TWO_COLOURS, Description, paint

DEFAULT_DISTANCE = 20.0
"""Largest Lab distance from the family's own look when a prompt names no colour."""
LAYOUT_CORRELATION = 0.75
"""Least correlation with the ideal two-colour pattern, at the best shift."""
_TO_XYZ = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])
_WHITE = np.array([0.9505, 1.0, 1.089])


def to_lab(picture: Array) -> NDArray[np.float64]:
    """Convert sRGB values in 0..1 to CIE Lab."""
    value = np.clip(np.asarray(picture, np.float64), 0, 1)
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    xyz = linear @ _TO_XYZ.T / _WHITE
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    x, y, z = f[..., 0], f[..., 1], f[..., 2]
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], -1)


def _mean_lab(picture: Array) -> NDArray[np.float64]:
    mean: NDArray[np.float64] = to_lab(picture).reshape(-1, 3).mean(0)
    return mean


@cache
def _prototype(family: str, colours: tuple[str, ...]) -> NDArray[np.float64]:
    """Mean Lab colour of procedural tiles."""
    rng = np.random.default_rng(77)
    tiles = [paint(rng, Description(family, colours)).image for _ in range(6)]
    mean: NDArray[np.float64] = np.mean([_mean_lab(tile) for tile in tiles], axis=0)
    return mean


def _one_colour_right(picture: Array, d: Description) -> bool:
    mean = _mean_lab(picture)
    if not d.colours:
        return bool(np.linalg.norm(mean - _prototype(d.family, ())) <= DEFAULT_DISTANCE)
    asked = d.colours[0]
    names = {*COLOURS_OF[d.family], asked}
    distances = {
        name: np.linalg.norm(mean - _prototype(d.family, (name,))) for name in sorted(names)
    }
    nearest = min(distances, key=lambda name: float(distances[name]))
    return nearest.split()[-1] == asked.split()[-1]


def _first_mask(picture: Array, d: Description) -> NDArray[np.bool_]:
    """Where the picture is nearer to the first named colour than to the second."""
    lab = to_lab(picture)
    first, second = (to_lab(PALETTE[name]) for name in d.colours)
    nearer: NDArray[np.bool_] = np.linalg.norm(lab - first, axis=-1) < np.linalg.norm(
        lab - second, axis=-1
    )
    return nearer


def _two_colours_right(picture: Array, d: Description) -> bool:
    mask = _first_mask(picture, d)
    least = 0.1 if d.family == "polka dots" else 0.25
    if not least <= mask.mean() <= 1 - least:
        return False
    lab = to_lab(picture)
    for name, part in zip(d.colours, (mask, ~mask), strict=True):
        mean = np.median(lab[part], axis=0)
        distances = {other: np.linalg.norm(mean - to_lab(PALETTE[other])) for other in PALETTE}
        if min(distances, key=lambda other: float(distances[other])) != name:
            return False
    return True


def colours_right(picture: Array, d: Description) -> bool:
    """Say whether the picture has the colours of its description.

    One named colour: the mean colour is nearest, in Lab, to the procedural tiles of the family in
    that colour, among all colours of the family; dark and light count as the colour itself.
    No colour: at most DEFAULT_DISTANCE from the family's own tiles. Two colours: pixels nearer to
    the first and pixels nearer to the second both fill a share of the picture, and the median of
    each part is nearest to the colour that was asked for, of all twelve.
    """
    if d.family in TWO_COLOURS:
        return _two_colours_right(picture, d)
    return _one_colour_right(picture, d)


def layout_right(picture: Array, d: Description) -> bool:
    """Say whether a two-colour pattern has the arrangement that was asked for.

    The map of first and second colour must correlate by LAYOUT_CORRELATION with that of a
    procedural tile, at the best shift: this checks direction, scale, and which colour the dots
    have. Checkerboards and stripes have no order of colours by themselves.
    """
    count = picture.shape[0] // SIZE
    ideal = paint(np.random.default_rng(1), d).image
    masks = []
    for image in (picture, np.tile(ideal, (count, count, 1))):
        mask = _first_mask(image, d).astype(np.float64)
        deviation = mask.std()
        if deviation < 0.05:
            return False
        masks.append((mask - mask.mean()) / deviation)
    spectrum = np.fft.rfft2(masks[0]) * np.conj(np.fft.rfft2(masks[1]))
    correlation = np.fft.irfft2(spectrum, s=masks[0].shape) / masks[0].size
    return bool(correlation.max() >= LAYOUT_CORRELATION)


def seam_gradients(picture: Array, axis: int) -> tuple[float, float, float]:
    """Return the mean step across the wrapped edge, of all inner steps, and on inner grid lines.

    The wrapped edge lies on the GRID, where regular patterns and the blocks of the latents are in
    the same phase as on the inner grid lines.
    """
    steps = np.abs(picture - np.roll(picture, 1, axis)).mean(axis=(1 - axis, 2))
    return float(steps[0]), float(steps[1:].mean()), float(steps[GRID::GRID].mean())
