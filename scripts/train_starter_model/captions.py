# SPDX-License-Identifier: GPL-3.0-or-later
"""Captions for described tiles: synonyms, sentence frames, filler and unknown words."""

from __future__ import annotations

import re

from .colours import PALETTE, SHADES, SYNONYMS, spoken
from .draw import Rng
from .textures import FAMILIES, TWO_COLOURS, Description

NOUNS: dict[str, tuple[str, ...]] = {
    "brick": ("brick wall", "brick wall", "bricks", "brick", "brickwork", "wall of bricks"),
    "planks": (
        "wood planks",
        "wooden planks",
        "planks",
        "wood",
        "wooden floor",
        "wood floor",
        "wooden boards",
        "floorboards",
        "parquet",
        "timber",
    ),
    "grass": ("grass", "grass", "lawn", "meadow", "grass field", "grassland", "turf"),
    "sand": ("sand", "sand", "desert sand", "beach sand", "sand dunes", "desert", "beach"),
    "cobblestone": (
        "cobblestone",
        "cobblestone",
        "cobblestones",
        "cobblestone pavement",
        "cobblestone street",
        "stone wall",
        "stones",
        "stone",
        "rocks",
        "stone floor",
    ),
    "marble": ("marble", "marble", "polished marble", "marble stone", "marble with veins"),
    "checkerboard": (
        "checkerboard",
        "checkerboard",
        "checkerboard pattern",
        "chessboard",
        "checkered floor",
        "checkered pattern",
        "checker pattern",
    ),
    "stripes": ("stripes", "stripes", "striped pattern", "stripe pattern", "lines"),
    "polka dots": ("polka dots", "polka dots", "dots", "polka dot pattern", "dotted pattern"),
    "tiles": ("tiles", "tiles", "ceramic tiles", "square tiles", "bathroom tiles", "tiled floor"),
    "rusty metal": (
        "rusty metal",
        "rusty metal",
        "rust",
        "rusty iron",
        "rusted metal",
        "rusty steel",
        "corroded metal",
    ),
    "leather": ("leather", "leather", "leather skin", "leather hide", "leather upholstery"),
    "fabric": (
        "fabric",
        "woven fabric",
        "woven fabric",
        "cloth",
        "woven cloth",
        "linen",
        "canvas",
        "textile",
        "burlap",
    ),
    "water": ("water", "water", "water surface", "water ripples", "sea", "ocean", "ocean waves"),
    "clouds": ("clouds", "clouds", "sky", "cloudy sky", "sky with clouds", "blue sky with clouds"),
    "lava": ("lava", "lava", "molten lava", "magma", "lava rock", "volcanic lava", "lava cracks"),
}
NATURAL: dict[str, tuple[str, ...]] = {
    "brick": ("", "", "red"),
    "planks": ("", "", "brown"),
    "grass": ("", "green", "green", "fresh", "lush"),
    "sand": ("", "", "yellow", "beige", "golden"),
    "cobblestone": ("", "", "grey", "gray"),
    "marble": ("", "", "white"),
    "rusty metal": ("", "", "", "old", "brown", "orange"),
    "leather": ("", "", "brown"),
    "fabric": ("", "", "beige"),
    "tiles": ("", "", "white"),
    "water": ("", "", "blue", "clear"),
    "clouds": ("", "", "white", "fluffy"),
    "lava": ("", "", "hot", "glowing", "red", "orange"),
}
"""Words for the look that a family has when no colour is asked for."""
_SIZES = ("small", "small", "tiny", "fine")
FRAMES = (
    *("{}",) * 10,
    "{} texture",
    "{} texture",
    "seamless {} texture",
    "a {} texture",
    "texture of {}",
    "seamless texture of {}",
    "a photo of {}",
    "a seamless texture of {}",
    "tileable {} texture",
    "{}, seamless",
    "{}, highly detailed",
    "close up of {}",
    "{} material",
    "{} background",
)
_FILLER = """
photo realistic photorealistic detailed highly high quality resolution 4k 8k hd sharp pbr albedo
diffuse map material surface background beautiful nice clean dirty rough smooth game asset render
realistic top view flat lighting seamless tileable texture pattern style modern rustic ancient
simple vintage wet dry shiny matte worn fantasy medieval old new best masterpiece ground floor wall
and the of with a in very
"""
FILLER = tuple(_FILLER.split())
"""Words without effect."""


