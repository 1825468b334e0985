# SPDX-License-Identifier: GPL-3.0-or-later
"""What sampling tasks share: batches, progress, cancelling, timing. Side: generator."""

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Any

import torch

from . import noise, schedulers
from .automatic.plan import Plan, Remembered
from .context import TaskContext
from .devices import Device
from .messages import ModelRef, Progress, SamplingSettings
from .pipelines import LoadedModel, Models
from .previews import Previews
from .prompts import EncodedPrompt
from .sizes import SizePlan

if TYPE_CHECKING:
    from diffusers import DiffusionPipeline

# Of these the first half of the batch is for the negative prompt while there is guidance.
_CONDITIONS = ("prompt_embeds", "add_text_embeds", "add_time_ids")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What lives as long as the process and is shared by all tasks.

    `remembered` is what has helped against running out of memory.
    """

    device: Device
    models: Models
    remembered: Remembered = field(default_factory=dict[tuple[ModelRef, str, int], Plan])


@dataclass(slots=True)
class Clock:
    """Adds up the seconds of each stage."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])

    @contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        """Add the time spent in this context to the stage."""
        started_s = time.perf_counter()
        try:
            yield
        finally:
            spent_s = time.perf_counter() - started_s
            self.seconds[stage] = self.seconds.get(stage, 0.0) + spent_s


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingJob:
    """Everything that is the same for all images of a job.

    `guided_share` is the share of the steps that follow the guidance, from the first one on.
    """

    context: TaskContext
    model: LoadedModel
    settings: SamplingSettings
    prompt: EncodedPrompt
    size: SizePlan
    previews: Previews
    guided_share: float = 1.0

    @property
    def total_steps(self) -> int:
        """Steps of all images together."""
        return self.settings.steps * len(self.settings.seeds)

    def report(self, step: int, stage: str, latents: torch.Tensor | None = None) -> None:
        """Tell how far the job is, with a preview of `latents` if one is due."""
        preview = self.previews.make(latents) if latents is not None else None
        self.context.emit(
            Progress(
                job_id=self.context.job_id,
                step=step,
                steps=self.total_steps,
                stage=stage,
                preview=preview,
            )
        )


def batches(seeds: Sequence[int], batch_size: int) -> Iterator[tuple[int, Sequence[int]]]:
    """Yield (index of the first image, seeds) for each batch."""
    for first in range(0, len(seeds), batch_size):
        yield first, seeds[first : first + batch_size]


def computing(device: Device) -> AbstractContextManager[object]:
    """Return the context in which tasks compute, without what only training needs."""
    return torch.no_grad() if device.kind == "dml" else torch.inference_mode()


def sample(job: SamplingJob, first: int, seeds: Sequence[int]) -> torch.Tensor:
    """Denoise one batch from pure noise.

    Args:
        job: What the batches have in common.
        first: Index of the batch's first image within the job.
        seeds: One for each image of the batch.

    Returns:
        (images, channels, height, width), scaled as the VAE's decoder wants after dividing by its
        scaling factor.

    Raises:
        CancelledError: The job was cancelled; no later than after one more step.
    """
    model, settings, size = job.model, job.settings, job.size
    pipeline = model.pipeline
    generators = noise.generators_of(seeds)
    factor = model.latent_factor
    shape = (model.latent_channels, size.made_height_px // factor, size.made_width_px // factor)
    latents = noise.starting_noise(generators, shape).to(model.device.torch_device, model.dtype)

    guided_steps = ceil(job.guided_share * settings.steps)

    def on_step_end(
        running: "DiffusionPipeline", index: int, _timestep: int, tensors: dict[str, torch.Tensor]
    ) -> dict[str, Any]:
        job.context.raise_if_cancelled()
        of_one = (index + 1) * settings.steps // running.num_timesteps
        done = first * settings.steps + of_one * len(seeds)
        job.report(done, "Sampling", tensors["latents"])
        if running.do_classifier_free_guidance and of_one >= guided_steps:
            return _without_guidance(running, tensors)
        return {}

    conditions = [name for name in _CONDITIONS if name in pipeline._callback_tensor_inputs]  # noqa: SLF001
    kept = pipeline.scheduler
    pipeline.scheduler = schedulers.build(
        settings.scheduler, model.scheduler_config, settings.steps
    )
    try:
        return pipeline(
            **job.prompt.arguments(len(seeds)),
            height=size.made_height_px,
            width=size.made_width_px,
            num_inference_steps=settings.steps,
            guidance_scale=settings.guidance if guided_steps else 0.0,
            generator=generators,
            latents=latents,
            output_type="latent",
            callback_on_step_end=on_step_end,
            callback_on_step_end_tensor_inputs=["latents", *conditions],
            return_dict=False,
        )[0]
    finally:
        pipeline.scheduler = kept


def _without_guidance(
    pipeline: Any,  # noqa: ANN401
    tensors: dict[str, torch.Tensor],
) -> dict[str, torch.Tensor]:
    """Switch guidance off for the steps to come: they compute the prompt's half of the batch."""
    pipeline._guidance_scale = 0.0  # noqa: SLF001  its property has no setter; each call sets it
    return {name: tensors[name].chunk(2)[1] for name in _CONDITIONS if name in tensors}
