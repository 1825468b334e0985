# SPDX-License-Identifier: GPL-3.0-or-later
"""The choices inside the options, and what is declared about each of them. Side: both.

`about` is the one shape of all declarations: of the options in `optimizations.py` and of their
choices here. Nothing is decided in this module.
"""

from enum import Enum
from typing import Any

DEVICES = ("cuda", "mps", "dml", "xpu", "cpu")
"""The kinds of device. ROCm presents itself as "cuda"."""

MODEL_KINDS = ("unet", "transformer")
"""The kinds of denoising network."""

_GPUS_WITH_OWN_MEMORY = ("cuda", "dml", "xpu")


class Engine(Enum):
    """What computes the denoising network."""

    TORCH = "torch"
    OPENVINO = "openvino"


class Attention(Enum):
    """How attention is computed."""

    AUTOMATIC = "automatic"
    SDP = "sdp"
    XFORMERS = "xformers"
    SLICED = "sliced"
    CLASSIC = "classic"
    FLASH = "flash"
    SAGE = "sage"


class HalfPrecision(Enum):
    """The type of weights and arithmetic."""

    AUTOMATIC = "automatic"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    OFF = "off"


class CpuOffload(Enum):
    """Which parts of the model wait in the computer's memory."""

    OFF = "off"
    MODEL = "model"
    SUBMODULE = "submodule"
    GROUP = "group"


class VaeTiling(Enum):
    """How the VAE treats images that are larger than a tile."""

    OFF = "off"
    FAST = "fast"
    EXACT = "exact"


class Quantization(Enum):
    """In how many bits the weights of linear layers are kept."""

    OFF = "off"
    BITSANDBYTES_8BIT = "bitsandbytes_8bit"
    BITSANDBYTES_4BIT = "bitsandbytes_4bit"
    TORCHAO_INT8 = "torchao_int8"


class StepCache(Enum):
    """What is taken over from one step to the next."""

    OFF = "off"
    FIRST_BLOCK = "first_block"
    TAYLORSEER = "taylorseer"


def about(
    label: str,
    description: str,
    *,
    devices: tuple[str, ...] = DEVICES,
    requires: tuple[str, ...] = (),
    **more: object,
) -> dict[str, Any]:
    """Declare an option or a choice.

    Args:
        label: Its name for the user.
        description: What it does and costs and where it does not work, without a full stop.
        devices: The kinds of device that support it at all.
        requires: Names of `optimization_rules.REQUIREMENTS` that have to be met.
        more: `model_kinds` (default: all), `conflicts` (names of options and choices that it is
            not combined with), `saves` ("speed" or "memory"), `limits` (lowest, highest) of a
            number, `choices` (declarations by value) of an option that is an enum.
    """
    declared: dict[str, Any] = {"model_kinds": MODEL_KINDS, "conflicts": ()} | more
    return declared | {
        "label": label,
        "description": description,
        "devices": devices,
        "requires": requires,
    }


ENGINES = {
    Engine.TORCH: about("PyTorch", "Works on every device"),
    Engine.OPENVINO: about(
        "OpenVINO",
        "Intel's engine for processors, Intel GPUs and NPUs. On a processor two to three times"
        " faster than PyTorch. Each model is converted once, which takes a minute and disk space",
        devices=("cpu", "xpu"),
        requires=("openvino",),
        conflicts=(
            "attention.sliced",
            "attention.classic",
            "attention.xformers",
            "attention.flash",
            "attention.sage",
            "cpu_offload",
            "torch_compile",
            "layerwise_casting",
            "quantization",
            "step_cache",
        ),
    ),
}

ATTENTIONS = {
    Attention.AUTOMATIC: about("Automatic", "SDP where it works, else the next best"),
    Attention.SDP: about(
        "SDP",
        "The fused attention of PyTorch 2: fast, little memory, hardly a difference in the image",
        requires=("torch>=2.0", "sdp"),
    ),
    Attention.XFORMERS: about(
        "xFormers",
        "Memory-efficient attention of the xFormers package. About as fast as SDP on new GPUs."
        " Images can differ slightly from run to run. NVIDIA GPUs only, in half precision",
        devices=("cuda",),
        requires=("nvidia", "xformers"),
        conflicts=("half_precision.off",),
    ),
    Attention.SLICED: about(
        "Sliced",
        "A few attention heads at a time: least memory where SDP is missing, and a third slower."
        " Gives black images on Apple GPUs, so it is not offered there",
        devices=("cuda", "dml", "xpu", "cpu"),
        model_kinds=("unet",),
    ),
    Attention.CLASSIC: about(
        "Classic",
        "Plain matrix products, as before PyTorch 2. Slow and takes much memory: only to compare."
        " Not on Apple GPUs, as Sliced",
        devices=("cuda", "dml", "xpu", "cpu"),
        model_kinds=("unet",),
    ),
    Attention.FLASH: about(
        "FlashAttention",
        "The flash-attn package, for transformer models in half precision on NVIDIA GPUs from the"
        " RTX 30 series on, and on AMD GPUs",
        devices=("cuda",),
        requires=("ampere", "flash_attn"),
        model_kinds=("transformer",),
        conflicts=("half_precision.off",),
    ),
    Attention.SAGE: about(
        "SageAttention",
        "8-bit attention of the sageattention package: faster, with small differences in the"
        " image. For transformer models in half precision on NVIDIA GPUs from the RTX 30 series on",
        devices=("cuda",),
        requires=("nvidia", "ampere", "sageattention>=2.1.1"),
        model_kinds=("transformer",),
        conflicts=("half_precision.off",),
    ),
}

