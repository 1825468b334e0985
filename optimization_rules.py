# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of a machine, and what the requirements of the options mean there. Side: both.

One table, `REQUIREMENTS`, has a rule for each name that a declaration requires. A rule returns the
sentence that says what is missing, or an empty text.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from .optimization_choices import Attention, HalfPrecision

DEVICE_LABELS = {
    "cuda": "an NVIDIA or AMD GPU",
    "mps": "an Apple GPU",
    "dml": "DirectML",
    "xpu": "an Intel GPU",
    "cpu": "the CPU",
}

MODEL_KIND_LABELS = {
    "unet": "models that have a UNet, such as Stable Diffusion 1.5 and XL",
    "transformer": "transformer models, such as Stable Diffusion 3 and Flux",
}

# Cards whose half-precision convolutions give NaN: GeForce GTX 1630, 1650, 1660 and their
# professional and mobile relatives with the same chip (PyTorch issues 58123 and 77955).
_BROKEN_HALF = re.compile(r"GTX 16\d\d|\bT[56]\d\d\b|\bT1[02]00\b|MX450|MX550")

AMPERE = (8, 0)
"""Compute capability of the first NVIDIA GPUs with bfloat16 and TF32."""

_BFLOAT16_FLAGS = ("avx512_bf16", "amx_bf16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What is known of one machine and the device that is used on it. By default nothing.

    `probed` is true when the generator filled it in. `device_name` is the GPU's name by its driver,
    `total_memory` and `free_memory` are the device's bytes, `host_total_memory` and
    `host_free_memory` the computer's (0: unknown). `packages` are (import name, version) pairs,
    `defects` (import name, what is wrong) pairs of packages that do not work here.
    `compute_capability` is (0, 0) but for NVIDIA. `os` is "linux", "windows" or "macos", with its
    `os_version`. `cpu_flags` are lower case, as Linux names them. `half_fails` says that a trial of
    half precision gave no numbers.
    """

    probed: bool = False
    device_name: str = ""
    total_memory: int = 0
    free_memory: int = 0
    host_total_memory: int = 0
    host_free_memory: int = 0
    torch_version: str = ""
    packages: tuple[tuple[str, str], ...] = ()
    defects: tuple[tuple[str, str], ...] = ()
    compute_capability: tuple[int, int] = (0, 0)
    is_rocm: bool = False
    has_sdp: bool = True
    half_fails: bool = False
    has_compiler: bool = False
    os: str = ""
    os_version: tuple[int, ...] = ()
    cpu_flags: tuple[str, ...] = ()


def _nvidia(label: str, _device: str, environment: Environment) -> str:
    return f"{label} does not work on AMD GPUs." if environment.is_rocm else ""


def _ampere(label: str, _device: str, environment: Environment) -> str:
    if environment.is_rocm or environment.compute_capability >= AMPERE:
        return ""
    return f"{label} needs an NVIDIA GPU from the RTX 30 series on{_instead_of(environment)}."


def _half(label: str, _device: str, environment: Environment) -> str:
    if environment.half_fails or _BROKEN_HALF.search(environment.device_name):
        return f"{label} gives black images on {environment.device_name or 'this GPU'}."
    return ""


def _bfloat16(label: str, device: str, environment: Environment) -> str:
    if device == "cuda":
        return _ampere(label, device, environment)
    if device == "mps" and environment.probed and environment.os_version < (14,):
        return f"{label} needs macOS 14 or newer."
    if device == "cpu" and not set(_BFLOAT16_FLAGS) & set(environment.cpu_flags):
        return f"{label} on the CPU needs a processor with AVX512_BF16 or AMX."
    return ""


def _sdp(label: str, _device: str, environment: Environment) -> str:
    return "" if environment.has_sdp else f"{label} is missing in this build of PyTorch."


def _torch_2(label: str, _device: str, environment: Environment) -> str:
    found = environment.torch_version
    if found and _numbers(found) < (2,):
        return f"{label} needs PyTorch 2.0, and {found} is installed."
    return ""


def _compiler(label: str, device: str, environment: Environment) -> str:
    if not environment.probed:
        return _not_known(label)
    if device != "cpu" and "triton" not in dict(environment.packages):
        return f"{label} needs the package triton, which is not installed."
    if device == "cpu" and not environment.has_compiler:
        return f"{label} on the CPU needs a C++ compiler, and none was found."
    return ""


def _package(
    name: str, version: str = "", *, always_installed: bool = False
) -> Callable[[str, str, Environment], str]:
    def rule(label: str, _device: str, environment: Environment) -> str:
        if not environment.probed:
            return "" if always_installed else _not_known(label)
        found = dict(environment.packages).get(name)
        if found is None:
            return f"{label} needs the package {name}, which is not installed."
        if version and _numbers(found) < _numbers(version):
            return f"{label} needs {name} {version} or newer, and {found} is installed."
        defect = dict(environment.defects).get(name)
        return f"{label} cannot be used: {name} {found} {defect}." if defect else ""

    return rule


REQUIREMENTS: dict[str, Callable[[str, str, Environment], str]] = {
    "accelerate": _package("accelerate", always_installed=True),
    "ampere": _ampere,
    "bfloat16": _bfloat16,
    "bitsandbytes": _package("bitsandbytes"),
    "compiler": _compiler,
    "flash_attn": _package("flash_attn"),
    "half": _half,
    "nvidia": _nvidia,
    "openvino": _package("openvino"),
    "sageattention>=2.1.1": _package("sageattention", "2.1.1"),
    "sdp": _sdp,
    "torch>=2.0": _torch_2,
    "torchao>=0.15": _package("torchao", "0.15"),
    "xformers": _package("xformers"),
}
"""What a declaration may require: (label, device, environment) to what is missing."""

OPTIONAL_PACKAGES = (
    "accelerate",
    "bitsandbytes",
    "flash_attn",
    "openvino",
    "sageattention",
    "torchao",
    "triton",
    "xformers",
)
"""The import names of all packages that a requirement asks about."""


def automatic_attention(device: str, environment: Environment) -> Attention:
    """Return what automatic attention means on this machine."""
    missing = _sdp("", device, environment) or _torch_2("", device, environment)
    return Attention.SLICED if missing and device != "mps" else Attention.SDP


def automatic_precision(device: str, environment: Environment, model_kind: str) -> HalfPrecision:
    """Return what automatic half precision means on this machine for this kind of network.

    Convolutional networks were trained to work in float16; transformers overflow in it.
    """
    coarse = not _bfloat16("", device, environment) and device != "dml"
    half = not _half("", device, environment) and device != "cpu"
    if device == "cpu" or (model_kind == "transformer" and device != "dml"):
        return HalfPrecision.BFLOAT16 if coarse else HalfPrecision.OFF
    return HalfPrecision.FLOAT16 if half else HalfPrecision.OFF


def _not_known(label: str) -> str:
    return f"Whether {label} works is known once the generator has started."


def _instead_of(environment: Environment) -> str:
    name = environment.device_name
    return f", and this is {name}" if name else ""


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: "2.4.1+cpu" is (2, 4, 1)."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()
