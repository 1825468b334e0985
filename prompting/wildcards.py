# SPDX-License-Identifier: GPL-3.0-or-later
"""Wildcards: `{red|green} brick` is one of two prompts, chosen by an image's seed. Side: both.

Choices may be nested and weighted, `{3::red|green}`; an alternative without a weight has 1. A
backslash before `{`, `}` or `|` makes it a plain character. Other backslashes stay for the prompt's
weights, and so does a pair of them.
"""

import hashlib
import re
from dataclasses import dataclass, field
from fractions import Fraction

from ..generator_process.errors import InvalidRequestError

_PART = re.compile(r"\\[{}|]|\\\\|[{}|]|[^\\{}|]+|\\", re.DOTALL)
_WEIGHT = re.compile(r"\s*([+-]?(?:\d{1,20}(?:\.\d{0,20})?|\.\d{1,20}))\s*::")
_ESCAPED = re.compile(r"\\\\|\\(?=[{}|])|[{}]")
_DRAWS = 2**64


@dataclass(slots=True)
class _Choice:
    """A choice that is being read: the alternatives before the last `|`, and the text since."""

    number: int
    position: int
    alternatives: list[tuple[Fraction, str]] = field(default_factory=list[tuple[Fraction, str]])
    parts: list[str] = field(default_factory=list[str])

    def end_alternative(self) -> None:
        text = "".join(self.parts)
        self.parts.clear()
        weight = _WEIGHT.match(text)
        if weight is None:
            self.alternatives.append((Fraction(1), text))
        else:
            self.alternatives.append((Fraction(weight[1]), text[weight.end() :]))


def resolve(text: str, seed: int, *, purpose: str = "") -> str:
    """Return the text with one alternative of each choice.

    The n-th opening brace of a text, from 0, draws the first eight bytes (big-endian) of the
    SHA-256 of "SEED:n" (with a purpose, "SEED:n:PURPOSE") in UTF-8, as a share of 2**64, and takes
    the alternative that this share of the sum of the weights falls on. So a choice depends on the
    seed, on how many braces open before it and on its own alternatives, and is the same on every
    machine and in every version of Python.

    Args:
        text: A prompt. Without braces and backslashes before them it is returned as it is.
        seed: That of the image, 0 or more.
        purpose: Another one chooses independently: the negative prompt is no echo of the prompt.

    Raises:
        InvalidRequestError: A brace has no partner, or the weights of a choice are negative or
            all 0.
    """
    bottom = _Choice(number=-1, position=-1)
    stack = [bottom]
    opened = 0
    for match in _PART.finditer(text):
        part = match[0]
        if part == "{":
            stack.append(_Choice(number=opened, position=match.start()))
            opened += 1
        elif part == "}":
            if len(stack) == 1:
                raise _unbalanced("}", match.start(), "opens")
            choice = stack.pop()
            key = f"{seed}:{choice.number}:{purpose}" if purpose else f"{seed}:{choice.number}"
            stack[-1].parts.append(_chosen(choice, key))
        elif part == "|" and len(stack) > 1:
            stack[-1].end_alternative()
        else:
            stack[-1].parts.append(part[1:] if part in {r"\{", r"\}", r"\|"} else part)
    if len(stack) > 1:
        raise _unbalanced("{", stack[-1].position, "closes")
    return "".join(bottom.parts)


def has_choices(text: str) -> bool:
    """Tell whether the result of `resolve` may depend on the seed."""
    return any(match[0] == "{" for match in _PART.finditer(text))


def escape(text: str) -> str:
    """Return what to type so that `resolve` makes this text, whatever the seed.

    A backslash that stands alone before a brace or a bar comes back as a pair: for the generator
    both are one backslash.
    """
    return _ESCAPED.sub(lambda match: rf"\{match[0]}" if len(match[0]) == 1 else match[0], text)


def _chosen(choice: _Choice, key: str) -> str:
    choice.end_alternative()
    weights = [weight for weight, _ in choice.alternatives]
    total = sum(weights)
    if min(weights) < 0 or total == 0:
        raise InvalidRequestError(
            f"The weights of the choice at position {choice.position + 1} are"
            f" {', '.join(str(weight) for weight in weights)}."
            " Use 0 or more, and more than 0 at least once."
        )
    digest = hashlib.sha256(key.encode()).digest()
    target = Fraction(int.from_bytes(digest[:8], "big"), _DRAWS) * total
    reached = Fraction(0)
    for weight, text in choice.alternatives:
        reached += weight
        if target < reached:
            return text
    raise AssertionError("the share is below 1")


def _unbalanced(brace: str, position: int, verb: str) -> InvalidRequestError:
    return InvalidRequestError(
        f'Nothing {verb} the "{brace}" at position {position + 1}.'
        f" Complete the choice, such as {{red|green}}, or write \\{brace} for the character."
    )
