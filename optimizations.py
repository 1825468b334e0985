# SPDX-License-Identifier: GPL-3.0-or-later
"""What may be done to save time or memory, and where it applies. Side: both.

Each field's metadata is the single source for the panel, the checks and the documentation:
`label`, `description`, `devices` (kinds that support it at all) and `saves` ("speed" or "memory").
Nothing is imported but the standard library, so that drawing a panel stays cheap.
"""

from dataclasses import dataclass, field, fields
from typing import Any

from .generator_process.errors import InvalidRequestError

DEVICES = ("cuda", "mps", "dml", "xpu", "cpu")
"""The kinds of device. ROCm presents itself as "cuda"."""

MAX_BATCH_SIZE = 64

_DEVICE_LABELS = {
    "cuda": "an NVIDIA or AMD GPU",
    "mps": "an Apple GPU",
    "dml": "DirectML",
    "xpu": "an Intel GPU",
    "cpu": "the CPU",
}

# Cards whose half-precision convolutions give NaN (GeForce GTX 1630, 1650, 1660 and variants).
_BROKEN_HALF = ("GTX 16",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What is known about one machine.

    `device_name` is the name of the GPU as its driver gives it, empty if not known.
    """

    device_name: str = ""


def _about(
    *, label: str, description: str, saves: str, devices: tuple[str, ...] = DEVICES
) -> dict[str, Any]:
    return {"label": label, "description": description, "saves": saves, "devices": devices}


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizations:
    """The user's choices. Which of them take effect depends on the device."""

    half_precision: bool = field(
        default=True,
        metadata=_about(
            label="Half Precision",
            description="Keep weights and do arithmetic in 16 bits. Needs half the memory and is"
            " faster on GPUs. Pictures differ slightly",
            saves="memory",
            devices=("cuda", "mps", "dml", "xpu"),
        ),
    )
    vae_slicing: bool = field(
        default=True,
        metadata=_about(
            label="VAE Slicing",
            description="Decode the images of a batch one by one. Needs less memory and costs no"
            " time",
            saves="memory",
        ),
    )
    batch_size: int = field(
        default=1,
        metadata=_about(
            label="Batch Size",
            description="How many images are made at the same time. More is faster on GPUs with"
            " enough memory. An image made in a batch can differ in its last bits from the same"
            " image made alone",
            saves="speed",
            devices=("cuda", "dml", "xpu", "cpu"),
        ),
    )

    def __post_init__(self) -> None:
        if not 1 <= self.batch_size <= MAX_BATCH_SIZE:
            raise InvalidRequestError(
                f"Batch size {self.batch_size} is out of range."
                f" Use a value from 1 to {MAX_BATCH_SIZE}."
            )

    @classmethod
    def device_supports(cls, option: str, device: str) -> bool:
        """Return whether this kind of device supports the option at all.

        Args:
            option: Name of a field.
            device: One of `DEVICES`.

        Raises:
            ValueError: There is no such option or no such kind of device.
        """
        if device not in DEVICES:
            raise ValueError(f'There is no device "{device}". Use one of {", ".join(DEVICES)}.')
        return device in cls.metadata_of(option)["devices"]

    @classmethod
    def can_use(cls, option: str, device: str, environment: Environment | None = None) -> bool:
        """Return whether the device supports the option and it can be used on this machine."""
        return not cls.why_not(option, device, environment)

    @classmethod
    def why_not(cls, option: str, device: str, environment: Environment | None = None) -> str:
        """Return the sentence that says why the option cannot be used, or an empty text."""
        label = cls.metadata_of(option)["label"]
        if not cls.device_supports(option, device):
            return f"{label} is not available on {_DEVICE_LABELS[device]}."
        name = environment.device_name if environment is not None else ""
        if option == "half_precision" and any(part in name for part in _BROKEN_HALF):
            return f"{label} gives black images on {name}, so full precision is used."
        return ""

    @classmethod
    def metadata_of(cls, option: str) -> dict[str, Any]:
        """Return what is declared about an option: `label`, `description`, `devices`, `saves`."""
        for declared in fields(cls):
            if declared.name == option:
                return dict(declared.metadata)
        raise ValueError(f'There is no optimization "{option}".')
