# SPDX-License-Identifier: GPL-3.0-or-later
"""Clean up after diffusers' hooks, which leave traces when they are removed. Side: generator."""

from torch import nn


def remove_empty_registries(network: nn.Module) -> None:
    """Delete hook registries without hooks, and `forward` methods that are the class's own."""
    for module in network.modules():
        own = vars(module)
        registry = own.get("_diffusers_hook")
        if registry is not None and not registry.hooks:
            del own["_diffusers_hook"]
        forget_plain_forward(module)


def forget_plain_forward(module: nn.Module) -> None:
    """Delete an instance's `forward` if it is no other than that of its class."""
    forward = vars(module).get("forward")
    if getattr(forward, "__func__", None) is type(module).forward:
        del vars(module)["forward"]
