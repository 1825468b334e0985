# SPDX-License-Identifier: GPL-3.0-or-later
"""Typed seeds. Bug reports P125 and P126."""

import pytest
from tessera.generator_process.errors import InvalidRequestError
from tessera.generator_process.seeds import SEED_LIMIT, seed_from_text, seeds_of_images


@pytest.mark.parametrize("number", [0, 7, 2**31 - 1, 2**31, 2**32 - 1, SEED_LIMIT - 1])
def test_a_number_in_range_stands_for_itself(number):
    assert seed_from_text(str(number)) == number


def test_other_spellings_of_a_number_are_the_number():
    assert seed_from_text(" 007 ") == 7
    assert seed_from_text("+7") == 7
    assert seed_from_text("-0") == 0


# SHA-256 of the text, first eight bytes, computed with coreutils' sha256sum.
@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("moss", 0x9E135AB954828446),
        ("-1", 0x1BAD6B8CF97131FC),
    ],
)
def test_words_and_negative_numbers_are_hashed(text, number):
    assert seed_from_text(text) == number


def test_hashed_seeds_differ_and_can_be_typed_back():
    texts = ["-1", "-2", str(10**30), str(SEED_LIMIT), "moss", "Moss", "苔", "1.5", "9" * 2000]
    numbers = [seed_from_text(text) for text in texts]
    assert len(set(numbers)) == len(texts)
    for number in numbers:
        assert 0 <= number < SEED_LIMIT
        assert seed_from_text(str(number)) == number


def test_half_of_a_surrogate_pair_is_refused():
    with pytest.raises(InvalidRequestError, match=r"Seed '\\ud800' has a character"):
        seed_from_text("\ud800")


def test_empty_text_is_random():
    numbers = {seed_from_text("") for _ in range(20)}
    assert len(numbers) > 15
    assert all(0 <= number < 2**32 for number in numbers)


def test_images_have_consecutive_seeds():
    assert seeds_of_images(5, 3) == (5, 6, 7)
    assert seeds_of_images(SEED_LIMIT - 1, 2) == (SEED_LIMIT - 1, 0)
