# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kinds of models make images from text, and what they consist of. Side: both.

Only configurations and the headers of weights are read here, so that Blender can say what is wrong
with a model before the generator loads it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import model_files
from .errors import ModelError

KIND_OF_CLASS = {
    "StableDiffusionPipeline": "sd",
    "StableDiffusionImg2ImgPipeline": "sd",
    "StableDiffusionXLPipeline": "sdxl",
    "StableDiffusionXLImg2ImgPipeline": "sdxl",
}

COMPONENTS = {
    "sd": {
        "unet": "UNet2DConditionModel",
        "vae": "AutoencoderKL",
        "text_encoder": "CLIPTextModel",
        "tokenizer": "CLIPTokenizer",
    },
    "sdxl": {
        "unet": "UNet2DConditionModel",
        "vae": "AutoencoderKL",
        "text_encoder": "CLIPTextModel",
        "text_encoder_2": "CLIPTextModelWithProjection",
        "tokenizer": "CLIPTokenizer",
        "tokenizer_2": "CLIPTokenizer",
    },
}

TOKENIZER = "CLIPTokenizer"

_SAME_CLASS = {"CLIPTokenizerFast": TOKENIZER}
_EMBEDDINGS = (None, "text", "text_time")


def check(folder: Path, name: str) -> str:
    """Return the kind of a model that is whole and can make images from text.

    Args:
        folder: Of the model, in diffusers layout.
        name: How the user knows it.

    Raises:
        ModelError: A file is missing or cut off, or the model is for another task.
    """
    kind = check_kind(folder, name)
    check_channels(
        name,
        model_files.read_json(folder / "unet" / "config.json"),
        model_files.read_json(folder / "vae" / "config.json"),
    )
    model_files.read_json(folder / "scheduler" / "scheduler_config.json")
    check_whole(folder)
    return kind


def check_whole(folder: Path) -> None:
    """Look whether all parts of a diffusers model of any kind are there. Bug report P077.

    Raises:
        ModelError: A file is missing or cut off. The sentence names it.
    """
    for part, entry in model_files.read_json(folder / model_files.INDEX).items():
        if part.startswith("_") or part == "safety_checker":  # which is never loaded
            continue
        match entry:
            case [str(library), str(class_name)]:
                _check_part(folder / part, library, class_name)
            case _:
                continue


def check_kind(folder: Path, name: str) -> str:
    """Return the kind of a model by its index, a key of `COMPONENTS`.

    Raises:
        ModelError: It is not a kind that makes images from text, or has unknown parts.
    """
    index = model_files.read_json(folder / model_files.INDEX)
    pipeline_class = str(index.get("_class_name"))
    kind = KIND_OF_CLASS.get(pipeline_class)
    if kind is None:
        raise ModelError(
            f'Model "{name}" is a {pipeline_class}, which cannot make images from text here.'
            " Choose a Stable Diffusion or Stable Diffusion XL model."
        )
    for part, wanted in COMPONENTS[kind].items():
        found = _class_of(index.get(part))
        if found != wanted:
            raise ModelError(
                f'Model "{name}" has {found or "nothing"} as its {part}, where {wanted} is'
                " supported. Choose another model."
            )
    return kind


def check_channels(name: str, unet: Mapping[str, Any], vae: Mapping[str, Any]) -> None:
    """Refuse models of other tasks before they are loaded. Bug report P034.

    Args:
        name: How the user knows the model.
        unet: Configuration of its UNet.
        vae: Configuration of its VAE.

    Raises:
        ModelError: It needs more than a prompt.
    """
    taken = unet.get("in_channels")
    made = vae.get("latent_channels")
    if unet.get("encoder_hid_dim_type") or unet.get("addition_embed_type") not in _EMBEDDINGS:
        raise ModelError(
            f'Model "{name}" needs an image besides the prompt. Choose a text-to-image model.'
        )
    if taken != made or not isinstance(taken, int):
        raise ModelError(
            f'Model "{name}" takes {taken} channels where its VAE makes {made}: it is made for'
            " another task, such as inpainting. Choose a text-to-image model."
        )


def check_tokenizer(folder: Path) -> None:
    """Look whether a tokenizer's files are there.

    Raises:
        ModelError: One is missing.
    """
    if (folder / "tokenizer.json").is_file():
        return
    for needed in ("vocab.json", "merges.txt"):
        if not (folder / needed).is_file():
            raise model_files.incomplete(folder / needed)


def _check_part(folder: Path, library: str, class_name: str) -> None:
    if not folder.is_dir():
        raise model_files.incomplete(folder)
    if _class_of([library, class_name]) == TOKENIZER:
        check_tokenizer(folder)
    elif _has_weights(class_name) and library in ("diffusers", "transformers"):
        model_files.read_json(folder / "config.json")
        model_files.weights_of(folder, library, prefer_half=False)


def _has_weights(class_name: str) -> bool:
    """Return whether a part is a network, by the name of its class."""
    return any(word in class_name for word in ("Model", "Autoencoder", "Encoder"))


def _class_of(entry: object) -> str:
    """Return the class name of a component, or an empty text if it is not from a known library."""
    match entry:
        case [str("diffusers" | "transformers"), str(class_name)]:
            return _SAME_CLASS.get(class_name, class_name)
        case [library, class_name] if library and class_name:
            return f"{library}.{class_name}"
        case _:
            return ""
