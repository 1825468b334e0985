# SPDX-License-Identifier: GPL-3.0-or-later
"""From settings by name to the requests that they ask for. Side: Blender.

A call of the operator, of `api.generate` or of the command line may need several: prompts of a text
datablock, and wildcards that give the images different prompts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any
from uuid import uuid4

from . import preferences
from .generator_process.choices import MAX_IMAGES, PreviewMode, Scheduler, SeamlessAxes
from .generator_process.errors import InvalidRequestError
from .generator_process.messages import SamplingSettings, TextToImage
from .generator_process.seeds import SEED_LIMIT, seed_from_text, seeds_of_images
from .models import model_ref
from .optimization_settings import choice_named, optimizations_of
from .prompting import structures, styles, wildcards

MAX_CALL_IMAGES = 2000
"""A call makes no more images than this, of all its prompts together."""

_TOLD_LINES = 3  # of those that are wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A prompt as it is typed, and the line of the text it is from: 1 is the first, 0 no text."""

    number: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A request, and what was typed to get its prompt."""

    request: TextToImage
    line: Line


def requests_of(values: Mapping[str, Any]) -> list[TextToImage]:
    """Return the requests that settings by name describe. Each has a job number of its own.

    Neighbouring images with the same prompt and negative prompt share a request. The seeds of all
    images are consecutive, from line to line of a text too.

    Raises:
        InvalidRequestError: A setting is out of range or names what is not there.
    """
    return [planned.request for planned in plan_of(values)]


def plan_of(values: Mapping[str, Any]) -> list[Planned]:
    """Return the requests that settings by name describe, as `requests_of`, with their lines.

    Raises:
        InvalidRequestError: As `requests_of`. Of a text, the lines that are wrong are named.
    """
    count = values["number_of_images"]
    if not 1 <= count <= MAX_IMAGES:  # here, before a list of that length is made
        raise InvalidRequestError(
            f"Number of images {count} is out of range. Use a value from 1 to {MAX_IMAGES}."
        )
    lines = _lines_of(values)
    if count * len(lines) > MAX_CALL_IMAGES:
        raise InvalidRequestError(
            f"{len(lines)} prompts with {count} images each are too many at once."
            f" Ask for at most {MAX_CALL_IMAGES} images."
        )
    sample = _request_of(values)
    template = _Template(values)
    first = seed_from_text(values["seed"])
    planned: list[Planned] = []
    wrong: list[str] = []
    for index, line in enumerate(lines):
        seeds = seeds_of_images((first + index * count) % SEED_LIMIT, count)
        try:
            planned += _of_line(sample, template, line, seeds)
        except InvalidRequestError as error:
            if not line.number:
                raise
            wrong.append(f"Line {line.number}: {error}")
    if wrong:
        more = len(wrong) - _TOLD_LINES
        rest = [f"{more} more lines are wrong."] if more > 0 else []
        raise InvalidRequestError(" ".join([*wrong[:_TOLD_LINES], *rest]))
    return planned


def typed_as(prompt: str, negative_prompt: str) -> dict[str, str]:
    """Return the settings that make just these prompts: no structure, style, text or wildcards."""
    return {
        "prompt": wildcards.escape(prompt),
        "negative_prompt": wildcards.escape(negative_prompt),
        "prompt_structure": structures.CUSTOM,
        "style": "",
        "prompts_text": "",
    }


class _Template:
    """What the settings make of a typed prompt. `negative_prompt` may hold wildcards."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._style = _style_named(values["style"]) if values["style"] else None

    def texts(self, subject: str) -> tuple[str, str]:
        """Return the prompt and the negative prompt, with their wildcards."""
        prompt = structures.compose(self._values["prompt_structure"], subject, self._values)
        negative_prompt = self._values["negative_prompt"]
        if self._style is None:
            return prompt, negative_prompt
        return styles.apply(self._style, prompt, negative_prompt)


def preview_of(values: Mapping[str, Any]) -> str:
    """Return the prompt that the settings make of what is typed, with its wildcards.

    Raises:
        InvalidRequestError: There is no such structure or style.
    """
    return _Template(values).texts(values["prompt"])[0]


def prompts_in(bodies: Sequence[str]) -> list[Line]:
    """Return the prompts in the lines of a text.

    Blank lines, and comments, which begin with `#`, are left out. A prompt that begins with this
    character is written with a backslash before it.
    """
    found: list[Line] = []
    for number, body in enumerate(bodies, start=1):
        text = body.strip()
        if text and not text.startswith("#"):
            found.append(Line(number=number, text=text[1:] if text.startswith("\\#") else text))
    return found


def _lines_of(values: Mapping[str, Any]) -> list[Line]:
    name = values["prompts_text"]
    if not name:
        return [Line(number=0, text=values["prompt"])]
    import bpy

    text = bpy.data.texts.get(name)
    if text is None:
        raise InvalidRequestError(
            f'Text "{name}" is not in this file. Choose another one, or clear the field.'
        )
    lines = prompts_in([line.body for line in text.lines])
    if not lines:
        raise InvalidRequestError(f'Text "{name}" has no prompts. Write one in each line.')
    return lines


def _style_named(name: str) -> styles.Style:
    found = {style.name: style for style in styles.SHIPPED}
    if name not in found:
        raise InvalidRequestError(
            f'Style "{name}" is not in the list of styles.'
            " Choose another one, or add it in the preferences."
        )
    return found[name]


def _of_line(
    sample: TextToImage, template: _Template, line: Line, seeds: Sequence[int]
) -> Iterator[Planned]:
    prompt, negative_prompt = template.texts(line.text)

    def resolved(seed: int) -> tuple[str, str]:
        return (
            wildcards.resolve(prompt, seed),
            wildcards.resolve(negative_prompt, seed, purpose="negative"),
        )

    for texts, shared in groupby(seeds, resolved):
        sampling = replace(
            sample.sampling, prompt=texts[0], negative_prompt=texts[1], seeds=tuple(shared)
        )
        request = replace(sample, job_id=uuid4().hex, sampling=sampling)
        yield Planned(request=request, line=line)


def _request_of(values: Mapping[str, Any]) -> TextToImage:
    """Return a request with everything but the prompts and the seeds."""
    sampling = SamplingSettings(
        prompt="",
        width_px=values["width"],
        height_px=values["height"],
        steps=values["steps"],
        guidance=values["guidance"],
        scheduler=choice_named(Scheduler, "Scheduler", values["scheduler"]),
        seamless=choice_named(SeamlessAxes, "Seamless", values["seamless"]),
        preview=choice_named(PreviewMode, "Preview", values["preview"]),
    )
    return TextToImage(
        job_id="",
        sampling=sampling,
        model=model_ref(values["model"].strip() or preferences.default_model()),
        optimizations=optimizations_of(values),
    )
