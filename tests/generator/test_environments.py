# SPDX-License-Identifier: GPL-3.0-or-later
"""What is found out about a machine."""

import importlib
import logging
import sys
import warnings

import pytest
import torch
from tessera.generator_process import devices, environments
from tessera.optimizations import Environment, Optimizations

CPU = devices.Device(kind="cpu", torch_device=torch.device("cpu"), name="CPU")


def test_this_machine():
    known = environments.probed(CPU).environment
    assert known.probed
    assert known.torch_version == torch.__version__
    assert known.total_memory == known.host_total_memory > known.host_free_memory > 2**28
    assert known.has_sdp
    assert dict(known.packages)["accelerate"]
    assert known.os in ("linux", "windows", "macos")
    assert known.os_version


def test_free_memory_is_what_there_is_now(monkeypatch):
    import psutil

    real = psutil.virtual_memory()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: real._replace(available=1000, total=5000))
    now = environments.environment_now(CPU)
    assert (now.free_memory, now.total_memory) == (1000, 5000)


@pytest.fixture
def xformers(tmp_path, monkeypatch):
    """A package of that name that complains as the real one does, then does what the test says."""

    def install(body: str) -> None:
        folder = tmp_path / "xformers"
        folder.mkdir()
        (folder / "__init__.py").write_text("", encoding="utf-8")
        (folder / "ops.py").write_text(
            "import logging, sys, warnings\n"
            "text = 'A matching Triton is not available, some optimizations will not be enabled'\n"
            "logging.getLogger('xformers').warning(text)\n"
            "warnings.warn(text)\n"
            "print(text)\n"
            "print(text, file=sys.stderr)\n"
            f"def memory_efficient_attention(query, key, value):\n    {body}\n",
            encoding="utf-8",
        )
        monkeypatch.syspath_prepend(tmp_path)
        for name in ("xformers", "xformers.ops"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()

    real = torch.zeros

    def on_the_cpu(*shape, device, **more):
        assert device == "cuda"
        return real(*shape, **more)

    monkeypatch.setattr(torch, "zeros", on_the_cpu)
    yield install
    for name in ("xformers", "xformers.ops"):
        sys.modules.pop(name, None)


def test_the_warning_of_xformers_reaches_nobody(xformers, capfd, caplog):
    """From the first founding document: a missing Triton is not the user's affair."""
    xformers("return query")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert environments.xformers_defect() == ""
    assert seen == []
    assert caplog.records == []
    assert capfd.readouterr() == ("", "")
    assert logging.getLogger("xformers").level == logging.NOTSET


def test_xformers_that_does_not_fit_is_a_defect_and_no_error(xformers):
    """Bug report P057."""
    xformers("raise NotImplementedError('No operator found for this\\nmore')")
    defect = environments.xformers_defect()
    assert defect == (
        f"does not work with PyTorch {torch.__version__} (No operator found for this)"
    )
    environment = Environment(
        probed=True,
        compute_capability=(8, 6),
        packages=(("xformers", "0.0.35"),),
        defects=(("xformers", defect),),
    )
    assert Optimizations.why_not("attention.xformers", "cuda", environment) == (
        f"Attention (xFormers) cannot be used: xformers 0.0.35 {defect}."
    )


@pytest.mark.parametrize(
    ("capability", "finite", "fails"),
    [((7, 5), True, False), ((7, 5), False, True), ((8, 6), False, False)],
)
def test_half_precision_is_tried_on_the_generation_where_it_fails(
    monkeypatch, capability, finite, fails
):
    """Bug report P046."""
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (3, 4))
    monkeypatch.setattr(environments, "_half_is_finite", lambda _device: finite)
    gpu = devices.Device(kind="cuda", torch_device=torch.device("cuda"), name="NVIDIA Test")
    known = environments.probed(gpu).environment
    assert known.half_fails is fails
    assert known.compute_capability == capability
    assert (known.free_memory, known.total_memory) == (3, 4)


def test_the_trial_of_half_precision_sees_what_is_not_a_number(monkeypatch):
    cpu = torch.device("cpu")
    assert environments._half_is_finite(cpu)
    real = torch.nn.functional.conv2d
    monkeypatch.setattr(
        torch.nn.functional, "conv2d", lambda *a, **more: real(*a, **more) * float("nan")
    )
    assert not environments._half_is_finite(cpu)


def test_rocm_has_no_compute_capability(monkeypatch):
    monkeypatch.setattr(torch.version, "hip", "6.4")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (3, 4))
    gpu = devices.Device(kind="cuda", torch_device=torch.device("cuda"), name="AMD Test")
    known = environments.probed(gpu).environment
    assert known.is_rocm
    assert known.compute_capability == (0, 0)
    assert Optimizations.can_use("half_precision.bfloat16", "cuda", known)
    assert not Optimizations.can_use("tf32", "cuda", known)


def test_a_build_without_sdp_is_seen(monkeypatch):
    assert environments._has_sdp(torch.device("cpu"))
    monkeypatch.delattr(torch.nn.functional, "scaled_dot_product_attention")
    assert not environments._has_sdp(torch.device("cpu"))
