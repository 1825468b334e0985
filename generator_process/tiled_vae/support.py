# SPDX-License-Identifier: GPL-3.0-or-later
"""Which autoencoders can be tiled, and what has to be known of them. Side: generator."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torch import nn

from .settings import UnsupportedAutoencoderError

if TYPE_CHECKING:
    from diffusers.models.autoencoders.vae import Decoder, Encoder


def why_not_exact(vae: nn.Module) -> str:
    """Return what exact tiling does not know of an autoencoder, or ""."""
    from diffusers.models.autoencoders.vae import Decoder, Encoder

    if not hasattr(vae, "_decode") or not hasattr(vae, "_encode"):
        return "its class decodes and encodes in a way of its own"
    for name, kind in (("encoder", Encoder), ("decoder", Decoder)):
        network = getattr(vae, name, None)
        if type(network) is not kind:
            return f"its {name} is of class {type(network).__name__}"
        strange = next(_strange_layers(network), None)
        if strange:
            return f"its {name} has {strange}"
    return ""


def check_exact(vae: nn.Module) -> None:
    """Raise `UnsupportedAutoencoderError` if exact tiling does not know all layers."""
    reason = why_not_exact(vae)
    if reason:
        raise UnsupportedAutoencoderError(
            f"{type(vae).__name__} cannot be tiled exactly: {reason}. Use fast tiling."
        )


def widest_at_full_size(network: "Encoder | Decoder") -> int:
    """Return the most channels of an activation at the size of the image."""
    blocks = getattr(network, "up_blocks", None)
    block = blocks[-1] if blocks is not None else network.down_blocks[0]
    return max(max(resnet.in_channels, resnet.out_channels) for resnet in block.resnets)


def factor_of(vae: nn.Module) -> int:
    """Return how many pixels of the image a side of a latent pixel covers.

    Raises:
        UnsupportedAutoencoderError: The autoencoder does not say it.
    """
    for name in ("spatial_compression_ratio", "spatial_scale_factor"):
        given = getattr(vae, name, None)
        if isinstance(given, int):
            return given
    widths = getattr(vae.config, "block_out_channels", None)
    if widths is None:
        raise UnsupportedAutoencoderError(
            f"{type(vae).__name__} cannot be tiled: its compression is unknown. Turn VAE Tiling"
            " off."
        )
    return 2 ** (len(widths) - 1)


def _strange_layers(network: nn.Module) -> Iterator[str]:
    blocks = [*(getattr(network, "up_blocks", None) or network.down_blocks), network.mid_block]
    if not isinstance(network.conv_norm_out, nn.GroupNorm):
        yield type(network.conv_norm_out).__name__
    for block in blocks:
        for resnet in block.resnets:
            if not _is_plain_resnet(resnet):
                yield f"a {type(resnet).__name__} of another kind"
        for attention in getattr(block, "attentions", None) or ():
            if attention is not None and not _is_plain_attention(attention):
                yield f"a {type(attention).__name__} of another kind"
        for name in ("upsamplers", "downsamplers"):
            for sampler in getattr(block, name, None) or ():
                if not _is_plain_sampler(sampler):
                    yield f"a {type(sampler).__name__} of another kind"


def _is_plain_resnet(resnet: nn.Module) -> bool:
    from diffusers.models.resnet import ResnetBlock2D

    return (
        type(resnet) is ResnetBlock2D
        and isinstance(resnet.norm1, nn.GroupNorm)
        and isinstance(resnet.norm2, nn.GroupNorm)
        and resnet.time_emb_proj is None
        and resnet.time_embedding_norm != "scale_shift"
        and resnet.upsample is None
        and resnet.downsample is None
        and resnet.dropout.p == 0
        and resnet.output_scale_factor == 1
        and _has_kernel(resnet.conv1, 3)
        and _has_kernel(resnet.conv2, 3)
        and (resnet.conv_shortcut is None or _has_kernel(resnet.conv_shortcut, 1))
    )


def _has_kernel(convolution: nn.Module, side: int) -> bool:
    convolution = getattr(convolution, "base_layer", convolution)  # with LoRA
    return (
        isinstance(convolution, nn.Conv2d)
        and convolution.kernel_size == (side, side)
        and convolution.stride == (1, 1)
        and convolution.dilation == (1, 1)
    )


def _is_plain_attention(attention: nn.Module) -> bool:
    from diffusers.models.attention_processor import Attention

    return (
        type(attention) is Attention
        and isinstance(attention.group_norm, nn.GroupNorm)
        and attention.spatial_norm is None
        and attention.norm_q is None
        and attention.norm_k is None
        and attention.residual_connection
        and attention.rescale_output_factor == 1
    )


def _is_plain_sampler(sampler: nn.Module) -> bool:
    from diffusers.models.downsampling import Downsample2D
    from diffusers.models.upsampling import Upsample2D

    if type(sampler) is Upsample2D:
        plain = sampler.interpolate and not sampler.use_conv_transpose
        return bool(plain and sampler.use_conv and sampler.norm is None)
    if type(sampler) is Downsample2D:
        return bool(sampler.use_conv and sampler.padding == 0 and sampler.norm is None)
    return False
