# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a task again, with less memory or more bits, until there is a picture. Side: generator.

What is done stays done: that is up to the task, which attempts only what is left. What helped is
kept by the caller and holds for images at least as large of the same model on the same device.
"""

import gc
import logging
import traceback
from dataclasses import dataclass, field, replace
from typing import Protocol

from ...optimizations import Environment, HalfPrecision
from .. import devices, environments, model_files
from ..context import TaskContext
from ..devices import Device
from ..errors import InvalidResultError, ModelError
from ..explanations import is_out_of_memory
from ..messages import ModelRef, Progress, TextToImage
from ..pipelines import Models
from . import choose, ladder
from .facts import ModelFacts, facts_of
from .ladder import Place, Step
from .plan import Plan, Remembered, Stage, at_least

_log = logging.getLogger(__name__)

_OUT_OF_MEMORY = "out of memory"
_NOT_A_PICTURE = "not a picture"


class Work(Protocol):
    """A task that can be attempted again.

    `stage` says where it is, `precision` what is in effect, `steps_done` how much need not be done
    again, and `images_done` how many images have been sent.
    """

    stage: Stage
    precision: HalfPrecision
    images_done: int

    @property
    def steps_done(self) -> int:
        """Steps that are not done again."""
        ...

    def attempt(self, plan: Plan, device: Device) -> None:
        """Do what is left. Raises what the libraries raise."""
        ...


@dataclass(slots=True, kw_only=True)
class Retrying:
    """The attempts of one job.

    `decision` is what was chosen to begin with, and `notes` say what was changed since, as
    sentences.
    """

    request: TextToImage
    context: TaskContext
    device: Device
    models: Models
    remembered: Remembered
    decision: choose.Decision = field(init=False)
    notes: list[str] = field(default_factory=list[str])
    _facts: ModelFacts = field(init=False)

    def __post_init__(self) -> None:
        self._facts = _facts_of(self.request)

    def run(self, work: Work) -> None:
        """Attempt the work until it is done.

        Raises:
            CancelledError: The job was cancelled.
            RuntimeError | MemoryError: Memory ran out, and nothing is left to try.
            InvalidResultError: What came out is not an image, and nothing is left to try.
            Exception: As the work raises.
        """
        plan = self._first_plan()
        began_with = plan
        while (step := self._attempt(work, plan)) is not None:
            self._free(work.stage)
            self.context.raise_if_cancelled()
            plan = step.plan
        if plan is not began_with and not plan.options.cpu_only:  # too slow to stay there
            self.remembered[self._key()] = plan

    def _attempt(self, work: Work, plan: Plan) -> Step | None:
        """Return None if the work is done, else how to go on. No error is left: it holds memory."""
        device = devices.chosen(self.device, cpu_only=plan.options.cpu_only)
        try:
            work.attempt(plan, device)
        except InvalidResultError as error:
            place = self._place(device, work)
            step = ladder.wider_step(plan, work.stage, place, work.precision)
            if step is None:
                raise
            self._go_on(error, work, step, _NOT_A_PICTURE)
        except (RuntimeError, MemoryError) as error:
            place = self._place(device, work)
            step = ladder.next_step(plan, work.stage, place) if is_out_of_memory(error) else None
            if step is None:
                raise
            self._go_on(error, work, step, _OUT_OF_MEMORY)
        else:
            return None
        return step

    def _go_on(self, error: BaseException, work: Work, step: Step, reason: str) -> None:
        _log.warning("%s while %s", reason, work.stage.value, exc_info=error)
        _forget(error)
        sentence = f"{reason}: trying again with {step.words}"
        self.notes.append(f"While {work.stage.value}: {sentence}.")
        sampling = self.request.sampling
        self.context.emit(
            Progress(
                job_id=self.context.job_id,
                step=work.steps_done,
                steps=sampling.steps * len(sampling.seeds),
                stage=sentence[0].upper() + sentence[1:],
            )
        )

    def _first_plan(self) -> Plan:
        wanted = self.request.optimizations
        known = self._known()
        device = devices.chosen(self.device, cpu_only=wanted.cpu_only)
        sampling = self.request.sampling
        self.decision = choose.decide(
            device.kind,
            self._environment(device),
            self._facts,
            (sampling.width_px, sampling.height_px),
            len(sampling.seeds),
            wanted,
        )
        plan = Plan(options=self.decision.options)
        if known is None:
            return plan
        self.notes.append("Memory ran out before with this model: what helped then was used.")
        return at_least(plan, known)

    def _environment(self, device: Device) -> Environment:
        """Return what is known of the device. The weights that are there make room when needed."""
        known = environments.environment_now(device)
        if not known.free_memory:
            return known
        return replace(known, free_memory=known.free_memory + self.models.bytes_on(device))

    def _place(self, device: Device, work: Work) -> Place:
        sampling = self.request.sampling
        return Place(
            device=device.kind,
            environment=device.environment,
            images=self._images_left(work),
            longest_px=max(sampling.width_px, sampling.height_px),
            exact_tiling=self._facts.exact_tiling,
        )

    def _images_left(self, work: Work) -> int:
        return len(self.request.sampling.seeds) - work.images_done

    def _free(self, stage: Stage) -> None:
        """Give back what the failed attempt held."""
        if stage is Stage.LOAD:  # it may be half on the device
            self.models.release()
        gc.collect()
        devices.release_cached_memory(self.device)

    def _key(self) -> tuple[ModelRef, str, int]:
        return self.request.model, self.device.kind, self._pixels()

    def _pixels(self) -> int:
        return self.request.sampling.width_px * self.request.sampling.height_px

    def _known(self) -> Plan | None:
        """Return what helped for the largest image that is not larger than this one."""
        fitting: list[tuple[int, Plan]] = []
        for (model, kind, pixels), plan in self.remembered.items():
            same = model == self.request.model and kind == self.device.kind
            if same and pixels <= self._pixels():
                fitting.append((pixels, plan))
        return max(fitting, key=lambda known: known[0])[1] if fitting else None


def _facts_of(request: TextToImage) -> ModelFacts:
    try:
        return facts_of(model_files.folder_of(request.model))
    except ModelError:  # loading it says what is wrong
        return ModelFacts()


def _forget(error: BaseException) -> None:
    """Clear the frames that an error holds, and those of the errors before it."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        traceback.clear_frames(cause.__traceback__)
        cause = cause.__cause__ or cause.__context__
