# SPDX-License-Identifier: GPL-3.0-or-later
"""What becomes of a finished image: a datablock, on screen, on a material. Side: Blender.

Only names are kept from submission to delivery: undo and loading a file move or remove datablocks.
"""

from dataclasses import dataclass, field

from . import image_settings, images, materials, metadata, models, screen
from .arrivals import Arrival
from .generator_process.errors import InvalidRequestError
from .generator_process.jobs import Job
from .generator_process.messages import Finished, ImageFinished, Request
from .materials import MaterialTarget
from .metadata import ImageSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Where the images of a job go.

    `seed_text` is what the user typed as the seed. `material` gets each image in turn, so that it
    ends with the last.
    """

    seed_text: str = ""
    material: MaterialTarget | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationResult:
    """What a job has made.

    `images` are the names of the image datablocks and `seeds` the seeds that made them, in the same
    order. The other fields are those of `messages.Finished`; `notes` and `skipped` are sentences
    for the user, `seconds` are (stage, seconds) pairs.
    """

    images: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    model: str = ""
    applied: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: tuple[tuple[str, float], ...] = ()


@dataclass(slots=True, kw_only=True)
class Record:
    """What has been delivered of one job."""

    request: Request
    delivery: Delivery
    images: list[str] = field(default_factory=list[str])
    seeds: list[int] = field(default_factory=list[int])
    notes: list[str] = field(default_factory=list[str])

    def settings_of(self, event: ImageFinished) -> ImageSettings:
        """Return what an image of this job was made with."""
        return metadata.settings_of_request(
            self.request,
            seed=event.seed,
            seed_text=self.delivery.seed_text,
            model=models.model_name(self.request.model),
        )

    def deliver(self, arrival: Arrival) -> None:
        """Make an image datablock and bring it to where it was asked for.

        Raises:
            InvalidResultError: There is no image to make of it.
        """
        assert arrival.file is not None
        assert arrival.settings is not None
        file = arrival.file.result()
        name = image_settings.name_of(arrival.settings)
        image = images.new_image_from_png(name, file, arrival.settings)
        self.images.append(image.name)
        self.seeds.append(arrival.settings.seed)
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
            images=tuple(self.images),
            seeds=tuple(self.seeds),
            model=end.model,
            applied=end.applied,
            skipped=end.skipped,
            notes=(*end.notes, *self.notes),
            seconds=end.seconds,
        )
