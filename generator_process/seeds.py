# SPDX-License-Identifier: GPL-3.0-or-later
"""From what the user typed as a seed to the numbers that start the noise. Side: both."""

from .errors import InvalidRequestError

SEED_LIMIT = 2**64
"""Seeds are whole numbers from 0 to one less than this: what `torch.Generator` takes."""

_RANDOM_LIMIT = 2**32  # short enough to read out and type back


def seed_from_text(text: str) -> int:
    """Return the number that a typed seed stands for.

    A whole number from 0 to `SEED_LIMIT - 1` stands for itself, however it is written ("007" is 7).
    Any other text, negative and larger numbers included, is hashed: the first eight bytes
    (big-endian) of the SHA-256 of the stripped text in UTF-8. Empty text gives a random number
    below 2**32. The result can always be typed back and stands for itself.

    Raises:
        InvalidRequestError: The text has half of a surrogate pair, which no file can store.
    """
    stripped = text.strip()
    if not stripped:
        import secrets  # only here: the add-on is enabled more often than a seed is drawn

        return secrets.randbelow(_RANDOM_LIMIT)
    number = _whole_number(stripped)
    if number is not None:
        if 0 <= number < SEED_LIMIT:
            return number
        stripped = str(number)
    import hashlib

    try:
        encoded = stripped.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidRequestError(
            f"Seed {stripped!a} has a character that is not one. Use a whole number or a word."
        ) from error
    return int.from_bytes(hashlib.sha256(encoded).digest()[:8], "big")


def seeds_of_images(first: int, count: int) -> tuple[int, ...]:
    """Return one seed for each image: consecutive, wrapping at `SEED_LIMIT`.

    Each image can be made again alone by typing its own seed.
    """
    return tuple((first + index) % SEED_LIMIT for index in range(count))


def _whole_number(text: str) -> int | None:
    digits = text[1:] if text[0] in "+-" else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 1000:
        return None
    return int(text)
