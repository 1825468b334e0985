# SPDX-License-Identifier: GPL-3.0-or-later
"""Train the VAE: python -m scripts.train_starter_model.train_vae --work DIR --minutes 30.

The latents are given (see ``latents``), so the decoder and the encoder learn separately: the
decoder turns slightly noisy latents into sharp pictures, the encoder imitates the transform.

Run it under ``torchrun --nproc-per-node 2`` to use two processes. It resumes by itself.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKL
from torch import Tensor
from torch.nn import functional

from .dataset import load_images
from .decoder_start import start_decoder
from .latents import BLOCK, CHANNELS, to_latents
from .training import (
    Averaged,
    Clock,
    Run,
    Workers,
    join_workers,
    load_averaged,
    set_circular,
)

CROPS, CROP = 8, 64
TILES = 2
"""Batch of a worker: crops of 64 pixels at first, whole tiles for the last part."""
CROP_SHARE = 0.6
CIRCULAR = 0.7
"""Share of the steps with whole tiles that wrap around."""
PEAK_RATE = 8e-4
LATENT_NOISE = 0.3
"""Most noise added to the latents, so that the decoder cleans what the denoiser leaves."""
LOG_VARIANCE = -6.0
"""What the encoder is taught to answer for the uncertainty of every latent."""
ENCODER_EVERY = 8


def build_vae() -> AutoencoderKL:
    """Return the untrained VAE: factor 8, 8 latent channels."""
    return AutoencoderKL(
        in_channels=3,
        out_channels=3,
        latent_channels=CHANNELS,
        sample_size=128,
        block_out_channels=(16, 16, 32, 64),
        layers_per_block=1,
        norm_num_groups=4,
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        mid_block_add_attention=False,
    )


def encode(vae: AutoencoderKL, images: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the log variance of the latents."""
    mean, log_variance = vae.quant_conv(vae.encoder(images)).chunk(2, 1)
    return mean, log_variance.clamp(-12, 4)


def decode(vae: AutoencoderKL, latents: Tensor) -> Tensor:
    """Return the pictures for unscaled latents."""
    result: Tensor = vae.decoder(vae.post_quant_conv(latents))
    return result


def _amplitudes(images: Tensor) -> Tensor:
    """Fourier amplitudes of 16 x 16 blocks: texture statistics without positions."""
    count, channels, height, width = images.shape
    blocks = images.reshape(count, channels, height // 16, 16, width // 16, 16)
    return torch.fft.rfft2(blocks.permute(0, 1, 2, 4, 3, 5), norm="ortho").abs()


def _border_steps(images: Tensor) -> Tensor:
    """Mean step across the borders of the blocks, of every image and axis."""
    across = images[..., BLOCK::BLOCK] - images[..., BLOCK - 1 : -1 : BLOCK]
    down = images[..., BLOCK::BLOCK, :] - images[..., BLOCK - 1 : -1 : BLOCK, :]
    return torch.stack([across.abs().mean((1, 2, 3)), down.abs().mean((1, 2, 3))])


def picture_loss(output: Tensor, target: Tensor) -> Tensor:
    """Pixels, gradients, block averages and borders, and Fourier amplitudes."""
    delta = output - target
    gradient = (delta[..., 1:] - delta[..., :-1]).abs().mean()
    gradient = gradient + (delta[..., 1:, :] - delta[..., :-1, :]).abs().mean()
    low = functional.avg_pool2d(delta, 8).abs().mean()
    amplitude = (_amplitudes(output) - _amplitudes(target)).abs().mean()
    border = (_border_steps(output) - _border_steps(target)).abs().mean()
    return delta.abs().mean() + 0.25 * gradient + low + 0.3 * amplitude + 0.5 * border


def _batch(images: list[np.ndarray], rng: np.random.Generator, *, crop: bool) -> Tensor:
    shard = images[int(rng.integers(len(images)))]
    chosen = rng.choice(len(shard), CROPS if crop else TILES, replace=False)
    if crop:
        corners = rng.integers(0, (shard.shape[1] - CROP) // 8 + 1, (CROPS, 2)) * 8
        parts = zip(chosen, corners, strict=True)
        array = np.stack([shard[i, y : y + CROP, x : x + CROP] for i, (y, x) in parts])
    else:
        array = shard[np.sort(chosen)]
    pixels = torch.from_numpy(array).permute(0, 3, 1, 2).float() / 127.5 - 1
    return pixels.contiguous(memory_format=torch.channels_last)


def decoder_loss(vae: AutoencoderKL, pixels: Tensor) -> Tensor:
    """Return the loss of decoding slightly noisy latents."""
    latents = to_latents(pixels)
    spread = LATENT_NOISE * torch.rand(len(pixels), 1, 1, 1)
    noisy = latents + spread * torch.randn_like(latents)
    return picture_loss(decode(vae, noisy.contiguous(memory_format=torch.channels_last)), pixels)


def encoder_loss(vae: AutoencoderKL, pixels: Tensor) -> Tensor:
    """Return the loss of imitating the transform."""
    mean, log_variance = encode(vae, pixels)
    wrong = functional.mse_loss(mean, to_latents(pixels))
    return wrong + 0.01 * ((log_variance - LOG_VARIANCE) ** 2).mean()


def _start(work: Path, minutes: float, workers: Workers) -> tuple[Run, AutoencoderKL]:
    """Prepare the training, or continue it from the checkpoint."""
    torch.manual_seed(7)
    vae = build_vae().to(memory_format=torch.channels_last)
    start_decoder(vae)
    optimiser = torch.optim.AdamW(vae.parameters(), lr=0, betas=(0.9, 0.98), weight_decay=1e-3)
    averaged = Averaged(vae.parameters(), 0.995)
    run = Run(work / "vae.pt", vae, optimiser, averaged, Clock(minutes * 60), workers)
    run.resume()
    torch.manual_seed(100 + workers.rank + run.clock.step)
    return run, vae


def train(work: Path, minutes: float, shards: int, workers: Workers) -> None:
    """Train until the budget is spent; continue from the checkpoint when there is one."""
    run, vae = _start(work, minutes, workers)
    clock = run.clock
    rng = np.random.default_rng([7, workers.rank, clock.step])
    images = [load_images(work, shard) for shard in range(shards)]
    decoding: list[float] = []
    encoding: list[float] = []
    while run.goes_on():
        crop = clock.spent < CROP_SHARE * clock.budget
        set_circular(vae, circular=not crop and bool(rng.random() < CIRCULAR))
        pixels = _batch(images, rng, crop=crop)
        loss = decoder_loss(vae, pixels)
        decoding.append(loss.item())
        if clock.step % ENCODER_EVERY == 0:
            imitation = encoder_loss(vae, pixels)
            encoding.append(imitation.item())
            loss = loss + imitation
        run.learn(loss, len(pixels), PEAK_RATE)
        if workers.leads and clock.step % 64 == 0:
            run.report(f"decoder {np.mean(decoding):.4f} encoder {np.mean(encoding):.4f}")
            decoding.clear()
            encoding.clear()
        if run.must_save(120):
            run.save()


def load_vae(work: Path) -> AutoencoderKL:
    """Return the trained VAE with averaged weights."""
    vae = build_vae()
    load_averaged(work / "vae.pt", vae)
    return vae


def main() -> None:
    """Read the arguments and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=16.0)
    parser.add_argument("--shards", type=int, default=10)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    train(arguments.work, arguments.minutes, arguments.shards, join_workers())


if __name__ == "__main__":
    main()
