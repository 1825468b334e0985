# SPDX-License-Identifier: GPL-3.0-or-later
"""Which device there is, what it can do, and why it is not a better one. Side: generator."""

import re
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import torch

from ..optimizations import Environment

REPORTED_PACKAGES = ("torch", "diffusers", "transformers", "accelerate", "safetensors", "numpy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """The device that all jobs of this process use.

    `kind` is one of `optimizations.DEVICES`, `torch_device` what torch calls it, `name` the
    hardware's name, `reason` says why it is the CPU (empty for every other device), and `known` is
    what was found out about the machine.
    """

    kind: str
    torch_device: torch.device
    name: str
    reason: str = ""
    known: Environment = field(default_factory=Environment)

    @property
    def description(self) -> str:
        """The name, and on the CPU the reason, for the user."""
        return f"{self.name} ({self.reason})" if self.reason else self.name

    @property
    def environment(self) -> Environment:
        """What `Optimizations.can_use` wants to know."""
        return replace(self.known, device_name=self.name)


def detect() -> Device:
    """Return the best device that works: CUDA or ROCm, Apple, Intel, DirectML, else the CPU."""
    cuda, reason = _cuda()
    if cuda is not None:
        return cuda
    if torch.backends.mps.is_available():
        return Device(kind="mps", torch_device=torch.device("mps"), name="Apple GPU")
    if torch.xpu.is_available():
        name = torch.xpu.get_device_name()
        return Device(kind="xpu", torch_device=torch.device("xpu"), name=name)
    directml = _directml()
    if directml is not None:
        return directml
    return Device(kind="cpu", torch_device=torch.device("cpu"), name="CPU", reason=reason)


def chosen(device: Device, *, cpu_only: bool) -> Device:
    """Return the device itself, or the CPU if the user wants to leave the device to others."""
    if not cpu_only or device.kind == "cpu":
        return device
    known = replace(
        device.known,
        total_memory=device.known.host_total_memory,
        free_memory=device.known.host_free_memory,
        compute_capability=(0, 0),
        is_rocm=False,
        half_fails=False,
        has_sdp=True,
    )
    cpu = torch.device("cpu")
    return Device(kind="cpu", torch_device=cpu, name="CPU", reason="as chosen", known=known)


def release_cached_memory(device: Device) -> None:
    """Give the memory that torch keeps for reuse back to the device."""
    if device.kind == "cuda":
        torch.cuda.empty_cache()
    elif device.kind == "mps":
        torch.mps.empty_cache()
    elif device.kind == "xpu":
        torch.xpu.empty_cache()


def installed_versions() -> tuple[tuple[str, str], ...]:
    """Return (package, version) pairs of what is installed, without importing the packages."""
    pairs: list[tuple[str, str]] = []
    for package in REPORTED_PACKAGES:
        try:
            pairs.append((package, version(package)))
        except PackageNotFoundError:
            continue
    return tuple(pairs)


def missing_architecture(capability: tuple[int, int], architectures: list[str]) -> str:
    """Return the name of the architecture that this build of torch lacks, or an empty text.

    A GPU runs binaries of its own major version up to its minor version ("sm_86" on 8.9), and
    compiles intermediate code of any lower version ("compute_80" on 12.0). An empty list means
    that the build does not say, and counts as complete.

    Args:
        capability: As `torch.cuda.get_device_capability` gives it, for example (12, 0).
        architectures: As `torch.cuda.get_arch_list` gives it, for example ["sm_80", "sm_90"].
    """
    major, minor = capability
    for architecture in architectures:
        match = re.fullmatch(r"(sm|compute)_(\d+)(\d)[a-z]?", architecture)
        if match is None:
            continue
        built = (int(match[2]), int(match[3]))
        if match[1] == "sm" and built[0] == major and built[1] <= minor:
            return ""
        if match[1] == "compute" and built <= capability:
            return ""
    return f"sm_{major}{minor}" if architectures else ""


def _cuda() -> tuple[Device | None, str]:
    """Return the CUDA or ROCm device, or None and why there is none."""
    if torch.version.cuda is None and torch.version.hip is None:
        return None, f"PyTorch {torch.__version__} was built without GPU support"
    try:
        if not torch.cuda.is_available():
            return None, "no GPU with a working driver was found"
        name = torch.cuda.get_device_name()
        missing = ""
        if torch.version.hip is None:
            missing = missing_architecture(
                torch.cuda.get_device_capability(), torch.cuda.get_arch_list()
            )
    except (RuntimeError, AssertionError) as error:  # torch asserts when CUDA does not start
        return None, f"the GPU could not be used: {_first_line(error)}"
    if missing:
        return None, (
            f"{name} needs {missing}, which PyTorch {torch.__version__} was not built for;"
            " install the runtime again to get a newer PyTorch"
        )
    return Device(kind="cuda", torch_device=torch.device("cuda"), name=name), ""


def _directml() -> Device | None:
    if find_spec("torch_directml") is None:
        return None
    import torch_directml  # pyright: ignore[reportMissingImports]

    if not torch_directml.is_available():
        return None
    name = torch_directml.device_name(torch_directml.default_device())
    return Device(kind="dml", torch_device=torch_directml.device(), name=name.rstrip("\0"))


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
