# SPDX-License-Identifier: GPL-3.0-or-later
"""Real pipelines with random weights, small enough to run hundreds of times on one core."""

import json
from pathlib import Path

import torch

_TEXT_WIDTH = 16
_WORDS = ("red", "brick", "wall", "green", "grass", "moss", "stone")


def write_tokenizer(folder: Path) -> int:
    """Write a byte-level CLIP tokenizer with a few whole words. Return its number of tokens."""
    folder.mkdir(parents=True, exist_ok=True)
    letters = _byte_letters()
    tokens = letters + [f"{letter}</w>" for letter in letters]
    merges = []
    for word in _WORDS:
        parts = [*word[:-1], f"{word[-1]}</w>"]
        while len(parts) > 1:
            merges.append((parts[0], parts[1]))
            parts = [parts[0] + parts[1], *parts[2:]]
            tokens.append(parts[0])
    tokens = [*dict.fromkeys(tokens), "<|startoftext|>", "<|endoftext|>"]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    lines = ["#version: 0.2", *dict.fromkeys(f"{left} {right}" for left, right in merges)]
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = {
        "tokenizer_class": "CLIPTokenizer",
        "model_max_length": 77,
        "bos_token": "<|startoftext|>",
        "eos_token": "<|endoftext|>",
        "pad_token": "<|endoftext|>",
        "unk_token": "<|endoftext|>",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return len(tokens)


def sd_pipeline(folder: Path):
    """Stable Diffusion's shape: 4 latent channels, VAE factor 8, four UNet levels, unit 64 px."""
    from diffusers import StableDiffusionPipeline

    torch.manual_seed(0)
    tokenizer = _tokenizer(folder)
    return StableDiffusionPipeline(
        unet=_unet(channels=4, widths=(4, 8, 8, 8)),
        vae=_vae(channels=4, widths=(4, 4, 8, 8), scaling_factor=0.18215),
        text_encoder=_text_encoder(tokenizer),
        tokenizer=tokenizer,
        scheduler=_pndm(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def starter_like_pipeline(folder: Path):
    """The starter model's shape: 8 latent channels, VAE factor 4, unit 16 px, v-prediction."""
    from diffusers import DDIMScheduler, StableDiffusionPipeline

    torch.manual_seed(1)
    tokenizer = _tokenizer(folder)
    return StableDiffusionPipeline(
        unet=_unet(
            channels=8,
            widths=(8, 8, 8),
            addition_embed_type="text",
            addition_embed_type_num_heads=4,
        ),
        vae=_vae(channels=8, widths=(4, 8, 8), scaling_factor=0.7),
        text_encoder=_text_encoder(tokenizer),
        tokenizer=tokenizer,
        scheduler=DDIMScheduler(
            beta_start=1e-4,
            beta_end=2e-2,
            beta_schedule="linear",
            prediction_type="v_prediction",
            timestep_spacing="trailing",
            clip_sample=False,
            set_alpha_to_one=False,
            steps_offset=1,
        ),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def sdxl_pipeline(folder: Path):
    """Stable Diffusion XL's shape: two text encoders, pooled text and size conditioning."""
    from diffusers import StableDiffusionXLPipeline

    torch.manual_seed(2)
    tokenizer, tokenizer_2 = _tokenizer(folder), _tokenizer(folder)
    return StableDiffusionXLPipeline(
        unet=_unet(
            channels=4,
            widths=(8, 8),
            cross_attention_dim=2 * _TEXT_WIDTH,
            addition_embed_type="text_time",
            addition_time_embed_dim=8,
            projection_class_embeddings_input_dim=6 * 8 + _TEXT_WIDTH,
        ),
        vae=_vae(channels=4, widths=(4, 8), scaling_factor=0.13025, force_upcast=True),
        text_encoder=_text_encoder(tokenizer),
        text_encoder_2=_text_encoder(tokenizer_2, projected=True),
        tokenizer=tokenizer,
        tokenizer_2=tokenizer_2,
        scheduler=_euler(),
        add_watermarker=False,
    )


def _tokenizer(folder: Path):
    from transformers import CLIPTokenizer

    source = folder / "tokenizer_source"
    write_tokenizer(source)
    return CLIPTokenizer.from_pretrained(source)


def _unet(*, channels: int, widths: tuple[int, ...], **more):
    from diffusers import UNet2DConditionModel

    inner = len(widths) - 1
    settings = {
        "sample_size": 8,
        "in_channels": channels,
        "out_channels": channels,
        "block_out_channels": widths,
        "layers_per_block": 1,
        "norm_num_groups": 4,
        "attention_head_dim": 4,
        "cross_attention_dim": _TEXT_WIDTH,
        "down_block_types": ("CrossAttnDownBlock2D",) * inner + ("DownBlock2D",),
        "up_block_types": ("UpBlock2D",) + ("CrossAttnUpBlock2D",) * inner,
    }
    return UNet2DConditionModel(**(settings | more)).eval()


def _vae(*, channels: int, widths: tuple[int, ...], scaling_factor: float, **more):
    from diffusers import AutoencoderKL

    return AutoencoderKL(
        latent_channels=channels,
        block_out_channels=widths,
        down_block_types=("DownEncoderBlock2D",) * len(widths),
        up_block_types=("UpDecoderBlock2D",) * len(widths),
        layers_per_block=1,
        norm_num_groups=4,
        scaling_factor=scaling_factor,
        sample_size=64,
        **({"force_upcast": False} | more),
    ).eval()


def _text_encoder(tokenizer, *, projected: bool = False):
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    config = CLIPTextConfig(
        vocab_size=len(tokenizer),
        hidden_size=_TEXT_WIDTH,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=77,
        projection_dim=_TEXT_WIDTH,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return (CLIPTextModelWithProjection if projected else CLIPTextModel)(config).eval()


def _pndm():
    from diffusers import PNDMScheduler

    return PNDMScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        skip_prk_steps=True,
        set_alpha_to_one=False,
        steps_offset=1,
    )


def _euler():
    from diffusers import EulerDiscreteScheduler

    return EulerDiscreteScheduler(
        beta_start=0.00085,
        beta_end=0.012,
        beta_schedule="scaled_linear",
        steps_offset=1,
        timestep_spacing="leading",
    )


def _byte_letters() -> list[str]:
    """The letters that stand for bytes, in the order of byte-level BPE vocabularies."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) for byte in printable] + [chr(256 + place) for place in range(len(others))]
