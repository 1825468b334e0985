# SPDX-License-Identifier: GPL-3.0-or-later
"""Let OpenVINO compute the denoising network, behind the same pipeline. Side: generator.

    why_not()                      why OpenVINO cannot be used here, or an empty text
    refusal(model)                 the same, for one model
    use_openvino(model, ...)       put an `OpenVinoUNet` in the place of `model.pipeline.unet`
    remove(model)                  put the UNet of torch back, bit for bit; nothing if none is there
    in_use(model)                  the `OpenVinoUNet` that is there, or None
    EngineError                    could not be done; its text is a sentence for `skipped`

`use_openvino(model, axes=..., precision=..., device=..., watch=...)` converts the network, or takes
it from the cache on disk, and returns the `OpenVinoUNet`, whose `description` says what it is. When
it raises, the pipeline is as before. Calling it again with other arguments changes the engine that
is there. The UNet has to be as it was loaded: attention, memory format and offloading are undone
first, and set again, if at all, after `remove`.

Seamless axes: the conversion is for one choice of axes, so `axes` should be that of the job.
`seamless.seamless` tells the engine its axes too, and one that was prepared for others converts
again then. Sizes, batches and lengths of the prompt are free.

Results are those of torch within `tolerance_of(precision)` of the largest value for each step.

`watch` is told each stage, for a `Progress`, and asked between the stages whether to stop.
"""

from .availability import EngineError, devices, why_not
from .conversion import tolerance_of
from .engine import in_use, refusal, remove, use_openvino
from .unet import OpenVinoUNet
from .watch import Watch

__all__ = [
    "EngineError",
    "OpenVinoUNet",
    "Watch",
    "devices",
    "in_use",
    "refusal",
    "remove",
    "tolerance_of",
    "use_openvino",
    "why_not",
]
