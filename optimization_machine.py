# SPDX-License-Identifier: GPL-3.0-or-later
"""What can be said of the options on this machine, before and after the generator has started.

The device and what is installed are known from the generator's `Ready` on. Until then an option is
offered if any device supports it that a computer with this operating system may have.

Side: Blender. Without bpy, so that what is said can be tested for every device.
"""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .optimizations import Environment, Optimizations

if TYPE_CHECKING:
    from .generator_process.messages import Ready

_DEVICES_OF_SYSTEM = {
    "darwin": ("mps", "cpu"),
    "win32": ("cuda", "xpu", "dml", "cpu"),
}
_OTHER_DEVICES = ("cuda", "xpu", "cpu")

_OF_THE_MACHINE = "cpu_only"  # not of the device that computes


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """`devices` are the kinds that may compute, `text` says to the user which one it is."""

    devices: tuple[str, ...]
    environment: Environment
    is_known: bool
    text: str

    @property
    def device(self) -> str | None:
        """The kind of device, or None while it is unknown."""
        return self.devices[0] if self.is_known else None

    def shows(self, option: str) -> bool:
        """Return whether a device that this machine may have supports the option or choice."""
        return any(Optimizations.device_supports(option, device) for device in self.devices)

    def why_not(self, option: str) -> str:
        """Return why the option or choice cannot be used here. Empty if it can, or may."""
        if not self.is_known:
            return ""
        return Optimizations.why_not(option, self.devices[0], self.environment)


def machine_of(ready: "Ready | None", system: str = sys.platform) -> Machine:
    """Return what is known of this machine.

    Args:
        ready: What the generator said of itself, if it has been started.
        system: The operating system as `sys.platform` names it.
    """
    if ready is None:
        return Machine(
            devices=_DEVICES_OF_SYSTEM.get(system, _OTHER_DEVICES),
            environment=Environment(),
            is_known=False,
            text="The device is known after the first generation",
        )
    return Machine(
        devices=(ready.device,),
        environment=ready.environment,
        is_known=True,
        text=ready.device_name,
    )


def computing(machine: Machine, option: str, *, cpu_only: bool) -> Machine:
    """Return the machine by which an option is judged: the processor's if it has to compute."""
    if not cpu_only or option == _OF_THE_MACHINE:
        return machine
    return Machine(
        devices=("cpu",),
        environment=machine.environment,
        is_known=machine.is_known,
        text=machine.text,
    )