def _pair(rng: Rng, d: Description, noun: str, size: str) -> str:
    """Name two colours; white may go unsaid, and so may black and white together."""
    first, second = d.colours
    a, b = spoken(rng, first), spoken(rng, second)
    plain = {first, second} == {"black", "white"} and rng.random() < 0.4
    if d.family == "polka dots":
        if plain and first == "black":
            return f"{size} {noun}"
        if second == "white" and rng.random() < 0.35:
            return f"{size} {a} {noun}"
        frames = (
            f"{size} {a} {noun} on {b}",
            f"{size} {a} {noun} on {b}",
            f"{size} {a} {noun} on a {b} background",
            f"{b} with {size} {a} {noun}",
        )
        return frames[int(rng.integers(len(frames)))]
    if plain:
        return f"{size} {noun}"
    if "white" in (first, second) and "black" not in (first, second) and rng.random() < 0.3:
        return f"{size} {b if first == 'white' else a} {noun}"
    if rng.random() < 0.5:
        a, b = b, a
    joined = f"{a} {b}" if rng.random() < 0.15 else f"{a} and {b}"
    return f"{joined} {size} {noun}" if rng.random() < 0.4 else f"{size} {joined} {noun}"


def phrase(rng: Rng, d: Description) -> str:
    """Return the core of a caption: size or direction, colour and noun."""
    noun = str(rng.choice(NOUNS[d.family]))
    size = d.detail
    if size == "small":
        size = str(rng.choice(_SIZES))
    elif size == "vertical" and rng.random() < 0.15:
        size = ""
    elif not size and rng.random() < 0.08:
        size = str(rng.choice(("large", "big")))
    if d.family in TWO_COLOURS:
        return _pair(rng, d, noun, size)
    if not d.colours:
        return f"{size} {rng.choice(NATURAL[d.family])} {noun}"
    colour = spoken(rng, d.colours[0])
    if noun == "wall of bricks" and rng.random() < 0.5:
        return f"wall of {size} {colour} bricks"
    return f"{size} {colour} {noun}"


def _nonsense(rng: Rng) -> str:
    """Return a word that means nothing, so that unknown words do no harm."""
    letters = rng.integers(0, 26, int(rng.integers(2, 9)))
    return "".join(chr(97 + int(letter)) for letter in letters)


def caption(rng: Rng, description: Description) -> str:
    """Return a random caption for a tile."""
    text = str(rng.choice(FRAMES)).format(phrase(rng, description))
    chance = rng.random()
    if chance < 0.14:
        text = f"{text}, {' '.join(rng.choice(FILLER, int(rng.integers(1, 5))))}"
    elif chance < 0.22:
        text = f"{' '.join(rng.choice(FILLER, int(rng.integers(1, 3))))} {text}"
    elif chance < 0.27:
        text = f"{text} {_nonsense(rng)}"
    elif chance < 0.32:
        text = f"{_nonsense(rng)} {text}"
    return " ".join(text.split())


def known_words() -> tuple[str, ...]:
    """Every word that the captions are made of, sorted."""
    parts = [*PALETTE, *SHADES, *FAMILIES, *FRAMES, *FILLER, *_SIZES]
    parts += ["large big horizontal vertical diagonal on and with a of background"]
    for words in (*SYNONYMS.values(), *NOUNS.values(), *NATURAL.values()):
        parts += words
    return tuple(sorted(set(re.findall(r"[a-z]+", " ".join(parts)))))
