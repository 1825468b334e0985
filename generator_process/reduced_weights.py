# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep weights in fewer bits than they compute in. Side: generator.

Bits are lost that nothing brings back: a network with reduced weights is another one in memory, so
this is decided when it is loaded.
"""

from typing import Any

import torch

from ..optimizations import Quantization

CAST_STORAGE = torch.float8_e4m3fn


def quantized(choice: Quantization, dtype: torch.dtype) -> dict[str, Any]:
    """Return the arguments with which diffusers loads a network quantized. None if it is not.

    Args:
        choice: How the weights of linear layers are kept.
        dtype: Type of the arithmetic and of the layers that stay as they are.
    """
    if choice is Quantization.OFF:
        return {}
    return {"quantization_config": _configuration(choice, dtype)}


def cast_layerwise(network: Any, dtype: torch.dtype) -> None:  # noqa: ANN401
    """Keep the weights of linear and convolutional layers in 8 bits, and compute in `dtype`."""
    network.enable_layerwise_casting(storage_dtype=CAST_STORAGE, compute_dtype=dtype)


def _configuration(choice: Quantization, dtype: torch.dtype) -> object:
    import diffusers

    if choice is Quantization.BITSANDBYTES_8BIT:
        return diffusers.BitsAndBytesConfig(load_in_8bit=True)
    if choice is Quantization.BITSANDBYTES_4BIT:
        return diffusers.BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype
        )
    from torchao.quantization import Int8WeightOnlyConfig

    return diffusers.TorchAoConfig(Int8WeightOnlyConfig())
