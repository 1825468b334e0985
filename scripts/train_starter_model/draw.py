# SPDX-License-Identifier: GPL-3.0-or-later
"""Periodic drawing primitives for procedural textures; numpy only.

All functions work on square tiles of ``SIZE`` pixels whose left edge continues at the right edge
and whose top edge continues at the bottom edge.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
Rng = np.random.Generator

SIZE = 128
_ROWS, _COLUMNS = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
X: Array = _COLUMNS + 0.5
"""Horizontal position of every pixel centre, in pixels."""
Y: Array = _ROWS + 0.5
"""Vertical position of every pixel centre, in pixels."""
_FREQUENCY_Y = (np.fft.fftfreq(SIZE) * SIZE)[:, None]
_FREQUENCY_X = (np.fft.rfftfreq(SIZE) * SIZE)[None]


def rgb(red: float, green: float, blue: float) -> Array:
    """Return a colour given as 0..255 values as floats in 0..1."""
    return np.array([red, green, blue], np.float32) / 255


def ramp(low: float, high: float, value: Array) -> Array:
    """Rise smoothly from 0 at ``low`` to 1 at ``high``."""
    t = np.clip((value - low) / (high - low), 0, 1)
    return (t * t * (3 - 2 * t)).astype(np.float32)


def mix(first: Array, second: Array, weight: Array | float) -> Array:
    """Blend two colours or pictures; a two-dimensional weight applies to every channel."""
    amount = np.asarray(weight, np.float32)
    if amount.ndim == 2:
        amount = amount[..., None]
    return (first * (1 - amount) + second * amount).astype(np.float32)


def noise(
    rng: Rng,
    slope: float,
    low: float = 1.0,
    high: float = 64.0,
    stretch: tuple[float, float] = (1.0, 1.0),
) -> Array:
    """Return periodic noise of mean 0 and deviation 1 with the given spectral slope.

    ``low`` and ``high`` bound the frequencies, in cycles a tile; ``stretch`` lengthens the
    features along x and y.
    """
    k = np.hypot(_FREQUENCY_X * stretch[0], _FREQUENCY_Y * stretch[1])
    gain = np.where(k > 0, np.maximum(k, low) ** (-slope / 2), 0.0) * np.exp(-((k / high) ** 4))
    if low > 1:
        gain = gain * (1 - np.exp(-((k / low) ** 4)))
    white = rng.standard_normal((SIZE, SIZE))
    field = np.fft.irfft2(np.fft.rfft2(white) * gain, s=(SIZE, SIZE))
    field -= field.mean()
    return (field / (field.std() + 1e-9)).astype(np.float32)


def grain(rng: Rng, amount: float) -> Array:
    """Return a brightness factor with a little soft grain, shaped to multiply a picture."""
    return (1 + amount * noise(rng, 1.0, high=24))[..., None]


def relief(height: Array, strength: float) -> Array:
    """Return a brightness factor for a height map lit from the top left."""
    slope_x = (np.roll(height, -1, 1) - np.roll(height, 1, 1)) * 0.5
    slope_y = (np.roll(height, -1, 0) - np.roll(height, 1, 0)) * 0.5
    return np.clip(1 + strength * (slope_x + slope_y), 0.35, 1.7)[..., None].astype(np.float32)


def cells(
    rng: Rng, count: int, jitter: float, warp: float = 0.0, *, stagger: bool = False
) -> tuple[Array, NDArray[np.int64]]:
    """Return the distance to the nearest cell border, in pixels, and the cell index.

    Cells grow around ``count`` x ``count`` jittered grid points on half a tile, which repeats.
    """
    half = SIZE // 2
    row, column = np.mgrid[0:count, 0:count]
    shift = 0.5 * (row % 2) if stagger else 0.0
    px = (column + 0.5 + shift + rng.uniform(-jitter, jitter, row.shape)) * half / count
    py = (row + 0.5 + rng.uniform(-jitter, jitter, row.shape)) * half / count
    bend_x, bend_y = (warp * noise(rng, 3.0, high=16) for _ in range(2))
    x = X[:half, :half] + fold(bend_x)
    y = Y[:half, :half] + fold(bend_y)
    dx = np.abs(x[..., None] - px.ravel()) % half
    dy = np.abs(y[..., None] - py.ravel()) % half
    distance = np.hypot(np.minimum(dx, half - dx), np.minimum(dy, half - dy))
    nearest = np.argsort(distance, axis=-1)[..., :2]
    pair = np.take_along_axis(distance, nearest, -1)
    border = (pair[..., 1] - pair[..., 0]) * 0.5
    return np.tile(border, (2, 2)).astype(np.float32), np.tile(nearest[..., 0], (2, 2))


def fold(field: Array) -> Array:
    """Return the mean of the four quarters of a tile, which wraps around by itself."""
    half = SIZE // 2
    mean: Array = field.reshape(2, half, 2, half).mean((0, 2))
    return mean


def triangle(value: Array, period: float) -> Array:
    """Return the distance to the nearest multiple of ``period``."""
    return np.abs((value + period / 2) % period - period / 2).astype(np.float32)
