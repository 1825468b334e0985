# SPDX-License-Identifier: GPL-3.0-or-later
"""The optimizations as properties of Blender, made from what is declared about them. Side: Blender.

They are stored in the add-on's preferences, because they belong to a machine, and every operator
that generates takes them for one call. Only the batch size is stored with a scene, beside the
number of images. Which of them can be used here is for the panel to show: the properties take all.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, fields
from enum import Enum
from typing import Any, TypeVar

from bpy.props import BoolProperty, EnumProperty, FloatProperty, IntProperty
from bpy.types import Context, PropertyGroup

from .generator_process.errors import InvalidRequestError
from .optimizations import Optimizations

_Choice = TypeVar("_Choice", bound=Enum)

BATCH_SIZE = "batch_size"
"""The option that is stored with a scene."""

FIELDS: dict[str, "Field[Any]"] = {field.name: field for field in fields(Optimizations)}
"""The options by name, in their order."""

OPTION_NAMES = tuple(name for name in FIELDS if name != BATCH_SIZE)
"""The options that are stored for this machine."""

FREE_NAMES = ("automatic", BATCH_SIZE, "cfg_end", "cpu_only")
"""The options that are taken from the settings when Automatic is on."""

_PIXELS = ("vae_tile_size", "vae_tile_blend")


def property_of(name: str, update: "Callable[[Any, Context], None] | None" = None) -> Any:  # noqa: ANN401  Blender's declarations have no common type
    """Return the declaration of an option's property. Limits are soft, as in `properties.py`.

    Args:
        name: A field of `Optimizations`.
        update: Called by Blender when the user or a script has changed it.
    """
    declared = FIELDS[name]
    metadata = declared.metadata
    common: dict[str, Any] = {
        "name": metadata["label"],
        "description": metadata["description"],
        "options": {"SKIP_SAVE"},
        "update": update,
    }
    default = declared.default
    assert default is not MISSING
    if isinstance(default, Enum):
        items = [
            (choice.name, about["label"], about["description"])
            for choice, about in metadata["choices"].items()
        ]
        return EnumProperty(items=items, default=default.name, **common)
    if isinstance(default, bool):
        return BoolProperty(default=default, **common)
    lowest, highest = metadata["limits"]
    common |= {"default": default, "soft_min": lowest, "soft_max": highest}
    if isinstance(default, float):
        return FloatProperty(subtype="FACTOR", **common)
    return IntProperty(subtype="PIXEL" if name in _PIXELS else "NONE", **common)


def _mark_changed(_group: object, context: Context) -> None:
    """Have Blender save the preferences, as it does when they are changed in their own editor."""
    context.preferences.is_dirty = True


class OptimizationSettings:
    """A mix-in for operators: what is given counts for one call. Blender reads the annotations."""

    __annotations__ = {name: property_of(name) for name in OPTION_NAMES}


class TESSERA_PG_optimizations(PropertyGroup):
    """The optimizations of this machine."""

    __annotations__ = {name: property_of(name, _mark_changed) for name in OPTION_NAMES}


def stored_values(group: TESSERA_PG_optimizations | None) -> dict[str, Any]:
    """Return the options by name, choices as names: those of the group, or else the defaults."""
    if group is not None:
        return {name: getattr(group, name) for name in OPTION_NAMES}
    return property_values_of(Optimizations())


def property_values_of(optimizations: Optimizations) -> dict[str, Any]:
    """Return the options that are stored for a machine as the values of their properties."""
    values = ((name, getattr(optimizations, name)) for name in OPTION_NAMES)
    return {name: value.name if isinstance(value, Enum) else value for name, value in values}


def merged(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings by name: the stored ones, and in their place those given for a call.

    Who gives an option that Automatic would choose wants it as given, so Automatic is off then.

    Raises:
        InvalidRequestError: Automatic is asked for too.
    """
    values = {**stored, **given}
    chosen = [name for name in given if name in OPTION_NAMES and name not in FREE_NAMES]
    if not chosen:
        return values
    if given.get("automatic"):
        labels = " and ".join(Optimizations.label_of(name) for name in chosen)
        raise InvalidRequestError(
            f"Automatic chooses {labels} by itself. Turn Automatic off, or do not set {labels}."
        )
    return {**values, "automatic": False}


def optimizations_of(values: Mapping[str, Any]) -> Optimizations:
    """Return the optimizations that settings by name describe.

    Raises:
        InvalidRequestError: One is out of range, or is no choice that exists.
    """
    return Optimizations(**{name: _typed(field, values[name]) for name, field in FIELDS.items()})


def _typed(declared: "Field[Any]", value: Any) -> Any:  # noqa: ANN401  as many types as options
    if isinstance(declared.default, Enum):
        return choice_named(declared.metadata["choices"], declared.metadata["label"], value)
    return value


def choice_named(choices: Iterable[_Choice], setting: str, name: str) -> _Choice:
    """Return a choice by its name. Blender has checked those of properties, not of a script.

    Raises:
        InvalidRequestError: There is no such choice.
    """
    found = {choice.name: choice for choice in choices}
    if name not in found:
        raise InvalidRequestError(
            f'{setting} "{name}" is not known. Use one of {", ".join(found)}.'
        )
    return found[name]


def store(group: TESSERA_PG_optimizations, optimizations: Optimizations) -> None:
    """Set all of the group's options."""
    for name, value in property_values_of(optimizations).items():
        setattr(group, name, value)
