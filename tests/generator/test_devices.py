# SPDX-License-Identifier: GPL-3.0-or-later
"""Which device is chosen and what is said about it. Bug reports P037, P038 and P043."""

import pytest
import torch
from tessera.generator_process import devices
from tessera.optimizations import Environment


@pytest.fixture
def fake_cuda(monkeypatch):
    """A torch that was built for CUDA, with the GPU that the test describes."""

    def install(*, available=True, name="NVIDIA Test", capability=(8, 9), architectures=("sm_80",)):
        monkeypatch.setattr(torch.version, "cuda", "12.8")
        monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: name)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
        monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: list(architectures))

    return install


def test_a_build_without_cuda_says_so(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    device = devices.detect()
    if device.kind == "cpu":
        assert "was built without GPU support" in device.description
        assert torch.__version__ in device.description


def test_no_driver_is_said(fake_cuda):
    fake_cuda(available=False)
    device = devices.detect()
    assert device.kind == "cpu"
    assert device.description == "CPU (no GPU with a working driver was found)"


def test_an_error_of_the_driver_is_passed_on(fake_cuda, monkeypatch):
    fake_cuda()

    def fail():
        raise RuntimeError("CUDA driver version is insufficient\nmore lines")

    monkeypatch.setattr(torch.cuda, "is_available", fail)
    device = devices.detect()
    assert device.kind == "cpu"
    assert device.reason == "the GPU could not be used: CUDA driver version is insufficient"


def test_a_usable_gpu_is_used(fake_cuda):
    fake_cuda()
    device = devices.detect()
    assert (device.kind, device.description) == ("cuda", "NVIDIA Test")


def test_a_gpu_that_is_newer_than_the_build_is_named_with_what_it_needs(fake_cuda):
    fake_cuda(capability=(12, 0), architectures=("sm_80", "sm_90"))
    device = devices.detect()
    assert device.kind == "cpu"
    assert "NVIDIA Test needs sm_120" in device.reason
    assert "install the runtime again" in device.reason


@pytest.mark.parametrize(
    ("capability", "architectures", "missing"),
    [
        ((8, 9), ["sm_80", "sm_90"], ""),
        ((8, 6), ["sm_89"], "sm_86"),
        ((9, 0), ["sm_80"], "sm_90"),
        ((9, 0), ["sm_80", "compute_80"], ""),
        ((7, 5), ["sm_80", "compute_80"], "sm_75"),
        ((12, 0), ["sm_90", "sm_120"], ""),
        ((9, 0), ["sm_90a"], ""),
        ((8, 0), [], ""),
        ((8, 0), ["gfx1100"], "sm_80"),
    ],
)
def test_architectures(capability, architectures, missing):
    assert devices.missing_architecture(capability, architectures) == missing


def test_the_user_may_choose_the_cpu():
    known = Environment(
        probed=True, total_memory=8, host_total_memory=64, compute_capability=(8, 9), os="linux"
    )
    gpu = devices.Device(
        kind="cuda", torch_device=torch.device("cuda"), name="NVIDIA Test", known=known
    )
    assert devices.chosen(gpu, cpu_only=False) is gpu
    cpu = devices.chosen(gpu, cpu_only=True)
    assert (cpu.kind, cpu.torch_device.type) == ("cpu", "cpu")
    assert cpu.description == "CPU (as chosen)"
    assert cpu.environment.total_memory == 64
    assert devices.chosen(cpu, cpu_only=True) is cpu


def test_versions_name_what_is_installed():
    versions = dict(devices.installed_versions())
    assert versions["torch"] == torch.__version__
    assert "diffusers" in versions
