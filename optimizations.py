# SPDX-License-Identifier: GPL-3.0-or-later
"""What may be done to save time or memory, and where it applies. Side: both."""

from dataclasses import dataclass

DEVICES = ("cuda", "mps", "dml", "xpu", "cpu")
"""The kinds of device. ROCm presents itself as "cuda"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizations:
    """The user's choices. Which of them take effect depends on the device."""

    half_precision: bool = True
    vae_slicing: bool = True
    batch_size: int = 1
