# SPDX-License-Identifier: GPL-3.0-or-later
"""Prompts of any length and script. Bug report P127."""

import pytest
import torch
from tessera.generator_process import prompts
from tessera.generator_process.errors import InvalidRequestError

LONG = " ".join(["red brick wall with moss on green stone"] * 40)


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.no_grad():
        yield


@pytest.mark.parametrize(
    ("prompt", "negative"),
    [("red brick wall", ""), ("", ""), ("a" * 75, "moss"), ("苔 mossé", "Red  BRICK\nwall")],
)
def test_a_short_prompt_is_encoded_as_diffusers_does(runner, prompt, negative):
    model = runner.model
    encoded = prompts.encode(model, prompt, negative, guided=True)
    expected = model.pipeline.encode_prompt(
        prompt=prompt,
        device="cpu",
        num_images_per_prompt=1,
        do_classifier_free_guidance=True,
        negative_prompt=negative or None,
    )
    assert torch.equal(encoded.embeds, expected[0])
    assert torch.equal(encoded.negative_embeds, expected[1])
    if model.kind == "sdxl":
        assert torch.equal(encoded.pooled, expected[2])
        assert torch.equal(encoded.negative_pooled, expected[3])
        assert bool((encoded.negative_embeds == 0).all()) == (not negative)
    else:
        assert encoded.pooled is None


@pytest.mark.parametrize(("prompt", "negative"), [(LONG, ""), ("moss", LONG), (LONG, "moss")])
def test_both_sides_get_the_same_number_of_windows(runner, prompt, negative):
    encoded = prompts.encode(runner.model, prompt, negative, guided=True)
    assert encoded.embeds.shape == encoded.negative_embeds.shape
    assert encoded.embeds.shape[1] % 77 == 0
    assert encoded.embeds.shape[1] >= 4 * 77


def test_every_part_of_a_long_prompt_counts(runner):
    first = prompts.encode(runner.model, LONG, "", guided=False)
    other_end = prompts.encode(runner.model, LONG[:-5] + "grass", "", guided=False)
    assert torch.equal(first.embeds[:, :77], other_end.embeds[:, :77])
    assert not torch.equal(first.embeds[:, -77:], other_end.embeds[:, -77:])
    assert first.negative_embeds is None


def test_words_are_not_cut_at_the_end_of_a_window(sd):
    """75 tokens end in the middle of the last word, which goes to the next window whole."""
    text = "moss " * 73 + "xyzxyz wall"
    tokenizer = sd.model.pipeline.tokenizer
    reader = prompts._Reader(tokenizer, sd.model.pipeline.text_encoder, sdxl=False)
    windows = reader.windows(text)
    assert [len(window) for window in windows] == [73, 7]
    assert tokenizer.decode([token for token, _ in windows[1]]).strip() == "xyzxyz wall"
    joined = [token for window in windows for token, _ in window]
    assert joined == tokenizer(text, add_special_tokens=False).input_ids


def test_a_word_longer_than_a_window_is_cut(sd):
    text = "x" * 200
    reader = prompts._Reader(
        sd.model.pipeline.tokenizer, sd.model.pipeline.text_encoder, sdxl=False
    )
    assert [len(window) for window in reader.windows(text)] == [75, 75, 50]


@pytest.mark.parametrize("prompt", ["", " ", "\n\t", "苔の壁", "🧱🌿", "\u0007", "e\u0301", LONG])
def test_the_task_takes_any_text(runner, prompt):
    (image,) = runner.images(prompt=prompt, negative_prompt=LONG, steps=1, width_px=32)
    assert image.shape == (64, 32, 3)
    (image,) = runner.images(prompt=LONG, negative_prompt=prompt, steps=1, width_px=32)
    assert image.shape == (64, 32, 3)


def test_half_a_character_is_refused_with_its_place(runner):
    with pytest.raises(InvalidRequestError, match=r"Prompt holds half .*U\+D83E.* position 5"):
        runner.images(prompt="moss\ud83e")
    with pytest.raises(InvalidRequestError, match="Negative prompt holds half"):
        runner.images(negative_prompt="\udc00")


def test_the_prompt_and_the_negative_prompt_change_the_image(runner):
    def image(**settings):
        return runner.images(steps=3, guidance=7.0, **settings)[0].tobytes()

    images = {
        image(),
        image(prompt="green grass"),
        image(negative_prompt="moss"),
        image(prompt=LONG),
    }
    assert len(images) == 4


def test_guidance_of_one_ignores_the_negative_prompt(starter):
    first = starter.images(guidance=1.0)[0]
    assert (first == starter.images(guidance=1.0, negative_prompt="moss")[0]).all()
    assert not (first == starter.images(guidance=3.0)[0]).all()
