# SPDX-License-Identifier: GPL-3.0-or-later
"""Self-attention over a whole activation of which only blocks are in the device's memory.

Side: generator.
"""

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import torch

from .group_norm import ChannelStatistics, Normalisation

if TYPE_CHECKING:
    from diffusers.models.attention_processor import Attention as AttentionLayer

_SCORE_BYTES = 4
_BLOCKS_AT_ONCE = 4
"""Scores, their exponentials, and the keys and values beside them."""


class Attention:
    """One attention layer of diffusers, over all pixels, in blocks of pixels.

    The softmax over all keys is merged block by block, in float32, so the result does not depend
    on the blocks.

    Source: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax", algorithm 3;
    with values as in Rabe and Staats 2021, "Self-attention does not need O(n^2) memory".

    Args:
        layer: `diffusers.models.attention_processor.Attention` with group norm and residual.
        pixels: (samples, channels, pixels), on the store. Overwritten by the result.
        normalisation: The layer's group norm, with the statistics of `pixels`.
        device: Where to compute.
        values: How many values a tile may have.
    """

    def __init__(
        self,
        layer: "AttentionLayer",
        pixels: torch.Tensor,
        normalisation: Normalisation,
        device: torch.device,
        values: int,
    ) -> None:
        self._layer, self._pixels, self._device = layer, pixels, device
        self._normalisation = normalisation
        samples, channels, count = pixels.shape
        of_scores = math.isqrt(values // (_BLOCKS_AT_ONCE * samples * layer.heads))
        of_pixels = values // (_BLOCKS_AT_ONCE * samples * channels)
        self._size = max(1, min(of_scores, of_pixels, count))

    def run(self, before_tile: Callable[[], None]) -> ChannelStatistics:
        """Overwrite the pixels by the layer's output and return the output's statistics."""
        keys, values = self._keys_and_values(before_tile)
        statistics = ChannelStatistics()
        for start, size in self._blocks():
            before_tile()
            residual = self._pixels.narrow(2, start, size).to(self._device)
            queries = self._heads(self._layer.to_q(self._tokens(residual)))
            attended = self._attend(queries, keys, values).transpose(1, 2).flatten(2)
            result = self._layer.to_out[0](attended.to(residual.dtype)).transpose(1, 2) + residual
            statistics.add(result)
            self._pixels.narrow(2, start, size).copy_(result)
        return statistics

    def _blocks(self) -> Iterator[tuple[int, int]]:
        count = self._pixels.shape[2]
        for start in range(0, count, self._size):
            yield start, min(self._size, count - start)

    def _tokens(self, block: torch.Tensor) -> torch.Tensor:
        """Return (samples, pixels, channels), normalised."""
        return self._normalisation(block, in_place=False).transpose(1, 2)

    def _heads(self, tokens: torch.Tensor) -> torch.Tensor:
        return tokens.unflatten(2, (self._layer.heads, -1)).transpose(1, 2)

    def _keys_and_values(
        self, before_tile: Callable[[], None]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return both as (samples, heads, pixels, channels of a head), on the store."""
        parts: tuple[list[torch.Tensor], list[torch.Tensor]] = ([], [])
        for start, size in self._blocks():
            before_tile()
            tokens = self._tokens(self._pixels.narrow(2, start, size).to(self._device))
            for project, found in zip((self._layer.to_k, self._layer.to_v), parts, strict=True):
                found.append(project(tokens).to(self._pixels.device))
        return self._heads(torch.cat(parts[0], dim=1)), self._heads(torch.cat(parts[1], dim=1))

    def _attend(
        self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> torch.Tensor:
        queries = queries.float() * self._layer.scale
        highest = torch.full((*queries.shape[:3], 1), -math.inf, device=queries.device)
        weights = torch.zeros_like(highest)
        total = torch.zeros_like(queries)
        for start, size in self._blocks():
            key = keys.narrow(2, start, size).to(queries.device).float()
            value = values.narrow(2, start, size).to(queries.device).float()
            scores = queries @ key.transpose(2, 3)
            higher = torch.maximum(highest, scores.amax(dim=3, keepdim=True))
            scores = scores.sub_(higher).exp_()
            fade = (highest - higher).exp_()
            weights = weights.mul_(fade).add_(scores.sum(dim=3, keepdim=True))
            total = total.mul_(fade).add_(scores @ value)
            highest = higher
        return total.div_(weights)
