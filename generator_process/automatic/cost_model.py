# SPDX-License-Identifier: GPL-3.0-or-later
"""How many bytes a job needs, from a table of constants. Side: generator.

The model is coarse on purpose: weights are counted exactly, and of everything else only the largest
activations, which grow with the pixels. What it gets wrong the ladder puts right.
"""

from dataclasses import dataclass
from enum import IntEnum
from math import ceil

from .facts import ModelFacts

MEBIBYTE = 2**20

DENOISER_VALUES = 26.0
"""Values for each latent pixel and image, in units of the denoiser's width, with fused attention.
Measured by the simulated device's allocator on a UNet of Stable Diffusion 1.5's shape, latents of
32 x 32 and 64 x 64, 1 and 2 images: 26.0 each time. Its finest level has attention, whose feed-
forward layers are the largest activations; it is an upper bound for models without it there."""

VAE_VALUES = 3.0
"""Values for each pixel of a decoded image, in units of the VAE's width. Measured by the simulated
device's allocator on a VAE of Stable Diffusion 1.5's shape: 192 MiB at 256 x 256 and 768 MiB at
512 x 512 in float32 with 256 channels are 3.00: an activation, its norm and the next one."""

EXACT_TILE_VALUES = 4.0
"""The same for each pixel of a tile with exact tiling that stores on the CPU: `tiled_vae.settings`.
Whole images of 3 channels come on top."""

CPU_SCRATCH = 1.25
"""On the CPU oneDNN needs memory of its own. Measured as resident memory while a VAE of Stable
Diffusion 1.5's shape decodes in float32: 962 to 993 MB at 512 x 512 and 3841 MB at 1024 x 1024,
which is 1.25 times the activations."""

USABLE_SHARE = {"cpu": 0.6, "mps": 0.8}
"""Of the free memory. Where it is the computer's, Blender and the system need some of it too. Own
choice, not measured; 0.9 on other devices, for fragmentation."""

RESERVE = {"cuda": 512 * MEBIBYTE, "xpu": 512 * MEBIBYTE}
"""For workspaces of convolution and matrix libraries. Own choice, not measured: no hardware."""

IMPORTED = 600 * MEBIBYTE
"""Resident memory of a generator that has loaded nothing: 417 MB were measured with Stable
Diffusion's classes imported; rounded up for the rest."""

CPU_OPENVINO_PARAMETERS = 50_000_000
"""Denoisers below this take less time for an image than OpenVINO for a conversion. Own choice
between the starter model (5.6 million) and Stable Diffusion 1.5 (860 million)."""


class Placement(IntEnum):
    """How many weights are on the device, most first. Named as the choices of CPU Offload."""

    OFF = 0
    MODEL = 1
    GROUP = 2
    SUBMODULE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What costs depend on. `value_bytes` is that of the type of weights and arithmetic."""

    facts: ModelFacts
    width_px: int
    height_px: int
    value_bytes: int
    on_cpu: bool = False

    @property
    def pixels(self) -> int:
        """Pixels of one image."""
        return self.width_px * self.height_px

    @property
    def vae_value_bytes(self) -> int:
        """Bytes of a value while the VAE computes."""
        return 4 if self.facts.vae_upcasts and self.value_bytes == 2 else self.value_bytes


def budget(device: str, free_memory: int) -> int | None:
    """Return how many bytes a job may need, or None if it is not known what is free."""
    if free_memory <= 0:
        return None
    return max(0, int(free_memory * USABLE_SHARE.get(device, 0.9)) - RESERVE.get(device, 0))


def weights(job: Job, placement: Placement, *, decoding: bool) -> int:
    """Return the bytes of weights on the device while denoising, or while decoding."""
    facts = job.facts
    vae = facts.vae_parameters * job.vae_value_bytes
    everything = (facts.denoiser_parameters + facts.text_parameters) * job.value_bytes + vae
    if placement is Placement.OFF:
        return everything
    if decoding:
        return vae
    if placement is Placement.MODEL:
        return max(facts.denoiser_parameters, facts.text_parameters) * job.value_bytes
    # A layer is far smaller than a block, and no model's size hangs on it.
    share = 1 if placement is Placement.GROUP else 8
    return facts.block_parameters * job.value_bytes // share


def denoising(job: Job, batch: int) -> int:
    """Return the bytes of activations for a batch, which guidance doubles."""
    latent_pixels = ceil(job.width_px / job.facts.latent_factor) * ceil(
        job.height_px / job.facts.latent_factor
    )
    values = DENOISER_VALUES * job.facts.denoiser_width * latent_pixels * 2 * batch
    return _scaled(job, values * job.value_bytes)


def decoding(job: Job, tile_px: int | None) -> int:
    """Return the bytes of activations for one image, whole or (not None) in exact tiles."""
    width = job.facts.vae_width
    whole = VAE_VALUES * width * job.pixels
    if tile_px is None:
        values = whole
    elif job.on_cpu:  # two whole activations lie beside the tiles
        values = min(whole, 2 * width * job.pixels + EXACT_TILE_VALUES * width * tile_px**2)
    else:
        values = min(whole, EXACT_TILE_VALUES * width * tile_px**2 + 3 * job.pixels)
    return _scaled(job, values * job.vae_value_bytes)


def text(size: int) -> str:
    """Return bytes for a sentence: "3.2 GB"."""
    return f"{size / 1e9:.1f} GB"


def _scaled(job: Job, size: float) -> int:
    return int(size * (CPU_SCRATCH if job.on_cpu else 1.0))
