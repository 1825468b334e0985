# SPDX-License-Identifier: GPL-3.0-or-later
# pyright: reportInvalidTypeForm=false, reportRedeclaration=false
"""All that Tessera stores in a .blend file. Side: Blender.

The limits here are soft: sliders keep to them, and a value beyond them that is typed or set by a
script is refused with a sentence by `messages.py`, where hard limits would change it in silence.

Enabling the add-on imports this module. What makes a request is imported when one is made.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from bpy.props import BoolProperty, EnumProperty, FloatProperty, IntProperty, StringProperty
from bpy.types import Context, Operator, PropertyGroup

from . import preferences
from .generator_process.choices import (
    MAX_IMAGES,
    MAX_SIZE_PX,
    MAX_STEPS,
    MIN_SIZE_PX,
    STARTER,
    PreviewMode,
    Scheduler,
    SeamlessAxes,
)
from .generator_process.errors import InvalidRequestError
from .optimization_settings import (
    BATCH_SIZE,
    OPTION_NAMES,
    merged,
    property_of,
    stored_values,
)
from .prompting.structures import CUSTOM, STRUCTURES, TOKENS, Token

if TYPE_CHECKING:
    from .generator_process.messages import TextToImage

_SCHEDULER_ITEMS = [(item.name, item.value, "") for item in Scheduler]
_SEAMLESS_ITEMS = [
    (SeamlessAxes.OFF.name, "Off", "The image has edges"),
    (SeamlessAxes.X.name, "X", "The left edge continues on the right one"),
    (SeamlessAxes.Y.name, "Y", "The top edge continues on the bottom one"),
    (SeamlessAxes.BOTH.name, "Both", "The image tiles in both directions"),
]
_PREVIEW_ITEMS = [
    (PreviewMode.NONE.name, "None", "Show only finished images"),
    (PreviewMode.FAST.name, "Fast", "Show each step roughly, at almost no cost"),
    (PreviewMode.ACCURATE.name, "Accurate", "Show each step as it is, which takes time"),
]
_STRUCTURE_ITEMS = [(item.name, item.label, item.description) for item in STRUCTURES.values()]


def _search_models(_settings: object, _context: Context, text: str) -> list[str]:
    from .models import find_models

    found = find_models(preferences.model_folders())
    return [model.text for model in found if text.casefold() in model.text.casefold()]


def _search_styles(_settings: object, _context: Context, text: str) -> list[str]:
    from .prompting.styles import SHIPPED

    return [style.name for style in SHIPPED if text.casefold() in style.name.casefold()]


def _search_texts(_settings: object, _context: Context, text: str) -> list[str]:
    import bpy

    return [found.name for found in bpy.data.texts if text.casefold() in found.name.casefold()]


def _search_words(token: Token) -> Callable[[object, Context, str], list[str]]:
    """Return a search in which a whole choice finds them all: the others are on offer too."""

    def search(_settings: object, _context: Context, text: str) -> list[str]:
        if text in token.choices:
            return list(token.choices)
        return [words for words in token.choices if text.casefold() in words.casefold()]

    return search


def _property_of_token(token: Token) -> Any:  # noqa: ANN401  Blender's declarations have no common type
    return StringProperty(
        name=token.label,
        description=f"{token.description}: one of the choices, or words of your own",
        search=_search_words(token),
        search_options={"SUGGESTION"},
        options={"SKIP_SAVE"},
    )


class TokenSettings:
    """The tokens of all prompt structures: a mix-in, made from what is declared about them."""

    __annotations__ = {name: _property_of_token(token) for name, token in TOKENS.items()}


class GenerationSettings(TokenSettings):
    """The settings of a generation: of a scene, and of every operator that generates.

    A mix-in: Blender collects the annotations of all base classes.
    """

    prompt: StringProperty(
        name="Prompt", description="What the image should show", options={"SKIP_SAVE"}
    )
    negative_prompt: StringProperty(
        name="Negative Prompt",
        description="What the image should not show",
        options={"SKIP_SAVE"},
    )
    prompt_structure: EnumProperty(
        name="Structure",
        description="How the prompt is put together from what is typed and chosen",
        items=_STRUCTURE_ITEMS,
        default=CUSTOM,
        options={"SKIP_SAVE"},
    )
    style: StringProperty(
        name="Style",
        description="A style of the list in the preferences. Empty for none",
        search=_search_styles,
        search_options={"SUGGESTION"},
        options={"SKIP_SAVE"},
    )
    prompts_text: StringProperty(
        name="Prompts",
        description="A text of this file with one prompt in each line, all of which are made"
        " instead of the prompt above. Empty for none",
        search=_search_texts,
        search_options={"SUGGESTION"},
        options={"SKIP_SAVE"},
    )
    width: IntProperty(
        name="Width",
        description="Width of the image",
        default=512,
        soft_min=MIN_SIZE_PX,
        soft_max=MAX_SIZE_PX,
        subtype="PIXEL",
        options={"SKIP_SAVE"},
    )
    height: IntProperty(
        name="Height",
        description="Height of the image",
        default=512,
        soft_min=MIN_SIZE_PX,
        soft_max=MAX_SIZE_PX,
        subtype="PIXEL",
        options={"SKIP_SAVE"},
    )
    seed: StringProperty(
        name="Seed",
        description="A whole number or any word: the same seed and settings make the same image."
        " Leave it empty for another image each time",
        options={"SKIP_SAVE"},
    )
    number_of_images: IntProperty(
        name="Images",
        description="How many images to make, each with a seed of its own",
        default=1,
        soft_min=1,
        soft_max=MAX_IMAGES,
        options={"SKIP_SAVE"},
    )
    batch_size: property_of(BATCH_SIZE)
    steps: IntProperty(
        name="Steps",
        description="More steps give a finer result and take longer",
        default=20,
        soft_min=1,
        soft_max=MAX_STEPS,
        options={"SKIP_SAVE"},
    )
    guidance: FloatProperty(
        name="Guidance",
        description="How closely the image follows the prompt",
        default=5.0,
        soft_min=0.0,
        soft_max=20.0,
        options={"SKIP_SAVE"},
    )
    scheduler: EnumProperty(
        name="Scheduler",
        description="The sampling method",
        items=_SCHEDULER_ITEMS,
        default=Scheduler.DPM_SOLVER_MULTISTEP.name,
        options={"SKIP_SAVE"},
    )
    seamless: EnumProperty(
        name="Seamless",
        description="Along which axes the image continues on its opposite edge",
        items=_SEAMLESS_ITEMS,
        default=SeamlessAxes.BOTH.name,
        options={"SKIP_SAVE"},
    )
    preview: EnumProperty(
        name="Preview",
        description="What is shown while an image is being made",
        items=_PREVIEW_ITEMS,
        default=PreviewMode.FAST.name,
        options={"SKIP_SAVE"},
    )
    model: StringProperty(
        name="Model",
        description=f"{STARTER}, the model that comes with Tessera, the path of a diffusers folder,"
        " or the owner/name of a model in the Hugging Face cache. Empty for the default of the"
        " preferences",
        search=_search_models,
        search_options={"SUGGESTION"},
        options={"SKIP_SAVE"},
    )
    assign_to_material: BoolProperty(
        name="Assign to Material",
        description="Show the image on the active material: an Image Texture node is added"
        " and linked to Base Color",
        default=False,
        options={"SKIP_SAVE"},
    )

    if TYPE_CHECKING:
        prompt: str
        negative_prompt: str
        prompt_structure: str
        style: str
        prompts_text: str
        width: int
        height: int
        seed: str
        number_of_images: int
        batch_size: int
        steps: int
        guidance: float
        scheduler: str
        seamless: str
        preview: str
        model: str
        assign_to_material: bool


SETTING_NAMES = (*GenerationSettings.__annotations__, *TOKENS)
"""What is stored with a scene."""

REQUEST_NAMES = (*SETTING_NAMES, *OPTION_NAMES)
"""What can be given for one call."""


class TESSERA_PG_settings(GenerationSettings, PropertyGroup):
    """The settings of one scene."""

    def to_text_to_image(self) -> "TextToImage":
        """Return the first request that these settings describe.

        Raises:
            InvalidRequestError: A setting is out of range.
        """
        from .generation_requests import requests_of

        return requests_of(values_of(self))[0]


def settings_of(context: Context) -> TESSERA_PG_settings:
    """Return the settings of the active scene."""
    return cast(TESSERA_PG_settings, context.scene.tessera)  # pyright: ignore[reportAttributeAccessIssue]


def values_of(settings: GenerationSettings) -> dict[str, Any]:
    """Return the settings by name, with the optimizations of this machine."""
    values = {name: getattr(settings, name) for name in SETTING_NAMES}
    return values | stored_values(preferences.optimizations())


def values_of_operator(operator: Operator, context: Context) -> dict[str, Any]:
    """Return what was given to an operator, completed from the scene and this machine.

    Raises:
        InvalidRequestError: Settings were given that contradict each other.
    """
    given = [name for name in REQUEST_NAMES if operator.properties.is_property_set(name)]
    stored = values_of(settings_of(context))
    return values_of_call(stored, {name: getattr(operator, name) for name in given})


def values_of_call(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings by name: the stored ones, and in their place those given for a call.

    Who gives a prompt wants this one, so a stored text with prompts is left alone then.

    Raises:
        InvalidRequestError: Settings were given that contradict each other.
    """
    if given.get("prompt") and given.get("prompts_text"):
        raise InvalidRequestError(
            "A prompt and a text with prompts were given. Give one of them only."
        )
    if "prompt" in given and not given.get("prompts_text"):
        given = {**given, "prompts_text": ""}
    return merged(stored, given)
