# SPDX-License-Identifier: GPL-3.0-or-later
"""Which models are on this machine, and what is wrong with one, by looking at files. Side: both.

Nothing is loaded here. What is found out about a model is kept until its files change, so that a
panel may ask on every redraw.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .generator_process import model_files, model_kinds
from .generator_process.choices import STARTER
from .generator_process.errors import InvalidRequestError, ModelError
from .generator_process.messages import ModelRef, ModelSource
from .generator_process.model_files import INDEX

_SINGLE_FILES = (".safetensors", ".ckpt")
_MAX_KEPT = 200

_Fingerprint = tuple[tuple[str, int, int], ...]
_checked: dict[tuple[str, bool], tuple[_Fingerprint, str]] = {}
"""What is wrong with the models that were looked at, and when they were as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundModel:
    """A model on this machine. `text` is what the model setting takes, `ref` what it stands for.

    `missing` says, as a sentence, which file is not there yet. Empty if the model is whole.
    """

    text: str
    name: str
    ref: ModelRef
    missing: str = ""


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
    if model_files.HUB_NAME.fullmatch(stripped):
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
    """Return the whole models found: the starter model, those below `folders`, the hub cache's.

    A folder of the list counts if it is a model itself; else its direct subfolders are looked at.
    Folders that do not exist or cannot be read hold no models.
    """
    return [model for model in _found(folders) if not model.missing]


def find_incomplete(folders: Iterable[str] = ()) -> list[FoundModel]:
    """Return the models of which a file is missing or cut off. Bug report P077."""
    return [model for model in _found(folders) if model.missing]


def what_is_wrong(ref: ModelRef) -> str:
    """Return why a model cannot make images from text, as a sentence. Empty if it looks right.

    Cheap while the model's files stay as they are.
    """
    path = Path(ref.location).expanduser()
    if ref.source is ModelSource.FOLDER and path.suffix in _SINGLE_FILES and path.is_file():
        return (
            f'"{path.name}" is a single file. Models are folders in diffusers layout, with'
            f" {INDEX} in them. Convert it, or choose another model."
        )
    try:
        folder = model_files.folder_of(ref)
    except ModelError as error:
        return str(error)
    return _problem(folder, model_name(ref), for_task=True)


def place_of(ref: ModelRef) -> Path | None:
    """Return the folder in which a model is, or belongs. None if there is no such folder."""
    if ref.source is ModelSource.STARTER:
        folder = model_files.STARTER_FOLDER
    elif ref.source is ModelSource.FOLDER:
        folder = Path(ref.location).expanduser()
    else:
        folder = model_files.repository_folder(ref.location)
    return next((path for path in (folder, folder.parent) if path.is_dir()), None)


def _found(folders: Iterable[str]) -> Iterator[FoundModel]:
    found = {ModelRef(): model_files.STARTER_FOLDER}
    for folder in folders:
        if not folder.strip():
            continue
        for path in _models_below(Path(folder.strip()).expanduser()):
            found[ModelRef(source=ModelSource.FOLDER, location=str(path))] = path
    for name, path in _hub_models():
        found[ModelRef(source=ModelSource.HUB, location=name)] = path
    for ref, path in found.items():
        missing = _problem(path, model_name(ref), for_task=False)
        yield FoundModel(text=model_text(ref), name=model_name(ref), ref=ref, missing=missing)


def _problem(folder: Path, name: str, *, for_task: bool) -> str:
    """Return what is wrong with a folder: for making images from text, or only what is missing."""
    key = (str(folder), for_task)
    fingerprint = _fingerprint(folder)
    known = _checked.get(key)
    if known is not None and known[0] == fingerprint:
        return known[1]
    text = ""
    try:
        if for_task:
            model_kinds.check(folder, name)
        else:
            model_kinds.check_whole(folder)
    except (ModelError, OSError) as error:
        text = str(error)
    if len(_checked) >= _MAX_KEPT:
        _checked.clear()
    _checked[key] = (fingerprint, text)
    return text


def _fingerprint(folder: Path) -> _Fingerprint:
    """Return what changes when a file of the model does: name, time and length of each."""
    stats: list[tuple[str, int, int]] = []
    folders = [str(folder)]
    try:
        while folders:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir():
                        folders += [entry.path] if len(stats) < _MAX_KEPT else []
                        continue
                    stats.append(_stat(entry))
    except OSError:  # it is gone, or may not be read
        return ()
    return tuple(stats)


def _stat(entry: "os.DirEntry[str]") -> tuple[str, int, int]:
    try:
        stat = entry.stat()
    except OSError:  # a link into the cache that leads nowhere
        return entry.path, 0, 0
    return entry.path, stat.st_mtime_ns, stat.st_size


def _models_below(folder: Path) -> list[Path]:
    folder = folder.absolute()
    return [path for path in (folder, *_subfolders(folder)) if (path / INDEX).is_file()]


def _hub_models() -> Iterator[tuple[str, Path]]:
    for repository in _subfolders(model_files.hub_cache()):
        kind, _, name = repository.name.partition("--")
        if kind != "models" or "--" not in name:
            continue
        snapshot = model_files.snapshot_of(repository)
        if snapshot is not None:
            yield name.replace("--", "/", 1), snapshot


def _subfolders(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        return []
