# SPDX-License-Identifier: GPL-3.0-or-later
"""What the cost model has to know of a model, read before it is loaded. Side: generator."""

import json
import struct
from collections import Counter
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from .. import model_files
from ..errors import ModelError

_EXACT_CLASSES = ("AutoencoderKL", "AutoencoderKLFlux2")

_BYTES_OF_PICKLED_VALUE = 4
"""Pickled weights without "fp16" in their name are float32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """Sizes of a model. All 0: not known, and everything is taken to fit.

    The parameters are numbers of values. `block_parameters` are those of the denoiser's largest
    block, `denoiser_width` is its number of channels at the size of the latents, `vae_width` the
    most channels that the VAE's decoder has at the size of the image. `vae_upcasts` says that the
    VAE computes in float32 where the others use float16. `exact_tiling` says that the VAE is of a
    class that can be tiled exactly.
    """

    denoiser_parameters: int = 0
    block_parameters: int = 0
    vae_parameters: int = 0
    text_parameters: int = 0
    denoiser_width: int = 0
    vae_width: int = 0
    latent_factor: int = 8
    vae_upcasts: bool = False
    exact_tiling: bool = True


def facts_of(folder: Path) -> ModelFacts:
    """Read a model's configurations and the headers of its weights.

    A model that lacks something gives what is known of none: loading it says what is wrong.
    """
    try:
        return _read(folder)
    except (ModelError, OSError, ValueError, KeyError, TypeError, IndexError):
        return ModelFacts()


def _read(folder: Path) -> ModelFacts:
    unet = model_files.read_json(folder / "unet" / "config.json")
    vae = model_files.read_json(folder / "vae" / "config.json")
    blocks = _parameters(folder / "unet", "diffusers")
    widths = vae["block_out_channels"]
    return ModelFacts(
        denoiser_parameters=sum(blocks.values()),
        block_parameters=max(blocks.values()),
        vae_parameters=sum(_parameters(folder / "vae", "diffusers").values()),
        text_parameters=sum(
            sum(_parameters(part, "transformers").values())
            for part in sorted(folder.glob("text_encoder*"))
        ),
        denoiser_width=int(unet["block_out_channels"][0]),
        vae_width=int(widths[min(1, len(widths) - 1)]),
        latent_factor=2 ** (len(widths) - 1),
        vae_upcasts=bool(vae.get("force_upcast", True)),
        exact_tiling=vae.get("_class_name") in _EXACT_CLASSES,
    )


def _parameters(folder: Path, library: str) -> Counter[str]:
    """Count the values of a component by block: "down_blocks.0", or "" for all else."""
    weights = model_files.weights_of(folder, library, prefer_half=False)
    counted: Counter[str] = Counter()
    for file in weights.files:
        if file.suffix == ".safetensors":
            for name, entry in _header(file).items():
                parts = name.split(".")
                block = ".".join(parts[:2]) if parts[1:] and parts[1].isdigit() else ""
                counted[block] += prod(entry["shape"])
        else:
            value_bytes = _BYTES_OF_PICKLED_VALUE // (2 if weights.variant else 1)
            counted[""] += file.stat().st_size // value_bytes
    return counted


def _header(file: Path) -> dict[str, Any]:
    with file.open("rb") as stream:
        length = struct.unpack("<Q", stream.read(8))[0]
        header = json.loads(stream.read(length))
    header.pop("__metadata__", None)
    return header
