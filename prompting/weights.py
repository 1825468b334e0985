# SPDX-License-Identifier: GPL-3.0-or-later
"""Weights of words in a prompt: `(moss:1.3)`. Side: both.

The convention is that of AUTOMATIC1111's web UI ("Attention/emphasis" in the features of its
documentation): `(x)` is 1.1, `(x:1.3)` is 1.3, `[x]` is 1/1.1, nested weights multiply, and a
backslash makes a bracket, or a backslash, a plain character. Other than there, a bracket without a
partner is a plain character too: a forgotten one does not change all that follows.
"""

import re
from dataclasses import dataclass

from ..generator_process.errors import InvalidRequestError

BRACKET_WEIGHT = 1.1
MIN_WEIGHT = 0.0
MAX_WEIGHT = 10.0

_PART = re.compile(r"\\[()\[\]\\]|:\s*([+-]?[\d.]+)\s*\)|[()\[\]]|[^\\()\[\]:]+|[\\:]", re.DOTALL)
_OPENING = {")": "(", "]": "["}


@dataclass(frozen=True, slots=True)
class Piece:
    """Text without brackets, and how much it counts: 1 is as usual, 0 not at all."""

    text: str
    weight: float


@dataclass(frozen=True, slots=True)
class Parsed:
    """The pieces of a prompt, neighbours of different weights, and what was no bracket.

    `alone` are (position from 0, bracket) of brackets without a partner.
    """

    pieces: tuple[Piece, ...]
    alone: tuple[tuple[int, str], ...]


@dataclass(slots=True)
class _Part:
    """A part of the text, plain until a partner is found. `factor` is that of an opening bracket.

    `plain` is what it stands for if it is no bracket.
    """

    position: int
    plain: str
    bracket: str = ""
    number: str | None = None
    factor: float | None = None
    closes: bool = False


def parse(text: str) -> Parsed:
    """Return the pieces of a prompt.

    Text without brackets and backslashes is one piece of weight 1.

    Raises:
        InvalidRequestError: A weight is no number, or with those around it is not from
            `MIN_WEIGHT` to `MAX_WEIGHT`.
    """
    parts = [_part_of(match) for match in _PART.finditer(text)]
    _pair(parts)
    pieces: list[Piece] = []
    weights = [1.0]
    for part in parts:
        if part.factor is not None:
            weights.append(weights[-1] * part.factor)
        elif part.closes:
            weights.pop()
        else:
            _append(pieces, part.plain, weights[-1])
    for piece in pieces:
        if piece.text.strip() and not MIN_WEIGHT <= piece.weight <= MAX_WEIGHT:
            raise InvalidRequestError(
                f'Weight {piece.weight:g} of "{piece.text.strip()}" is out of range. Use a value'
                f" from {MIN_WEIGHT:g} to {MAX_WEIGHT:g}, or \\( and \\) for plain brackets."
            )
    alone = tuple(
        (part.position, part.bracket)
        for part in parts
        if part.bracket and part.factor is None and not part.closes
    )
    return Parsed(pieces=tuple(pieces), alone=alone)


def _part_of(match: re.Match[str]) -> _Part:
    whole = match[0]
    if whole[0] == "\\" and len(whole) == 2:
        return _Part(match.start(), whole[1])
    if whole[-1] in "()[]":
        return _Part(match.end() - 1, whole, bracket=whole[-1], number=match[1])
    return _Part(match.start(), whole)


def _pair(parts: list[_Part]) -> None:
    """Find the partner of each bracket, the innermost that is open."""
    opened: list[_Part] = []
    waiting = {"(": 0, "[": 0}
    for part in parts:
        if part.bracket in waiting:
            opened.append(part)
            waiting[part.bracket] += 1
        elif part.bracket and waiting[_OPENING[part.bracket]]:
            opening = opened.pop()
            while opening.bracket != _OPENING[part.bracket]:
                waiting[opening.bracket] -= 1
                opening = opened.pop()
            waiting[opening.bracket] -= 1
            opening.factor = _factor_of(part)
            part.closes = True


def _factor_of(closing: _Part) -> float:
    if closing.bracket == "]":
        return 1 / BRACKET_WEIGHT
    if closing.number is None:
        return BRACKET_WEIGHT
    try:
        return float(closing.number)
    except ValueError as error:
        raise InvalidRequestError(
            f'Weight "{closing.number}" is not a number. Use a value from {MIN_WEIGHT:g} to'
            f" {MAX_WEIGHT:g}, or \\( and \\) for plain brackets."
        ) from error


def _append(pieces: list[Piece], text: str, weight: float) -> None:
    if pieces and pieces[-1].weight == weight:
        pieces[-1] = Piece(pieces[-1].text + text, weight)
    else:
        pieces.append(Piece(text, weight))
