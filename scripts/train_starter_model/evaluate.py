# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the exported pipeline on unseen prompts.

Usage: python -m scripts.train_starter_model.evaluate --model starter_model --work DIR

Every prompt asks for a family with colours and details, in a sentence frame that the training
does not use. A picture has the right family when the classifier (see ``classifier``) says so;
colours and layout are defined in ``measures``. The seam ratio is the mean step across the wrapped
edge over the mean inner step; the grid ratio takes only inner steps on grid lines. All seeds are
fixed; the results are printed by family, and as JSON at the end.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from .captions import phrase
from .classifier import classify, train_classifier
from .draw import Array
from .generate import Settings, generate, load_pipeline
from .measures import colours_right, layout_right, seam_gradients
from .textures import ALIGNED, FAMILIES, TWO_COLOURS, Description, describe

UNSEEN_FRAMES = (
    "{} for my scene",
    "picture of {}",
    "{} wallpaper",
    "show me {}",
    "{} in bright sunlight",
    "an image showing {}",
)
SEED = 4321


@dataclass(frozen=True)
class Prompt:
    """A prompt and what it asks for."""

    text: str
    description: Description


def make_prompts(count: int) -> list[Prompt]:
    """Return the prompts; the families take turns."""
    rng = np.random.default_rng(SEED)
    prompts = []
    for index in range(count):
        description = describe(rng, FAMILIES[index % len(FAMILIES)])
        frame = UNSEEN_FRAMES[int(rng.integers(len(UNSEEN_FRAMES)))]
        text = " ".join(frame.format(_explicit(rng, description)).split())
        prompts.append(Prompt(text, description))
    return prompts


def _explicit(rng: np.random.Generator, description: Description) -> str:
    """Return a phrase that says all colours and the direction."""
    while True:
        text = phrase(rng, description)
        known = [name.split()[-1] for name in description.colours]
        says_direction = description.family != "stripes" or description.detail in text
        if all(name in text for name in known) and says_direction:
            return text


def _share(values: list[bool]) -> float:
    return round(100 * sum(values) / len(values), 1) if values else float("nan")


def score(prompts: list[Prompt], pictures: list[Array], network: nn.Module) -> dict[str, object]:
    """Return the shares of right families, colours and layouts, in all and by family."""
    found = classify(network, pictures)
    families: dict[str, list[bool]] = defaultdict(list)
    colours: dict[str, list[bool]] = defaultdict(list)
    layouts: dict[str, list[bool]] = defaultdict(list)
    confused: dict[str, int] = defaultdict(int)
    for prompt, picture, name in zip(prompts, pictures, found, strict=True):
        wanted = prompt.description
        families[wanted.family].append(name == wanted.family)
        colours[wanted.family].append(colours_right(picture, wanted))
        if wanted.family in TWO_COLOURS:
            layouts[wanted.family].append(layout_right(picture, wanted))
        if name != wanted.family:
            confused[f"{wanted.family} -> {name}"] += 1
    by_family = {
        family: {
            "family": _share(families[family]),
            "colours": _share(colours[family]),
            "layout": _share(layouts[family]) if layouts[family] else None,
        }
        for family in FAMILIES
    }
    return {
        "family": _share([value for values in families.values() for value in values]),
        "colours": _share([value for values in colours.values() for value in values]),
        "layout": _share([value for values in layouts.values() for value in values]),
        "by_family": by_family,
        "confused": dict(sorted(confused.items(), key=lambda item: -item[1])),
    }


def seams(prompts: list[Prompt], pictures: list[Array]) -> dict[str, dict[str, float]]:
    """Return the seam ratios along x and y: sums over all pictures, and over irregular ones."""
    result = {}
    for label, axis in (("x", 1), ("y", 0)):
        rows = np.array([seam_gradients(picture, axis) for picture in pictures])
        regular = np.array([prompt.description.family in ALIGNED for prompt in prompts])
        edge, inner, lines = rows.sum(0)
        loose = rows[~regular].sum(0)
        result[label] = {
            "plain": round(float(edge / inner), 3),
            "plain_irregular_families": round(float(loose[0] / loose[1]), 3),
            "grid": round(float(edge / lines), 3),
        }
    return result


def evaluate(folder: Path, work: Path, count: int, settings: Settings) -> dict[str, object]:
    """Run the whole evaluation."""
    pipeline = load_pipeline(folder)
    network, accuracy = train_classifier(work, pipeline.vae)
    prompts = make_prompts(count)
    texts = [prompt.text for prompt in prompts]
    pictures = generate(pipeline, texts, SEED, settings)
    loose = Settings(settings.size, settings.steps, settings.guidance, seamless=False)
    few = prompts[: max(1, count // 4)]
    open_pictures = generate(pipeline, [prompt.text for prompt in few], SEED, loose)
    result: dict[str, object] = {
        "prompts": count,
        "size": settings.size,
        "steps": settings.steps,
        "guidance": settings.guidance,
        "classifier_on_unseen_tiles": round(100 * accuracy, 1),
    }
    result |= score(prompts, pictures, network)
    result["seams_on"] = seams(prompts, pictures)
    result["seams_off"] = seams(few, open_pictures)
    return result


def main() -> None:
    """Read the arguments, evaluate and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--guidance", type=float, default=3.0)
    parser.add_argument("--threads", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    settings = Settings(arguments.size, arguments.steps, arguments.guidance)
    result = evaluate(arguments.model, arguments.work, arguments.count, settings)
    by_family = result["by_family"]
    assert isinstance(by_family, dict)
    print(f"{'family':14} {'right':>6} {'colour':>6} {'layout':>6}")
    for family, shares in by_family.items():
        layout = "" if shares["layout"] is None else shares["layout"]
        print(f"{family:14} {shares['family']:6} {shares['colours']:6} {layout:>6}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
