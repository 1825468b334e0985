# SPDX-License-Identifier: GPL-3.0-or-later
"""Prompts put together from a subject and a few choices. Side: both.

Each token of a structure is words: one of the choices that are offered, or the user's own. Empty
words leave it out. The wording is our own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..generator_process.errors import InvalidRequestError

CUSTOM = "CUSTOM"


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One choice of a structure. `name` is also that of the setting."""

    name: str
    label: str
    description: str
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """How a prompt is put together: `before`, then `main` with its `{subject}`, then `after`.

    `alone` stands in the place of `main` when there is no subject.
    """

    name: str
    label: str
    description: str
    before: tuple[Token, ...] = ()
    main: str = "{subject}"
    alone: str = ""
    after: tuple[Token, ...] = ()

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The tokens in the order in which they stand in the prompt."""
        return (*self.before, *self.after)


_TEXTURE = Structure(
    name="TEXTURE",
    label="Texture",
    description="A surface that fills the image",
    before=(
        Token(
            name="texture_condition",
            label="Condition",
            description="What the surface has been through",
            choices=(
                "brand new",
                "polished",
                "worn",
                "weathered",
                "cracked",
                "dirty",
                "wet",
                "mossy",
            ),
        ),
    ),
    main="{subject} texture",
    alone="texture",
    after=(
        Token(
            name="texture_view",
            label="View",
            description="From where the surface is seen",
            choices=("seen straight from above", "seen from the front", "extreme close-up"),
        ),
        Token(
            name="texture_look",
            label="Look",
            description="How the surface is rendered",
            choices=(
                "photorealistic",
                "evenly lit",
                "hand-painted",
                "stylised",
                "flat colours",
            ),
        ),
    ),
)

_PHOTOGRAPHY = Structure(
    name="PHOTOGRAPHY",
    label="Photography",
    description="A photograph of the subject",
    before=(
        Token(
            name="photo_framing",
            label="Framing",
            description="How much of the subject is in the picture",
            choices=(
                "extreme close-up",
                "close-up",
                "medium shot",
                "full shot",
                "wide shot",
                "aerial shot",
            ),
        ),
        Token(
            name="photo_position",
            label="Position",
            description="Where the camera stands",
            choices=("eye-level", "low-angle", "high-angle", "top-down", "tilted"),
        ),
    ),
    main="photograph of {subject}",
    alone="photograph",
    after=(
        Token(
            name="photo_context",
            label="Context",
            description="Where or when the photograph is taken",
            choices=("indoors", "outdoors", "in a studio", "in the rain", "at night"),
        ),
        Token(
            name="photo_lighting",
            label="Lighting",
            description="What lights the subject",
            choices=(
                "golden hour",
                "blue hour",
                "midday sun",
                "overcast sky",
                "dappled light",
                "moonlight",
                "candlelight",
                "firelight",
                "neon light",
                "fluorescent light",
                "softbox light",
                "on-camera flash",
                "backlit",
                "rim light",
                "hard side light",
                "light shafts in fog",
            ),
        ),
        Token(
            name="photo_camera",
            label="Camera",
            description="Lens and exposure",
            choices=(
                "shallow depth of field",
                "deep focus",
                "macro lens",
                "wide-angle lens",
                "telephoto lens",
                "fisheye lens",
                "tilt-shift lens",
                "fast shutter speed",
                "long exposure",
                "motion blur",
            ),
        ),
        Token(
            name="photo_film",
            label="Film",
            description="What the photograph is taken on",
            choices=(
                "colour film",
                "black and white film",
                "slide film",
                "instant film",
                "infrared film",
                "sepia tones",
            ),
        ),
    ),
)

_CONCEPT_ART = Structure(
    name="CONCEPT_ART",
    label="Concept Art",
    description="A design for a film or a game",
    before=(
        Token(
            name="concept_genre",
            label="Genre",
            description="The world that it belongs to",
            choices=("fantasy", "science fiction", "post-apocalyptic", "steampunk"),
        ),
    ),
    main="concept art of {subject}",
    alone="concept art",
    after=(
        Token(
            name="concept_type",
            label="Type",
            description="What is being designed",
            choices=("character design", "environment design", "prop design", "vehicle design"),
        ),
    ),
)

STRUCTURES = {
    structure.name: structure
    for structure in (
        Structure(
            name=CUSTOM,
            label="Custom",
            description="The prompt is what is typed",
        ),
        _TEXTURE,
        _PHOTOGRAPHY,
        _CONCEPT_ART,
    )
}
"""The structures by name, in the order in which they are offered."""

TOKENS = {token.name: token for structure in STRUCTURES.values() for token in structure.tokens}
"""The tokens of all structures by name."""


def compose(structure: str, subject: str, choices: Mapping[str, str]) -> str:
    """Return the prompt of a structure.

    Args:
        structure: One of `STRUCTURES`, by name.
        subject: What the image is of. `CUSTOM` takes it as it is, the others without the white
            space around it.
        choices: Words by the name of a token. Those of other structures are not looked at.

    Raises:
        InvalidRequestError: There is no such structure.
    """
    found = STRUCTURES.get(structure)
    if found is None:
        raise InvalidRequestError(
            f'Prompt structure "{structure}" is not known. Use one of {", ".join(STRUCTURES)}.'
        )
    if found.name == CUSTOM:
        return subject
    subject = subject.strip()
    main = found.main.replace("{subject}", subject) if subject else found.alone
    before = ", ".join(_words(found.before, choices))
    return ", ".join([f"{before} {main}".strip(), *_words(found.after, choices)])


def _words(tokens: Iterable[Token], choices: Mapping[str, str]) -> list[str]:
    words = (choices.get(token.name, "").strip() for token in tokens)
    return [text for text in words if text]
