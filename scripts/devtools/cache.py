# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the developer environments live, and a lock so that two runs do not make one twice."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from .console import say

ROOT = Path(__file__).resolve().parents[2]


def cache_folder() -> Path:
    """Return the folder for environments and logs: TESSERA_DEV_CACHE, or .cache in the checkout."""
    given = os.environ.get("TESSERA_DEV_CACHE")
    folder = Path(given).expanduser().resolve() if given else ROOT / ".cache"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def key_of(*parts: str) -> str:
    """Return a short name for what an environment was made from."""
    return hashlib.sha256("\0".join(parts).encode("utf-8")).hexdigest()[:10]


def log_file(name: str) -> Path:
    """Return the path of a log, in a folder that exists."""
    folder = cache_folder() / "logs"
    folder.mkdir(exist_ok=True)
    return folder / f"{name}.log"


def remove(folder: Path) -> None:
    """Delete a folder that may be half-written or absent."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)


@contextlib.contextmanager
def lock(name: str) -> Iterator[None]:
    """Hold a lock that the system frees when this process ends, however it ends."""
    folder = cache_folder() / "locks"
    folder.mkdir(exist_ok=True)
    with (folder / f"{name}.lock").open("a+", encoding="utf-8") as file:
        waited = False
        while not _try_lock(file):
            if not waited:
                say(f"Waiting for another dev.py that is making {name}")
                waited = True
            time.sleep(0.5)
        try:
            yield
        finally:
            _unlock(file)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: IO[str]) -> bool:
        file.seek(0)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(file: IO[str]) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _try_lock(file: IO[str]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(file: IO[str]) -> None:
        fcntl.flock(file, fcntl.LOCK_UN)
