# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets of optimizations by name. Side: both."""

from dataclasses import replace
from typing import Any

from .optimizations import CpuOffload, Environment, Optimizations, VaeTiling

_PRESETS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "automatic": ("Automatic", "Chosen for each image, and changed when memory runs out", {}),
    "fastest": (
        "Fastest",
        "Everything that saves time and hardly changes the image",
        {
            "tf32": True,
            "cudnn_benchmark": True,
            "channels_last_memory_format": True,
            "vae_slicing": False,
        },
    ),
    "balanced": (
        "Balanced",
        "Saves memory where that costs little time",
        {
            "tf32": True,
            "channels_last_memory_format": True,
            "vae_tiling": VaeTiling.EXACT,
            "vae_tile_size": 1024,
        },
    ),
    "smallest": (
        "Smallest",
        "Least memory, several times slower",
        {
            "cpu_offload": CpuOffload.SUBMODULE,
            "vae_tiling": VaeTiling.EXACT,
            "vae_tile_size": 256,
        },
    ),
}


def presets() -> tuple[tuple[str, str, str], ...]:
    """Return (name, label, description) of each preset."""
    return tuple((name, label, about) for name, (label, about, _) in _PRESETS.items())


def preset(
    name: str, device: str | None = None, environment: Environment | None = None
) -> Optimizations:
    """Return the optimizations of a preset.

    Args:
        name: One of the names in `presets()`.
        device: If given, what cannot be used on this kind of device is left at its default.
        environment: The machine, with `device`.

    Raises:
        ValueError: There is no such preset.
    """
    if name not in _PRESETS:
        raise ValueError(f'There is no preset "{name}". Use one of {", ".join(_PRESETS)}.')
    settings = _PRESETS[name][2]
    if device is not None:
        settings = {
            option: value
            for option, value in settings.items()
            if Optimizations.can_use(_name_of(option, value), device, environment)
        }
    return replace(Optimizations(automatic=name == "automatic"), **settings)


def _name_of(option: str, value: object) -> str:
    choice = value.value if isinstance(value, CpuOffload | VaeTiling) else ""
    return f"{option}.{choice}" if choice else option
