# SPDX-License-Identifier: GPL-3.0-or-later
"""What a caller chooses, and what can be wrong with it. Side: generator."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

MIN_TILE_PX = 16


class TiledVaeError(ValueError):
    """The text is a whole sentence for the user, with what to do."""


class TilingSettingsError(TiledVaeError):
    """A tile size or blend that cannot work."""


class UnsupportedAutoencoderError(TiledVaeError):
    """This autoencoder cannot be tiled in this way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactTiling:
    """Tile by tile, layer by layer, with the result of the whole image.

    Attributes:
        tile_px: Side of a square tile at the image's resolution. It stands for the memory of that
            many pixels at the widest layer there; at other layers a tile has other sides and the
            same memory. About four times that memory is needed at once.
        store: Where the whole activations between two layers lie. None: where it is computed;
            "cpu" leaves only single tiles in the memory of the device.

    Raises:
        TilingSettingsError: The tile is too small.
    """

    tile_px: int = 512
    store: torch.device | str | None = None

    def __post_init__(self) -> None:
        _check_tile(self.tile_px)


@dataclass(frozen=True, slots=True, kw_only=True)
class FastTiling:
    """Tiles that know nothing of each other, faded into each other: colours differ between tiles.

    Attributes:
        tile_px: Side of a square tile of the image, a multiple of the autoencoder's factor.
        blend_px: Over how many pixels neighbours fade, at least; a multiple of the factor, and
            at most half a tile. 0 leaves hard edges.

    Raises:
        TilingSettingsError: A size that cannot work.
    """

    tile_px: int = 512
    blend_px: int = 64

    def __post_init__(self) -> None:
        _check_tile(self.tile_px)
        if not 0 <= self.blend_px <= self.tile_px // 2:
            raise TilingSettingsError(
                f"Tile blend {self.blend_px} is out of range. Use a value from 0 to"
                f" {self.tile_px // 2}, half of the tile size."
            )


Tiling = ExactTiling | FastTiling


def _do_nothing() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What differs from job to job.

    Attributes:
        wrap_x: The left and right edges are neighbours, and so the convolutions were made
            circular along x by the caller.
        wrap_y: The same for the top and bottom edges.
        before_tile: Called before each tile. An exception that it raises ends the job, for
            example on cancelling.
    """

    wrap_x: bool = False
    wrap_y: bool = False
    before_tile: Callable[[], None] = _do_nothing


def _check_tile(tile_px: int) -> None:
    if tile_px < MIN_TILE_PX:
        raise TilingSettingsError(
            f"Tile size {tile_px} is too small. Use {MIN_TILE_PX} pixels or more."
        )
