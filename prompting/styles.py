# SPDX-License-Identifier: GPL-3.0-or-later
"""Styles: templates into which a prompt is put. Side: both."""

from dataclasses import dataclass

PLACE = "{prompt}"
"""Where the prompt stands in a template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """A template for the prompt, and one for the negative prompt. Either may be empty."""

    name: str
    prompt: str = PLACE
    negative_prompt: str = ""


SHIPPED = (
    Style(
        name="Photoscan",
        prompt="{prompt}, scanned surface, even light, fine detail",
        negative_prompt="shadows, perspective, blurry",
    ),
    Style(
        name="Hand-Painted",
        prompt="{prompt}, hand-painted game texture, visible brush strokes",
        negative_prompt="photograph",
    ),
    Style(name="Watercolour", prompt="watercolour painting of {prompt}, soft washes, paper grain"),
    Style(
        name="Ink Drawing",
        prompt="ink drawing of {prompt}, fine hatching, black on white",
        negative_prompt="colours",
    ),
    Style(name="Clay Model", prompt="{prompt}, sculpted in grey clay, studio light"),
    Style(name="Pixel Art", prompt="pixel art of {prompt}, limited palette"),
)
"""The styles that come with Tessera."""


def apply(style: Style, prompt: str, negative_prompt: str) -> tuple[str, str]:
    """Return the prompt and the negative prompt in a style."""
    return _put(style.prompt, prompt), _put(style.negative_prompt, negative_prompt)


def _put(template: str, text: str) -> str:
    """Put a text in its place in a template, or before a template that has no place for it."""
    if PLACE in template:
        return template.replace(PLACE, text)
    return ", ".join(part for part in (text, template) if part.strip())
