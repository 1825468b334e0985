# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw a contact sheet: python -m scripts.train_starter_model.sheet --model DIR --output PNG."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw

from .generate import Settings, generate, load_pipeline

PROMPTS = (
    "red brick wall",
    "blue brick wall",
    "wood planks",
    "grass",
    "sand",
    "cobblestone",
    "white marble",
    "black marble",
    "black and white checkerboard",
    "red and yellow checkerboard",
    "vertical blue and white stripes",
    "diagonal yellow and black stripes",
    "red polka dots on white",
    "pink polka dots on turquoise",
    "green tiles",
    "white bathroom tiles",
    "rusty metal",
    "brown leather",
    "blue woven fabric",
    "woven fabric",
    "water",
    "clouds",
    "lava",
    "horizontal red and green stripes",
)
LABEL = 14


def main() -> None:
    """Make the pictures and write the sheet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--columns", type=int, default=6)
    parser.add_argument("--count", type=int, default=len(PROMPTS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--guidance", type=float, default=3.0)
    parser.add_argument("--open", action="store_true", help="not seamless")
    arguments = parser.parse_args()
    torch.set_num_threads(max(1, torch.get_num_threads() // 2))
    size: int = arguments.size
    settings = Settings(size, arguments.steps, arguments.guidance, not arguments.open)
    prompts: list[str] = list(PROMPTS[: arguments.count])
    pictures = generate(load_pipeline(arguments.model), prompts, arguments.seed, settings)
    columns = min(arguments.columns, len(prompts))
    rows = -(-len(prompts) // columns)
    sheet = Image.new("RGB", (columns * (size + 4), rows * (size + LABEL + 4)), (32, 32, 32))
    pen = ImageDraw.Draw(sheet)
    for index, (prompt, picture) in enumerate(zip(prompts, pictures, strict=True)):
        corner = (index % columns * (size + 4), index // columns * (size + LABEL + 4))
        sheet.paste(Image.fromarray(np.round(picture * 255).astype(np.uint8)), corner)
        pen.text((corner[0] + 2, corner[1] + size + 1), prompt[: size // 5], fill=(230, 230, 230))
    sheet.save(arguments.output, optimize=True)


if __name__ == "__main__":
    main()
