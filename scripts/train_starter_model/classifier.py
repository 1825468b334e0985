# SPDX-License-Identifier: GPL-3.0-or-later
"""A small network that tells the families apart, trained on procedural tiles only.

A part of the tiles passes through the VAE first, so that its blur is no reason to reject a picture,
and many lose their colours or change them, so that the network has to look at the structure.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKL
from torch import Tensor, nn
from torch.nn import functional

from .dataset import PER_FAMILY, load_descriptions, load_images, make_shard
from .draw import Array
from .latents import to_latents
from .textures import FAMILIES

TRAINING_SHARD = 20
CHECK_SHARD = 21
STEPS = 1000
BATCH = 32
OWN_COLOURS = ("grass", "sand", "rusty metal", "clouds", "lava", "water")
"""Families that have their own colours, which the network may look at."""


def build_classifier() -> nn.Sequential:
    """Return the untrained network."""
    layers: list[nn.Module] = []
    widths = (3, 16, 32, 64, 96)
    for before, after in pairwise(widths):
        layers += [nn.Conv2d(before, after, 3, 2, 1), nn.BatchNorm2d(after), nn.ReLU()]
    pool: list[nn.Module] = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2)]
    return nn.Sequential(*layers, *pool, nn.Linear(widths[-1], len(FAMILIES)))


def _pixels(work: Path, shard: int) -> tuple[Tensor, Tensor]:
    make_shard(work, shard)
    images = torch.from_numpy(load_images(work, shard)[:].copy())
    names = [FAMILIES.index(item.family) for item in load_descriptions(work, shard)]
    return images.permute(0, 3, 1, 2).float() / 127.5 - 1, torch.tensor(names)


@torch.no_grad()
def _decoded(vae: AutoencoderKL, pixels: Tensor) -> Tensor:
    """Return what the VAE makes of tiles, with a little noise in the latents."""
    parts = []
    for chunk in pixels.split(16):
        latents = to_latents(chunk)
        latents = latents + 0.15 * torch.rand(len(chunk), 1, 1, 1) * torch.randn_like(latents)
        parts.append(vae.decode(latents).sample.clamp(-1, 1))
    return torch.cat(parts)


def _changed(pixels: Tensor, labels: Tensor) -> Tensor:
    """Shift, blur, and change the colours of a batch."""
    shift = torch.randint(0, 128, (2,)).tolist()
    pixels = torch.roll(pixels, shift, (2, 3))
    own = torch.tensor([FAMILIES[label] in OWN_COLOURS for label in labels.tolist()])
    recolour = ((torch.rand(len(pixels)) < 0.5) & ~own)[:, None, None, None]
    permuted = pixels[:, torch.randperm(3)]
    grey = pixels.mean(1, keepdim=True).expand_as(pixels)
    pixels = torch.where(recolour, permuted if torch.rand(1) < 0.5 else grey, pixels)
    if torch.rand(1) < 0.3:
        pixels = functional.avg_pool2d(functional.pad(pixels, (1, 1, 1, 1), "replicate"), 3, 1)
    contrast = 0.8 + 0.4 * torch.rand(len(pixels), 1, 1, 1)
    speckle = 0.06 * torch.rand(len(pixels), 1, 1, 1) * torch.randn_like(pixels)
    return pixels * contrast + 0.1 * torch.randn(len(pixels), 1, 1, 1) + speckle


def train_classifier(work: Path, vae: AutoencoderKL) -> tuple[nn.Module, float]:
    """Train the network; return it with its accuracy on unseen tiles.

    The trained network is kept in ``work``, so that further evaluations use the same one.
    """
    kept = work / "classifier.pt"
    if kept.exists():
        saved = torch.load(kept, weights_only=True)
        network = build_classifier()
        network.load_state_dict(saved["network"])
        return network.eval(), float(saved["accuracy"])
    torch.manual_seed(3)
    pixels, labels = _pixels(work, TRAINING_SHARD)
    part = PER_FAMILY * len(FAMILIES) // 3
    pixels = torch.cat([pixels, _decoded(vae, pixels[:part])])
    labels = torch.cat([labels, labels[:part]])
    network = build_classifier()
    optimiser = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=STEPS)
    for _ in range(STEPS):
        chosen = torch.randint(0, len(pixels), (BATCH,))
        output = network(_changed(pixels[chosen], labels[chosen]))
        loss = functional.cross_entropy(output, labels[chosen], label_smoothing=0.05)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    network.eval()
    unseen, truth = _pixels(work, CHECK_SHARD)
    unseen, truth = unseen[:320], truth[:320]
    with torch.no_grad():
        both = torch.cat([unseen, _decoded(vae, unseen)])
        right = network(both).argmax(1) == torch.cat([truth, truth])
    accuracy = float(right.float().mean())
    torch.save({"network": network.state_dict(), "accuracy": accuracy}, kept)
    return network, accuracy


@torch.no_grad()
def classify(network: nn.Module, pictures: list[Array]) -> list[str]:
    """Return the family that each picture looks like."""
    stacked = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2) * 2 - 1
    return [FAMILIES[index] for index in network(stacked).argmax(1).tolist()]
