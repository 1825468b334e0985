# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of a finished image: a datablock, on screen, on a material. Side: Blender.

Only names are kept from submission to delivery: undo and loading a file move or remove datablocks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import bpy

from . import image_settings, images, materials, metadata, models, screen
from .arrivals import Arrival
from .generator_process.errors import InvalidRequestError, TesseraError
from .generator_process.jobs import Job
from .generator_process.messages import Finished, ImageFinished, Request
from .materials import MaterialTarget
from .metadata import ImageSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Where the images of a job go.

    `seed_text` and `typed_prompt` are what the user typed. `material` gets each image in turn, so
    that it ends with the last. `typed` are the settings of the call by name, for the history; empty
    if a request was made without them.
    """

    seed_text: str = ""
    typed_prompt: str = ""
    material: MaterialTarget | None = None
    typed: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationResult:
    """What a job, or a call of several jobs, has made.

    `images` are the names of the image datablocks and `seeds` the seeds that made them, in the same
    order. The other fields are those of `messages.Finished`; `notes` and `skipped` are sentences
    for the user, `seconds` are (stage, seconds) pairs. `failed` are sentences too: which jobs of a
    call failed while others did not.
    """

    images: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    model: str = ""
    applied: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: tuple[tuple[str, float], ...] = ()
    failed: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class _Made:
    """A finished image. `uid` is the `session_uid` of its datablock, 0 before there was one."""

    settings: ImageSettings
    file: bytes
    name: str = ""
    uid: int = 0


@dataclass(slots=True, kw_only=True)
class Record:
    """What has been made for one job, and what of it has been delivered.

    Finished images are kept as files until the job ends, and all come into Blender then: so one
    undo step has all of them and nothing else, and no undoing or loading before it loses one.
    """

    request: Request
    delivery: Delivery
    notes: list[str] = field(default_factory=list[str])
    failure: TesseraError | None = None
    _made: list[_Made] = field(default_factory=list[_Made])

    @property
    def images(self) -> tuple[str, ...]:
        """Names of the datablocks that were made."""
        return tuple(made.name for made in self._made if made.uid)

    @property
    def has_files(self) -> bool:
        """Whether images wait for the end of the job."""
        return any(made.file for made in self._made)

    def settings_of(self, event: ImageFinished) -> ImageSettings:
        """Return what an image of this job was made with."""
        return metadata.settings_of_request(
            self.request,
            seed=event.seed,
            seed_text=self.delivery.seed_text,
            model=models.model_name(self.request.model),
        )

    def keep(self, arrival: Arrival) -> None:
        """Keep an image for the end of the job.

        Raises:
            InvalidResultError: There is no image to make of it.
        """
        assert arrival.file is not None
        assert arrival.settings is not None
        self._made.append(_Made(settings=arrival.settings, file=arrival.file.result()))

    def deliver_next(self) -> bool:
        """Bring one image that is not in the open file to where it was asked for.

        Returns False when all are there. One that cannot be delivered is not tried again.
        """
        present = {image.session_uid for image in bpy.data.images}
        made = next((made for made in self._made if made.uid not in present), None)
        if made is None:
            return False
        try:
            self._deliver(made)
        except Exception:
            self._made.remove(made)
            raise
        return True

    def forget_files(self) -> None:
        """Free the memory of what has been delivered."""
        for made in self._made:
            made.file = b""

    def _deliver(self, made: _Made) -> None:
        name = image_settings.name_of(made.settings)
        image = images.new_image_from_png(name, made.file, made.settings)
        made.name, made.uid = image.name, image.session_uid
        if self.delivery.material is not None:
            try:
                note = materials.assign(self.delivery.material, image).note
            except InvalidRequestError as error:  # the image is there all the same
                note = str(error)
            self.notes += [note] if note and note not in self.notes else []
        screen.show(image)

    def result(self, job: Job) -> GenerationResult:
        """Return what has been made, with what the generator said of it at the end."""
        end = job.result if isinstance(job.result, Finished) else Finished(job_id=job.job_id)
        return GenerationResult(
            images=self.images,
            seeds=tuple(made.settings.seed for made in self._made if made.uid),
            model=end.model,
            applied=end.applied,
            skipped=end.skipped,
            notes=(*end.notes, *self.notes),
            seconds=end.seconds,
        )
