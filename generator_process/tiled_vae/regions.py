# SPDX-License-Identifier: GPL-3.0-or-later
"""How an image is divided into tiles, and how a tile is read with its surroundings.

Side: generator.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch


class Span(NamedTuple):
    """Positions from `start` up to but not including `stop`."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Region:
    """A rectangle of an image."""

    rows: Span
    columns: Span

    def of(self, value: torch.Tensor) -> torch.Tensor:
        """Return a view of this rectangle of a tensor (..., height, width)."""
        return value[..., self.rows.start : self.rows.stop, self.columns.start : self.columns.stop]


def divide(height: int, width: int, pixels: int, *, multiple: int = 1) -> Iterator[Region]:
    """Divide an image into tiles of nearly one size, with the least length of edges.

    Args:
        height: Rows of the image.
        width: Columns of the image.
        pixels: The most pixels of a tile, but for what `multiple` adds.
        multiple: Where tiles meet is a multiple of this.
    """
    count = max(1, -(-height * width // pixels))
    grids = [(rows, -(-count // rows)) for rows in range(1, min(count, height) + 1)]
    possible = [(rows, columns) for rows, columns in grids if columns <= width] or [(height, width)]
    rows, columns = min(possible, key=lambda grid: grid[0] * width + grid[1] * height)
    for row in _split(height, rows, multiple):
        for column in _split(width, columns, multiple):
            yield Region(row, column)


def _split(length: int, count: int, multiple: int) -> Iterator[Span]:
    edges = [length * index // count // multiple * multiple for index in range(count)] + [length]
    for start, stop in pairwise(edges):
        if stop > start:
            yield Span(start, stop)


def read(
    source: torch.Tensor, region: Region, *, wrap_x: bool = False, wrap_y: bool = False
) -> tuple[torch.Tensor, tuple[int, int, int, int]]:
    """Read a rectangle that may reach beyond the image.

    Args:
        source: (samples, channels, height, width).
        region: May start below 0 and stop after the end.
        wrap_x: Beyond the left and right edges lies the opposite side.
        wrap_y: Beyond the top and bottom edges lies the opposite side.

    Returns:
        What there is of it, a view if nothing wraps, and by how much it falls short on the left,
        right, top and bottom, as `torch.nn.functional.pad` takes it.
    """
    source, top, bottom = _read_axis(source, 2, region.rows, wrap=wrap_y)
    source, left, right = _read_axis(source, 3, region.columns, wrap=wrap_x)
    return source, (left, right, top, bottom)


def _read_axis(
    source: torch.Tensor, axis: int, span: Span, *, wrap: bool
) -> tuple[torch.Tensor, int, int]:
    length = source.shape[axis]
    start, stop = max(span.start, 0), min(span.stop, length)
    if wrap and (start, stop) != span:
        positions = torch.arange(span.start, span.stop, device=source.device) % length
        return source.index_select(axis, positions), 0, 0
    return source.narrow(axis, start, stop - start), start - span.start, span.stop - stop
