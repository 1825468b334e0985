# SPDX-License-Identifier: GPL-3.0-or-later
"""Group normalisation of an image that is only seen in tiles. Side: generator."""

import torch
from torch import nn

from .hooks import weights_at_hand


class ChannelStatistics:
    """Count, mean and variance of each channel of each sample, collected tile by tile.

    The tiles' own are float32 and stay on the device until they are needed; they are merged in
    float64 on the CPU (not every device has float64).

    Source: Chan, Golub and LeVeque 1979, "Updating formulae and a pairwise algorithm for computing
    sample variances": M2 of a union is the sum of the parts' M2 and of count * (mean difference)^2.
    """

    def __init__(self) -> None:
        self._counts: list[int] = []
        self._parts: list[torch.Tensor] = []

    def add(self, tile: torch.Tensor) -> None:
        """Add a tile (samples, channels, ...)."""
        axes = tuple(range(2, tile.ndim))
        self._counts.append(tile[0, 0].numel())
        self._parts.append(torch.stack(torch.var_mean(tile.float(), dim=axes, correction=0)))

    def of_groups(self, groups: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the mean and variance of groups of channels, `float64` (samples, groups)."""
        counts = torch.tensor(self._counts, dtype=torch.float64)
        parts = torch.stack([part.cpu() for part in self._parts]).double()
        samples, channels = parts.shape[2:]
        # (tiles, samples, groups, channels of a group)
        variances, means = parts.unflatten(3, (groups, channels // groups)).unbind(1)
        counts = counts.view(-1, 1, 1, 1).expand_as(means)
        total = counts.sum(dim=(0, 3))
        mean = (counts * means).sum(dim=(0, 3)) / total
        apart = means - mean.view(1, samples, groups, 1)
        return mean, (counts * (variances + apart.square())).sum(dim=(0, 3)) / total


class Normalisation:
    """Group norm as `value * scale + shift`, with statistics of the whole image."""

    def __init__(self, norm: nn.GroupNorm, statistics: ChannelStatistics) -> None:
        mean, variance = statistics.of_groups(norm.num_groups)
        repeats = norm.num_channels // norm.num_groups
        mean = mean.repeat_interleave(repeats, dim=1)
        scale = (variance + norm.eps).rsqrt().repeat_interleave(repeats, dim=1)
        if norm.affine:
            with weights_at_hand(norm):
                scale = scale * norm.weight.detach().cpu().double()
                shift = norm.bias.detach().cpu().double() - mean * scale
        else:
            shift = -mean * scale
        self._scale, self._shift = scale.float(), shift.float()

    def __call__(self, value: torch.Tensor, *, in_place: bool) -> torch.Tensor:
        """Normalise (samples, channels, ...), computed in float32, to the same dtype."""
        shape = (*self._scale.shape, *[1] * (value.ndim - 2))
        scale = self._scale.to(value.device).view(shape)
        shift = self._shift.to(value.device).view(shape)
        if value.dtype == torch.float32:
            out = value if in_place else None
            return torch.addcmul(shift, value, scale, out=out)
        return torch.addcmul(shift, value.float(), scale).to(value.dtype)
