# SPDX-License-Identifier: GPL-3.0-or-later
"""A UNet of two levels, which OpenVINO converts in a second, as a loaded model."""

from pathlib import Path
from types import SimpleNamespace

import torch

CHANNELS = 4
FEATURES = 8
UNIT = 2
"""Latents for one value on the coarsest level."""


SHAPES = {
    "sd": {
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    },
    "starter": {
        "in_channels": 8,
        "out_channels": 8,
        "resnet_time_scale_shift": "scale_shift",
        "addition_embed_type": "text",
        "addition_embed_type_num_heads": 2,
    },
    "sdxl": {
        "transformer_layers_per_block": (1, 2),
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
        "use_linear_projection": True,
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": 4,
        "projection_class_embeddings_input_dim": 6 * 4 + 16,
    },
}
"""What makes a UNet one of each kind of model, at the size of these."""


def micro_unet(seed: int = 0, **more):
    from diffusers import UNet2DConditionModel

    torch.manual_seed(seed)
    settings = {
        "sample_size": 8,
        "in_channels": CHANNELS,
        "out_channels": CHANNELS,
        "block_out_channels": (4, 4),
        "layers_per_block": 1,
        "norm_num_groups": 2,
        "attention_head_dim": 2,
        "cross_attention_dim": FEATURES,
        "down_block_types": ("DownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "UpBlock2D"),
    }
    return UNet2DConditionModel(**(settings | more)).eval()


def micro_model(folder: Path | None = None, dtype=torch.float32, **more):
    """A model whose UNet is loaded from `folder`, or only in memory."""
    from diffusers import UNet2DConditionModel
    from tessera.generator_process import devices, pipelines

    unet = micro_unet(**more).to(dtype)
    if folder is not None:
        unet.save_pretrained(folder / "unet")
        unet = UNet2DConditionModel.from_pretrained(folder / "unet", dtype=dtype).eval()
    cpu = devices.Device(kind="cpu", torch_device=torch.device("cpu"), name="CPU")
    return pipelines.LoadedModel(
        name="micro",
        kind="sd",
        pipeline=SimpleNamespace(unet=unet),
        scheduler_config={},
        device=cpu,
        dtype=dtype,
        latent_channels=CHANNELS,
        latent_factor=8,
        step_px=8,
        unit_px=8 * UNIT,
        folder=folder,
    )


def inputs_of(model, height: int = 8, width: int = 8, batch: int = 1, tokens: int = 77):
    """Keyword arguments of the UNet, seeded by their sizes."""
    config = model.pipeline.unet.config
    numbers = torch.Generator().manual_seed(1000 * height + 100 * width + batch)

    def random(*shape):
        return torch.randn(shape, generator=numbers).to(model.dtype)

    inputs = {
        "sample": random(batch, config.in_channels, height, width),
        "timestep": torch.tensor(321),
        "encoder_hidden_states": random(batch, tokens, config.cross_attention_dim),
    }
    if config.addition_embed_type == "text_time":
        inputs["added_cond_kwargs"] = {
            "text_embeds": random(batch, 16),
            "time_ids": torch.tensor([[321.0, 643, 0, 0, 321, 643]] * batch),
        }
    return inputs


@torch.inference_mode()
def denoise(model, **sizes):
    """What the model's UNet, or what stands for it, makes of these inputs."""
    return model.pipeline.unet(**inputs_of(model, **sizes), return_dict=False)[0]


def error_of(result, reference) -> float:
    """The largest difference, as a share of the largest value."""
    difference = (result.float() - reference.float()).abs().max()
    return float(difference / reference.float().abs().max())
