# SPDX-License-Identifier: GPL-3.0-or-later
"""Free the weights of the UNet while OpenVINO has its own, and load them again. Side: generator.

They are given up only where they can be had again: for a model that came from a folder and whose
UNet has no adapters. Elsewhere they stay, at the cost of memory for two networks.
"""

from typing import TYPE_CHECKING

import torch

from ..errors import ModelError
from . import fingerprint

if TYPE_CHECKING:
    from diffusers import UNet2DConditionModel

    from ..pipelines import LoadedModel


def give_up(model: "LoadedModel", unet: "UNet2DConditionModel") -> None:
    """Free the memory of the weights, if they can be loaded again."""
    if model.folder is not None and not hasattr(unet, "peft_config"):
        unet.to("meta")


@torch.inference_mode(mode=False)
@torch.no_grad()
def take_back(model: "LoadedModel", unet: "UNet2DConditionModel", weights: str) -> None:
    """Load the weights again, if they were given up.

    Args:
        model: Where they come from.
        unet: The same object that gave them up.
        weights: The fingerprint that they had.

    Raises:
        ModelError: They are other weights now, or cannot be loaded.
    """
    if next(unet.parameters()).device != torch.device("meta"):
        return
    from ..pipelines import load_unet

    fresh = load_unet(model, unet.dtype)
    if fingerprint.of_module(fresh) != weights:
        raise ModelError(
            f'The files of model "{model.name}" have changed since it was loaded. Try again, which'
            " loads it anew."
        )
    state = fresh.state_dict()
    for name, given_up in unet.state_dict().items():
        if state[name].stride() != given_up.stride():  # channels last, for example
            strided = torch.empty_strided(given_up.shape, given_up.stride(), dtype=given_up.dtype)
            state[name] = strided.copy_(state[name])
    unet.load_state_dict(state, assign=True)
