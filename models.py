# SPDX-License-Identifier: GPL-3.0-or-later
"""Which models are on this machine, by looking at folders. Side: both.

Only names and paths are read here. Whether a model loads is the generator's to say.
"""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .generator_process.choices import STARTER
from .generator_process.errors import InvalidRequestError
from .generator_process.messages import ModelRef, ModelSource

_INDEX = "model_index.json"
_HUB_NAME = re.compile(r"\w[\w.\-]*/\w[\w.\-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundModel:
    """A model on this machine. `text` is what the model setting takes, `ref` what it stands for."""

    text: str
    name: str
    ref: ModelRef


def model_ref(text: str) -> ModelRef:
    """Return the model that a setting stands for.

    Empty text and "Starter" (in any case) are the starter model, the path of an existing folder is
    that folder, and `owner/name` is a repository of the Hugging Face cache.

    Raises:
        InvalidRequestError: It is none of these.
    """
    stripped = text.strip()
    if not stripped or stripped.casefold() == STARTER.casefold():
        return ModelRef()
    folder = Path(stripped).expanduser()
    if folder.is_absolute():
        return ModelRef(source=ModelSource.FOLDER, location=str(folder))
    if _HUB_NAME.fullmatch(stripped):
        return ModelRef(source=ModelSource.HUB, location=stripped)
    raise InvalidRequestError(
        f'Model "{stripped}" is not known. Use "{STARTER}", the whole path of a diffusers folder,'
        " or the owner/name of a model in the Hugging Face cache."
    )


def model_text(ref: ModelRef) -> str:
    """Return the text that stands for a model: the inverse of `model_ref`."""
    return ref.location or STARTER


def model_name(ref: ModelRef) -> str:
    """Return a short name for the user."""
    if ref.source is ModelSource.FOLDER:
        return Path(ref.location).name
    return ref.location or STARTER


def find_models(folders: Iterable[str] = ()) -> list[FoundModel]:
    """Return the models found: the starter model, those below `folders`, and the hub cache's.

    A folder of the list counts if it is a model itself; else its direct subfolders are looked at.
    Folders that do not exist or cannot be read hold no models.
    """
    refs = [ModelRef()]
    refs += [
        ModelRef(source=ModelSource.FOLDER, location=str(path))
        for folder in folders
        if folder.strip()
        for path in _models_below(Path(folder.strip()).expanduser())
    ]
    refs += [ModelRef(source=ModelSource.HUB, location=name) for name in _hub_models()]
    unique = dict.fromkeys(refs)
    return [FoundModel(text=model_text(ref), name=model_name(ref), ref=ref) for ref in unique]


def hub_cache() -> Path:
    """Return the folder of the Hugging Face cache, as the hub's own client finds it."""
    if folder := os.environ.get("HF_HUB_CACHE"):
        return Path(folder).expanduser()
    if folder := os.environ.get("HF_HOME"):
        return Path(folder).expanduser() / "hub"
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "huggingface" / "hub"


def _models_below(folder: Path) -> list[Path]:
    folder = folder.absolute()
    return [path for path in (folder, *_subfolders(folder)) if (path / _INDEX).is_file()]


def _hub_models() -> Iterator[str]:
    for repository in _subfolders(hub_cache()):
        kind, _, name = repository.name.partition("--")
        if kind != "models" or "--" not in name:
            continue
        snapshots = _subfolders(repository / "snapshots")
        if any((snapshot / _INDEX).is_file() for snapshot in snapshots):
            yield name.replace("--", "/", 1)


def _subfolders(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        return []
