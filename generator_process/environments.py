# SPDX-License-Identifier: GPL-3.0-or-later
"""Find out what `Optimizations.can_use` wants to know of this machine. Side: generator.

Nothing is imported that takes long, but for optional packages that are installed and have to be
tried: being installed does not mean that they work with this PyTorch.
"""

import contextlib
import importlib
import io
import logging
import os
import platform
import shutil
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import torch

from ..optimization_rules import OPTIONAL_PACKAGES, Environment
from .devices import Device

_OS = {"linux": "linux", "win32": "windows", "darwin": "macos"}

_DISTRIBUTIONS = {"flash_attn": ("flash-attn",), "triton": ("triton", "triton-windows")}

_COMPILERS = ("c++", "g++", "clang++")

_FLAGS = {"avx512_bf16": "_is_avx512_bf16_supported", "amx_bf16": "_is_amx_tile_supported"}

_GTX_16 = (7, 5)
"""Compute capability of the cards whose half precision fails, and of the RTX 20 series."""

# Errors of a package whose compiled parts do not fit this PyTorch or this device.
_FAILURES = (ImportError, OSError, RuntimeError, NotImplementedError, AttributeError, ValueError)


def probed(device: Device) -> Device:
    """Return the device with all that is known of it and of the machine that it is in."""
    return replace(device, known=_probe(device.kind, device.name, device.torch_device))


def environment_now(device: Device) -> Environment:
    """Return what is known of the device, with the memory that is free now."""
    return with_free_memory(device.environment, device.torch_device.type)


def _probe(kind: str, name: str, device: torch.device) -> Environment:
    is_rocm = kind == "cuda" and torch.version.hip is not None
    packages = _packages()
    capability = _capability(kind, is_rocm=is_rocm)
    return with_free_memory(
        Environment(
            probed=True,
            device_name=name,
            torch_version=torch.__version__,
            packages=packages,
            defects=_defects(kind, packages),
            compute_capability=capability,
            is_rocm=is_rocm,
            has_sdp=_has_sdp(device),
            half_fails=capability == _GTX_16 and not _half_is_finite(device),
            has_compiler=_has_compiler(),
            os=_OS.get(sys.platform, sys.platform),
            os_version=_os_version(),
            cpu_flags=_cpu_flags(),
        ),
        kind,
    )


def with_free_memory(environment: Environment, kind: str) -> Environment:
    """Return the environment with what memory there is now."""
    host_free, host_total = _host_memory()
    free, total = _device_memory(kind, (host_free, host_total))
    return replace(
        environment,
        free_memory=free,
        total_memory=total,
        host_free_memory=host_free,
        host_total_memory=host_total,
    )


def xformers_defect() -> str:
    """Try xFormers on a small attention. Return what is wrong with it, or an empty text.

    Its warnings (a missing Triton, compiled parts for another PyTorch) reach nobody.
    """
    with _quiet("xformers"):
        try:
            attention = importlib.import_module("xformers.ops").memory_efficient_attention
            query = torch.zeros(1, 8, 1, 16, device="cuda", dtype=torch.float16)
            attention(query, query, query)
        except _FAILURES as error:
            lines = str(error).strip().splitlines()
            what = lines[0].rstrip(".:") if lines else type(error).__name__
            return f"does not work with PyTorch {torch.__version__} ({what})"
    return ""


@contextlib.contextmanager
def _quiet(package: str) -> Iterator[None]:
    """Within this context a package may log, warn and print what it likes."""
    logger = logging.getLogger(package)
    before = logger.disabled, logger.level, logger.propagate
    logger.setLevel(logging.CRITICAL + 1)
    sink = io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(sink):
            warnings.simplefilter("ignore")
            with contextlib.redirect_stderr(sink):
                yield
    finally:
        logger.disabled, logger.level, logger.propagate = before


def _packages() -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for package in OPTIONAL_PACKAGES:
        if find_spec(package) is None:
            continue
        for distribution in _DISTRIBUTIONS.get(package, (package,)):
            try:
                found.append((package, version(distribution)))
                break
            except PackageNotFoundError:
                continue
    return tuple(found)


def _defects(kind: str, packages: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    if kind != "cuda" or "xformers" not in dict(packages):
        return ()
    defect = xformers_defect()
    return (("xformers", defect),) if defect else ()


def _capability(kind: str, *, is_rocm: bool) -> tuple[int, int]:
    if kind != "cuda" or is_rocm:
        return (0, 0)
    major, minor = torch.cuda.get_device_capability()
    return major, minor


def _has_sdp(device: torch.device) -> bool:
    """Try it: DirectML builds may have the function and not the operator."""
    function = getattr(torch.nn.functional, "scaled_dot_product_attention", None)
    if function is None:
        return False
    if device.type in ("cuda", "mps", "xpu", "cpu"):
        return True
    try:
        query = torch.zeros(1, 1, 2, 4, device=device)
        function(query, query, query)
    except (RuntimeError, NotImplementedError):
        return False
    return True


def _half_is_finite(device: torch.device) -> bool:
    """Try a convolution in half precision: on GTX 16 cards it gives NaN."""
    values = torch.ones(1, 32, 16, 16, device=device, dtype=torch.float16)
    kernel = torch.full((32, 32, 3, 3), 0.01, device=device, dtype=torch.float16)
    try:
        return bool(torch.isfinite(torch.nn.functional.conv2d(values, kernel, padding=1)).all())
    except RuntimeError:
        return False


def _has_compiler() -> bool:
    given = os.environ.get("CXX")
    names = ("cl",) if sys.platform == "win32" else _COMPILERS
    return any(shutil.which(name) for name in (given, *names) if name)


def _os_version() -> tuple[int, ...]:
    text = platform.mac_ver()[0] if sys.platform == "darwin" else platform.release()
    numbers = text.partition("-")[0].split(".")
    return tuple(int(number) for number in numbers if number.isdigit())


def _cpu_flags() -> tuple[str, ...]:
    found: list[str] = []
    for flag, name in _FLAGS.items():
        supported = getattr(torch.cpu, name, None)
        if supported is not None and supported():
            found.append(flag)
    return tuple(found)


def _device_memory(kind: str, host: tuple[int, int]) -> tuple[int, int]:
    """Return free and total bytes of the device, 0 if unknown."""
    if kind == "cuda":
        return torch.cuda.mem_get_info()
    if kind == "xpu":
        total = int(torch.xpu.get_device_properties().total_memory)
        return max(0, total - torch.xpu.memory_allocated()), total
    if kind == "mps":
        total = int(torch.mps.recommended_max_memory())
        return max(0, total - torch.mps.driver_allocated_memory()), total
    return host if kind == "cpu" else (0, 0)


def _host_memory() -> tuple[int, int]:
    """Return free and total bytes of the computer's memory, 0 if unknown."""
    try:
        import psutil
    except ImportError:
        return 0, 0
    memory = psutil.virtual_memory()
    return int(memory.available), int(memory.total)
