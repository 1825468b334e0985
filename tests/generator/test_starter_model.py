# SPDX-License-Identifier: GPL-3.0-or-later
"""The starter model that is shipped, loaded from its folder without a network."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

FOLDER = Path(__file__).resolve().parents[2] / "starter_model"
SIZE = 128


@pytest.fixture(scope="module")
def pipeline():
    from diffusers import StableDiffusionPipeline

    loaded = StableDiffusionPipeline.from_pretrained(
        FOLDER, dtype=torch.float32, local_files_only=True
    )
    loaded.set_progress_bar_config(disable=True)
    return loaded


def _image(pipeline, prompt, *, size=SIZE, steps=8, seed=3, guidance=3.0):
    result = pipeline(
        prompt,
        height=size,
        width=size,
        num_inference_steps=steps,
        guidance_scale=guidance,
        generator=torch.Generator().manual_seed(seed),
        output_type="np",
    )
    return result.images[0]


def _mean(pipeline, prompt):
    return _image(pipeline, prompt).reshape(-1, 3).mean(0)


def test_is_small():
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) <= 24_000_000


def test_holds_no_code_and_no_pickles():
    assert {path.suffix for path in FOLDER.rglob("*") if path.is_file()} <= {
        ".json",
        ".safetensors",
        ".txt",
    }


def test_weights_are_half_precision():
    files = list(FOLDER.rglob("*.safetensors"))
    assert len(files) == 3
    for file in files:
        with safe_open(file, "pt") as weights:
            for name in weights.keys():  # noqa: SIM118
                assert weights.get_tensor(name).dtype in (torch.float16, torch.int64), name


def test_has_no_safety_checker_and_names_no_path():
    index = json.loads((FOLDER / "model_index.json").read_text(encoding="utf-8"))

    assert index["safety_checker"] == [None, None]
    assert index["requires_safety_checker"] is False
    for file in FOLDER.rglob("*.json"):
        assert "_name_or_path" not in file.read_text(encoding="utf-8")


def test_lists_the_words_it_knows(pipeline):
    starter = json.loads((FOLDER / "starter.json").read_text(encoding="utf-8"))

    assert {"brick", "checkerboard", "grass"} <= set(starter["families"])
    for word in starter["words"]:
        assert len(pipeline.tokenizer(word).input_ids) == 3, word


def test_colours_follow_the_prompt(pipeline):
    red = _mean(pipeline, "red brick wall")
    blue = _mean(pipeline, "blue brick wall")
    grass = _mean(pipeline, "green grass")

    assert red.argmax() == 0
    assert blue.argmax() == 2
    assert grass.argmax() == 1
    assert red[0] - red[2] > 0.2
    assert blue[2] - blue[0] > 0.2


def test_black_is_darker_than_white(pipeline):
    assert _mean(pipeline, "black marble").mean() + 0.4 < _mean(pipeline, "white marble").mean()


def test_same_seed_gives_same_picture(pipeline):
    first, second = (_image(pipeline, "sand", steps=3) for _ in range(2))
    other = _image(pipeline, "sand", steps=3, seed=4)

    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    "prompt",
    ["", "a cat in a spaceship", "Überhöhte 漢字 кирпич 😀\n\t", "brick " * 300, "!?;,.«»"],
    ids=["empty", "unknown", "unicode", "long", "signs"],
)
def test_any_prompt_makes_a_picture(pipeline, prompt):
    image = _image(pipeline, prompt, steps=2)

    assert image.shape == (SIZE, SIZE, 3)
    assert np.isfinite(image).all()


def test_other_sizes(pipeline):
    assert _image(pipeline, "tiles", size=192, steps=2).shape == (192, 192, 3)
