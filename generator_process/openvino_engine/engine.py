# SPDX-License-Identifier: GPL-3.0-or-later
"""Put OpenVINO in the place of a model's UNet, and take it out again. Side: generator."""

from typing import TYPE_CHECKING, Any

import torch

from ..messages import SeamlessAxes
from .availability import EngineError, choose_device, choose_precision, why_not
from .unet import OpenVinoUNet
from .watch import Watch

if TYPE_CHECKING:
    from ..pipelines import LoadedModel

_CONVERTIBLE = "UNet2DConditionModel"
_CONVERTIBLE_TYPES = (torch.float32, torch.bfloat16, torch.float16)


def in_use(model: "LoadedModel") -> OpenVinoUNet | None:
    """Return the engine that computes this model's UNet, or None if torch does."""
    unet = getattr(model.pipeline, "unet", None)  # a transformer model has none
    return unet if isinstance(unet, OpenVinoUNet) else None


def refusal(model: "LoadedModel") -> str:
    """Return why OpenVINO cannot be used for this model here, or an empty text."""
    if in_use(model) is not None:
        return ""
    reason = why_not()
    if reason:
        return reason
    unet: Any = getattr(model.pipeline, "unet", None)
    if type(unet).__name__ != _CONVERTIBLE:
        return f'OpenVINO is offered for Stable Diffusion models, and "{model.name}" is none.'
    if any(value.dtype not in _CONVERTIBLE_TYPES for value in unet.parameters()):
        return "OpenVINO needs weights of at least 16 bits, and these are in 8 bits or less."
    config = unet.config
    if (
        config.encoder_hid_dim_type
        or config.class_embed_type
        or config.time_embedding_type != "positional"
    ):
        return f'Model "{model.name}" takes inputs that the OpenVINO engine does not have.'
    return ""


def use_openvino(
    model: "LoadedModel",
    *,
    axes: SeamlessAxes = SeamlessAxes.OFF,
    precision: str = "automatic",
    device: str = "",
    watch: Watch | None = None,
) -> OpenVinoUNet:
    """Let OpenVINO compute the model's UNet from now on.

    Args:
        model: Its pipeline's `unet` is replaced. Nothing happens if it is replaced already, by an
            engine with the same settings.
        axes: The seamless axes of the job.
        precision: "automatic", "f32", "bf16" or "f16": what it computes in.
        device: OpenVINO's name of it, such as "CPU", "GPU" or "NPU". Empty for the best one.
        watch: Told of the stages, now and whenever this engine has to convert again.

    Raises:
        EngineError: OpenVINO is missing, does not support this, or failed.
        ModelError: The UNet has layers that cannot be made seamless.
        CancelledError: The job is to stop.
    """
    reason = refusal(model)
    if reason:
        raise EngineError(reason)
    chosen = choose_device(device)
    computing_in = choose_precision(chosen, precision)
    engine = in_use(model)
    if engine is not None and (engine.engine_device, engine.precision) != (chosen, computing_in):
        remove(model)
        engine = None
    if engine is None:
        engine = OpenVinoUNet(model, chosen, computing_in)
    engine.watch = watch or Watch()
    try:
        engine.prepare(axes)
    except BaseException:
        _take_out(model, engine)
        raise
    _set_unet(model, engine)
    return engine


def remove(model: "LoadedModel") -> None:
    """Put the UNet of torch back, with the weights that it had, bit for bit.

    Raises:
        ModelError: The model's files have changed since it was loaded.
    """
    engine = in_use(model)
    if engine is not None:
        _take_out(model, engine)


def _take_out(model: "LoadedModel", engine: OpenVinoUNet) -> None:
    engine.restore()
    _set_unet(model, engine.original)


def _set_unet(model: "LoadedModel", unet: object) -> None:
    # Not through diffusers' own __setattr__, which would write the class into the configuration.
    vars(model.pipeline)["unet"] = unet
