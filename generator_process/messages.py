# SPDX-License-Identifier: GPL-3.0-or-later
"""All that crosses the process boundary. Side: both.

Every accepted request is answered by any number of `Progress` and `ImageFinished` events and then
by exactly one of `Finished`, `Failed` and `Cancelled`.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..optimizations import Environment, Optimizations
from .choices import (
    MAX_GUIDANCE,
    MAX_IMAGES,
    MAX_SIZE_PX,
    MAX_STEPS,
    MIN_SIZE_PX,
    ModelSource,
    PreviewMode,
    Scheduler,
    SeamlessAxes,
)
from .errors import ErrorKind, InvalidRequestError
from .seeds import SEED_LIMIT

if TYPE_CHECKING:  # NumPy loads with the first image: enabling the add-on does not wait for it
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImageData:
    """An image on the wire.

    `pixels`: `uint8` or `float32`, (height, width, channels) with 3 or 4 channels, row 0 at the
    top, straight alpha, colours in sRGB encoding (`float32`: 0..1).
    """

    pixels: "NDArray[Any]"

    def __post_init__(self) -> None:
        if self.pixels.dtype.str not in {"|u1", "<f4"}:
            raise InvalidRequestError(
                f"Pixels of type {self.pixels.dtype} cannot be sent. Use uint8 or float32."
            )
        if self.pixels.ndim != 3 or self.pixels.shape[2] not in (3, 4):
            raise InvalidRequestError(
                f"An image of shape {self.pixels.shape} cannot be sent."
                " Use (height, width, 3) or (height, width, 4)."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRef:
    """Which model to use.

    `location` is empty for the starter model, the path of a diffusers folder for `FOLDER`, and
    a repository such as `owner/name` in the Hugging Face cache for `HUB`.
    """

    source: ModelSource = ModelSource.STARTER
    location: str = ""

    def __post_init__(self) -> None:
        if (self.source is ModelSource.STARTER) == bool(self.location):
            raise InvalidRequestError(
                f"A model of source {self.source.name} with location"
                f' "{self.location}" does not exist. Choose a model from the list.'
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingSettings:
    """What every sampling task needs. One image is made for each of `seeds`, in their order."""

    prompt: str
    negative_prompt: str = ""
    width_px: int = 512
    height_px: int = 512
    steps: int = 20
    guidance: float = 5.0
    scheduler: Scheduler = Scheduler.DPM_SOLVER_MULTISTEP
    seeds: tuple[int, ...] = (0,)
    seamless: SeamlessAxes = SeamlessAxes.OFF
    preview: PreviewMode = PreviewMode.FAST

    def __post_init__(self) -> None:
        if "\0" in self.prompt + self.negative_prompt:
            raise InvalidRequestError("The prompt has a NUL character in it. Remove it.")
        check_range("Width", self.width_px, MIN_SIZE_PX, MAX_SIZE_PX)
        check_range("Height", self.height_px, MIN_SIZE_PX, MAX_SIZE_PX)
        check_range("Steps", self.steps, 1, MAX_STEPS)
        check_range("Guidance", self.guidance, 0.0, MAX_GUIDANCE)
        check_range("Number of images", len(self.seeds), 1, MAX_IMAGES)
        for seed in self.seeds:
            check_range("Seed", seed, 0, SEED_LIMIT - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextToImage:
    """Blender to generator: make images from the prompt alone."""

    job_id: str
    sampling: SamplingSettings
    model: ModelRef = field(default_factory=ModelRef)
    optimizations: Optimizations = field(default_factory=Optimizations)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Blender to generator: stop this job. Ignored if the job has already ended."""

    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shutdown:
    """Blender to generator: end the process. Nothing follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Generator to Blender, once, first: requests are taken from now on.

    `device` is a kind of `optimizations.DEVICES`; `device_name` says more to the user, with the
    reason when it is the CPU; `versions` are (package, version) pairs; `environment` is what
    `Optimizations.can_use` and `why_not` want to know.
    """

    device: str
    device_name: str
    versions: tuple[tuple[str, str], ...]
    environment: Environment = field(default_factory=Environment)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Progress:
    """Generator to Blender: `step` of `steps` is done, of all images of the job together.

    `stage` says what is being done, for the user ("Loading model", "Sampling"). `preview` is the
    image in the making, at any size, and never a result.
    """

    job_id: str
    step: int
    steps: int
    stage: str = ""
    preview: ImageData | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImageFinished:
    """Generator to Blender: image number `index` (from 0) of the job is ready, made with `seed`."""

    job_id: str
    index: int
    seed: int
    image: ImageData


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """Generator to Blender, terminal: all images have been sent.

    `applied` are the optimizations in effect, as "name: value"; `skipped` those that were asked
    for and could not be used, as sentences; `notes` are sentences that the user should read.
    `seconds` are (stage, seconds) pairs, and `model` is the model that was used, by name.
    """

    job_id: str
    model: str = ""
    applied: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Generator to Blender, terminal: `message` is for the user, `detail` for the log."""

    job_id: str
    kind: ErrorKind
    message: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """Generator to Blender, terminal: stopped because it was asked to."""

    job_id: str


Request = TextToImage
Control = Cancel | Shutdown
JobEvent = Progress | ImageFinished | Finished | Failed | Cancelled
Event = Ready | JobEvent


def check_range(name: str, value: float, lowest: float, highest: float) -> None:
    """Refuse a number that is not in its range, with the sentence that says the range.

    Raises:
        InvalidRequestError: It is below, above, or not a number.
    """
    if not lowest <= value <= highest:  # also true for NaN
        raise InvalidRequestError(
            f"{name} {value} is out of range. Use a value from {lowest} to {highest}."
        )
