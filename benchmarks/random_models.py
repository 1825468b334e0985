# SPDX-License-Identifier: GPL-3.0-or-later
"""Models with the shapes of well-known ones and random weights, in diffusers layout.

Speed and memory depend on shapes alone. The text encoders have one layer, as they run once for each
image and not in the steps.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from diffusers import AutoencoderKL, DiffusionPipeline, UNet2DConditionModel
    from transformers import CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer

ROOT = Path(__file__).resolve().parents[1]

_UNETS: dict[str, dict[str, Any]] = {
    "sd15": {
        "sample_size": 64,
        "block_out_channels": (320, 640, 1280, 1280),
        "down_block_types": ("CrossAttnDownBlock2D",) * 3 + ("DownBlock2D",),
        "up_block_types": ("UpBlock2D",) + ("CrossAttnUpBlock2D",) * 3,
        "cross_attention_dim": 768,
        "attention_head_dim": 8,
    },
    "sdxl": {
        "sample_size": 128,
        "block_out_channels": (320, 640, 1280),
        "down_block_types": ("DownBlock2D",) + ("CrossAttnDownBlock2D",) * 2,
        "up_block_types": ("CrossAttnUpBlock2D",) * 2 + ("UpBlock2D",),
        "cross_attention_dim": 2048,
        "attention_head_dim": (5, 10, 20),
        "transformer_layers_per_block": (1, 2, 10),
        "use_linear_projection": True,
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": 256,
        "projection_class_embeddings_input_dim": 2816,
    },
}
"""From the configurations published with Stable Diffusion 1.5 and XL base 1.0."""


def folder_of(shape: str, parent: Path) -> Path:
    """Return the folder of a model, made unless it is there.

    Args:
        shape: "sd15" or "sdxl".
        parent: Where it is, or will be: 2 or 7 GB, in float16.
    """
    folder = parent / shape
    if not (folder / "model_index.json").is_file():
        torch.manual_seed(0)
        make = _sd15 if shape == "sd15" else _sdxl
        make(parent / "tokenizer").to(torch.float16).save_pretrained(folder)
    return folder


def _sd15(tokenizer_folder: Path) -> "DiffusionPipeline":
    from diffusers import DDIMScheduler, StableDiffusionPipeline

    tokenizer = _tokenizer(tokenizer_folder)
    return StableDiffusionPipeline(
        unet=_unet("sd15"),
        vae=_vae(0.18215),
        text_encoder=_text_encoder(tokenizer, 768, heads=12),
        tokenizer=tokenizer,
        scheduler=DDIMScheduler(steps_offset=1, clip_sample=False),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def _sdxl(tokenizer_folder: Path) -> "DiffusionPipeline":
    from diffusers import DDIMScheduler, StableDiffusionXLPipeline

    tokenizer = _tokenizer(tokenizer_folder)
    return StableDiffusionXLPipeline(
        unet=_unet("sdxl"),
        vae=_vae(0.13025),
        text_encoder=_text_encoder(tokenizer, 768, heads=12),
        text_encoder_2=_text_encoder(tokenizer, 1280, heads=20, projected=True),
        tokenizer=tokenizer,
        tokenizer_2=tokenizer,
        scheduler=DDIMScheduler(steps_offset=1, clip_sample=False),
        add_watermarker=False,
    )


def _unet(shape: str) -> "UNet2DConditionModel":
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(in_channels=4, out_channels=4, layers_per_block=2, **_UNETS[shape])


def _vae(scaling_factor: float) -> "AutoencoderKL":
    from diffusers import AutoencoderKL

    return AutoencoderKL(
        latent_channels=4,
        block_out_channels=(128, 256, 512, 512),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=2,
        sample_size=512,
        scaling_factor=scaling_factor,
        force_upcast=False,
    )


def _text_encoder(
    tokenizer: "CLIPTokenizer", width: int, *, heads: int, projected: bool = False
) -> "CLIPTextModel | CLIPTextModelWithProjection":
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    config = CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=1,
        num_attention_heads=heads,
        max_position_embeddings=77,
        projection_dim=width,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return (CLIPTextModelWithProjection if projected else CLIPTextModel)(config)


def _tokenizer(folder: Path) -> "CLIPTokenizer":
    from transformers import CLIPTokenizer

    sys.path.insert(0, str(ROOT / "tests"))
    from fakes.tiny_models import write_tokenizer

    write_tokenizer(folder)
    return CLIPTokenizer.from_pretrained(folder)
