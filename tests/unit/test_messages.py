# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits of the requests, and the errors that can cross the boundary."""

import dataclasses
from typing import get_args

import numpy as np
import pytest
from tessera.generator_process import errors, messages
from tessera.generator_process.errors import ErrorKind, InvalidRequestError
from tessera.generator_process.messages import (
    Control,
    Event,
    ImageData,
    ModelRef,
    ModelSource,
    Request,
    SamplingSettings,
    Scheduler,
)
from tessera.generator_process.seeds import SEED_LIMIT


@pytest.mark.parametrize(
    ("field", "lowest", "highest"),
    [
        ("width_px", 8, 8192),
        ("height_px", 8, 8192),
        ("steps", 1, 1000),
        ("guidance", 0.0, 100.0),
    ],
)
def test_limits(field, lowest, highest):
    for value in (lowest, highest):
        assert getattr(SamplingSettings(prompt="", **{field: value}), field) == value
    for value in (lowest - 1, highest + 1, float("nan")):
        sentence = rf"{value} is out of range\. Use a value from {lowest} to {highest}\.$"
        with pytest.raises(InvalidRequestError, match=sentence):
            SamplingSettings(prompt="", **{field: value})


def test_sizes_need_not_be_multiples_of_8():
    assert SamplingSettings(prompt="", width_px=333, height_px=9).width_px == 333


def test_seeds_are_64_bits():
    assert SamplingSettings(prompt="", seeds=(SEED_LIMIT - 1,)).seeds == (SEED_LIMIT - 1,)
    for seed in (-1, SEED_LIMIT):
        with pytest.raises(InvalidRequestError, match=f"Seed {seed} is out of range"):
            SamplingSettings(prompt="", seeds=(seed,))


def test_a_request_is_for_one_image_at_least():
    with pytest.raises(InvalidRequestError, match="NUL character"):
        SamplingSettings(prompt="red\0brick")
    with pytest.raises(InvalidRequestError, match="Number of images 0"):
        SamplingSettings(prompt="", seeds=())
    with pytest.raises(InvalidRequestError, match="Number of images 1001"):
        SamplingSettings(prompt="", seeds=(0,) * 1001)


def test_only_the_starter_model_has_no_location():
    assert ModelRef() == ModelRef(source=ModelSource.STARTER, location="")
    for source, location in [(ModelSource.STARTER, "x"), (ModelSource.HUB, "")]:
        with pytest.raises(InvalidRequestError, match="Choose a model from the list"):
            ModelRef(source=source, location=location)


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((4, 4, 3), np.float64),
        np.zeros((4, 4, 3), np.int8),
        np.zeros((4, 4), np.uint8),
        np.zeros((4, 4, 1), np.uint8),
        np.zeros((1, 4, 4, 3), np.uint8),
    ],
)
def test_pixels_of_another_form_are_refused(pixels):
    with pytest.raises(InvalidRequestError, match="cannot be sent"):
        ImageData(pixels=pixels)


def test_there_are_18_schedulers_with_a_name_each():
    assert len(Scheduler) == len({scheduler.value for scheduler in Scheduler}) == 18


def test_every_message_is_frozen_and_says_its_direction():
    for kind in get_args(Request | Control | Event):
        assert dataclasses.fields(kind) is not None
        assert kind.__dataclass_params__.frozen
        assert kind.__doc__.startswith(("Blender to generator", "Generator to Blender")), kind


def test_every_message_about_a_job_names_it_first():
    for kind in get_args(Request | Control | Event):
        if kind not in (messages.Shutdown, messages.Ready):
            assert dataclasses.fields(kind)[0].name == "job_id"


def error_classes():
    return {
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.TesseraError)
    }


def test_every_error_has_a_kind_and_every_kind_an_error():
    assert set(errors.ERROR_OF_KIND) == set(ErrorKind)
    crossing = error_classes() - {errors.TesseraError, errors.CancelledError}
    assert set(errors.ERROR_OF_KIND.values()) == crossing
    for kind, error in errors.ERROR_OF_KIND.items():
        assert errors.kind_of(error("text")) is kind


def test_the_tree_of_errors_is_the_one_in_the_docstring():
    tree = {
        line.strip().removeprefix("* ")
        for line in errors.__doc__.splitlines()
        if line.strip().startswith("*")
    }
    assert tree == {error.__name__ for error in error_classes()}
