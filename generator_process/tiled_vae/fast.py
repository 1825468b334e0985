# SPDX-License-Identifier: GPL-3.0-or-later
"""Tiles that run through the whole network on their own and are faded into each other.

Side: generator.

The result is not that of the whole image: each tile is normalised by its own statistics, so its
colours differ. Along an axis whose ends are neighbours the tiles go on over the edge.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from .settings import Conditions, FastTiling, TilingSettingsError
from .support import factor_of

_Network = Callable[[torch.Tensor], Any]


class Piece(NamedTuple):
    """One tile along one axis, in latent pixels. `stop` may go round the edge."""

    start: int
    stop: int
    fades_in: bool
    fades_out: bool


def pieces(length: int, tile: int, blend: int, *, wrap: bool) -> list[Piece]:
    """Divide an axis into tiles of one size that overlap by `blend` or more.

    Args:
        length: Of the axis, in latent pixels.
        tile: Most of a tile. All are made as small as their number and the overlap allow, and an
            axis that is not longer has one.
        blend: Least overlap, at most half a tile.
        wrap: The last tile overlaps the first one.
    """
    if length <= tile:
        return [Piece(0, length, fades_in=False, fades_out=False)]
    step = tile - blend
    if wrap:
        count = -(-length // step)
        tile = -(-length // count) + blend
        starts = [length * index // count for index in range(count)]
        return [Piece(start, start + tile, fades_in=True, fades_out=True) for start in starts]
    count = -(-(length - blend) // step)
    tile = -(-(length + (count - 1) * blend) // count)
    starts = [(length - tile) * index // (count - 1) for index in range(count)]
    return [
        Piece(start, start + tile, fades_in=start > 0, fades_out=start + tile < length)
        for start in starts
    ]


class FastAutoencoder:
    """Stands for `_decode` and `_encode` of an autoencoder.

    Args:
        vae: The autoencoder.
        tiling: Size and blend of the tiles.
        decode: Its own decoding of one tile.
        encode: Its own encoding of one tile.

    Raises:
        TilingSettingsError: The size or blend is not a multiple of the autoencoder's factor.
        UnsupportedAutoencoderError: The factor is unknown.
    """

    def __init__(
        self, vae: nn.Module, tiling: FastTiling, decode: _Network, encode: _Network
    ) -> None:
        self._factor = factor_of(vae)
        for name, value in (("size", tiling.tile_px), ("blend", tiling.blend_px)):
            if value % self._factor:
                raise TilingSettingsError(
                    f"Tile {name} {value} does not fit this model. Use a multiple of"
                    f" {self._factor}."
                )
        self._tile, self._blend = tiling.tile_px // self._factor, tiling.blend_px // self._factor
        self._own_decode, self._own_encode = decode, encode
        self.conditions = Conditions()

    @torch.no_grad()
    def decode(
        self,
        z: torch.Tensor,
        return_dict: bool = True,  # noqa: FBT001, FBT002
    ) -> object:
        """Decode (..., height, width) and return what the autoencoder's own method returns."""
        kind: list[Any] = []

        def one(tile: torch.Tensor) -> torch.Tensor:
            result = self._own_decode(tile)
            kind.append(type(result))
            return result if isinstance(result, torch.Tensor) else result[0]

        image = self._run(z, one, takes=1, gives=self._factor)
        if kind[0] is torch.Tensor:
            return image
        return kind[0](sample=image) if return_dict and kind[0] is not tuple else (image,)

    @torch.no_grad()
    def encode(self, x: torch.Tensor) -> torch.Tensor:
        """Encode (..., height, width) in pixels to what the autoencoder's own method returns."""
        return self._run(x, self._own_encode, takes=self._factor, gives=1)

    def _run(
        self,
        source: torch.Tensor,
        network: Callable[[torch.Tensor], torch.Tensor],
        *,
        takes: int,
        gives: int,
    ) -> torch.Tensor:
        height, width = (self._latent_pixels(side, takes) for side in source.shape[-2:])
        rows = pieces(height, self._tile, self._blend, wrap=self.conditions.wrap_y)
        columns = pieces(width, self._tile, self._blend, wrap=self.conditions.wrap_x)
        blend = self._blend * gives
        row_weights = _weights(rows, height * gives, gives, blend)
        column_weights = _weights(columns, width * gives, gives, blend)
        out: torch.Tensor | None = None
        dtype = source.dtype
        for row, row_weight in zip(rows, row_weights, strict=True):
            for column, column_weight in zip(columns, column_weights, strict=True):
                self.conditions.before_tile()
                tile = network(_cut(source, row, column, takes))
                if out is None:
                    size = (*tile.shape[:-2], height * gives, width * gives)
                    out = torch.zeros(size, dtype=torch.float32, device=tile.device)
                    dtype = tile.dtype
                weight = (row_weight[:, None] * column_weight).to(tile.device)
                _add(out, tile.float() * weight, row.start * gives, column.start * gives)
        assert out is not None
        return out.to(dtype)

    def _latent_pixels(self, side: int, takes: int) -> int:
        if side % takes:
            raise TilingSettingsError(
                f"Image side {side} cannot be tiled. Use a multiple of {takes} pixels."
            )
        return side // takes


def _weights(parts: list[Piece], length: int, scale: int, blend: int) -> list[torch.Tensor]:
    """Return the weights of each tile along one axis, which add up to 1 at each place."""
    total = torch.zeros(length, dtype=torch.float64)
    found: list[tuple[torch.Tensor, torch.Tensor]] = []
    for part in parts:
        size = (part.stop - part.start) * scale
        ramp = (torch.arange(size, dtype=torch.float64) + 0.5) / max(blend, 1)
        rising = ramp.clamp(max=1) if part.fades_in else torch.ones_like(ramp)
        falling = ramp.flip(0).clamp(max=1) if part.fades_out else torch.ones_like(ramp)
        weight = rising * falling
        places = torch.arange(part.start * scale, part.stop * scale) % length
        total.index_add_(0, places, weight)
        found.append((weight, places))
    return [(weight / total[places]).float() for weight, places in found]


def _cut(source: torch.Tensor, row: Piece, column: Piece, scale: int) -> torch.Tensor:
    for axis, part in ((-2, row), (-1, column)):
        length = source.shape[axis]
        start, stop = part.start * scale, part.stop * scale
        if stop <= length:
            source = source.narrow(axis, start, stop - start)
        else:
            ends = (
                source.narrow(axis, start, length - start),
                source.narrow(axis, 0, stop - length),
            )
            source = torch.cat(ends, dim=axis)
    return source


def _add(out: torch.Tensor, tile: torch.Tensor, top: int, left: int) -> None:
    """Add a tile to an image, going on at the opposite side of its edges."""
    height, width = out.shape[-2:]
    first_rows = min(tile.shape[-2], height - top)
    first_columns = min(tile.shape[-1], width - left)
    for y, rows in ((top, tile[..., :first_rows, :]), (0, tile[..., first_rows:, :])):
        for x, part in ((left, rows[..., :first_columns]), (0, rows[..., first_columns:])):
            if part.numel():
                out[..., y : y + part.shape[-2], x : x + part.shape[-1]] += part
