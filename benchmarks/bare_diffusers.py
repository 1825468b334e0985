# SPDX-License-Identifier: GPL-3.0-or-later
"""Diffusers alone, on the same work as a Tessera job: what `overhead.py` compares with.

Runs in the generator's environment and imports nothing of Tessera. For each seed read from a line
of stdin it makes one image, from the prompt to uint8 pixels, and prints one JSON object with the
`seconds`. The model is loaded before the first one.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path


def main() -> None:
    """Load the model, then make an image for each seed."""
    arguments = _arguments()
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch
    from diffusers import DDIMScheduler, StableDiffusionPipeline

    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    pipeline = StableDiffusionPipeline.from_pretrained(
        arguments.model, dtype=torch.float32, safety_checker=None, local_files_only=True
    )
    pipeline.set_progress_bar_config(disable=True)
    pipeline.scheduler = DDIMScheduler.from_config(pipeline.scheduler.config, clip_sample=False)
    for line in sys.stdin:
        started_s = time.perf_counter()
        with torch.inference_mode():
            (image,) = pipeline(
                arguments.prompt,
                height=arguments.size,
                width=arguments.size,
                num_inference_steps=arguments.steps,
                guidance_scale=arguments.guidance,
                generator=torch.Generator().manual_seed(int(line)),
                output_type="np",
            ).images
        pixels = (image * 255).round().astype("uint8")
        assert pixels.shape == (arguments.size, arguments.size, 3)
        report = {"seconds": time.perf_counter() - started_s, "threads": torch.get_num_threads()}
        sys.stdout.write(json.dumps(report) + "\n")
        sys.stdout.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="folder in diffusers layout")
    parser.add_argument("--prompt", default="red brick wall")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--guidance", type=float, default=5.0)
    parser.add_argument("--threads", type=int, default=0, help="0 leaves torch's own choice")
    return parser.parse_args()


if __name__ == "__main__":
    main()
