# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the weights are: on the device, or in the computer's memory until they compute.

Side: generator.

* off: all on the device.
* model: networks take turns. A network and what guides it (ControlNets) stay together.
* group: blocks take turns, the unit in which UNets and transformers are built. In autoencoders
  it is the layers: exact tiling runs them without their blocks.
* submodule: every layer is there only while it computes.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import torch
from torch import nn

from ...optimizations import CpuOffload, Optimizations
from ..devices import Device, release_cached_memory
from .fetching import Hook, Weights, install
from .target import Target

OPTIONS = ("cpu_offload",)

_CPU = torch.device("cpu")


def apply(target: Target, options: Optimizations, undo: ExitStack) -> list[str]:
    """Place all networks. Ends whatever placement was there before."""
    if options.cpu_offload is CpuOffload.OFF:
        _move(target, target.device.torch_device)
        return []
    _move(target, _CPU)
    if options.cpu_offload is CpuOffload.MODEL:
        _take_turns(target, undo)
    else:
        autoencoders = list(target.autoencoders().values())
        for network in target.networks().values():
            in_blocks = options.cpu_offload is CpuOffload.GROUP and network not in autoencoders
            _fetch_parts(target, network, undo, in_blocks=in_blocks)
    return []


def park(target: Target) -> None:
    """Bring all weights that wait for nothing back, so that the device's memory is free."""
    released = False
    for network in target.networks().values():
        for module in network.modules():
            hook = vars(module).get("_hf_hook")
            if isinstance(hook, Hook):
                released |= hook.weights.release()
    if released:
        release_cached_memory(target.device)


def _move(target: Target, device: torch.device) -> None:
    for network in target.networks().values():
        if getattr(network, "quantization_method", None) is None:  # placed when it was loaded
            network.to(device)


def _take_turns(target: Target, undo: ExitStack) -> None:
    device = target.device
    networks = list(target.networks().values())
    weights = {id(one): Weights(one.modules(), device.torch_device) for one in networks}
    together: dict[int, set[int]] = {id(one): {id(one)} for one in networks}
    for _, stage in target.stages():
        for one in stage:
            together[id(one)] |= {id(other) for other in stage}
    for network in networks:
        others = [weights[key] for key in weights if key not in together[id(network)]]
        before = partial(_enter, weights[id(network)], others, device)
        install(network, Hook(weights[id(network)], before, stays=True), undo)


def _enter(ours: Weights, others: list[Weights], device: Device) -> None:
    released = [other.release() for other in others]
    if any(released):
        release_cached_memory(device)
    ours.fetch()


def _fetch_parts(target: Target, network: nn.Module, undo: ExitStack, *, in_blocks: bool) -> None:
    device = target.device.torch_device
    parts = _blocks(network) if in_blocks else _layers(network)
    for module, owners in parts:
        weights = Weights(owners, device)
        install(module, Hook(weights, weights.fetch, stays=False), undo)


def _layers(network: nn.Module) -> Iterator[tuple[nn.Module, list[nn.Module]]]:
    """Yield every module that has weights of its own, and the network, which needs a hook."""
    for module in network.modules():
        if module is network or _has_tensors(module):
            yield module, [module]


def _blocks(network: nn.Module) -> Iterator[tuple[nn.Module, list[nn.Module]]]:
    """Yield the outermost members of module lists as a whole, and all other modules as layers."""
    inside: set[nn.Module] = set()
    for module in network.modules():
        if isinstance(module, nn.ModuleList) and module not in inside:
            for block in module:
                yield block, list(block.modules())
                inside.update(block.modules())
        elif module not in inside and (module is network or _has_tensors(module)):
            yield module, [module]


def _has_tensors(module: nn.Module) -> bool:
    return any(True for _ in module.parameters(recurse=False)) or any(
        True for _ in module.buffers(recurse=False)
    )
