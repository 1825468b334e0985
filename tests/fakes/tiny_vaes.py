# SPDX-License-Identifier: GPL-3.0-or-later
"""Tiny autoencoders of each kind with random weights, norms included."""

import torch
from torch import nn

_WIDTHS = (8, 16, 16)


def randomised(vae: nn.Module, *, seed: int = 0) -> nn.Module:
    """Give every norm weights of its own: as made they are 1 and 0 and hide mistakes."""
    numbers = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in vae.modules():
            if isinstance(module, nn.GroupNorm) and module.affine:
                module.weight.add_(0.3 * torch.randn(module.weight.shape, generator=numbers))
                module.bias.add_(0.3 * torch.randn(module.bias.shape, generator=numbers))
    return vae.eval()


def _shape(widths=_WIDTHS) -> dict[str, object]:
    return {
        "block_out_channels": widths,
        "down_block_types": ("DownEncoderBlock2D",) * len(widths),
        "up_block_types": ("UpDecoderBlock2D",) * len(widths),
        "layers_per_block": 1,
        "norm_num_groups": 4,
    }


def _kl(**settings):
    from diffusers import AutoencoderKL

    torch.manual_seed(0)
    return randomised(AutoencoderKL(**(_shape() | settings)))


def sd():
    """Return Stable Diffusion's kind: factor 4 here, 4 latent channels, attention in the middle."""
    return _kl(latent_channels=4)


def flux():
    """Return Flux's kind: 16 latent channels, no convolutions beside the latents."""
    return _kl(latent_channels=16, use_quant_conv=False, use_post_quant_conv=False)


def starter():
    """Return the starter model's kind: no attention, factor 8."""
    return _kl(**_shape((4, 8, 8, 8)), latent_channels=8, mid_block_add_attention=False)


def attentive():
    """Return a kind with attention in its blocks too."""
    return _kl(
        down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D", "AttnDownEncoderBlock2D"),
        up_block_types=("AttnUpDecoderBlock2D", "UpDecoderBlock2D", "UpDecoderBlock2D"),
    )


def flux2():
    """Return Flux 2's class."""
    from diffusers import AutoencoderKLFlux2

    torch.manual_seed(0)
    return randomised(AutoencoderKLFlux2(**_shape(), latent_channels=8))


def asymmetric():
    """Return the class for inpainting, which has neither slicing nor tiling."""
    from diffusers import AsymmetricAutoencoderKL

    torch.manual_seed(0)
    return randomised(
        AsymmetricAutoencoderKL(
            down_block_types=("DownEncoderBlock2D",) * 2,
            down_block_out_channels=(8, 16),
            layers_per_down_block=1,
            up_block_types=("UpDecoderBlock2D",) * 2,
            up_block_out_channels=(8, 16),
            layers_per_up_block=1,
            norm_num_groups=4,
        )
    )


def tiny():
    """Return the class for previews, which has no norms."""
    from diffusers import AutoencoderTiny

    torch.manual_seed(0)
    return AutoencoderTiny(
        encoder_block_out_channels=(8,) * 4,
        decoder_block_out_channels=(8,) * 4,
        num_encoder_blocks=(1, 1, 1, 1),
        num_decoder_blocks=(1, 1, 1, 1),
    ).eval()


def temporal():
    """Return the class for video, which is out of scope."""
    from diffusers import AutoencoderKLTemporalDecoder

    torch.manual_seed(0)
    return AutoencoderKLTemporalDecoder(
        block_out_channels=(32,), down_block_types=("DownEncoderBlock2D",), layers_per_block=1
    ).eval()


MAKERS = {"sd": sd, "flux": flux, "starter": starter, "attentive": attentive, "flux2": flux2}
"""The kinds that exact tiling knows."""
