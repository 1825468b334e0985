# SPDX-License-Identifier: GPL-3.0-or-later
"""Make images from a prompt alone. Side: generator."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch

from ...optimizations import HalfPrecision
from .. import decoding, optimizing, pipelines, prompts, sampling, sizes, tiled_vae
from ..automatic.ladder import FIRST_TILE_PX
from ..automatic.plan import Plan, Stage
from ..automatic.retrying import Retrying
from ..context import TaskContext
from ..devices import Device
from ..messages import Finished, ImageData, ImageFinished, Progress, TextToImage
from ..openvino_engine import Watch
from ..optimizing import Applied
from ..pipelines import LoadedModel
from ..previews import Previews
from ..sampling import Clock, Resources, SamplingJob
from ..seamless import seamless


def run(request: TextToImage, context: TaskContext, resources: Resources) -> Finished:
    """Make one image for each seed, and send each as soon as it is decoded.

    When memory runs out, what is left is tried again with the next step of the ladder.

    Raises:
        CancelledError: The job was cancelled.
        InvalidRequestError: A setting does not fit the model.
        ModelError: The model cannot be loaded or cannot do this.
        InvalidResultError: What came out is not an image.
    """
    work = _TextToImage(request=request, context=context, resources=resources)
    retrying = Retrying(
        request=request,
        context=context,
        device=resources.device,
        models=resources.models,
        remembered=resources.remembered,
    )
    retrying.run(work)
    assert work.effect is not None, "an attempt has succeeded"
    return Finished(
        job_id=context.job_id,
        model=work.model_name,
        applied=retrying.decision.explained(work.effect.applied),
        skipped=work.effect.skipped,
        notes=tuple(retrying.notes),
        seconds=tuple(work.clock.seconds.items()),
    )


@dataclass(slots=True, kw_only=True)
class _TextToImage:
    """What is done, and the attempts to do the rest. `latents` are sampled and not decoded yet."""

    request: TextToImage
    context: TaskContext
    resources: Resources
    clock: Clock = field(default_factory=Clock)
    stage: Stage = Stage.LOAD
    precision: HalfPrecision = HalfPrecision.AUTOMATIC
    model_name: str = ""
    effect: Applied | None = None
    images_done: int = 0
    latents: torch.Tensor | None = None

    @property
    def steps_done(self) -> int:
        """Steps of finished images."""
        return self.images_done * self.request.sampling.steps

    def attempt(self, plan: Plan, device: Device) -> None:
        """Load the model and make the images that are not made yet."""
        self._enter(Stage.LOAD, "Loading model")
        with self.clock.measure("load"):
            model, effect = self._loaded(plan, device)
        self.context.raise_if_cancelled()
        with sampling.computing(device), optimizing.parking(model):
            self._enter(Stage.ENCODE, "Encoding prompt")
            with self.clock.measure("encode"):
                job = self._job(model, effect)
            self.context.raise_if_cancelled()
            vae_on_cpu = _vae_on_cpu(model) if plan.vae_on_cpu else None
            with self._seamless(model, vae_on_cpu):
                while self.images_done < len(self.request.sampling.seeds):
                    self._make_batch(job, plan, effect.batch_size, vae_on_cpu)

    def _enter(self, stage: Stage, words: str) -> None:
        self.stage = stage
        self._report(words)

    def _report(self, stage: str) -> None:
        settings = self.request.sampling
        total = settings.steps * len(settings.seeds)
        self.context.emit(
            Progress(job_id=self.context.job_id, step=self.steps_done, steps=total, stage=stage)
        )

    def _loaded(self, plan: Plan, device: Device) -> tuple[LoadedModel, Applied]:
        model = optimizing.load(self.resources.models, device, self.request.model, plan.options)
        effect = optimizing.apply(
            model,
            plan.options,
            axes=self.request.sampling.seamless,
            watch=Watch(report=self._report, raise_if_cancelled=self.context.raise_if_cancelled),
        )
        self.model_name, self.effect = model.name, effect
        self.precision = effect.options.half_precision
        return model, effect

    def _job(self, model: LoadedModel, effect: Applied) -> SamplingJob:
        settings = self.request.sampling
        encoded = prompts.encode(
            model,
            settings.prompt,
            settings.negative_prompt,
            guided=settings.guidance > 1.0 and effect.options.cfg_end > 0.0,
        )
        size = sizes.plan(
            settings.width_px,
            settings.height_px,
            settings.seamless,
            step_px=model.step_px,
            unit_px=model.unit_px,
        )
        return SamplingJob(
            context=self.context,
            model=model,
            settings=settings,
            prompt=encoded,
            size=size,
            previews=Previews(model, settings.preview, size),
            guided_share=effect.options.cfg_end,
        )

    def _seamless(self, model: LoadedModel, vae_on_cpu: Any) -> ExitStack:  # noqa: ANN401
        vaes = [vae for vae in (model.pipeline.vae, vae_on_cpu) if vae is not None]
        with ExitStack() as stack:
            stack.enter_context(
                seamless((model.pipeline.unet, *vaes), self.request.sampling.seamless)
            )
            for vae in vaes:
                stack.enter_context(
                    tiled_vae.conditions(vae, before_tile=self.context.raise_if_cancelled)
                )
            return stack.pop_all()

    def _make_batch(
        self,
        job: SamplingJob,
        plan: Plan,
        batch_size: int,
        vae_on_cpu: Any,  # noqa: ANN401
    ) -> None:
        first = self.images_done
        latents = self.latents
        if latents is None:
            self.stage = Stage.SAMPLE
            seeds = job.settings.seeds[first : first + batch_size]
            with self.clock.measure("sample"):
                latents = self.latents = _sampled(job, first, seeds)
        self.stage = Stage.DECODE
        job.report((first + len(latents)) * job.settings.steps, "Decoding")
        with self.clock.measure("decode"):
            self._decode(job, plan, vae_on_cpu)

    def _decode(self, job: SamplingJob, plan: Plan, vae_on_cpu: Any) -> None:  # noqa: ANN401
        """Decode what is sampled and send it, image by image where the VAE slices anyway."""
        while self.latents is not None:
            self.context.raise_if_cancelled()
            at_once = 1 if job.model.pipeline.vae.use_slicing else len(self.latents)
            decoded = decoding.decode(
                job.model,
                self.latents[:at_once],
                in_float32=plan.vae_in_float32,
                vae_on_cpu=vae_on_cpu,
            )
            for image in decoded:
                decoding.check_image(job.model, image)
                self._send(job, image)
            rest = self.latents[at_once:]
            self.latents = rest if len(rest) else None

    def _send(self, job: SamplingJob, image: torch.Tensor) -> None:
        index = self.images_done
        pixels = sizes.finish(decoding.to_pixels(image), job.size)
        self.context.emit(
            ImageFinished(
                job_id=self.context.job_id,
                index=index,
                seed=job.settings.seeds[index],
                image=ImageData(pixels=pixels),
            )
        )
        self.images_done += 1


def _sampled(job: SamplingJob, first: int, seeds: Sequence[int]) -> torch.Tensor:
    latents = sampling.sample(job, first, seeds)
    decoding.check_latents(job.model, latents)
    return latents.cpu()


def _vae_on_cpu(model: LoadedModel) -> Any:  # noqa: ANN401
    """Return a VAE in main memory that decodes in exact tiles, or None if there is none."""
    vae = pipelines.load_vae_on_cpu(model)
    if vae is not None and not tiled_vae.installed(vae):
        tiled_vae.install(vae, tiled_vae.ExactTiling(tile_px=FIRST_TILE_PX))
    return vae
