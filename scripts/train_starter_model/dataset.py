# SPDX-License-Identifier: GPL-3.0-or-later
"""Tiles on disk: shards of pictures and their descriptions, each made from its own seed.

python -m scripts.train_starter_model.dataset --work DIR --shards 10
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .draw import SIZE
from .textures import FAMILIES, Description, sample

PER_FAMILY = 100
"""Tiles of every family in a shard."""


def shard_paths(work: Path, shard: int) -> tuple[Path, Path]:
    """Return the picture file and the description file of a shard."""
    folder = work / "tiles"
    return folder / f"{shard:03d}.npy", folder / f"{shard:03d}.json"


def make_shard(work: Path, shard: int) -> None:
    """Draw a shard, unless it is there already."""
    pictures, words = shard_paths(work, shard)
    if words.exists():
        return
    pictures.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng([2024, shard])
    images = np.zeros((PER_FAMILY * len(FAMILIES), SIZE, SIZE, 3), np.uint8)
    descriptions = []
    for index in range(len(images)):
        tile = sample(rng, FAMILIES[index % len(FAMILIES)])
        images[index] = np.round(tile.image * 255).astype(np.uint8)
        descriptions.append(asdict(tile.description))
    np.save(pictures, images)
    words.write_text(json.dumps(descriptions), encoding="utf-8")


def load_images(work: Path, shard: int) -> NDArray[np.uint8]:
    """Map the pictures of a shard into memory."""
    images: NDArray[np.uint8] = np.load(shard_paths(work, shard)[0], mmap_mode="r")
    return images


def load_descriptions(work: Path, shard: int) -> list[Description]:
    """Read what the pictures of a shard show."""
    entries = json.loads(shard_paths(work, shard)[1].read_text(encoding="utf-8"))
    return [
        Description(entry["family"], tuple(entry["colours"]), entry["detail"]) for entry in entries
    ]


def main() -> None:
    """Draw the shards that are not there yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--shards", type=int, default=10)
    arguments = parser.parse_args()
    for shard in range(arguments.shards):
        make_shard(arguments.work, shard)
        print(f"shard {shard}: {len(load_descriptions(arguments.work, shard))} tiles", flush=True)


if __name__ == "__main__":
    main()
