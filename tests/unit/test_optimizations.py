# SPDX-License-Identifier: GPL-3.0-or-later
"""What is declared about each option, and where it applies."""

from dataclasses import fields

import pytest
from tessera.generator_process.errors import InvalidRequestError
from tessera.optimizations import DEVICES, Environment, Optimizations

OPTIONS = [field.name for field in fields(Optimizations)]


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_is_described(option):
    about = Optimizations.metadata_of(option)
    assert set(about) == {"label", "description", "saves", "devices"}
    assert about["label"].istitle() or about["label"].startswith("VAE")
    assert not about["description"].endswith(".")  # Blender adds it
    assert about["saves"] in ("memory", "speed")
    assert about["devices"]
    assert set(about["devices"]) <= set(DEVICES)


@pytest.mark.parametrize(
    ("option", "device", "supported"),
    [
        ("half_precision", "cuda", True),
        ("half_precision", "mps", True),
        ("half_precision", "cpu", False),
        ("vae_slicing", "cpu", True),
        ("vae_slicing", "dml", True),
        ("batch_size", "cpu", True),
        ("batch_size", "mps", False),  # P041: batches are noise there
    ],
)
def test_where_an_option_applies(option, device, supported):
    assert Optimizations.device_supports(option, device) is supported
    assert Optimizations.can_use(option, device) is supported
    assert bool(Optimizations.why_not(option, device)) is not supported


def test_the_reason_is_a_sentence():
    assert Optimizations.why_not("half_precision", "cpu") == (
        "Half Precision is not available on the CPU."
    )
    card = Environment(device_name="NVIDIA GeForce GTX 1660 Ti")
    assert Optimizations.device_supports("half_precision", "cuda")
    assert not Optimizations.can_use("half_precision", "cuda", card)
    assert "GTX 1660 Ti" in Optimizations.why_not("half_precision", "cuda", card)
    assert Optimizations.can_use("vae_slicing", "cuda", card)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match='no device "tpu"'):
        Optimizations.device_supports("half_precision", "tpu")
    with pytest.raises(ValueError, match='no optimization "warp_drive"'):
        Optimizations.can_use("warp_drive", "cpu")


@pytest.mark.parametrize("size", [0, -1, 65])
def test_a_batch_size_out_of_range_is_refused(size):
    with pytest.raises(InvalidRequestError, match=f"Batch size {size} is out of range"):
        Optimizations(batch_size=size)
