# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder with the history: for each image a picture, a small picture and a JSON file. Side: both.

Several Blenders, and several threads, may use one folder. Each file appears at once and whole, the
JSON file last: an entry is there when this is. Nothing that is not an entry is ever deleted.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from .entries import MAX_JSON_BYTES, DamagedEntryError, Entry, is_name

JSON = ".json"
PICTURE = ".png"
SMALL = ".small.png"

_ENDINGS = (JSON, PICTURE, SMALL)
_TEMPORARY = ".tmp"
_OLD_S = 24 * 3600.0  # of a temporary file: whoever wrote it is gone


class HistoryError(Exception):
    """The folder cannot be read or written, as a sentence that says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What is in the folder: entries, newest first, and files that are no part of one, by name."""

    names: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()


class Store:
    """One folder, which need not exist yet. Keeps nothing in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str, ending: str) -> Path:
        """Return one file of an entry."""
        assert is_name(name), name
        return self.folder / f"{name}{ending}"

    def list(self) -> Listing:
        """Return what is there, by the names of the files alone.

        Raises:
            HistoryError: The folder cannot be read.
        """
        try:
            with os.scandir(self.folder) as found:
                files = [item.name for item in found]
        except FileNotFoundError:
            return Listing()
        except OSError as error:
            raise HistoryError(
                f'The history cannot be read: "{self.folder}" ({error.strerror}).'
                " Allow reading it, or move it away to begin a new one."
            ) from error
        names = {name.removesuffix(JSON) for name in files if name.endswith(JSON)}
        names = {name for name in names if is_name(name)}
        foreign = [name for name in files if not _is_part(name)]
        return Listing(names=tuple(sorted(names, reverse=True)), foreign=tuple(sorted(foreign)))

    def read(self, name: str) -> Entry:
        """Return one entry.

        Raises:
            DamagedEntryError: It is not there, or is not one that can be read.
        """
        try:
            with self.path(name, JSON).open("rb") as file:
                data = file.read(MAX_JSON_BYTES + 1)
        except FileNotFoundError as error:
            raise DamagedEntryError("it is not there any more") from error
        except OSError as error:
            raise DamagedEntryError(f"it cannot be read: {error.strerror}") from error
        if len(data) > MAX_JSON_BYTES:
            raise DamagedEntryError("it is too large")
        return Entry.from_json(data, name)

    def picture(self, name: str) -> bytes:
        """Return the PNG file of an entry.

        Raises:
            HistoryError: There is none, or it cannot be read.
        """
        try:
            return self.path(name, PICTURE).read_bytes()
        except FileNotFoundError as error:
            raise HistoryError(
                "The history has no picture for this entry, only its settings. Run it again."
            ) from error
        except OSError as error:
            raise HistoryError(
                f'The picture "{self.path(name, PICTURE)}" cannot be read ({error.strerror}).'
            ) from error

    def add(self, entry: Entry, picture: bytes = b"", small: bytes = b"") -> None:
        """Write an entry, wholly or not at all.

        Raises:
            HistoryError: It could not be written.
        """
        contents = {PICTURE: picture, SMALL: small, JSON: entry.to_json().encode()}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for ending, data in contents.items():
                if data:
                    self._write(entry.name, ending, data)
        except OSError as error:
            self._remove_quietly(entry.name)
            raise HistoryError(self._why_not_kept(error)) from error

    def change(self, entry: Entry) -> None:
        """Write the settings of an entry again. One that was removed meanwhile is not brought back.

        Raises:
            HistoryError: It could not be written. The former settings are still there.
        """
        try:
            if self.path(entry.name, JSON).exists():
                self._write(entry.name, JSON, entry.to_json().encode())
        except OSError as error:
            raise HistoryError(self._why_not_kept(error)) from error

    def remove(self, name: str) -> None:
        """Delete an entry with its picture. Without an effect if it is not there.

        Raises:
            DamagedEntryError: The file of this name is no entry. It is kept.
            HistoryError: It cannot be deleted.
        """
        if not self.path(name, JSON).exists():
            return
        self.read(name)
        try:
            for ending in _ENDINGS:
                self.path(name, ending).unlink(missing_ok=True)
        except OSError as error:
            raise HistoryError(
                f'"{self.folder}" cannot be changed ({error.strerror}).'
                " Allow writing there and try again."
            ) from error

    def trim(self, limit: int) -> int:
        """Delete the oldest entries beyond `limit`, 0 for none, and return how many.

        Raises:
            HistoryError: The folder cannot be read or changed.
        """
        self._remove_leftovers()
        names = self.list().names
        excess = len(names) - limit if limit else 0
        removed = 0
        for name in reversed(names):
            if excess <= 0:
                break
            excess -= 1
            try:
                self.remove(name)
            except DamagedEntryError:
                continue
            removed += 1
        return removed

    def _write(self, name: str, ending: str, data: bytes) -> None:
        target = self.path(name, ending)
        temporary = self.folder / f".{name}{ending}.{uuid4().hex}{_TEMPORARY}"
        try:
            temporary.write_bytes(data)
            temporary.replace(target)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise

    def _remove_quietly(self, name: str) -> None:
        """Delete what was written of an entry, as far as the folder allows. The error is told."""
        for ending in _ENDINGS:
            try:
                self.path(name, ending).unlink(missing_ok=True)
            except OSError:
                return

    def _remove_leftovers(self) -> None:
        """Delete what a Blender left that ended while it wrote."""
        now_s = time.time()
        for path in self._temporaries():
            try:
                if now_s - path.stat().st_mtime > _OLD_S:
                    path.unlink()
            except OSError:  # another Blender was first, or it may not be deleted
                continue

    def _temporaries(self) -> Iterator[Path]:
        try:
            yield from [path for path in self.folder.iterdir() if _is_temporary(path.name)]
        except OSError:  # `list` tells it
            return

    def _why_not_kept(self, error: OSError) -> str:
        return (
            f'The history could not be written to "{self.folder}" ({error.strerror}).'
            " The images are in this file all the same. Make room there, or allow writing."
        )


def _is_part(file: str) -> bool:
    if _is_temporary(file):
        return True
    return any(is_name(file.removesuffix(ending)) for ending in _ENDINGS if file.endswith(ending))


def _is_temporary(file: str) -> bool:
    return (
        file.startswith(".") and file.endswith(_TEMPORARY) and is_name(file[1:].partition(".")[0])
    )
