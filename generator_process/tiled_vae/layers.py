# SPDX-License-Identifier: GPL-3.0-or-later
"""One layer of an autoencoder over all tiles before the next one starts. Side: generator.

Between two group norms of these networks there is one convolution of 3 x 3, so a tile needs its
neighbours' nearest pixels and nothing else. The real modules are called, with hooks and LoRA: they
pad a tile in whatever way they were told to, and what comes of that padding is cut off again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from .attention import Attention
from .group_norm import ChannelStatistics, Normalisation
from .regions import Region, Span, divide, read
from .settings import Conditions

if TYPE_CHECKING:
    from diffusers.models.attention_processor import Attention as AttentionLayer
    from diffusers.models.resnet import ResnetBlock2D


class Scale(Enum):
    """How the sides of a layer's output relate to those of its input."""

    SAME = "same"
    UP = "up"
    DOWN = "down"

    def of(self, length: int) -> int:
        """Return the length of the output's side."""
        return {Scale.SAME: length, Scale.UP: 2 * length, Scale.DOWN: length // 2}[self]

    def needs(self, span: Span) -> Span:
        """Return the positions of the input that these positions of the output come from."""
        if self is Scale.UP:
            return Span(span.start // 2 - 1, -(-span.stop // 2) + 1)
        if self is Scale.DOWN:
            return Span(2 * span.start, 2 * span.stop + 1)
        return Span(span.start - 1, span.stop + 1)

    def cut(self, span: Span) -> Span:
        """Return where these positions lie in what the layer makes of `needs`."""
        first = {Scale.SAME: 1, Scale.UP: 2 + span.start % 2, Scale.DOWN: 0}[self]
        return Span(first, first + span.stop - span.start)


@dataclass(slots=True)
class Activation:
    """What is between two layers.

    Attributes:
        values: (samples, channels, height, width), on the store.
        statistics: Of `values`, if a layer made them.
    """

    values: torch.Tensor
    statistics: ChannelStatistics | None = None


@dataclass(slots=True, kw_only=True)
class Layer:
    """What is done to each tile.

    Attributes:
        convolution: The module that is called.
        scale: How it changes the size.
        norm: What comes before it, with `activation` between.
        activation: Applied after `norm`.
        residual: Added to the output.
        shortcut: What the residual goes through before, pixel by pixel.
        into: Where the output is written; may be part of `residual`.
    """

    convolution: nn.Module
    scale: Scale = Scale.SAME
    norm: nn.GroupNorm | None = None
    activation: nn.Module | None = None
    residual: torch.Tensor | None = None
    shortcut: nn.Module | None = None
    into: torch.Tensor | None = None


class TiledLayers:
    """The layers of an autoencoder, tile by tile.

    Args:
        device: Where to compute.
        store: Where activations lie; None: on `device`.
        values: How many values (pixels times channels) a tile may have.
        conditions: Which edges are neighbours, and what is called before each tile.
    """

    def __init__(
        self,
        device: torch.device,
        store: torch.device | str | None,
        values: int,
        conditions: Conditions,
    ) -> None:
        self._device = device
        self._store = torch.device(store) if store is not None else device
        self._values, self._conditions = values, conditions

    def convolve(
        self, source: Activation, layer: Layer, *, on: torch.device | None = None
    ) -> Activation:
        """Run one layer over all tiles. `on`: where the output lies instead of on the store."""
        normalise = _normalisation(layer.norm, source) if layer.norm is not None else None
        height, width = (layer.scale.of(side) for side in source.values.shape[2:])
        statistics, out = ChannelStatistics(), layer.into
        for region in self._tiles(source.values.shape[1], layer, (height, width)):
            tile = self._convolve(source.values, layer, region, normalise)
            if layer.residual is not None:
                self._add_residual(tile, layer, region)
            statistics.add(tile)
            if out is None:
                out = _whole_of(tile, height, width, on or self._store)
            region.of(out).copy_(tile)
            del tile  # or it stays until the next one is complete
        assert out is not None
        return Activation(out, statistics)

    def _convolve(
        self,
        source: torch.Tensor,
        layer: Layer,
        region: Region,
        normalise: Normalisation | None,
    ) -> torch.Tensor:
        scale = layer.scale
        needed = Region(scale.needs(region.rows), scale.needs(region.columns))
        conditions = self._conditions
        tile, missing = read(source, needed, wrap_x=conditions.wrap_x, wrap_y=conditions.wrap_y)
        tile = tile.to(self._device)
        if normalise is not None:
            own = tile.untyped_storage().data_ptr() != source.untyped_storage().data_ptr()
            tile = _activate(layer.activation, normalise(tile, in_place=own))
        if any(missing):
            tile = functional.pad(tile, missing)
        return Region(scale.cut(region.rows), scale.cut(region.columns)).of(layer.convolution(tile))

    def _add_residual(self, tile: torch.Tensor, layer: Layer, region: Region) -> None:
        assert layer.residual is not None
        residual = region.of(layer.residual).to(self._device)
        tile.add_(layer.shortcut(residual) if layer.shortcut is not None else residual)

    def resnet(self, source: Activation, block: "ResnetBlock2D") -> Activation:
        """Run a residual block. Overwrites the source if the output has no more channels."""
        first = Layer(convolution=block.conv1, norm=block.norm1, activation=block.nonlinearity)
        hidden = self.convolve(source, first)
        channels = block.out_channels
        fits = channels <= source.values.shape[1]
        second = Layer(
            convolution=block.conv2,
            norm=block.norm2,
            activation=block.nonlinearity,
            residual=source.values,
            shortcut=block.conv_shortcut,
            into=source.values[:, :channels] if fits else None,
        )
        return self.convolve(hidden, second)

    def attention(self, source: Activation, layer: "AttentionLayer") -> Activation:
        """Run a self-attention. Overwrites the source."""
        normalisation = _normalisation(layer.group_norm, source)
        pixels = source.values.flatten(2)
        assert pixels.data_ptr() == source.values.data_ptr()
        attention = Attention(layer, pixels, normalisation, self._device, self._values)
        return Activation(source.values, attention.run(self._conditions.before_tile))

    def _tiles(self, channels: int, layer: Layer, size: tuple[int, int]) -> Iterator[Region]:
        widest = max(
            channels * 4 if layer.scale is Scale.DOWN else channels,
            getattr(layer.convolution, "out_channels", channels),
            layer.residual.shape[1] if layer.residual is not None else channels,
        )
        multiple = 2 if layer.scale is Scale.UP else 1
        for region in divide(*size, max(1, self._values // widest), multiple=multiple):
            self._conditions.before_tile()
            yield region


def _normalisation(norm: nn.GroupNorm, source: Activation) -> Normalisation:
    assert source.statistics is not None, "only what a layer made is normalised"
    return Normalisation(norm, source.statistics)


def _whole_of(tile: torch.Tensor, height: int, width: int, device: torch.device) -> torch.Tensor:
    """Return an empty activation of the tile's kind for the whole image."""
    return torch.empty(
        (*tile.shape[:2], height, width),
        dtype=tile.dtype,
        device=device,
        memory_format=memory_format_of(tile),
    )


def memory_format_of(value: torch.Tensor) -> torch.memory_format:
    """Return whether the channels of a tensor, which may be a view, come last."""
    if value.shape[1] > 1 and value.stride(1) == 1 and value.stride(3) != 1:
        return torch.channels_last
    return torch.contiguous_format


def _activate(activation: nn.Module | None, value: torch.Tensor) -> torch.Tensor:
    if activation is None:
        return value
    if isinstance(activation, nn.SiLU):
        return functional.silu(value, inplace=True)
    return activation(value)
