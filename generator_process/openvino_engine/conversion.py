# SPDX-License-Identifier: GPL-3.0-or-later
"""From a UNet of torch to a network of OpenVINO on disk. Side: generator.

The UNet is traced with tiny inputs while the seamless patches are active, so that the graph holds
the circular padding as slices and concatenations. No size of the example remains in it: its sides
are odd, for which diffusers passes the size of each level on to the upsampling layers, instead of
doubling, and this serves even sizes too.

The sines and cosines of the time step (and of SDXL's sizes) are inputs: `embedded` computes them.
Inside the network they would be computed in its precision, and bfloat16 knows no whole number
between 256 and 258: step 321 would be denoised as step 320.
"""

import hashlib
import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ..messages import SeamlessAxes
from ..seamless import seamless
from . import cache
from .availability import EngineError, import_openvino, installed_version
from .watch import CONVERTING, Watch

if TYPE_CHECKING:
    from diffusers import UNet2DConditionModel

_log = logging.getLogger(__name__)

LAYOUT = 2
"""Number of this module's way to convert. Part of the key: raise it when the graph changes."""

_TOLERANCES = {"f32": 1e-4, "bf16": 3e-2, "f16": 2e-2}

_EXAMPLE_SIDES = (9, 11)  # latents; odd, and as many as the deepest UNet halves
_EXAMPLE_TOKENS = 7

_WRITTEN_OVER_WEIGHTS = 1.05


def tolerance_of(precision: str) -> float:
    """Return how far a step may be from torch's in float32, as a share of its largest value."""
    return _TOLERANCES[precision]


def input_names(unet: "UNet2DConditionModel") -> tuple[str, ...]:
    """Return the arguments of the UNet that are inputs of the converted network, in order."""
    names = ["sample", "timestep", "encoder_hidden_states"]
    if unet.config.time_cond_proj_dim is not None:
        names.append("timestep_cond")
    if unet.config.addition_embed_type == "text_time":
        names += ["text_embeds", "time_ids"]
    return tuple(names)


