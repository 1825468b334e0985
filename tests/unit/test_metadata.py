"""The settings of an image as text. Bug reports P125 and P126."""

import json
from dataclasses import replace

import pytest
from tessera.generator_process.messages import SamplingSettings, Scheduler, TextToImage
from tessera.metadata import SAMPLERS, ImageSettings, parse_parameters, settings_of_request, version

SETTINGS = ImageSettings(
    prompt="red brick wall, (old:1.2)",
    negative_prompt="moss",
    width=200,
    height=120,
    steps=20,
    guidance=5.0,
    scheduler="DPM_SOLVER_MULTISTEP_KARRAS",
    seed=2**64 - 1,
    seed_text="moss",
    seamless="BOTH",
    model="Starter",
)


def test_parameters_are_what_the_web_ui_writes():
    assert SETTINGS.to_parameters() == (
        "red brick wall, (old:1.2)\n"
        "Negative prompt: moss\n"
        "Steps: 20, Sampler: DPM++ 2M Karras, CFG scale: 5, Seed: 18446744073709551615, "
        f"Size: 200x120, Model: Starter, Tiling: True, Seamless axes: BOTH, "
        f"Version: Tessera {version()}"
    )


def test_parameters_without_what_is_not_there():
    plain = replace(SETTINGS, negative_prompt="", seamless="OFF", guidance=7.25)
    text = plain.to_parameters()
    assert "Negative prompt" not in text
    assert "Tiling" not in text
    assert "CFG scale: 7.25," in text


@pytest.mark.parametrize(
    ("prompt", "negative"),
    [
        ("", ""),
        ("two\nlines", "and\nthree\nmore"),
        ("Steps: 3, Sampler: x", "Seed: 4"),
        ("苔 🧱 é", "\ttab"),
        ("ends with a line\n", ""),
        ("", "only negative"),
    ],
)
def test_parameters_can_be_read_back(prompt, negative):
    settings = replace(SETTINGS, prompt=prompt, negative_prompt=negative, model='a, "b": c')
    values = parse_parameters(settings.to_parameters())
    assert values["Prompt"] == prompt
    assert values["Negative prompt"] == negative
    assert values["Seed"] == "18446744073709551615"
    assert values["Size"] == "200x120"
    assert values["Model"] == 'a, "b": c'


def test_parameters_of_other_tools_are_read():
    text = (
        "a cat\nin a hat\nNegative prompt: dog\nSteps: 20, Sampler: Euler a, CFG scale: 7, "
        'Seed: 965400086, Size: 512x512, Model hash: 45dee52b, Lora hashes: "a: 1, b: 2", Version: '
        "v1.10.0"
    )
    values = parse_parameters(text)
    assert values["Prompt"] == "a cat\nin a hat"
    assert values["Negative prompt"] == "dog"
    assert values["Sampler"] == "Euler a"
    assert values["Lora hashes"] == "a: 1, b: 2"
    assert values["Version"] == "v1.10.0"
    assert parse_parameters("only a prompt") == {"Prompt": "only a prompt", "Negative prompt": ""}
    assert parse_parameters('p\nSteps: 1, Seed: 2, Size: 8x8, Path: "C:\\q"')["Path"] == '"C:\\q"'


def test_json_is_exact():
    odd = replace(SETTINGS, prompt='Negative prompt: "x"\n\\ 苔', guidance=0.1)
    assert ImageSettings.from_json(odd.to_json()) == odd
    assert json.loads(odd.to_json())["seed"] == "18446744073709551615"


def test_json_of_another_version():
    values = json.loads(SETTINGS.to_json())
    assert ImageSettings.from_json(json.dumps({**values, "new": 1})) == SETTINGS
    for damaged in ("[]", "{", '{"seed": "1"}', "{}", json.dumps({**values, "seed": "x"})):
        with pytest.raises(ValueError):
            ImageSettings.from_json(damaged)


def test_every_scheduler_has_a_name_of_its_own():
    assert set(SAMPLERS) == set(Scheduler)
    assert len(set(SAMPLERS.values())) == len(Scheduler)


def test_settings_of_a_request():
    """Both the number used and the typed text are kept. P126."""
    sampling = SamplingSettings(prompt="p", width_px=8, height_px=16, seeds=(4, 5))
    request = TextToImage(job_id="a", sampling=sampling)
    settings = settings_of_request(request, seed=5, seed_text="four", model="Starter")
    assert (settings.seed, settings.seed_text) == (5, "four")
    assert (settings.width, settings.height) == (8, 16)
    assert settings.scheduler == "DPM_SOLVER_MULTISTEP"
