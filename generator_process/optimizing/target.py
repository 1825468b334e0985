# SPDX-License-Identifier: GPL-3.0-or-later
"""What optimizations are applied to: the networks of a model, whatever family it is of.

Side: generator.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ..devices import Device
from ..messages import SeamlessAxes
from ..openvino_engine import Watch

if TYPE_CHECKING:
    from ..pipelines import LoadedModel

_DENOISERS = ("unet", "transformer", "prior", "decoder")
_GUIDES = ("controlnet", "adapter", "image_encoder")
_AUTOENCODERS = ("vae", "vqvae", "vqgan", "movq")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The networks of one or several pipelines that make an image together.

    `pipelines` is the model's pipeline and, for example, that of a refiner. `device` is where they
    compute, `dtype` in which type. `model` is what they were loaded as, or None if they were not.
    `axes` and `watch` are the job's, for an engine that has to convert the network.
    """

    pipelines: tuple[Any, ...]
    device: Device
    dtype: torch.dtype
    model: "LoadedModel | None" = None
    axes: SeamlessAxes = SeamlessAxes.OFF
    watch: Watch = field(default_factory=Watch)

    def networks(self) -> dict[str, nn.Module]:
        """Return all networks by name. One that several pipelines share is there once."""
        found: dict[str, nn.Module] = {}
        seen: set[int] = set()
        for place, pipeline in enumerate(self.pipelines):
            for name, component in pipeline.components.items():
                if isinstance(component, nn.Module) and id(component) not in seen:
                    seen.add(id(component))
                    found[f"{name}@{place}" if place else name] = component
        return found

    def denoisers(self) -> dict[str, nn.Module]:
        """Return what runs in every step: UNets and transformers, and what guides them."""
        return self._with_prefix((*_DENOISERS, *_GUIDES))

    def predictors(self) -> dict[str, nn.Module]:
        """Return the UNets and transformers alone."""
        return self._with_prefix(_DENOISERS)

    def autoencoders(self) -> dict[str, nn.Module]:
        """Return the VAEs."""
        return self._with_prefix(_AUTOENCODERS)

    def stages(self) -> Iterator[tuple[str, list[nn.Module]]]:
        """Yield what has to be on the device at the same time: (name, networks).

        A network and what guides it alternate within a step; all others take turns.
        """
        denoisers = self.denoisers()
        guides = [network for name, network in denoisers.items() if _stem(name) in _GUIDES]
        for name, network in self.networks().items():
            if name in denoisers and _stem(name) in _GUIDES:
                continue
            yield name, [network, *guides] if name in denoisers else [network]

    def signature(self) -> tuple[int, ...]:
        """Return what changes when networks, adapters or parts of them are exchanged."""
        return tuple(
            hash(tuple(id(module) for module in network.modules()))
            for network in self.networks().values()
        )

    def _with_prefix(self, prefixes: Sequence[str]) -> dict[str, nn.Module]:
        return {
            name: network for name, network in self.networks().items() if _stem(name) in prefixes
        }


def kind_of(pipelines: Sequence[Any]) -> str:
    """Return which kind of network makes the image, as `optimization_choices.MODEL_KINDS`."""
    return "transformer" if "transformer" in pipelines[0].components else "unet"


def _stem(name: str) -> str:
    """Return the name without the number of a second one: "transformer_2@1" is "transformer"."""
    stem, _, number = name.partition("@")[0].rpartition("_")
    return stem if number.isdigit() else name.partition("@")[0]
