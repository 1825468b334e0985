# SPDX-License-Identifier: GPL-3.0-or-later
"""Procedural, seamless, described texture tiles: the training data of the starter model.

Structure varies little on purpose: every family has one main scale, and regular patterns keep
their edges on a grid of ``GRID`` pixels, so that a small network can learn where the edges are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .colours import PALETTE, choose, choose_pair, jittered
from .draw import SIZE, Array, Rng, X, Y, cells, grain, mix, noise, ramp, relief, rgb, triangle

GRID = 32
"""Regular patterns repeat their phase on this grid, in pixels."""
PHASE = 8
"""How far their edges lie beside the grid, so that none coincides with the border of the image."""


@dataclass(frozen=True)
class Description:
    """What a tile shows: the family, the named colours in order, and a layout or size word."""

    family: str
    colours: tuple[str, ...] = ()
    detail: str = ""


@dataclass(frozen=True)
class Tile:
    """A picture of SIZE x SIZE pixels with values in 0..1, and what it shows."""

    image: Array
    description: Description


Painter = Callable[[Rng, Description], Array]


def _tones(rng: Rng, shape: tuple[int, ...], amount: float) -> Array:
    """Random brightness factors around 1."""
    return (1 + np.clip(rng.normal(0, amount, shape), -2 * amount, 2 * amount)).astype(np.float32)


def _base(rng: Rng, description: Description, default: Array) -> Array:
    """The first named colour, or the family's own colour when none is named."""
    if description.colours:
        return jittered(rng, description.colours[0])
    return np.clip(default + rng.normal(0, 0.012, 3), 0, 1).astype(np.float32)


def _joint(colour: Array, light: Array, dark: Array) -> Array:
    """A mortar or grout colour that stands out from ``colour``."""
    return light if colour.mean() < 0.62 else dark