PRECISIONS = {
    HalfPrecision.AUTOMATIC: about("Automatic", "The type that suits the device and the model"),
    HalfPrecision.FLOAT16: about(
        "Float16",
        "Fastest on GPUs. Some models overflow in it. Not on processors, and not on GTX 16 cards",
        devices=("cuda", "mps", "dml", "xpu"),
        requires=("half",),
    ),
    HalfPrecision.BFLOAT16: about(
        "BFloat16",
        "Never overflows and is a little coarser. Needs an NVIDIA GPU from the RTX 30 series on, an"
        " AMD, Intel or Apple GPU (macOS 14), or a processor with AVX512_BF16 or AMX",
        devices=("cuda", "mps", "xpu", "cpu"),
        requires=("bfloat16",),
    ),
    HalfPrecision.OFF: about("Off", "32 bits: twice the memory, and most exact"),
}

OFFLOADS = {
    CpuOffload.OFF: about("Off", "The whole model stays on the device"),
    CpuOffload.MODEL: about(
        "Model",
        "One of text encoder, denoising network and VAE is on the GPU at a time. Saves much and"
        " costs little time",
        devices=_GPUS_WITH_OWN_MEMORY,
        requires=("accelerate",),
    ),
    CpuOffload.SUBMODULE: about(
        "Submodule",
        "One layer is on the GPU at a time. Least memory, and several times slower",
        devices=_GPUS_WITH_OWN_MEMORY,
        requires=("accelerate",),
        conflicts=("torch_compile", "quantization"),
    ),
    CpuOffload.GROUP: about(
        "Group",
        "One block of layers is on the GPU at a time: between Model and Submodule. Not on DirectML",
        devices=("cuda", "xpu"),
        requires=("accelerate",),
        conflicts=("torch_compile", "quantization"),
    ),
}

TILINGS = {
    VaeTiling.OFF: about("Off", "The whole image at once"),
    VaeTiling.FAST: about(
        "Fast",
        "Tiles on their own, blended at their edges. Colours can shift from tile to tile",
    ),
    VaeTiling.EXACT: about(
        "Exact",
        "Tile by tile with the statistics of the whole image: the same image as without tiles, for"
        " up to a fifth more time",
    ),
}

QUANTIZATIONS = {
    Quantization.OFF: about("Off", "Weights as they are"),
    Quantization.BITSANDBYTES_8BIT: about(
        "8 Bit (bitsandbytes)",
        "Half the memory of half precision, somewhat slower. NVIDIA, AMD and Intel GPUs",
        devices=("cuda", "xpu"),
        requires=("accelerate", "bitsandbytes"),
        conflicts=("torch_compile", "layerwise_casting", "cpu_offload", "half_precision.off"),
    ),
    Quantization.BITSANDBYTES_4BIT: about(
        "4 Bit (bitsandbytes)",
        "A quarter of the memory of half precision, with visible differences. Not on processors and"
        " DirectML",
        devices=("cuda", "xpu", "mps"),
        requires=("accelerate", "bitsandbytes"),
        conflicts=("torch_compile", "layerwise_casting", "cpu_offload"),
    ),
    Quantization.TORCHAO_INT8: about(
        "8 Bit (torchao)",
        "Weights in 8 bits by the torchao package. Half the memory of half precision",
        devices=("cuda", "xpu", "cpu"),
        requires=("torchao>=0.15",),
        conflicts=("layerwise_casting",),
    ),
}

STEP_CACHES = {
    StepCache.OFF: about("Off", "Every step is computed in full"),
    StepCache.FIRST_BLOCK: about(
        "First Block",
        "When the first block changes little from one step to the next, the others are not"
        " computed. Up to twice as fast, with small differences. Transformer models only",
        model_kinds=("transformer",),
        conflicts=("cfg_end", "torch_compile"),
    ),
    StepCache.TAYLORSEER: about(
        "TaylorSeer",
        "Most steps continue the trend of the steps before instead of computing. Two to three"
        " times as fast, with visible differences. Transformer models only",
        model_kinds=("transformer",),
        conflicts=("cfg_end", "torch_compile"),
    ),
}
