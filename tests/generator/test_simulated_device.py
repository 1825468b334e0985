# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated device: what it counts, when it runs out of memory, and that models run on it."""

import pytest
import torch
from fakes import simulated_device
from torch import nn

FLOAT = 4
"""Bytes of a float32."""


def _network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.Conv2d(8, 3, 1))


def test_memory_is_counted_to_the_byte(dml):
    before = simulated_device.memory_allocated()
    value = torch.ones(10, 10, device=dml)
    other = value + 1
    assert simulated_device.memory_allocated() == before + 2 * 100 * FLOAT
    del value, other
    assert simulated_device.memory_allocated() == before
    assert simulated_device.peak() == before + 2 * 100 * FLOAT
    simulated_device.reset_peak()
    assert simulated_device.peak() == before


@pytest.mark.parametrize(
    ("wording", "kind", "text"),
    [
        ("dml", RuntimeError, "Could not allocate tensor with 400 bytes. There is not enough GPU"),
        ("cuda", torch.OutOfMemoryError, "CUDA out of memory"),
    ],
)
def test_beyond_the_limit_it_is_out_of_memory(dml, wording, kind, text):
    with simulated_device.limited(free=399, wording=wording):
        with pytest.raises(kind, match=text) as raised:
            torch.empty(10, 10, device=dml)
        assert isinstance(raised.value, torch.OutOfMemoryError) == (wording == "cuda")
        torch.empty(9, 10, device=dml)
    torch.empty(10, 10, device=dml)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_a_network_gives_what_it_gives_on_the_cpu(dml, memory_format):
    network, value = _network(), torch.randn(2, 3, 16, 16)
    with torch.inference_mode():
        expected = network(value)
        network.to(dml, memory_format=memory_format)
        found = network(value.to(dml, memory_format=memory_format))
    assert found.device == dml
    assert torch.allclose(found.cpu(), expected, atol=1e-6)


def test_without_computing_it_takes_the_same_memory(dml):
    network, value = _network().to(dml), torch.randn(2, 3, 16, 16, device=dml)
    peaks = []
    with torch.inference_mode():
        simulated_device.reset_peak()
        network(value)
        peaks.append(simulated_device.peak())
        with simulated_device.without_computing():
            simulated_device.reset_peak()
            network(value)
            peaks.append(simulated_device.peak())
    assert peaks[0] == peaks[1]


def test_it_is_available_only_while_it_is_present():
    if simulated_device.why_not():
        pytest.skip(simulated_device.why_not())
    simulated_device.register()
    assert not torch.accelerator.is_available()
    with simulated_device.present():
        assert torch.accelerator.is_available()
        assert torch.accelerator.current_accelerator().type == "dml"
    assert not torch.accelerator.is_available()