def _brick(rng: Rng, d: Description) -> Array:
    colour = _base(rng, d, rgb(168, 66, 46))
    height = 16 if d.detail == "small" else 32
    row = np.floor(Y / height).astype(int)
    x = X + height * (row % 2)
    column = np.floor(x / (2 * height)).astype(int) % (SIZE // (2 * height))
    edge = np.minimum(triangle(x, 2 * height), triangle(Y, height))
    tone = _tones(rng, (SIZE // height, SIZE // (2 * height)), 0.11)[row, column]
    mortar = _joint(colour, rgb(196, 190, 180), rgb(120, 116, 110))
    face = colour * tone[..., None] * grain(rng, 0.05)
    gap = 1.1 if d.detail == "small" else 1.9
    image = mix(mortar * grain(rng, 0.03), face, ramp(gap - 0.8, gap + 0.8, edge))
    return image * relief(ramp(0, gap + 3, edge) * 2, 0.3)


def _planks(rng: Rng, d: Description) -> Array:
    colour = _base(rng, d, rgb(158, 106, 62))
    row = np.floor(Y / 32).astype(int)
    x = X + (32 * rng.permutation(4))[row]
    edge = np.minimum(triangle(x, SIZE), triangle(Y, 32))
    offset = rng.uniform(0, 6, 4)[row]
    rings = np.sin(4.5 * noise(rng, 3.0, high=20, stretch=(7, 1)) + offset)
    streaks = noise(rng, 0.8, high=40, stretch=(14, 1.5))
    tone = _tones(rng, (4,), 0.11)[row]
    face = colour * (tone * (1 + 0.09 * rings + 0.05 * streaks))[..., None]
    image = mix(colour * 0.25, face, ramp(0.6, 2.2, edge))
    return image * relief(ramp(0, 4, edge) * 1.5, 0.25)


def _grass(rng: Rng, d: Description) -> Array:
    base = rgb(74, 140, 42) + rng.normal(0, 0.015, 3)
    scale, count = 2, 1100
    canvas = np.zeros((SIZE * scale, SIZE * scale, 3), np.float32) + base * 0.32
    steps = np.linspace(0, 1, 30)[None]
    depth = np.linspace(0, 1, count)[:, None]
    angle = -np.pi / 2 + rng.normal(0, 0.3, (count, 1)) + rng.normal(0, 0.5, (count, 1)) * steps
    length = rng.uniform(26, 52, (count, 1)) * steps
    x = rng.uniform(0, SIZE * scale, (count, 1)) + np.cos(angle) * length
    y = rng.uniform(0, SIZE * scale, (count, 1)) + np.sin(angle) * length
    light = (0.42 + 0.7 * depth + rng.normal(0, 0.1, (count, 1))) * (0.7 + 0.5 * steps)
    hue = 1 + rng.normal(0, 0.08, (count, 1, 3))
    colour = np.clip(base * light[..., None] * hue, 0, 1)
    for wide in range(5):
        column = (x + wide).astype(int) % (SIZE * scale)
        canvas[y.astype(int) % (SIZE * scale), column] = colour
    return canvas.reshape(SIZE, scale, SIZE, scale, 3).mean((1, 3)).astype(np.float32)


def _sand(rng: Rng, d: Description) -> Array:
    colour = rgb(218, 186, 132) + rng.normal(0, 0.012, 3)
    phase = Y / 21.333 + 0.28 * noise(rng, 3.4, high=12, stretch=(0.8, 1))
    wave = np.sin(2 * np.pi * phase) + 0.35 * np.sin(4 * np.pi * phase + 1)
    speckle = noise(rng, 0.3, low=8, high=40)
    return colour * (1 + 0.13 * wave + 0.05 * speckle)[..., None]


def _cobblestone(rng: Rng, d: Description) -> Array:
    colour = _base(rng, d, rgb(134, 130, 124))
    edge, index = cells(rng, 2, 0.15, warp=2.0, stagger=True)
    tone = _tones(rng, (4,), 0.13)[index]
    dome = np.sqrt(np.clip(edge / 14, 0, 1))
    face = colour * tone[..., None] * grain(rng, 0.05)
    image = mix(colour * 0.2 + 0.02, face, ramp(0.8, 3.0, edge))
    return image * relief(dome * 11, 0.32) * (0.78 + 0.26 * dome)[..., None]


def _marble(rng: Rng, d: Description) -> Array:
    colour = _base(rng, d, rgb(234, 232, 228))
    vein = rgb(70, 70, 78) if colour.mean() > 0.42 else rgb(226, 222, 214)
    first = noise(rng, 3.6, high=14, stretch=(1.4, 1.0))
    second = noise(rng, 3.2, low=2, high=18)
    lines = np.exp(-np.abs(first) / 0.11) * ramp(-1.6, 0.4, noise(rng, 3.0, high=8))
    lines = lines + 0.5 * np.exp(-np.abs(second) / 0.09) * ramp(-0.4, 1.0, noise(rng, 3.0, high=8))
    cloudy = 0.14 * ramp(-1.5, 2.5, noise(rng, 3.2, high=12))
    return mix(mix(colour, vein, cloudy), vein, np.clip(lines, 0, 0.92))


def _two(rng: Rng, d: Description) -> tuple[Array, Array]:
    return jittered(rng, d.colours[0]), jittered(rng, d.colours[1])


def _checkerboard(rng: Rng, d: Description) -> Array:
    first, second = _two(rng, d)
    cell = 16 if d.detail == "small" else 32
    wave = np.sin(np.pi * X / cell) * np.sin(np.pi * Y / cell)
    return mix(first, second, ramp(-0.12, 0.12, wave)) * grain(rng, 0.012)


def _stripes(rng: Rng, d: Description) -> Array:
    first, second = _two(rng, d)
    along = {"horizontal": Y, "vertical": X, "diagonal": (X + Y) / 2}[d.detail]
    wave = np.sin(2 * np.pi * along / 32)
    return mix(first, second, ramp(-0.14, 0.14, wave)) * grain(rng, 0.012)


def _polka_dots(rng: Rng, d: Description) -> Array:
    dot, ground = _two(rng, d)
    period = 32 if d.detail == "small" else 64
    quarter = period / 4
    first = np.hypot(triangle(X - quarter, period), triangle(Y - quarter, period))
    second = np.hypot(triangle(X + quarter, period), triangle(Y + quarter, period))
    edge = np.minimum(first, second) - 0.22 * period
    return mix(dot, ground, ramp(-0.9, 0.9, edge)) * grain(rng, 0.012)


def _tiles(rng: Rng, d: Description) -> Array:
    colour = _base(rng, d, rgb(226, 224, 218))
    size = 16 if d.detail == "small" else 32
    edge = np.minimum(triangle(X, size), triangle(Y, size))
    count = SIZE // size
    tone = _tones(rng, (count, count), 0.04)[(Y // size).astype(int), (X // size).astype(int)]
    gloss = 1.07 - 0.14 * ((X % size + Y % size) / (2 * size))
    grout = _joint(colour, rgb(206, 204, 200), rgb(112, 112, 112))
    gap = 1.1 if d.detail == "small" else 1.7
    image = mix(grout, colour * (tone * gloss)[..., None], ramp(gap - 0.7, gap + 0.7, edge))
    return image * relief(ramp(0, gap + 2.5, edge) * 2, 0.25)


def _rusty_metal(rng: Rng, d: Description) -> Array:
    steel = rgb(92, 98, 104) + rng.normal(0, 0.015, 3)
    field = noise(rng, 2.6, low=1.5, high=24)
    streak = noise(rng, 1.5, high=30)
    rust = mix(rgb(96, 42, 18), rgb(206, 104, 38), ramp(-1.4, 1.6, noise(rng, 2.2, high=28)))
    rust = rust * (1 + 0.1 * streak)[..., None]
    plate = steel * (1 + 0.04 * streak)[..., None]
    rim = np.exp(-np.abs(field + 0.45) / 0.16)
    image = mix(plate, rust, ramp(-0.6, -0.2, field))
    return image * (1 - 0.4 * rim)[..., None]


def _leather(rng: Rng, d: Description) -> Array:
    colour = _base(rng, d, rgb(120, 72, 40))
    edge, index = cells(rng, 4, 0.3, warp=2.0)
    dome = np.sqrt(np.clip(edge / 7, 0, 1))
    tone = _tones(rng, (16,), 0.05)[index]
    fold = 1 + 0.06 * noise(rng, 3.2, high=8)
    return colour * (tone * fold * (0.52 + 0.55 * dome))[..., None] * relief(dome * 5, 0.24)


def _fabric(rng: Rng, d: Description) -> Array:
    colour = _base(rng, d, rgb(190, 176, 150))
    over = (np.floor(X / 16) + np.floor(Y / 16)) % 2 > 0
    thread = np.where(over, np.sin(np.pi * (Y % 8) / 8), np.sin(np.pi * (X % 8) / 8))
    bend = np.where(over, np.sin(np.pi * (X % 16) / 16), np.sin(np.pi * (Y % 16) / 16))
    light = (0.5 + 0.5 * thread**0.7) * (0.62 + 0.45 * bend**0.5) * np.where(over, 1.1, 0.88)
    return colour * (light * 1.12)[..., None] * grain(rng, 0.03)


def _water(rng: Rng, d: Description) -> Array:
    colour = _base(rng, d, rgb(34, 106, 178))
    swell = noise(rng, 2.8, low=2.5, high=14, stretch=(1.5, 1))
    ridge = np.clip(1 - np.abs(swell) * 1.5, 0, 1) ** 2
    deep = mix(colour * 0.62, colour * 1.1, ramp(-1.6, 1.6, noise(rng, 2.6, low=1.5, high=10)))
    bright = mix(colour, np.ones(3, np.float32), 0.72)
    return mix(deep, bright, 0.8 * ridge * ramp(-1.5, 0.8, noise(rng, 2.6, high=10)))


def _clouds(rng: Rng, d: Description) -> Array:
    sky = rgb(84, 148, 222) + rng.normal(0, 0.012, 3)
    field = noise(rng, 3.4, high=30)
    shadow = mix(rgb(186, 198, 216), rgb(252, 252, 252), ramp(-0.4, 1.3, field))
    return mix(sky, shadow, ramp(-0.35, 0.95, field))


def _lava(rng: Rng, d: Description) -> Array:
    edge, _ = cells(rng, 2, 0.26, warp=5.0)
    edge = edge + 0.4 * noise(rng, 1.6, low=5, high=24)
    heat = np.exp(-np.clip(edge, 0, None) / 2.6)
    crust = rgb(44, 32, 30) * (1 + 0.16 * noise(rng, 1.4, high=24))[..., None]
    glow = mix(rgb(196, 34, 6), rgb(255, 214, 80), ramp(0.3, 0.95, heat))
    return mix(crust, glow, ramp(0.12, 0.5, heat))


_COLOURED = tuple(PALETTE)
_MINERAL = ("white", "black", "grey", "green", "blue", "red", "pink", "brown")
_LIQUID = ("blue", "turquoise", "green")

PAINTERS: dict[str, Painter] = {
    "brick": _brick,
    "planks": _planks,
    "grass": _grass,
    "sand": _sand,
    "cobblestone": _cobblestone,
    "marble": _marble,
    "checkerboard": _checkerboard,
    "stripes": _stripes,
    "polka dots": _polka_dots,
    "tiles": _tiles,
    "rusty metal": _rusty_metal,
    "leather": _leather,
    "fabric": _fabric,
    "water": _water,
    "clouds": _clouds,
    "lava": _lava,
}
FAMILIES = tuple(PAINTERS)
COLOURS_OF: dict[str, tuple[str, ...]] = {
    "brick": _COLOURED,
    "planks": ("brown", "grey", "white", "black", "red", "green", "blue"),
    "cobblestone": ("grey", "brown", "black", "white", "red", "blue", "green", "yellow"),
    "marble": _MINERAL,
    "tiles": _COLOURED,
    "leather": _COLOURED,
    "fabric": _COLOURED,
    "water": _LIQUID,
}
"""The colours of the families that take one colour; the others have none or two."""
TWO_COLOURS = ("checkerboard", "stripes", "polka dots")
DETAILS: dict[str, tuple[str, ...]] = {
    "brick": ("", "", "", "small"),
    "tiles": ("", "", "", "small"),
    "checkerboard": ("", "", "", "small"),
    "polka dots": ("", "", "", "small"),
    "stripes": ("horizontal", "vertical", "diagonal"),
}
"""The details a family is drawn with; repeated entries are drawn more often."""
FOLDABLE = (
    "brick",
    "checkerboard",
    "stripes",
    "polka dots",
    "tiles",
    "fabric",
    "cobblestone",
    "leather",
    "lava",
)
"""Families whose pattern repeats after half a tile."""
ALIGNED = (*FOLDABLE, "planks")
"""Families that keep their phase on the GRID; the others may be rolled freely."""


def describe(rng: Rng, family: str) -> Description:
    """Choose the colours and the detail of a tile of the given family."""
    details = DETAILS.get(family, ("",))
    detail = details[int(rng.integers(len(details)))]
    if family in TWO_COLOURS:
        pair = ("black", "white") if rng.random() < 0.12 else choose_pair(rng)
        return Description(family, pair if rng.random() < 0.5 else pair[::-1], detail)
    among = COLOURS_OF.get(family)
    if among is None or rng.random() < 0.2:
        return Description(family, (), detail)
    return Description(family, (choose(rng, among, shaded=0.12),), detail)


def paint(rng: Rng, description: Description) -> Tile:
    """Draw a tile of what is described, with the phase of its family."""
    image = np.clip(PAINTERS[description.family](rng, description), 0, 1).astype(np.float32)
    step, phase = (GRID, PHASE) if description.family in ALIGNED else (8, 0)
    shift = tuple(int(n) * step + phase for n in rng.integers(0, SIZE // step, 2))
    return Tile(np.roll(image, shift, (0, 1)), description)


def sample(rng: Rng, family: str | None = None) -> Tile:
    """Draw a random tile, of the given family or of any."""
    name = family or FAMILIES[int(rng.integers(len(FAMILIES)))]
    return paint(rng, describe(rng, name))
