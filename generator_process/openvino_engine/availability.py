# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether OpenVINO is here, on which devices it runs, and in which precision. Side: generator."""

import importlib
import importlib.metadata
import os
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from ..errors import GeneratorError

if TYPE_CHECKING:
    from openvino import Core

DEVICE_VARIABLE = "TESSERA_OPENVINO_DEVICE"
"""Environment variable that names the device to use, such as CPU, GPU, GPU.1 or NPU."""

MISSING = (
    "OpenVINO is not installed in the runtime environment. Install it in Preferences, or set"
    " Engine to PyTorch."
)

# What a device calls a type among its capabilities, by what the precision hint calls it.
_CAPABILITIES = {"bf16": "BF16", "f16": "FP16", "f32": "FP32"}

# What the precision hint is by default, best first. Processors compute float16 by widening it.
_BEST_PRECISIONS = {"CPU": ("bf16",), "GPU": ("f16",), "NPU": ("f16",)}


class EngineError(GeneratorError):
    """OpenVINO could not be used. The text says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineDevice:
    """A device of OpenVINO.

    `name` is OpenVINO's, such as "CPU" or "GPU.0", `full_name` the hardware's. `precisions` are the
    types that its arithmetic has instructions for, of "f32", "bf16" and "f16".
    """

    name: str
    full_name: str
    precisions: tuple[str, ...]

    @property
    def kind(self) -> str:
        """What it is: "CPU", "GPU" or "NPU"."""
        return self.name.partition(".")[0]

    @property
    def takes_any_size(self) -> bool:
        """Whether one compiled network serves all sizes. NPUs need one for each."""
        return self.kind != "NPU"


def installed_version() -> str:
    """Return the version of OpenVINO, or an empty text if it is not installed."""
    try:
        return importlib.metadata.version("openvino")
    except importlib.metadata.PackageNotFoundError:
        return ""


def why_not() -> str:
    """Return the sentence that says why OpenVINO cannot be used here, or an empty text."""
    try:
        import_openvino()
    except EngineError as error:
        return str(error)
    return ""


def import_openvino() -> ModuleType:
    """Return the package, imported without the one that reports its use to Intel.

    Raises:
        EngineError: It is not installed, or cannot be imported.
    """
    if not installed_version():
        raise EngineError(MISSING)
    # OpenVINO reports each import and conversion over the network unless a user's file forbids it.
    # None makes importing the reporter fail, for which OpenVINO has a stand-in that does nothing.
    sys.modules.setdefault("openvino_telemetry", None)  # pyright: ignore[reportArgumentType]
    try:
        return importlib.import_module("openvino")
    except (ImportError, OSError) as error:
        raise EngineError(
            f"OpenVINO could not be started ({_first_line(error)}). Repair the runtime in"
            " Preferences, or set Engine to PyTorch."
        ) from error


def devices() -> tuple[EngineDevice, ...]:
    """Return the devices on which OpenVINO can run here. The CPU is always one of them.

    Raises:
        EngineError: OpenVINO is missing.
    """
    core = import_openvino().Core()
    return tuple(_describe(core, name) for name in core.available_devices)


def choose_device(name: str = "") -> EngineDevice:
    """Return the device to use: the named one, else a GPU if OpenVINO has one, else the CPU.

    Args:
        name: As OpenVINO names it. Empty: what `DEVICE_VARIABLE` says, or the best one.

    Raises:
        EngineError: OpenVINO is missing, or has no such device here.
    """
    found = devices()
    wanted = name or os.environ.get(DEVICE_VARIABLE, "")
    if wanted:
        for device in found:
            if wanted in (device.name, device.kind):
                return device
        names = ", ".join(device.name for device in found)
        raise EngineError(f'OpenVINO has no device "{wanted}" here. Use one of {names}.')
    return next((device for device in found if device.kind == "GPU"), found[0])


def choose_precision(device: EngineDevice, wanted: str = "automatic") -> str:
    """Return the precision to compute in: "f32", "bf16" or "f16".

    Args:
        device: What computes.
        wanted: One of these, or "automatic" for the fastest one that it has instructions for.

    Raises:
        EngineError: The device has no instructions for the one that is wanted.
    """
    if wanted == "automatic":
        best = _BEST_PRECISIONS.get(device.kind, ())
        return next((each for each in best if each in device.precisions), "f32")
    if wanted not in device.precisions and wanted != "f32":
        raise EngineError(
            f"{device.full_name} cannot compute in {wanted}. Set Half Precision to Automatic."
        )
    return wanted


def _describe(core: "Core", name: str) -> EngineDevice:
    capabilities = core.get_property(name, "OPTIMIZATION_CAPABILITIES")
    precisions = tuple(ours for ours, theirs in _CAPABILITIES.items() if theirs in capabilities)
    full_name = str(core.get_property(name, "FULL_DEVICE_NAME")).strip()
    return EngineDevice(name=name, full_name=full_name, precisions=precisions)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
