# SPDX-License-Identifier: GPL-3.0-or-later
r"""Converted networks on disk, one folder for each. Side: generator.

The folder is `openvino` in the one that the environment variable TESSERA_CACHE names, or else in
the user's cache folder: `~/.cache/tessera` on Linux (or XDG_CACHE_HOME),
`~/Library/Caches/tessera` on macOS, `%LOCALAPPDATA%\tessera\cache` on Windows. An entry is as
large as the weights in 32 bits: 3.4 GB for Stable Diffusion 1.5. Beyond `LIMIT_BYTES` the entries
that were used least recently are deleted. Everything in the folder may be deleted at any time; it
is made again when needed.

An entry appears by one renaming, complete or not at all. `entry.json` holds the fingerprint of each
file, and an entry that does not fit them is deleted.
"""

import json
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from . import fingerprint
from .availability import EngineError

MODEL = "model.xml"
WEIGHTS = "model.bin"
LIMIT_BYTES = 20 * 10**9
CACHE_VARIABLE = "TESSERA_CACHE"

_ENTRY = "entry.json"
_PARTIAL = ".partial"
_ABANDONED_AFTER_S = 24 * 3600.0

_log = logging.getLogger(__name__)


def folder() -> Path:
    """Return the folder of all entries. It need not exist."""
    named = os.environ.get(CACHE_VARIABLE, "")
    if named:
        return Path(named).expanduser() / "openvino"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        return Path(local) / "tessera" / "cache" / "openvino"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tessera" / "openvino"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tessera" / "openvino"


def find(key: str) -> Path | None:
    """Return the folder of an entry with `MODEL` and `WEIGHTS`, or None.

    A damaged entry is deleted.
    """
    entry = folder() / key
    if not entry.is_dir():
        return None
    try:
        stated = json.loads((entry / _ENTRY).read_text(encoding="utf-8"))
        whole = stated == _fingerprints(entry)
    except (OSError, ValueError) as error:
        _log.warning("%s cannot be read: %s", entry, error)
        whole = False
    if whole:
        _mark_used(entry)
        return entry
    _log.warning("%s is damaged and will be made again", entry)
    shutil.rmtree(entry, ignore_errors=True)
    return None


def add(key: str, size_bytes: int, write: Callable[[Path], None]) -> Path:
    """Make an entry and return its folder.

    Args:
        key: Its name.
        size_bytes: About how large it will be.
        write: Writes `MODEL` and `WEIGHTS` into the folder that it is given. Nothing is left of
            the entry if it raises.

    Raises:
        EngineError: There is too little space, or the folder cannot be written to.
    """
    entry = folder() / key
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        _delete_abandoned(entry.parent)
        make_room(size_bytes)
        _check_space(entry.parent, size_bytes)
        partial = Path(tempfile.mkdtemp(prefix=f"{key}-", suffix=_PARTIAL, dir=entry.parent))
        try:
            write(partial)
            (partial / _ENTRY).write_text(json.dumps(_fingerprints(partial)), encoding="utf-8")
            _move(partial, entry)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise EngineError(
            f'The converted model could not be written to "{entry.parent}" ({error}). Make room'
            f" there, or let {CACHE_VARIABLE} name another folder."
        ) from error
    return entry


def make_room(size_bytes: int) -> None:
    """Delete the entries that were used least recently until so much fits below the limit."""
    entries = [path for path in folder().glob("*") if (path / _ENTRY).is_file()]
    entries.sort(key=lambda path: (path / _ENTRY).stat().st_mtime)
    total = size_bytes + sum(_size(path) for path in entries)
    for path in entries:
        if total <= LIMIT_BYTES:
            break
        total -= _size(path)
        _log.info("deleting %s to keep the cache small", path)
        shutil.rmtree(path, ignore_errors=True)


def _fingerprints(entry: Path) -> dict[str, str]:
    return {name: fingerprint.of_file(entry / name) for name in (MODEL, WEIGHTS)}


def _mark_used(entry: Path) -> None:
    try:
        os.utime(entry / _ENTRY)
    except OSError as error:  # a cache that may only be read still serves
        _log.info("%s cannot be marked as used: %s", entry, error)


def _move(partial: Path, entry: Path) -> None:
    try:
        partial.rename(entry)
    except OSError:
        if not (entry / _ENTRY).is_file():  # else another process was faster
            raise


def _check_space(place: Path, size_bytes: int) -> None:
    free = shutil.disk_usage(place).free
    if free < size_bytes:
        raise EngineError(
            f"Converting the model for OpenVINO needs {size_bytes / 1e9:.1f} GB in"
            f' "{place}", where {free / 1e9:.1f} GB are free. Make room there, or let'
            f" {CACHE_VARIABLE} name another folder."
        )


def _delete_abandoned(place: Path) -> None:
    for path in place.glob(f"*{_PARTIAL}"):
        if path.stat().st_mtime < time.time() - _ABANDONED_AFTER_S:
            shutil.rmtree(path, ignore_errors=True)


def _size(entry: Path) -> int:
    return sum(path.stat().st_size for path in entry.iterdir())
