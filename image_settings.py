# SPDX-License-Identifier: GPL-3.0-or-later
"""What an image datablock says of how it was made: its name and its settings. Side: Blender."""

import bpy
from bpy.types import Image

from . import png
from .generator_process.choices import MAX_IMAGES
from .generator_process.seeds import SEED_LIMIT, seed_from_text
from .metadata import SETTINGS_KEYWORD, ImageSettings

SETTINGS_PROPERTY = "tessera"
"""Custom property of a generated image: its settings, as JSON."""

_SUFFIX_BYTES = 4  # ".001"
_SEED_LETTERS = 12


def of_image(image: Image) -> ImageSettings | None:
    """Return what a generated image was made with, or None for any other image."""
    text = image.get(SETTINGS_PROPERTY)
    if text is None:
        text = png.read_text(packed_bytes(image)).get(SETTINGS_KEYWORD)
    try:
        return ImageSettings.from_json(text) if isinstance(text, str) else None
    except ValueError:
        return None


def packed_bytes(image: Image) -> bytes:
    """Return the file that is packed into an image. Empty if none is."""
    packed = image.packed_file
    return bytes(packed.data) if packed is not None else b""  # pyright: ignore[reportArgumentType]


def name_of(settings: ImageSettings) -> str:
    """Return a readable name: the prompt, cut as needed, and the seed as it was typed."""
    seed = f" {_seed_name(settings)}"
    prompt = " ".join(settings.prompt.split()) or "Image"
    room = _name_bytes() - _SUFFIX_BYTES - len(seed)
    return _cut(prompt, room).rstrip() + seed


def _seed_name(settings: ImageSettings) -> str:
    """Return the number of a seed, or the word that stands for it, which is shorter."""
    word = " ".join(settings.seed_text.split())
    if not word or word.isdigit():
        return str(settings.seed)
    number = (settings.seed - seed_from_text(word)) % SEED_LIMIT + 1
    if number > MAX_IMAGES:  # the word is not where this seed comes from
        return str(settings.seed)
    cut = word if len(word) <= _SEED_LETTERS else f"{word[: _SEED_LETTERS - 1]}…"
    return cut if number == 1 else f"{cut} {number}"


def cut_name(name: str) -> str:
    """Return a name that this Blender stores whole, with room for the number of a double."""
    return _cut(name, _name_bytes() - _SUFFIX_BYTES)


def _name_bytes() -> int:
    return 255 if bpy.app.version >= (5, 0, 0) else 63


def _cut(text: str, size: int) -> str:
    return text.encode("utf-8")[:size].decode("utf-8", errors="ignore")
