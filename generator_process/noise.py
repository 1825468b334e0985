# SPDX-License-Identifier: GPL-3.0-or-later
"""The noise that an image starts from, given by its seed alone. Side: generator.

Noise is drawn on the CPU in float32 whatever the device (bug reports P039, P041, P042), one
generator for each image. So the noise of an image depends neither on the device nor on how many
images the job has, their order, or how many are made at the same time.

The picture made from it is the same bit for bit on the same machine when the batch size is 1,
alone or among other images. In larger batches torch may add numbers in another order, and the
picture can differ in its last bits.
"""

from collections.abc import Sequence

import torch


def generators_of(seeds: Sequence[int]) -> list[torch.Generator]:
    """Return one CPU generator for each seed (0 to 2**64 - 1)."""
    return [torch.Generator("cpu").manual_seed(seed) for seed in seeds]


def starting_noise(generators: Sequence[torch.Generator], shape: tuple[int, ...]) -> torch.Tensor:
    """Draw the starting noise of a batch, and leave the generators ready for the noise of steps.

    Args:
        generators: One for each image, as `generators_of` makes them.
        shape: (channels, height, width) of one image's latents.

    Returns:
        `float32` (images, channels, height, width) on the CPU, of mean 0 and variance 1.
    """
    noise = [
        torch.randn((1, *shape), generator=generator, dtype=torch.float32, device="cpu")
        for generator in generators
    ]
    return torch.cat(noise)
