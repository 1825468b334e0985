# SPDX-License-Identifier: GPL-3.0-or-later
"""What stops generation, each with the button that repairs it. Side: Blender.

Asked on every redraw: nothing here starts anything, waits, or reads a file that has not changed.
Blender is imported where it is looked at, so that the table of remedies can be tested without it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .generator_process.choices import (
    MAX_GUIDANCE,
    MAX_IMAGES,
    MAX_SIZE_PX,
    MAX_STEPS,
    MIN_SIZE_PX,
    STARTER,
)
from .generator_process.errors import ErrorKind, InvalidRequestError
from .optimizations import MAX_BATCH_SIZE, Optimizations

if TYPE_CHECKING:
    from bpy.types import Context

    from .properties import TESSERA_PG_settings

_LIMITS: tuple[tuple[str, str, float, float], ...] = (
    ("width", "Width", MIN_SIZE_PX, MAX_SIZE_PX),
    ("height", "Height", MIN_SIZE_PX, MAX_SIZE_PX),
    ("number_of_images", "Number of images", 1, MAX_IMAGES),
    ("steps", "Steps", 1, MAX_STEPS),
    ("guidance", "Guidance", 0.0, MAX_GUIDANCE),
    ("batch_size", Optimizations.label_of("batch_size"), 1, MAX_BATCH_SIZE),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A button: an operator's name, the properties that it is given, and the button's text."""

    operator: str
    properties: Mapping[str, Any] = field(default_factory=dict[str, Any])
    button: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is wrong, as one sentence or two, and the buttons that repair it, the best one first.

    Without a button the sentence says what to do. `stops` tells whether nothing can be generated
    before it is repaired.
    """

    sentence: str
    remedies: tuple[Remedy, ...] = ()
    stops: bool = True


INSTALL = Remedy(operator="tessera.install_runtime", button="Install Generator")
RELEASE_MEMORY = Remedy(operator="tessera.release_memory", button="Release Memory")
SMALLEST = Remedy(
    operator="tessera.use_preset",
    properties={"preset": "SMALLEST"},
    button="Use Preset Smallest",
)
AUTOMATIC = Remedy(
    operator="tessera.use_preset",
    properties={"preset": "AUTOMATIC"},
    button="Use Preset Automatic",
)
HALVE_SIZE = Remedy(operator="tessera.halve_size", button="Halve the Size")
OPEN_PREFERENCES = Remedy(
    operator="preferences.addon_show", properties={"module": __package__}, button="Preferences"
)
SYSTEM_PREFERENCES = Remedy(
    operator="screen.userpref_show", properties={"section": "SYSTEM"}, button="System Preferences"
)
STARTER_MODEL = Remedy(
    operator="wm.context_set_string",
    properties={"data_path": "scene.tessera.model", "value": STARTER},
    button="Use Starter Model",
)

REMEDIES: dict[ErrorKind, tuple[Remedy, ...]] = {
    ErrorKind.GENERATOR: (RELEASE_MEMORY,),
    ErrorKind.NOT_INSTALLED: (INSTALL, OPEN_PREFERENCES),
    ErrorKind.START: (OPEN_PREFERENCES,),
    ErrorKind.CRASHED: (RELEASE_MEMORY,),
    ErrorKind.PROTOCOL: (RELEASE_MEMORY,),
    ErrorKind.MODEL: (STARTER_MODEL,),
    ErrorKind.OUT_OF_MEMORY: (SMALLEST, HALVE_SIZE),
    ErrorKind.INVALID_RESULT: (STARTER_MODEL,),
}
"""What helps after a job has failed, by the cause. The log can be opened after each."""

NO_REMEDY: dict[ErrorKind, str] = {
    ErrorKind.INVALID_REQUEST: "The sentence names the setting and what it may be. While the scene"
    " still has that value, `problems_of` offers the button that changes it.",
}
"""Why there is no button for the others."""


def problems_of(context: "Context") -> list[Problem]:
    """Return what stops the next generation from the scene's settings. Empty: nothing is known to.

    An empty prompt is no problem: models make an image without one.
    """
    from .properties import settings_of

    settings = settings_of(context)
    return [
        *_of_runtime(),
        *_of_model(settings),
        *_of_prompts_text(settings),
        *_of_limits(settings),
        *_of_optimizations(),
    ]


def stops(problems: list[Problem]) -> bool:
    """Return whether nothing can be generated before one of them is repaired."""
    return any(problem.stops for problem in problems)


def _of_runtime() -> Iterator[Problem]:
    import bpy

    from . import runtime
    from .installation import install

    if install.is_running():
        return  # its progress is shown instead
    state = runtime.state()
    if state.is_installed and not state.is_outdated:
        return
    if not bpy.app.online_access:
        sentence = (
            f"{state.message} Installing needs the network: turn on Allow Online Access in the"
            " system preferences."
        )
        remedies = (SYSTEM_PREFERENCES, OPEN_PREFERENCES)
    else:
        sentence = state.message
        remedies = (_install(), OPEN_PREFERENCES)
    yield Problem(sentence=sentence, remedies=remedies, stops=not state.is_installed)


def _install() -> Remedy:
    from . import preferences

    stored = preferences.get()
    if stored is None or not stored.install_openvino:
        return INSTALL
    return Remedy(operator=INSTALL.operator, properties={"openvino": True}, button=INSTALL.button)


def _of_model(settings: "TESSERA_PG_settings") -> Iterator[Problem]:
    import bpy

    from . import models, preferences
    from .generator_process.messages import ModelSource

    try:
        ref = models.model_ref(settings.model or preferences.default_model())
    except InvalidRequestError as error:
        yield Problem(sentence=str(error), remedies=(STARTER_MODEL,))
        return
    what = models.what_is_wrong(ref)
    if not what:
        return
    remedies = [STARTER_MODEL]
    folder = models.place_of(ref)
    if folder is not None:
        properties = {"filepath": str(folder)}
        remedies.append(
            Remedy(operator="wm.path_open", properties=properties, button="Open Folder")
        )
    if ref.source is ModelSource.HUB and not bpy.app.online_access:
        remedies.append(SYSTEM_PREFERENCES)
    yield Problem(sentence=what, remedies=tuple(remedies))


def _of_prompts_text(settings: "TESSERA_PG_settings") -> Iterator[Problem]:
    import bpy

    name = settings.prompts_text
    if not name:
        return
    use_prompt = Remedy(
        operator="wm.context_set_string",
        properties={"data_path": "scene.tessera.prompts_text", "value": ""},
        button="Use the Prompt",
    )
    text = bpy.data.texts.get(name)
    if text is None:
        sentence = f'There is no text "{name}" with prompts in this file.'
        yield Problem(sentence=sentence, remedies=(use_prompt,))
    elif not any(line.body.strip() for line in text.lines):
        sentence = f'The text "{name}" has no prompts. Write one on each line.'
        yield Problem(sentence=sentence, remedies=(use_prompt,))


def _of_limits(settings: "TESSERA_PG_settings") -> Iterator[Problem]:
    from .generator_process.messages import check_range

    for name, label, lowest, highest in _LIMITS:
        value = getattr(settings, name)
        try:
            check_range(label, value, lowest, highest)
        except InvalidRequestError as error:
            nearest = lowest if value < lowest else highest
            kind = "float" if isinstance(nearest, float) else "int"
            use_nearest = Remedy(
                operator=f"wm.context_set_{kind}",
                properties={"data_path": f"scene.tessera.{name}", "value": nearest},
                button=f"Use {nearest:g}",
            )
            yield Problem(sentence=str(error), remedies=(use_nearest,))


def _of_optimizations() -> Iterator[Problem]:
    from . import preferences
    from .optimization_settings import BATCH_SIZE, optimizations_of, stored_values

    values = stored_values(preferences.optimizations())
    try:
        optimizations_of({**values, BATCH_SIZE: 1})
    except InvalidRequestError as error:
        yield Problem(sentence=str(error), remedies=(AUTOMATIC,))
