# SPDX-License-Identifier: GPL-3.0-or-later
"""Make images from a prompt alone. Side: generator."""

import torch

from .. import decoding, devices, optimizing, prompts, sampling, sizes, tiled_vae
from ..context import TaskContext
from ..messages import Finished, ImageData, ImageFinished, Progress, SeamlessAxes, TextToImage
from ..openvino_engine import Watch
from ..previews import Previews
from ..sampling import Clock, Resources, SamplingJob
from ..seamless import seamless


def run(request: TextToImage, context: TaskContext, resources: Resources) -> Finished:
    """Make one image for each seed, and send each as soon as it is decoded.

    Raises:
        CancelledError: The job was cancelled.
        InvalidRequestError: A setting does not fit the model.
        ModelError: The model cannot be loaded or cannot do this.
        InvalidResultError: What came out is not an image.
    """
    settings = request.sampling
    clock = Clock()
    total = settings.steps * len(settings.seeds)
    device = devices.chosen(resources.device, cpu_only=request.optimizations.cpu_only)

    context.emit(Progress(job_id=context.job_id, step=0, steps=total, stage="Loading model"))
    with clock.measure("load"):
        model = optimizing.load(resources.models, device, request.model, request.optimizations)
        effect = optimizing.apply(
            model,
            request.optimizations,
            axes=settings.seamless,
            watch=Watch(
                report=lambda stage: context.emit(
                    Progress(job_id=context.job_id, step=0, steps=total, stage=stage)
                ),
                raise_if_cancelled=context.raise_if_cancelled,
            ),
        )
    context.raise_if_cancelled()

    with sampling.computing(device), optimizing.parking(model):
        context.emit(Progress(job_id=context.job_id, step=0, steps=total, stage="Encoding prompt"))
        with clock.measure("encode"):
            encoded = prompts.encode(
                model,
                settings.prompt,
                settings.negative_prompt,
                guided=settings.guidance > 1.0 and effect.options.cfg_end > 0.0,
            )
        context.raise_if_cancelled()
        size = sizes.plan(
            settings.width_px,
            settings.height_px,
            settings.seamless,
            step_px=model.step_px,
            unit_px=model.unit_px,
        )
        job = SamplingJob(
            context=context,
            model=model,
            settings=settings,
            prompt=encoded,
            size=size,
            previews=Previews(model, settings.preview, size),
            guided_share=effect.options.cfg_end,
        )
        vae, axes = model.pipeline.vae, settings.seamless
        conditions = tiled_vae.conditions(
            vae,
            wrap_x=axes in (SeamlessAxes.X, SeamlessAxes.BOTH),
            wrap_y=axes in (SeamlessAxes.Y, SeamlessAxes.BOTH),
            before_tile=context.raise_if_cancelled,
        )
        with seamless((model.pipeline.unet, vae), axes), conditions:
            for first, seeds in sampling.batches(settings.seeds, effect.batch_size):
                with clock.measure("sample"):
                    latents = sampling.sample(job, first, seeds)
                    decoding.check_latents(model, latents)
                job.report((first + len(seeds)) * settings.steps, "Decoding")
                with clock.measure("decode"):
                    _decode(job, first, latents)

    return Finished(
        job_id=context.job_id,
        model=model.name,
        applied=effect.applied,
        skipped=effect.skipped,
        seconds=tuple(clock.seconds.items()),
    )


def _decode(job: SamplingJob, first: int, latents: torch.Tensor) -> None:
    """Decode a batch and send its images, one at a time where the VAE slices anyway."""
    at_once = 1 if job.model.pipeline.vae.use_slicing else len(latents)
    for start in range(0, len(latents), at_once):
        job.context.raise_if_cancelled()
        decoded = decoding.decode(job.model, latents[start : start + at_once])
        for offset, image in enumerate(decoded):
            decoding.check_image(job.model, image)
            index = first + start + offset
            pixels = sizes.finish(decoding.to_pixels(image), job.size)
            job.context.emit(
                ImageFinished(
                    job_id=job.context.job_id,
                    index=index,
                    seed=job.settings.seeds[index],
                    image=ImageData(pixels=pixels),
                )
            )
