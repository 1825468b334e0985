# SPDX-License-Identifier: GPL-3.0-or-later
"""How the networks compute attention. Side: generator.

UNets have a processor in each attention layer, which is exchanged. Transformers dispatch: their
processors name a backend. Layers with a processor of another kind (image-prompt adapters, bug
report P053) keep it, and that is said. `set_attention_backend` of diffusers is not used: it changes
the default of the whole process and nothing changes it back.
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from torch import nn

from ...optimizations import Attention, Optimizations
from .target import Target

OPTIONS = ("attention", "attention_slice_size")

_BACKENDS = {
    Attention.XFORMERS: "xformers",
    Attention.FLASH: "flash",
    Attention.SAGE: "sage",
}

_Maker = Callable[[Any], object]


def apply(target: Target, options: Optimizations, undo: ExitStack) -> list[str]:
    """Exchange the processors, or name the backend. SDP is what a fresh model has."""
    if options.attention in (Attention.AUTOMATIC, Attention.SDP):
        return []
    label = Optimizations.label_of(f"attention.{options.attention.value}")
    makers = _makers(options)
    skipped: list[str] = []
    for name, network in target.denoisers().items():
        layers = [module for module in network.modules() if hasattr(module, "processor")]
        changed = [_change(layer, options.attention, makers, undo) for layer in layers]
        if layers and not any(changed):
            skipped.append(f"{label} is not used: the attention of this model's {name} is fixed.")
        elif not all(changed):
            skipped.append(
                f"{label} is not used in {changed.count(False)} of {len(changed)} attention layers"
                f" of {name}, which an adapter has changed."
            )
    return skipped


def _change(
    layer: nn.Module, wanted: Attention, makers: dict[type, _Maker], undo: ExitStack
) -> bool:
    processor: Any = getattr(layer, "processor", None)
    if type(processor) in makers:
        new = makers[type(processor)](layer)
        layer.processor = new  # pyright: ignore[reportAttributeAccessIssue]
        undo.callback(_restore_processor, layer, new, processor)
        return True
    if wanted in _BACKENDS and hasattr(processor, "_attention_backend"):
        _name_backend(processor, _BACKENDS[wanted], undo)
        return True
    return False


def _restore_processor(layer: Any, ours: object, before: object) -> None:  # noqa: ANN401
    """Put the processor back, unless an adapter has exchanged ours meanwhile."""
    if layer.processor is ours:
        layer.processor = before


def _name_backend(processor: Any, name: str, undo: ExitStack) -> None:  # noqa: ANN401
    from diffusers.models.attention_dispatch import AttentionBackendName

    own = vars(processor)
    if "_attention_backend" in own:
        undo.callback(own.__setitem__, "_attention_backend", own["_attention_backend"])
    else:
        undo.callback(own.pop, "_attention_backend", None)
    own["_attention_backend"] = AttentionBackendName(name)


def _makers(options: Optimizations) -> dict[type, _Maker]:
    """Return what replaces each kind of processor that is known to do nothing but attention."""
    from diffusers.models import attention_processor as known

    plain, added = known.AttnProcessor2_0, known.AttnAddedKVProcessor2_0
    if options.attention is Attention.CLASSIC:
        return {
            plain: lambda _layer: known.AttnProcessor(),
            added: lambda _layer: known.AttnAddedKVProcessor(),
        }
    if options.attention is Attention.SLICED:
        size = options.attention_slice_size
        return {
            plain: lambda layer: known.SlicedAttnProcessor(_heads(layer, size)),
            added: lambda layer: known.SlicedAttnAddedKVProcessor(_heads(layer, size)),
        }
    if options.attention is Attention.XFORMERS:
        return {
            plain: lambda _layer: known.XFormersAttnProcessor(),
            added: lambda _layer: known.XFormersAttnAddedKVProcessor(),
            known.JointAttnProcessor2_0: lambda _layer: known.XFormersJointAttnProcessor(),
        }
    return {}


def _heads(layer: Any, size: int) -> int:  # noqa: ANN401
    """Return how many heads are computed at a time. 0 stands for half of them."""
    return min(size or max(1, layer.heads // 2), layer.heads)
