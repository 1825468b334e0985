# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the history of this machine is. Side: Blender."""

from pathlib import Path

from .. import runtime
from .store import Store


def folder() -> Path:
    """Return the folder of the history. It need not exist yet."""
    return runtime.user_folder() / "history"


def store() -> Store:
    """Return the history of this machine."""
    return Store(folder())
