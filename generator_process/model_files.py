# SPDX-License-Identifier: GPL-3.0-or-later
"""Find a model's files, and say which one is missing or cut off. Side: both.

Nothing is loaded here and nothing is fetched from the network.
"""

import json
import os
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import ModelError
from .messages import ModelRef, ModelSource

INDEX = "model_index.json"
"""The file that makes a folder a diffusers model."""

HUB_NAME = re.compile(r"\w[\w.\-]*/\w[\w.\-]*")
"""How a repository of the hub is called: owner/name."""

STARTER_FOLDER = Path(__file__).resolve().parent.parent / "starter_model"

_WEIGHTS_OF_LIBRARY = {
    "diffusers": (
        "diffusion_pytorch_model{v}.safetensors",
        "diffusion_pytorch_model.safetensors.index{v}.json",
        "diffusion_pytorch_model{v}.bin",
        "diffusion_pytorch_model.bin.index{v}.json",
    ),
    "transformers": (
        "model{v}.safetensors",
        "model.safetensors.index{v}.json",
        "pytorch_model{v}.bin",
        "pytorch_model.bin.index{v}.json",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The weights of one component: which variant ("fp16" or None), and in which format."""

    variant: str | None
    use_safetensors: bool
    files: tuple[Path, ...]


def folder_of(model: ModelRef) -> Path:
    """Return the folder of a model in diffusers layout.

    Raises:
        ModelError: It is not there, or is not a diffusers model.
    """
    if model.source is ModelSource.STARTER:
        folder = STARTER_FOLDER
        missing = "The starter model is missing from the extension. Install Tessera again."
    elif model.source is ModelSource.FOLDER:
        folder = Path(model.location).expanduser()
        missing = f'There is no model in "{model.location}". Choose a folder with model_index.json.'
    else:
        return _cached_repository(model.location)
    if not (folder / INDEX).is_file():
        raise ModelError(missing)
    return folder


def read_json(path: Path) -> dict[str, Any]:
    """Return a configuration file's contents.

    Raises:
        ModelError: The file is missing or is not a JSON object.
    """
    try:
        contents = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise incomplete(path) from None
    except (OSError, ValueError) as error:
        raise ModelError(f'"{path}" cannot be read: {error}. Download the model again.') from error
    if not isinstance(contents, dict):
        raise ModelError(f'"{path}" is not a configuration file. Download the model again.')
    return contents


def weights_of(folder: Path, library: str, *, prefer_half: bool) -> Weights:
    """Find the weights of one component, whichever variant and format there is.

    Safetensors come before pickled weights, then the variant that fits the wanted precision.

    Args:
        folder: The component's own folder, for example ".../unet".
        library: "diffusers" or "transformers": how the files are called.
        prefer_half: Take the half-precision variant if there are both.

    Raises:
        ModelError: No weights are there, or a file is missing or cut off.
    """
    patterns = _WEIGHTS_OF_LIBRARY[library]
    variants = ("fp16", None) if prefer_half else (None, "fp16")
    for pair in (patterns[:2], patterns[2:]):
        for variant in variants:
            for pattern in pair:
                path = folder / pattern.format(v=f".{variant}" if variant else "")
                if path.is_file():
                    files = _shards(path) if path.suffix == ".json" else (path,)
                    for file in files:
                        _check_whole(file)
                    safe = pair is not patterns[2:] and "safetensors" in pattern
                    return Weights(variant=variant, use_safetensors=safe, files=files)
    raise incomplete(folder / patterns[0].format(v=""))


def _shards(index: Path) -> tuple[Path, ...]:
    names = sorted(set(read_json(index).get("weight_map", {}).values()))
    if not names or not all(isinstance(name, str) and Path(name).name == name for name in names):
        raise ModelError(f'"{index}" does not list its files. Download the model again.')
    return tuple(index.parent / name for name in names)


def _check_whole(path: Path) -> None:
    """Compare a safetensors file's length with what its header promises. Bug report P023."""
    try:
        size = path.stat().st_size
        if path.suffix != ".safetensors":
            whole = size > 0
        else:
            with path.open("rb") as file:
                length = struct.unpack("<Q", file.read(8))[0]
                header = json.loads(file.read(length)) if length <= size - 8 else None
            whole = header is not None and size == 8 + length + _end_of_data(header)
    except FileNotFoundError:
        raise incomplete(path) from None
    except (struct.error, ValueError):
        whole = False
    if not whole:
        raise ModelError(
            f'"{path}" is damaged or only partly downloaded. Delete it and download the model'
            " again."
        )


def _end_of_data(header: dict[str, Any]) -> int:
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    return max(ends, default=0)


def hub_cache() -> Path:
    """Return the folder of the Hugging Face cache, as the hub's own client finds it."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if folder := os.environ.get(name):
            return Path(folder).expanduser()
    if folder := os.environ.get("HF_HOME"):
        return Path(folder).expanduser() / "hub"
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "huggingface" / "hub"


def repository_folder(repository: str) -> Path:
    """Return where the cache keeps a repository such as "owner/name", be it there or not."""
    return hub_cache() / f"models--{repository.replace('/', '--')}"


def snapshot_of(repository: Path) -> Path | None:
    """Return the files of a repository in the cache, if a diffusers model is among them.

    That is the revision "main" names, or else the newest that has a model: a repository that was
    downloaded by another revision has no "main". Bug report P077.

    Args:
        repository: A folder such as ".../models--owner--name".
    """
    snapshots = repository / "snapshots"
    found = [path.parent for path in snapshots.glob(f"*/{INDEX}") if path.is_file()]
    try:
        named = snapshots / (repository / "refs" / "main").read_text(encoding="utf-8").strip()
    except OSError:
        named = None
    if named in found:
        return named
    return max(found, key=lambda path: path.stat().st_mtime_ns, default=None)


def _cached_repository(repository: str) -> Path:
    if not HUB_NAME.fullmatch(repository):
        raise ModelError(
            f'"{repository}" is not the name of a repository. Use the form owner/name.'
        )
    folder = snapshot_of(repository_folder(repository))
    if folder is None:
        raise ModelError(
            f'Model "{repository}" is not on this computer. Choose another model or download it.'
        )
    return folder


def incomplete(path: Path) -> ModelError:
    """Return the error that names a missing file."""
    return ModelError(f'The model is incomplete: "{path}" is missing. Download the model again.')
