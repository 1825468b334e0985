# SPDX-License-Identifier: GPL-3.0-or-later
"""What may be done to save time or memory, and where it applies. Side: both.

Each field's metadata is the single source for the panel, the checks and the documentation, with the
keys of `optimization_choices.about`. The choices inside an option are judged like options, by a
name such as "attention.xformers". Nothing is imported but the standard library, so that drawing a
panel stays cheap.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any

from .generator_process.errors import InvalidRequestError
from .optimization_choices import (
    ATTENTIONS,
    DEVICES,
    ENGINES,
    OFFLOADS,
    PRECISIONS,
    QUANTIZATIONS,
    STEP_CACHES,
    TILINGS,
    Attention,
    CpuOffload,
    Engine,
    HalfPrecision,
    Quantization,
    StepCache,
    VaeTiling,
    about,
)
from .optimization_rules import (
    DEVICE_LABELS,
    MODEL_KIND_LABELS,
    REQUIREMENTS,
    Environment,
)

__all__ = [
    "DEVICES",
    "MAX_BATCH_SIZE",
    "Attention",
    "CpuOffload",
    "Engine",
    "Environment",
    "HalfPrecision",
    "Optimizations",
    "Quantization",
    "StepCache",
    "VaeTiling",
]

MAX_BATCH_SIZE = 64

_UNKNOWN = Environment()


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimizations:
    """The user's choices. Which of them take effect depends on the device and the model."""

    automatic: bool = field(
        default=True,
        metadata=about(
            "Automatic",
            "Choose everything by the device, its free memory, the model and the image. Only Batch"
            " Size (as the upper limit), Guidance End and CPU Only are taken from the settings",
            saves="memory",
        ),
    )
    engine: Engine = field(
        default=Engine.TORCH,
        metadata=about(
            "Engine",
            "What computes the denoising network. OpenVINO is for processors and Intel devices",
            saves="speed",
            choices=ENGINES,
        ),
    )
    attention: Attention = field(
        default=Attention.AUTOMATIC,
        metadata=about(
            "Attention",
            "How attention is computed: it decides speed and memory of large images",
            saves="speed",
            choices=ATTENTIONS,
        ),
    )
    attention_slice_size: int = field(
        default=0,
        metadata=about(
            "Attention Slice Size",
            "Heads at a time with Sliced attention: fewer need less memory and more time. 0 is half"
            " of them. Not on Apple GPUs",
            devices=("cuda", "dml", "xpu", "cpu"),
            model_kinds=("unet",),
            saves="memory",
            limits=(0, 64),
        ),
    )
    half_precision: HalfPrecision = field(
        default=HalfPrecision.AUTOMATIC,
        metadata=about(
            "Half Precision",
            "Keep weights and do arithmetic in 16 bits. Needs half the memory and is faster."
            " Images differ slightly. On processors only where they have bfloat16 instructions",
            saves="speed",
            choices=PRECISIONS,
        ),
    )
    tf32: bool = field(
        default=False,
        metadata=about(
            "TF32",
            "Multiply 32-bit matrices with fewer bits: faster, with small differences. No effect in"
            " half precision. NVIDIA GPUs from the RTX 30 series on",
            devices=("cuda",),
            requires=("nvidia", "ampere"),
            saves="speed",
        ),
    )
    cudnn_benchmark: bool = field(
        default=False,
        metadata=about(
            "cuDNN Benchmark",
            "Try all convolution algorithms at each new size and keep the fastest. The first step"
            " takes longer. NVIDIA and AMD GPUs",
            devices=("cuda",),
            saves="speed",
        ),
    )
    channels_last_memory_format: bool = field(
        default=False,
        metadata=about(
            "Channels Last",
            "Keep the channels of a pixel together in memory. Faster on many GPUs and processors."
            " No gain on Apple GPUs, and not on DirectML",
            devices=("cuda", "xpu", "cpu"),
            model_kinds=("unet",),
            saves="speed",
        ),
    )
    cpu_offload: CpuOffload = field(
        default=CpuOffload.OFF,
        metadata=about(
            "CPU Offload",
            "Keep the parts of the model that are not computing in the computer's memory. For GPUs"
            " with memory of their own: NVIDIA, AMD, Intel and DirectML",
            devices=("cuda", "dml", "xpu"),
            saves="memory",
            choices=OFFLOADS,
        ),
    )
    vae_slicing: bool = field(
        default=True,
        metadata=about(
            "VAE Slicing",
            "Encode and decode the images of a batch one by one. Needs less memory and costs no"
            " time",
            saves="memory",
        ),
    )
    vae_tiling: VaeTiling = field(
        default=VaeTiling.OFF,
        metadata=about(
            "VAE Tiling",
            "Encode and decode an image in tiles: large images need little memory",
            saves="memory",
            choices=TILINGS,
        ),
    )
    vae_tile_size: int = field(
        default=512,
        metadata=about(
            "VAE Tile Size",
            "Side of a tile in pixels. Smaller tiles need less memory and more time",
            saves="memory",
            limits=(64, 4096),
        ),
    )
    vae_tile_blend: int = field(
        default=64,
        metadata=about(
            "VAE Tile Blend",
            "Overlap of two tiles in pixels with Fast tiling, at most half a tile. More hides the"
            " seams better and takes longer",
            saves="memory",
            limits=(0, 2048),
        ),
    )
    batch_size: int = field(
        default=1,
        metadata=about(
            "Batch Size",
            "How many images are made at the same time. More is faster on GPUs with enough memory."
            " An image made in a batch can differ in its last bits from the same image made alone."
            " One by one on Apple GPUs",
            devices=("cuda", "dml", "xpu", "cpu"),
            saves="speed",
            limits=(1, MAX_BATCH_SIZE),
        ),
    )
    cfg_end: float = field(
        default=1.0,
        metadata=about(
            "Guidance End",
            "Share of the steps that follow Guidance. Each step after it takes half the time, and"
            " the image changes a little",
            saves="speed",
            limits=(0.0, 1.0),
        ),
    )
    torch_compile: bool = field(
        default=False,
        metadata=about(
            "Compile",
            "Compile the denoising network. The first image takes minutes longer, the others are up"
            " to a third faster. Not on DirectML and Apple GPUs",
            devices=("cuda", "xpu", "cpu"),
            requires=("compiler",),
            saves="speed",
        ),
    )
    layerwise_casting: bool = field(
        default=False,
        metadata=about(
            "Layerwise Casting",
            "Keep the weights in 8 bits and compute each layer in 16. Half the memory, somewhat"
            " slower, small differences. Not on DirectML and Apple GPUs",
            devices=("cuda", "xpu", "cpu"),
            saves="memory",
        ),
    )
    quantization: Quantization = field(
        default=Quantization.OFF,
        metadata=about(
            "Quantization",
            "Keep the weights of linear layers in few bits. The model is loaded again",
            devices=("cuda", "mps", "xpu", "cpu"),
            saves="memory",
            choices=QUANTIZATIONS,
        ),
    )
    step_cache: StepCache = field(
        default=StepCache.OFF,
        metadata=about(
            "Step Cache",
            "Take results over from step to step instead of computing them. For transformer models"
            " such as Flux and Stable Diffusion 3",
            model_kinds=("transformer",),
            saves="speed",
            choices=STEP_CACHES,
        ),
    )
    cpu_only: bool = field(
        default=False,
        metadata=about(
            "CPU Only",
            "Leave the GPU to others and compute on the processor. Much slower",
            devices=("cuda", "mps", "dml", "xpu"),
            saves="memory",
        ),
    )

    def __post_init__(self) -> None:
        for declared in fields(self):
            if "limits" in declared.metadata:
                lowest, highest = declared.metadata["limits"]
                value = getattr(self, declared.name)
                if not lowest <= value <= highest:  # also true for NaN
                    raise InvalidRequestError(
                        f"{declared.metadata['label']} {value} is out of range."
                        f" Use a value from {lowest} to {highest}."
                    )
        fast = self.vae_tiling is VaeTiling.FAST
        if fast and self.vae_tile_blend > self.vae_tile_size // 2:
            raise InvalidRequestError(
                f"VAE Tile Blend {self.vae_tile_blend} is more than half of VAE Tile Size"
                f" {self.vae_tile_size}. Use at most {self.vae_tile_size // 2}."
            )

    @classmethod
    def device_supports(cls, option: str, device: str) -> bool:
        """Return whether this kind of device supports the option or choice at all.

        Args:
            option: Name of a field, or of a choice such as "attention.xformers".
            device: One of `DEVICES`.

        Raises:
            ValueError: There is no such option or no such kind of device.
        """
        if device not in DEVICES:
            raise ValueError(f'There is no device "{device}". Use one of {", ".join(DEVICES)}.')
        parent = cls.metadata_of(option.partition(".")[0])
        return device in parent["devices"] and device in cls.metadata_of(option)["devices"]

    @classmethod
    def can_use(cls, option: str, device: str, environment: Environment | None = None) -> bool:
        """Return whether the device supports the option and it can be used on this machine."""
        return not cls.why_not(option, device, environment)

    @classmethod
    def why_not(
        cls,
        option: str,
        device: str,
        environment: Environment | None = None,
        *,
        model_kind: str = "",
    ) -> str:
        """Return the sentence that says why the option cannot be used, or an empty text.

        An option none of whose choices can be used is refused with the reason of one of them.
        With `model_kind`, one of `optimization_choices.MODEL_KINDS`, the model is judged too.
        """
        declared = cls.metadata_of(option)
        label = cls.label_of(option)
        if not cls.device_supports(option, device):
            return f"{label} is not available on {DEVICE_LABELS[device]}."
        if model_kind and model_kind not in declared["model_kinds"]:
            return f"{label} does not work with {MODEL_KIND_LABELS[model_kind]}."
        for requirement in declared["requires"]:
            reason = REQUIREMENTS[requirement](label, device, environment or _UNKNOWN)
            if reason:
                return reason
        uses = _uses(option, declared)
        reasons = {
            choice: cls.why_not(choice, device, environment, model_kind=model_kind)
            for choice in uses
        }
        if not uses or not all(reasons.values()):
            return ""
        nearest = next((choice for choice in uses if cls.device_supports(choice, device)), uses[0])
        return reasons[nearest]

    @classmethod
    def options_for(cls, device: str, environment: Environment | None = None) -> tuple[str, ...]:
        """Return the options (not their choices) that can be used on this machine."""
        return tuple(
            declared.name
            for declared in fields(cls)
            if cls.can_use(declared.name, device, environment)
        )

    @classmethod
    def choices_of(cls, option: str) -> tuple[str, ...]:
        """Return the names of an option's choices, such as "attention.sdp". None if it has none."""
        return tuple(f"{option}.{choice.value}" for choice in _choices(cls.metadata_of(option)))

    @classmethod
    def label_of(cls, option: str) -> str:
        """Return how a sentence names the option or choice: "CPU Offload (Submodule)"."""
        parent, _, choice = option.partition(".")
        label = cls.metadata_of(parent)["label"]
        return f"{label} ({cls.metadata_of(option)['label']})" if choice else label

    @classmethod
    def metadata_of(cls, option: str) -> dict[str, Any]:
        """Return what is declared about an option or a choice, by the keys of `about`.

        A choice `saves` what its option saves.
        """
        name, _, choice = option.partition(".")
        if name in cls.__dataclass_fields__:  # `fields` would take ten times as long, in each draw
            declared = cls.__dataclass_fields__[name].metadata
            if not choice:
                return dict(declared)
            for member, metadata in _choices(declared).items():
                if member.value == choice:
                    return {"saves": declared["saves"]} | metadata
        raise ValueError(f'There is no optimization "{option}".')


def _choices(metadata: Mapping[str, Any]) -> dict[Enum, dict[str, Any]]:
    return metadata.get("choices", {})


def _uses(option: str, metadata: dict[str, Any]) -> list[str]:
    """Return the choices that do something, but for those that any device supports."""
    named = [choice.value for choice in _choices(metadata)]
    return [f"{option}.{value}" for value in named if value not in ("off", "automatic")]
