# SPDX-License-Identifier: GPL-3.0-or-later
"""The colour names that the starter model knows."""

from __future__ import annotations

import numpy as np

from .draw import Array, Rng, mix, rgb

PALETTE: dict[str, Array] = {
    "red": rgb(192, 32, 32),
    "orange": rgb(235, 125, 25),
    "yellow": rgb(240, 210, 45),
    "green": rgb(50, 145, 55),
    "turquoise": rgb(50, 190, 185),
    "blue": rgb(40, 80, 200),
    "purple": rgb(120, 50, 165),
    "pink": rgb(240, 135, 175),
    "brown": rgb(115, 70, 38),
    "black": rgb(26, 26, 28),
    "white": rgb(238, 238, 234),
    "grey": rgb(128, 128, 128),
}
SYNONYMS: dict[str, tuple[str, ...]] = {
    "red": ("red", "red", "red", "crimson"),
    "turquoise": ("turquoise", "turquoise", "cyan", "teal"),
    "purple": ("purple", "purple", "violet"),
    "grey": ("grey", "gray"),
}
SHADES = ("dark", "light")
_SHADED = ("red", "green", "turquoise", "blue", "purple", "brown", "grey")


def value_of(name: str) -> Array:
    """Return the colour called ``name``, which may begin with ``dark`` or ``light``."""
    shade, _, base = name.rpartition(" ")
    colour = PALETTE[base]
    if shade == "dark":
        return (colour * 0.5).astype(np.float32)
    if shade == "light":
        return mix(colour, np.ones(3, np.float32), 0.5)
    return colour


def jittered(rng: Rng, name: str, amount: float = 0.015) -> Array:
    """Return the colour called ``name`` with a small random change."""
    return np.clip(value_of(name) + rng.normal(0, amount, 3), 0, 1).astype(np.float32)


def choose(rng: Rng, among: tuple[str, ...] = tuple(PALETTE), shaded: float = 0.0) -> str:
    """Pick a colour name, with a shade in front in the given share of cases."""
    name = str(rng.choice(among))
    if name in _SHADED and rng.random() < shaded:
        return f"{rng.choice(SHADES)} {name}"
    return name


def choose_pair(rng: Rng) -> tuple[str, str]:
    """Pick two different colour names that can be told apart."""
    while True:
        first, second = (str(name) for name in rng.choice(list(PALETTE), 2, replace=False))
        if np.abs(PALETTE[first] - PALETTE[second]).sum() > 0.5:
            return first, second


def spoken(rng: Rng, name: str) -> str:
    """Return a word for the colour: its name or a synonym."""
    shade, _, base = name.rpartition(" ")
    words = SYNONYMS.get(base, (base,))
    return f"{shade} {rng.choice(words)}".strip()
