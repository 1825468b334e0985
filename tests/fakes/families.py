# SPDX-License-Identifier: GPL-3.0-or-later
"""A tiny pipeline of each family, without tokenizers, and how to run it on given embeddings."""

import torch

from . import tiny_models

_WIDTH = 16


def unet():
    """A Stable Diffusion pipeline with one ControlNet and one network missing."""
    from diffusers import ControlNetModel, StableDiffusionControlNetPipeline

    torch.manual_seed(0)
    network = tiny_models._unet(channels=4, widths=(8, 8))
    return StableDiffusionControlNetPipeline(
        unet=network,
        controlnet=ControlNetModel.from_unet(
            network, conditioning_embedding_out_channels=(4, 8), load_weights_from_unet=False
        ),
        vae=tiny_models._vae(channels=4, widths=(4, 8), scaling_factor=0.2),
        text_encoder=None,
        tokenizer=None,
        scheduler=tiny_models._pndm(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def sd3():
    """Stable Diffusion 3's shape: a transformer whose attention has processors of its own."""
    from diffusers import (
        FlowMatchEulerDiscreteScheduler,
        SD3Transformer2DModel,
        StableDiffusion3Pipeline,
    )

    torch.manual_seed(1)
    return StableDiffusion3Pipeline(
        transformer=SD3Transformer2DModel(
            sample_size=8,
            patch_size=1,
            in_channels=4,
            out_channels=4,
            num_layers=2,
            attention_head_dim=8,
            num_attention_heads=2,
            caption_projection_dim=16,
            joint_attention_dim=_WIDTH,
            pooled_projection_dim=_WIDTH,
        ).eval(),
        vae=tiny_models._vae(channels=4, widths=(4, 8), scaling_factor=1.5, shift_factor=0.06),
        text_encoder=None,
        text_encoder_2=None,
        text_encoder_3=t5(),
        tokenizer=None,
        tokenizer_2=None,
        tokenizer_3=None,
        scheduler=FlowMatchEulerDiscreteScheduler(),
    )


def flux():
    """Flux's shape: a transformer that dispatches its attention, and two kinds of blocks."""
    from diffusers import FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel

    torch.manual_seed(2)
    return FluxPipeline(
        transformer=FluxTransformer2DModel(
            patch_size=1,
            in_channels=16,
            num_layers=2,
            num_single_layers=1,
            attention_head_dim=8,
            num_attention_heads=2,
            joint_attention_dim=_WIDTH,
            pooled_projection_dim=_WIDTH,
            axes_dims_rope=(2, 2, 4),
        ).eval(),
        vae=tiny_models._vae(channels=4, widths=(4, 8), scaling_factor=0.36, shift_factor=0.11),
        text_encoder=None,
        text_encoder_2=t5(),
        tokenizer=None,
        tokenizer_2=None,
        scheduler=FlowMatchEulerDiscreteScheduler(),
    )


def t5():
    """A T5 encoder, which ties two of its weights."""
    from transformers import T5Config, T5EncoderModel

    config = T5Config(vocab_size=32, d_model=_WIDTH, d_kv=8, d_ff=16, num_layers=2, num_heads=2)
    return T5EncoderModel(config).eval()


MAKERS = {"unet": unet, "sd3": sd3, "flux": flux}


def run(pipeline, *, steps: int = 2) -> torch.Tensor:
    """Return the image of a run on fixed embeddings: (1, 3, 16, 16), with the text encoder's."""
    numbers = torch.Generator().manual_seed(3)
    embeds = torch.randn(1, 4, _WIDTH, generator=numbers)
    settings = {
        "prompt_embeds": embeds,
        "height": 16,
        "width": 16,
        "num_inference_steps": steps,
        "output_type": "pt",
        "generator": numbers,
    }
    family = type(pipeline).__name__
    if family == "StableDiffusionControlNetPipeline":
        settings |= {
            "negative_prompt_embeds": -embeds,
            "image": torch.rand(1, 3, 16, 16, generator=numbers),
        }
        return pipeline(**settings).images
    encoder = pipeline.text_encoder_2 if family == "FluxPipeline" else pipeline.text_encoder_3
    tokens = torch.arange(4)[None].to(pipeline._execution_device)
    settings["prompt_embeds"] = encoder(tokens).last_hidden_state
    settings["pooled_prompt_embeds"] = embeds[:, 0]
    if family == "StableDiffusion3Pipeline":
        settings |= {
            "negative_prompt_embeds": -settings["prompt_embeds"],
            "negative_pooled_prompt_embeds": -embeds[:, 0],
        }
    return pipeline(**settings).images
