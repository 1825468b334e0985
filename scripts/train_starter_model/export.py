# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the pipeline: python -m scripts.train_starter_model.export --work DIR --output FOLDER.

The result is a plain StableDiffusionPipeline folder with half-precision safetensors, and
``starter.json``, which lists the words that the model knows and the recommended settings.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from diffusers import AutoencoderKL, DPMSolverMultistepScheduler, StableDiffusionPipeline

from .captions import NOUNS, known_words
from .colours import PALETTE, SHADES
from .networks import SCHEDULE
from .textures import COLOURS_OF, DETAILS, FAMILIES, TWO_COLOURS
from .train_unet import load_model
from .train_vae import load_vae
from .training import plain_classes

LIMIT = 24_000_000
"""Largest size of the folder, in bytes."""
SETTINGS = {"steps": 20, "guidance_scale": 3.0, "sizes": [128, 256, 512]}


def build_scheduler() -> DPMSolverMultistepScheduler:
    """Return the scheduler that is shipped: DPM++ 2M over trailing steps."""
    return DPMSolverMultistepScheduler(
        **SCHEDULE,
        algorithm_type="dpmsolver++",
        solver_order=2,
        timestep_spacing="trailing",
        steps_offset=1,
    )


def _vae(work: Path) -> AutoencoderKL:
    vae = load_vae(work)
    vae.register_to_config(scaling_factor=1.0, force_upcast=False)
    return vae


def build_pipeline(work: Path) -> StableDiffusionPipeline:
    """Assemble the pipeline from the checkpoints."""
    model = load_model(work)
    for part in (model.unet, vae := _vae(work)):
        plain_classes(part)
    return StableDiffusionPipeline(
        vae=vae,
        text_encoder=model.text,
        tokenizer=model.tokenizer,
        unet=model.unet,
        scheduler=build_scheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def describe() -> dict[str, object]:
    """Return what the model knows, for people and for the add-on."""
    families = {}
    for family in FAMILIES:
        colours = 2 if family in TWO_COLOURS else int(family in COLOURS_OF)
        families[family] = {
            "prompts": sorted(set(NOUNS[family])),
            "colours": colours,
            "details": sorted(set(DETAILS.get(family, ())) - {""}),
        }
    return {
        "name": "Tessera starter model",
        "licence": "GPL-3.0-or-later",
        "families": families,
        "colours": list(PALETTE),
        "shades": list(SHADES),
        "words": list(known_words()),
        "settings": SETTINGS,
    }


def _edit(path: Path, changes: dict[str, object]) -> None:
    """Change entries of a JSON file; ``None`` removes one."""
    entries = json.loads(path.read_text(encoding="utf-8")) | changes
    for key, value in changes.items():
        if value is None:
            del entries[key]
    path.write_text(json.dumps(entries, indent=2) + "\n", encoding="utf-8")


def export(work: Path, output: Path) -> int:
    """Write the folder and return its size in bytes."""
    pipeline = build_pipeline(work).to(torch.float16)
    pipeline.save_pretrained(output, safe_serialization=True)
    # DDIM and DDPM, made from this configuration, would otherwise clip the latents.
    _edit(output / "scheduler" / "scheduler_config.json", {"clip_sample": False})
    for path in output.rglob("*.json"):
        if path.parent.name != "tokenizer":
            _edit(path, {"_name_or_path": None})
    for path in output.rglob("*.safetensors"):
        path.chmod(0o644)
    text = json.dumps(describe(), indent=2)
    (output / "starter.json").write_text(text + "\n", encoding="utf-8")
    return sum(path.stat().st_size for path in output.rglob("*") if path.is_file())


def main() -> None:
    """Export, and fail when the folder is too large."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    arguments = parser.parse_args()
    size = export(arguments.work, arguments.output)
    print(f"{size} bytes in {arguments.output}")
    if size > LIMIT:
        raise SystemExit(f"too large: more than {LIMIT} bytes")


if __name__ == "__main__":
    main()
