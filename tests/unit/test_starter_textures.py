# SPDX-License-Identifier: GPL-3.0-or-later
"""The procedural textures that the starter model is trained on."""

import numpy as np
import pytest
from tessera.scripts.train_starter_model import captions, colours, measures, textures
from tessera.scripts.train_starter_model.draw import SIZE
from tessera.scripts.train_starter_model.textures import Description

IRREGULAR = [family for family in textures.FAMILIES if family not in textures.ALIGNED]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("family", textures.FAMILIES)
def test_same_seed_draws_same_tile(family):
    first = textures.sample(np.random.default_rng(5), family)
    second = textures.sample(np.random.default_rng(5), family)
    other = textures.sample(np.random.default_rng(6), family)

    assert first.description == second.description
    assert np.array_equal(first.image, second.image)
    assert not np.array_equal(first.image, other.image)


@pytest.mark.parametrize("family", textures.FAMILIES)
def test_tile_is_a_picture_of_its_family(rng, family):
    tile = textures.sample(rng, family)

    assert tile.description.family == family
    assert tile.image.shape == (SIZE, SIZE, 3)
    assert tile.image.min() >= 0
    assert tile.image.max() <= 1
    assert tile.image.std() > 0.005


@pytest.mark.parametrize("family", IRREGULAR)
@pytest.mark.parametrize("axis", [0, 1])
def test_irregular_tiles_wrap_around(rng, family, axis):
    rows = [measures.seam_gradients(textures.sample(rng, family).image, axis) for _ in range(8)]
    edge, inner, _ = np.sum(rows, axis=0)

    assert 0.6 < edge / inner < 1.5


@pytest.mark.parametrize("family", textures.ALIGNED)
@pytest.mark.parametrize("axis", [0, 1])
def test_regular_tiles_continue_on_the_grid(rng, family, axis):
    rows = [measures.seam_gradients(textures.sample(rng, family).image, axis) for _ in range(12)]
    edge, _, lines = np.sum(rows, axis=0)

    assert 0.5 < edge / lines < 2


@pytest.mark.parametrize("family", textures.FAMILIES)
def test_captions_say_what_is_drawn(rng, family):
    description = textures.describe(rng, family)
    nouns = set(captions.NOUNS[family])

    for _ in range(20):
        text = captions.caption(rng, description)
        shortened = {noun.removeprefix("wall of ") for noun in nouns}
        assert any(noun in text for noun in nouns | shortened), text
        assert text == " ".join(text.split())


def test_captions_name_a_single_colour(rng):
    for name in textures.COLOURS_OF["brick"]:
        text = captions.phrase(rng, Description("brick", (name,)))

        assert any(word in text for word in colours.SYNONYMS.get(name, (name,)))


def test_dots_and_ground_are_named_in_order(rng):
    for _ in range(20):
        text = captions.phrase(rng, Description("polka dots", ("red", "blue")))

        if " with " in text:
            assert text.index("blue") < text.index(" with ")
        else:
            assert text.index(" on ") < text.index("blue")


def test_every_word_of_a_caption_is_listed(rng):
    known = set(captions.known_words())

    for family in textures.FAMILIES:
        for word in captions.phrase(rng, textures.describe(rng, family)).split():
            assert word in known


@pytest.mark.parametrize("family", textures.TWO_COLOURS)
def test_measures_accept_the_tile_itself(rng, family):
    description = textures.describe(rng, family)
    image = textures.paint(rng, description).image

    assert measures.colours_right(image, description)
    assert measures.layout_right(image, description)


def test_layout_tells_directions_and_dots_apart(rng):
    pair = ("red", "white")
    vertical = textures.paint(rng, Description("stripes", pair, "vertical")).image
    dots = textures.paint(rng, Description("polka dots", pair)).image

    assert not measures.layout_right(vertical, Description("stripes", pair, "horizontal"))
    assert not measures.layout_right(dots, Description("polka dots", pair[::-1]))
    assert not measures.layout_right(dots, Description("checkerboard", pair))


def test_one_colour_is_told_from_another(rng):
    image = textures.paint(rng, Description("brick", ("red",))).image

    assert measures.colours_right(image, Description("brick", ("red",)))
    assert not measures.colours_right(image, Description("brick", ("blue",)))