def embedded(
    unet: "UNet2DConditionModel", inputs: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Return the inputs of the UNet as the converted network takes them.

    Args:
        unet: Whose embeddings are used. They have no weights.
        inputs: By their names; `timestep` (batch,), `time_ids` (batch, 6).

    Returns:
        `timestep` as (batch, features), `time_ids` as (batch, 6 x features), the others as given.
    """
    found = dict(inputs)
    found["timestep"] = unet.time_proj(inputs["timestep"].float())
    if "time_ids" in inputs:
        ids = inputs["time_ids"]
        found["time_ids"] = unet.add_time_proj(ids.float().flatten()).reshape(len(ids), -1)
    return found


def key_of(weights: str, unet: "UNet2DConditionModel", axes: SeamlessAxes) -> str:
    """Return the name of the cache's entry for these.

    The precision is no part of it: the network is stored in 32 bits, and what it computes in is
    chosen when it is prepared for a device.

    Args:
        weights: The fingerprint of the UNet.
        unet: For its configuration.
        axes: Which padding is circular.
    """
    config = {key: value for key, value in unet.config.items() if not key.startswith("_")}
    stated = (LAYOUT, installed_version(), weights, config, axes.name)
    text = json.dumps(stated, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def convert(key: str, unet: "UNet2DConditionModel", axes: SeamlessAxes, watch: Watch) -> Path:
    """Convert the UNet, and return the folder of the cache's entry.

    Args:
        key: The name of the entry.
        unet: With its weights, in any type, in the computer's memory. It is unchanged afterwards.
        axes: Which padding is circular.
        watch: Told of the stages.

    Raises:
        EngineError: The conversion failed.
        ModelError: The UNet has layers that cannot be made seamless.
        CancelledError: The job is to stop.
    """
    watch.begin(CONVERTING)
    size_bytes = int(sum(value.numel() for value in unet.parameters()) * 4 * _WRITTEN_OVER_WEIGHTS)
    return cache.add(key, size_bytes, lambda place: _convert(unet, axes, place, watch))


def _convert(unet: "UNet2DConditionModel", axes: SeamlessAxes, place: Path, watch: Watch) -> None:
    openvino: Any = import_openvino()
    try:
        with torch.inference_mode(mode=False), torch.no_grad(), _in_float32(unet), _quiet():
            example = _example(unet)
            with seamless((unet,), axes), _embedded_outside(unet), _stopping_in(unet, watch):
                traced = _trace(unet, example)
            watch.begin(CONVERTING)
            network = openvino.convert_model(traced)
            for port, name in zip(network.inputs, input_names(unet), strict=True):
                port.get_tensor().set_names({name})
            watch.begin(CONVERTING)
            openvino.save_model(network, place / cache.MODEL, compress_to_fp16=False)
            del network, traced
    except (RuntimeError, TypeError, ValueError) as error:
        _log.warning("the conversion failed", exc_info=True)
        raise EngineError(
            "The model could not be converted for OpenVINO; the log says why. Set Engine to"
            " PyTorch."
        ) from error


class _Flat(nn.Module):
    """The UNet with its inputs one after another."""

    def __init__(self, unet: "UNet2DConditionModel") -> None:
        super().__init__()
        self.unet = unet

    def forward(
        self, sample: torch.Tensor, timestep: torch.Tensor, text: torch.Tensor, *more: torch.Tensor
    ) -> torch.Tensor:
        named = dict(zip(input_names(self.unet)[3:], more, strict=True))
        cond = named.pop("timestep_cond", None)
        return self.unet(
            sample,
            timestep,
            text,
            timestep_cond=cond,
            added_cond_kwargs=named or None,
            return_dict=False,
        )[0]


def _trace(unet: "UNet2DConditionModel", example: tuple[torch.Tensor, ...]) -> object:
    return torch.jit.trace(_Flat(unet).eval(), example, check_trace=False, strict=False)


def _example(unet: "UNet2DConditionModel") -> tuple[torch.Tensor, ...]:
    """Return inputs of the right number, ranks and features, of a batch of two."""
    config = unet.config
    numbers = torch.Generator().manual_seed(0)
    inputs = {
        "sample": torch.randn((2, config.in_channels, *_EXAMPLE_SIDES), generator=numbers),
        "timestep": torch.tensor([1.0, 999.0]),
        "encoder_hidden_states": torch.randn(
            (2, _EXAMPLE_TOKENS, config.cross_attention_dim), generator=numbers
        ),
    }
    if config.time_cond_proj_dim is not None:
        inputs["timestep_cond"] = torch.randn((2, config.time_cond_proj_dim), generator=numbers)
    if config.addition_embed_type == "text_time":
        width = config.projection_class_embeddings_input_dim - 6 * config.addition_time_embed_dim
        inputs["text_embeds"] = torch.randn((2, width), generator=numbers)
        inputs["time_ids"] = torch.rand((2, 6), generator=numbers) * 1024
    found = embedded(unet, inputs)
    return tuple(found[name] for name in input_names(unet))


@contextmanager
def _in_float32(unet: "UNet2DConditionModel") -> Iterator[None]:
    """Widen the weights and narrow them again, which gives the same bits."""
    dtype = unet.dtype
    if dtype == torch.float32:
        yield
        return
    # diffusers' own `to` warns of layers that some models keep in float32; here there are none.
    nn.Module.float(unet)
    try:
        yield
    finally:
        nn.Module.to(unet, dtype)


@contextmanager
def _embedded_outside(unet: "UNet2DConditionModel") -> Iterator[None]:
    """Let the UNet take what `embedded` returns."""
    vars(unet)["get_time_embed"] = lambda timestep, **_others: timestep
    inner = getattr(unet, "add_time_proj", None)
    if inner is not None:
        unet.add_time_proj = nn.Identity()
    try:
        yield
    finally:
        del vars(unet)["get_time_embed"]
        if inner is not None:
            unet.add_time_proj = inner


@contextmanager
def _stopping_in(unet: "UNet2DConditionModel", watch: Watch) -> Iterator[None]:
    """Look before each block whether the job is to stop."""

    def look(_module: nn.Module, _arguments: object) -> None:
        watch.raise_if_cancelled()

    blocks = [*unet.down_blocks, *unet.up_blocks]
    hooks = [block.register_forward_pre_hook(look) for block in blocks]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide the tracer's remarks on what it takes as constant: it is, see the module's text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        yield
