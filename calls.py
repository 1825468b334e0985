# SPDX-License-Identifier: GPL-3.0-or-later
"""One call of an operator, of `api.generate` or of the command line: its jobs. Side: Blender."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import bpy

from . import properties, session
from .delivery import Delivery, GenerationResult
from .generation_requests import Line, Planned
from .generator_process.errors import CancelledError, InvalidRequestError, TesseraError

if TYPE_CHECKING:
    from .generator_process.jobs import Job
    from .materials import MaterialTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Jobs that were submitted together, each with the line that its prompt is from."""

    jobs: tuple[tuple["Job", Line], ...]

    def wait(self) -> GenerationResult:
        """Wait until all jobs have ended. Ctrl-C cancels those that have not.

        Returns:
            What all of them have made, in their order. `failed` says which jobs failed while others
            did not, and why.

        Raises:
            CancelledError: A job was cancelled. Images that were finished are kept.
            TesseraError: All jobs failed: why the first did.
        """
        current = session.get()
        results: list[GenerationResult] = []
        errors: list[tuple[Job, Line, TesseraError]] = []
        try:
            for job, line in self.jobs:
                try:
                    results.append(current.wait(job))
                except TesseraError as error:
                    errors.append((job, line, error))
                    results.append(current.result_of(job))
        except KeyboardInterrupt:
            self.cancel()
            raise
        for _, _, error in errors:
            if isinstance(error, CancelledError) or len(errors) == len(self.jobs):
                raise error
        failed = tuple(f"{_name(job, line)}: {error}" for job, line, error in errors)
        return replace(merged(results), failed=failed)

    def cancel(self) -> None:
        """Stop the jobs that have not ended."""
        for job, _ in self.jobs:
            session.get().cancel(job.job_id)


def submit(
    planned: Sequence[Planned],
    values: Mapping[str, Any],
    *,
    material: "MaterialTarget | None" = None,
) -> Call:
    """Put all requests into the queue and return at once.

    Args:
        planned: What `generation_requests.plan_of` returns.
        values: The settings by name that were planned for.
        material: Gets each image in turn.

    Raises:
        GeneratorError: The generator cannot take them. None of them is done then.
    """
    jobs: list[tuple[Job, Line]] = []
    for one in planned:
        delivery = Delivery(
            seed_text=values["seed"],
            typed_prompt=one.line.text,
            material=material,
            typed={**values, "prompt": one.line.text, "prompts_text": ""},
        )
        jobs.append((session.get().submit(one.request, delivery), one.line))
    return Call(jobs=tuple(jobs))


def values_of_script(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings by name: those given by a script, completed from scene and machine.

    Raises:
        TypeError: There is no such setting.
        InvalidRequestError: One has the wrong type, or they contradict each other.
    """
    unknown = sorted(set(settings) - set(properties.REQUEST_NAMES))
    if unknown:
        raise TypeError(f"there is no setting {', '.join(unknown)}")
    present = properties.values_of(properties.settings_of(bpy.context))
    given = {name: _checked(name, value, present[name]) for name, value in settings.items()}
    return properties.values_of_call(present, given)


def merged(results: Sequence[GenerationResult]) -> GenerationResult:
    """Return what several jobs have made as if one had: all images, each sentence once."""
    seconds: dict[str, float] = {}
    for result in results:
        for stage, spent_s in result.seconds:
            seconds[stage] = seconds.get(stage, 0.0) + spent_s
    return GenerationResult(
        images=tuple(name for result in results for name in result.images),
        seeds=tuple(seed for result in results for seed in result.seeds),
        model=next((result.model for result in results if result.model), ""),
        applied=_once(text for result in results for text in result.applied),
        skipped=_once(text for result in results for text in result.skipped),
        notes=_once(text for result in results for text in result.notes),
        seconds=tuple(seconds.items()),
    )


def _once(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


def _name(job: "Job", line: Line) -> str:
    prompt = job.request.sampling.prompt
    return f'Line {line.number} "{prompt}"' if line.number else f'"{prompt}"'


def _checked(name: str, value: Any, present: Any) -> Any:  # noqa: ANN401  as many types as settings
    """Return a setting in the type of the scene's, where that changes nothing."""
    kind = type(present)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if is_whole and (kind is float or name == "seed"):
        return kind(value)
    if type(value) is not kind:
        wanted = {str: "text", bool: "True or False", int: "a whole number"}.get(kind, "a number")
        raise InvalidRequestError(f"{name} {value!r} is not {wanted}.")
    return value
