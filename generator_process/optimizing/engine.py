# SPDX-License-Identifier: GPL-3.0-or-later
"""What computes the denoising network: torch, or OpenVINO in its place. Side: generator.

The last concern to be applied and so the first to be undone: OpenVINO takes the UNet as it is, and
gives it back as it was.
"""

from contextlib import ExitStack

from ...optimizations import Engine, HalfPrecision, Optimizations
from .. import openvino_engine
from .target import Target

OPTIONS = ("engine", "half_precision", "cpu_only")


def apply(target: Target, options: Optimizations, undo: ExitStack) -> list[str]:
    """Let the wanted engine compute. Return why it could not."""
    if options.engine is not Engine.OPENVINO:
        return []
    model = target.model
    if model is None:
        return ["OpenVINO is not used: it needs a model that was loaded by name."]
    try:
        openvino_engine.use_openvino(
            model,
            axes=target.axes,
            precision="f32" if options.half_precision is HalfPrecision.OFF else "automatic",
            device="CPU" if options.cpu_only else "",
            watch=target.watch,
        )
    except openvino_engine.EngineError as error:
        return [str(error)]
    undo.callback(openvino_engine.remove, model)
    return []
