# SPDX-License-Identifier: GPL-3.0-or-later
"""Train the denoiser: python -m scripts.train_starter_model.train_unet --work DIR --minutes 100.

Run it under ``torchrun --nproc-per-node 2`` to use two processes. It resumes from its checkpoint,
with any number of processes; the budget counts all runs together.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from .captions import caption
from .dataset import load_descriptions, load_images
from .latents import to_latents
from .networks import Noising, build_text_encoder, build_unet, draw_steps
from .textures import ALIGNED, FAMILIES, FOLDABLE, TWO_COLOURS, Description
from .tokenizer import build_tokenizer, load_tokenizer
from .training import (
    Averaged,
    Clock,
    Run,
    Workers,
    join_workers,
    load_averaged,
    set_circular,
)

BATCH = 16
FOLDED_BATCH = 64
FOLDED_SHARE = 0.5
"""Share of the steps that show one period of regular patterns, four times as many at a time."""
PEAK_RATE = 1.3e-3
PAIR_WEIGHT = 2.0
"""How much oftener a period shows two named colours, which have the most combinations."""
TEXT_FACTOR = 2.0
"""How much faster the text encoder learns."""
UNCONDITIONAL = 0.12
CIRCULAR = 0.8
HELD_OUT = 9
"""The shard that measures progress and is not trained on."""
PROBE_STEPS = (50, 150, 300, 500, 700, 900)


@dataclass
class Examples:
    """Latents and what they show."""

    latents: Tensor
    descriptions: list[Description]

    def __post_init__(self) -> None:
        families = [description.family for description in self.descriptions]
        foldable = np.array([family in FOLDABLE for family in families])
        paired = np.array([family in TWO_COLOURS for family in families])
        dropped = np.array([family not in FAMILIES for family in families])
        weights = np.where(dropped, 0.0, np.where(foldable & ~paired, 0.6, 1.0))
        self.weights = weights / weights.sum()
        folded = np.where(paired, PAIR_WEIGHT, 1.0) * foldable
        self.folded_weights = folded / folded.sum()

    @classmethod
    def read(cls, work: Path, shards: list[int]) -> Examples:
        """Transform the tiles of the given shards, or read what an earlier run has kept."""
        cache = work / f"latents-{'-'.join(map(str, shards))}.pt"
        described = [item for shard in shards for item in load_descriptions(work, shard)]
        if cache.exists():
            return cls(torch.load(cache, weights_only=True), described)
        latents = []
        for shard in shards:
            for chunk in np.array_split(load_images(work, shard), 10):
                pixels = torch.from_numpy(chunk.copy()).permute(0, 3, 1, 2).float() / 127.5 - 1
                latents.append(to_latents(pixels).half())
        torch.save(torch.cat(latents), cache)
        return cls(torch.cat(latents), described)

    def draw(self, rng: np.random.Generator, count: int) -> tuple[Tensor, list[Description]]:
        """Draw random tiles, rolled as far as their family allows."""
        chosen = rng.choice(len(self.latents), count, p=self.weights)
        described = [self.descriptions[index] for index in chosen]
        tiles = []
        for index, description in zip(chosen, described, strict=True):
            step = 4 if description.family in ALIGNED else 1
            shift = (rng.integers(0, 16, 2) // step * step).tolist()
            tiles.append(torch.roll(self.latents[index], shift, (1, 2)))
        return torch.stack(tiles).float(), described

    def draw_folded(self, rng: np.random.Generator, count: int) -> tuple[Tensor, list[Description]]:
        """Draw single periods of regular patterns: the mean of the four quarters of a tile."""
        chosen = rng.choice(len(self.latents), count, p=self.folded_weights)
        quarters = self.latents[chosen].float().unflatten(3, (2, 8)).unflatten(2, (2, 8))
        shifts = rng.integers(0, 2, (count, 2)) * 4
        parts = zip(quarters.mean((2, 4)), shifts.tolist(), strict=True)
        rolled = torch.stack([torch.roll(tile, shift, (1, 2)) for tile, shift in parts])
        return rolled, [self.descriptions[index] for index in chosen]


class Model(nn.Module):
    """The denoiser together with its text encoder."""

    def __init__(self, work: Path) -> None:
        super().__init__()
        folder = work / "tokenizer"
        known = (folder / "tokenizer.json").exists()
        self.tokenizer = load_tokenizer(folder) if known else build_tokenizer(folder)
        self.text = build_text_encoder(self.tokenizer)
        self.unet = build_unet().to(memory_format=torch.channels_last)
        self.noising = Noising()

    def tokens(self, captions: list[str]) -> Tensor:
        """Tokenize captions to full length."""
        encoded = self.tokenizer(captions, padding="max_length", truncation=True)
        return torch.tensor(encoded.input_ids)

    def errors(
        self,
        latents: Tensor,
        captions: list[str],
        noise: Tensor,
        steps: Tensor,
        *,
        learn_text: bool = True,
    ) -> Tensor:
        """Return the squared velocity error of every example."""
        noisy, velocity = self.noising(latents, noise, steps)
        with torch.set_grad_enabled(torch.is_grad_enabled() and learn_text):
            hidden = self.text(self.tokens(captions))[0]
        noisy = noisy.contiguous(memory_format=torch.channels_last)
        output = self.unet(noisy, steps, encoder_hidden_states=hidden, return_dict=False)[0]
        return ((output - velocity) ** 2).mean((1, 2, 3))


def load_model(work: Path) -> Model:
    """Return the model with averaged weights."""
    model = Model(work)
    load_averaged(work / "unet.pt", model)
    return model


class Probe:
    """A fixed set of unseen tiles, captions, noise and steps."""

    def __init__(self, work: Path) -> None:
        rng = np.random.default_rng(5)
        examples = Examples.read(work, [HELD_OUT])
        self.latents, described = examples.latents[:48].float(), examples.descriptions[:48]
        self.captions = [caption(rng, description) for description in described]
        self.noise = torch.randn(self.latents.shape, generator=torch.Generator().manual_seed(5))

    @torch.no_grad()
    def __call__(self, model: Model) -> str:
        """Return the errors at every probed step, and their mean."""
        set_circular(model.unet, circular=True)
        means = []
        for step in PROBE_STEPS:
            steps = torch.full((len(self.latents),), step)
            errors = model.errors(self.latents, self.captions, self.noise, steps)
            means.append(float(errors.mean()))
        shown = " ".join(f"{mean:.3f}" for mean in means)
        return f"probe {np.mean(means):.4f} = {shown}"


def _captions(rng: np.random.Generator, described: list[Description]) -> list[str]:
    """Write captions, and leave some empty for guidance."""
    return ["" if rng.random() < UNCONDITIONAL else caption(rng, item) for item in described]


def _start(work: Path, minutes: float, workers: Workers) -> tuple[Run, Model]:
    """Prepare the training, or continue it from the checkpoint."""
    torch.manual_seed(11)
    model = Model(work)
    groups = [
        {"params": list(model.text.parameters()), "factor": TEXT_FACTOR},
        {"params": list(model.unet.parameters()), "factor": 1.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=0, betas=(0.9, 0.98), weight_decay=0.01)
    averaged = Averaged(model.parameters(), 0.998)
    run = Run(work / "unet.pt", model, optimiser, averaged, Clock(minutes * 60), workers)
    run.resume()
    torch.manual_seed(1000 * (workers.rank + 1) + run.clock.step)
    return run, model


def train(work: Path, minutes: float, shards: int, workers: Workers) -> None:
    """Train until the budget is spent; continue from the checkpoint when there is one."""
    run, model = _start(work, minutes, workers)
    examples = Examples.read(work, [shard for shard in range(shards) if shard != HELD_OUT])
    probe = Probe(work)
    rng = np.random.default_rng([11, workers.rank, run.clock.step])
    recent: list[float] = []
    while run.goes_on():
        folded = workers.agree(rng.random()) < FOLDED_SHARE
        set_circular(model.unet, circular=folded or bool(rng.random() < CIRCULAR))
        draw, count = (examples.draw_folded, FOLDED_BATCH) if folded else (examples.draw, BATCH)
        latents, described = draw(rng, count)
        noise, steps = torch.randn_like(latents), draw_steps(count)
        captions = _captions(rng, described)
        learn_text = not folded or run.clock.step % 2 == 0
        loss = model.errors(latents, captions, noise, steps, learn_text=learn_text).mean()
        run.learn(loss, count, PEAK_RATE)
        if not folded:
            recent.append(loss.item())
        if workers.leads and run.clock.step % 100 == 0:
            run.report(f"seen {run.clock.seen} loss {np.mean(recent):.4f}")
            recent.clear()
        if run.must_save(180):
            run.averaged.swap()
            run.report(probe(model))
            run.averaged.swap()
            run.save()


def main() -> None:
    """Read the arguments and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=100.0)
    parser.add_argument("--shards", type=int, default=10)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    train(arguments.work, arguments.minutes, arguments.shards, join_workers())


if __name__ == "__main__":
    main()
