# SPDX-License-Identifier: GPL-3.0-or-later
"""How an image was made, as text that travels with it. Side: both.

Two forms: JSON, exact, for Tessera itself (on the image datablock and in PNG files), and the
`parameters` text of AUTOMATIC1111's web UI, which other tools read.
"""

import json
import re
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from .generator_process.messages import Scheduler, SeamlessAxes, TextToImage

PARAMETERS_KEYWORD = "parameters"
SETTINGS_KEYWORD = "tessera"

SAMPLERS = {
    Scheduler.DDIM: "DDIM",
    Scheduler.DDPM: "DDPM",
    Scheduler.DEIS_MULTISTEP: "DEIS",
    Scheduler.DPM_SOLVER_MULTISTEP: "DPM++ 2M",
    Scheduler.DPM_SOLVER_MULTISTEP_KARRAS: "DPM++ 2M Karras",
    Scheduler.DPM_SOLVER_SINGLESTEP: "DPM++ 2S",
    Scheduler.DPM_SOLVER_SINGLESTEP_KARRAS: "DPM++ 2S Karras",
    Scheduler.EULER_DISCRETE: "Euler",
    Scheduler.EULER_DISCRETE_KARRAS: "Euler Karras",
    Scheduler.EULER_ANCESTRAL_DISCRETE: "Euler a",
    Scheduler.HEUN_DISCRETE: "Heun",
    Scheduler.HEUN_DISCRETE_KARRAS: "Heun Karras",
    Scheduler.KDPM2_DISCRETE: "DPM2",
    Scheduler.KDPM2_ANCESTRAL_DISCRETE: "DPM2 a",
    Scheduler.LMS_DISCRETE: "LMS",
    Scheduler.LMS_DISCRETE_KARRAS: "LMS Karras",
    Scheduler.PNDM: "PLMS",
    Scheduler.UNIPC_MULTISTEP: "UniPC",
}
"""What the web UI calls each sampling method, or would call it."""

_NEGATIVE = "Negative prompt:"
_FIELD = re.compile(r'\s*(\w[\w \-/]*):\s*("(?:\\.|[^\\"])*"|[^,]*)(?:,|$)')


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageSettings:
    """What one image was made with.

    `seed` is the number that was used and `seed_text` what the user had typed, empty for a random
    seed. `typed_prompt` is what was typed, without structure and style and with its wildcards; it
    is empty if that is the prompt itself. `scheduler` and `seamless` are names of the enumerations'
    members. `model` is the name for the user and `model_location` what `properties.py` stores.
    """

    prompt: str
    negative_prompt: str
    width: int
    height: int
    steps: int
    guidance: float
    scheduler: str
    seed: int
    seed_text: str
    seamless: str
    model: str
    model_location: str = ""
    typed_prompt: str = ""

    def to_json(self) -> str:
        """Return all fields. The seed is a string: JSON numbers of other readers lose digits."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return json.dumps({**values, "seed": str(self.seed)}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "ImageSettings":
        """Return what `to_json` wrote. Fields of a later version are left out.

        Raises:
            ValueError: The text is something else.
        """
        values = json.loads(text)
        if not isinstance(values, dict):
            raise ValueError("the settings of an image are not a JSON object")  # noqa: TRY004  as JSON's own
        known = {field.name: values[field.name] for field in fields(cls) if field.name in values}
        try:
            return cls(**{**known, "seed": int(known["seed"])})
        except (KeyError, TypeError) as error:
            raise ValueError(f"the settings of an image are incomplete: {error}") from error

    def to_parameters(self) -> str:
        """Return the `parameters` text: prompt, negative prompt, and one line of the rest."""
        lines = [self.prompt]
        if self.negative_prompt:
            lines.append(f"{_NEGATIVE} {self.negative_prompt}")
        values = {
            "Steps": str(self.steps),
            "Sampler": SAMPLERS[Scheduler[self.scheduler]],
            "CFG scale": f"{self.guidance:g}",
            "Seed": str(self.seed),
            "Size": f"{self.width}x{self.height}",
            "Model": self.model,
        }
        if SeamlessAxes[self.seamless] is not SeamlessAxes.OFF:
            values["Tiling"] = "True"
            values["Seamless axes"] = self.seamless
        values["Version"] = f"Tessera {version()}"
        pairs = [f"{name}: {_quoted(value)}" for name, value in values.items() if value]
        return "\n".join([*lines, ", ".join(pairs)])

    def to_png_text(self) -> dict[str, str]:
        """Return the texts for a PNG file, by keyword."""
        return {PARAMETERS_KEYWORD: self.to_parameters(), SETTINGS_KEYWORD: self.to_json()}


def settings_of_request(
    request: TextToImage, *, seed: int, seed_text: str, typed_prompt: str = "", model: str
) -> ImageSettings:
    """Return the settings of one image of a request."""
    sampling = request.sampling
    return ImageSettings(
        prompt=sampling.prompt,
        negative_prompt=sampling.negative_prompt,
        width=sampling.width_px,
        height=sampling.height_px,
        steps=sampling.steps,
        guidance=sampling.guidance,
        scheduler=sampling.scheduler.name,
        seed=seed,
        seed_text=seed_text,
        seamless=sampling.seamless.name,
        model=model,
        model_location=request.model.location,
        typed_prompt="" if typed_prompt == sampling.prompt else typed_prompt,
    )


def parse_parameters(text: str) -> dict[str, str]:
    """Return the fields of a `parameters` text, and "Prompt" and "Negative prompt".

    Reads what the web UI and its relatives write. A prompt with a line that begins with
    "Negative prompt:" cannot be told from a negative prompt: the format has no way to say it, and
    the JSON form is there for that.
    """
    *lines, last = text.split("\n")
    values = {name: _unquoted(value) for name, value in _FIELD.findall(last)}
    if "Steps" not in values:
        lines, values = [*lines, last], {}
    prompt, negative = lines, []
    for number, line in enumerate(lines):
        if line.startswith(_NEGATIVE):
            negative = [line.removeprefix(_NEGATIVE).removeprefix(" "), *lines[number + 1 :]]
            prompt = lines[:number]
            break
    return {**values, "Prompt": "\n".join(prompt), "Negative prompt": "\n".join(negative)}


@cache
def version() -> str:
    """Return the version of the add-on, which only the manifest holds."""
    import tomllib

    manifest = Path(__file__).with_name("blender_manifest.toml")
    return str(tomllib.loads(manifest.read_text(encoding="utf-8"))["version"])


def _quoted(value: str) -> str:
    if any(character in value for character in ',:\n"'):
        return json.dumps(value, ensure_ascii=False)
    return value


def _unquoted(value: str) -> str:
    if not value.startswith('"'):
        return value.strip()
    try:
        return str(json.loads(value))
    except ValueError:  # other tools' quotes
        return value.strip()
