# SPDX-License-Identifier: GPL-3.0-or-later
"""The denoiser, the text encoder and the schedule of the starter model."""

from __future__ import annotations

import torch
from diffusers import DDPMScheduler, UNet2DConditionModel
from torch import Tensor, nn
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from .latents import CHANNELS
from .tokenizer import LENGTH

TEXT_WIDTH = 128
WIDTHS = (64, 96, 160)
SCHEDULE = {
    "num_train_timesteps": 1000,
    "beta_schedule": "linear",
    "beta_start": 1e-4,
    "beta_end": 2e-2,
    "prediction_type": "v_prediction",
}


def build_text_encoder(tokenizer: CLIPTokenizer) -> CLIPTextModel:
    """Return an untrained text encoder."""
    config = CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=TEXT_WIDTH,
        intermediate_size=2 * TEXT_WIDTH,
        projection_dim=TEXT_WIDTH,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=LENGTH,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = CLIPTextModel(config)
    for name, module in model.named_modules():
        if name.endswith("token_embedding"):
            nn.init.normal_(module.weight, std=0.3)
        if name.endswith("position_embedding"):
            nn.init.normal_(module.weight, std=0.1)
    return model


def build_unet() -> UNet2DConditionModel:
    """Return an untrained denoiser.

    ``addition_embed_type="text"`` adds the pooled prompt to the time embedding, so that family
    and colour steer every block; attention to the words is kept in the middle.
    """
    unet = UNet2DConditionModel(
        sample_size=16,
        in_channels=CHANNELS,
        out_channels=CHANNELS,
        block_out_channels=WIDTHS,
        layers_per_block=1,
        norm_num_groups=8,
        cross_attention_dim=TEXT_WIDTH,
        attention_head_dim=4,
        down_block_types=("DownBlock2D",) * 3,
        up_block_types=("UpBlock2D",) * 3,
        resnet_time_scale_shift="scale_shift",
        addition_embed_type="text",
        addition_embed_type_num_heads=4,
    )
    nn.init.zeros_(unet.conv_out.weight)
    nn.init.zeros_(unet.conv_out.bias)
    return unet


class Noising:
    """The forward process: noisy latents and the velocity that the denoiser has to predict."""

    def __init__(self) -> None:
        signal = DDPMScheduler(**SCHEDULE).alphas_cumprod
        self.signal = signal.sqrt()
        self.noise = (1 - signal).sqrt()

    def __call__(self, latents: Tensor, noise: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
        """Return the noisy latents at the given steps and the velocities."""
        a = self.signal[steps][:, None, None, None]
        b = self.noise[steps][:, None, None, None]
        return a * latents + b * noise, a * noise - b * latents


def draw_steps(count: int) -> Tensor:
    """Draw time steps, most of them from the noisier half, where prompts decide the structure."""
    middle = torch.sigmoid(1.2 * torch.randn(count) + 0.7)
    anywhere = torch.rand(count)
    chosen = torch.where(torch.rand(count) < 0.75, middle, anywhere)
    return (chosen * 1000).long().clamp(0, 999)
