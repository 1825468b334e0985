# SPDX-License-Identifier: GPL-3.0-or-later
"""One image of the history as JSON: what was typed, what was used, what came of it. Side: both."""

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

FORMAT = "tessera-history"
VERSION = 1
"""Raised when the meaning of a field changes. A field that is added does not raise it."""

MAX_JSON_BYTES = 4 * 2**20
"""An entry is a few thousand bytes. A larger file is none."""

_NAME = re.compile(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d-\d{6}_[0-9a-f]{8}")
_TIME = "%Y-%m-%d_%H-%M-%S-%f"


class DamagedEntryError(ValueError):
    """A file is not an entry that this version can read. The text says why, without a full stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One image.

    `name` is that of its files, without their endings, and sorts by time. `time` is UTC, ISO 8601.
    `settings` are those of `properties.py`, by name, as they were typed: with them the image is
    made again. `image` is what was used for it: the fields of `metadata.ImageSettings`. `state` is
    a name of `JobState`: how the job ended, RUNNING before that. `result` is what the generator
    said of the job: `model`, `applied`, `skipped`, `notes` and `seconds`. `job` is the job's name
    and `number` the image's in it, from 0. `source` is the program that made it. `other` is what a
    file of another program, or of a later version, said besides; it is kept as it is.
    """

    name: str
    time: str
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    image: Mapping[str, Any] = field(default_factory=dict[str, Any])
    state: str = ""
    result: Mapping[str, Any] = field(default_factory=dict[str, Any])
    job: str = ""
    number: int = 0
    source: str = "Tessera"
    tessera: str = ""
    blender: str = ""
    other: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_values(self) -> dict[str, Any]:
        """Return all fields, with the format's name and version, as JSON has them."""
        values = {declared.name: getattr(self, declared.name) for declared in fields(self)}
        other = values.pop("other")
        return {
            "format": FORMAT,
            "version": VERSION,
            **values,
            **({"other": other} if other else {}),
        }

    def to_json(self) -> str:
        """Return the text of an entry's file."""
        return json.dumps(self.to_values(), ensure_ascii=False, indent=1)

    @classmethod
    def from_values(cls, values: object, name: str) -> "Entry":
        """Return the entry that `to_values` gave. Fields that are not known are kept in `other`.

        Args:
            values: What JSON gave.
            name: Takes the place of the name in it: a file may have been renamed.

        Raises:
            DamagedEntryError: It is something else, or of a later version.
        """
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise DamagedEntryError("it is not an entry of the history")
        version = values.get("version")
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise DamagedEntryError("it has no version")
        if version > VERSION:
            raise DamagedEntryError("it was written by a later version of Tessera")
        declared = {one.name: one for one in fields(cls)}
        known = {key: values[key] for key in declared if key in values}
        unknown = {
            key: value
            for key, value in values.items()
            if key not in declared and key not in {"format", "version"}
        }
        for key, value in known.items():
            if not isinstance(value, _TYPES[key]) or isinstance(value, bool):
                raise DamagedEntryError(f'its "{key}" is not what it should be')
        if "time" not in known:
            raise DamagedEntryError("it has no time")
        other = {**known.get("other", {}), **unknown}
        return cls(**{**known, "name": name, "other": other})

    @classmethod
    def from_json(cls, text: str | bytes, name: str) -> "Entry":
        """Return the entry of a file.

        Raises:
            DamagedEntryError: The file is something else, or of a later version.
        """
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:  # bytes that are no text are a ValueError too
            raise DamagedEntryError("it is not JSON") from error
        return cls.from_values(values, name)

    @property
    def prompt(self) -> str:
        """The prompt that was used, or else the one that was typed."""
        return _text(self.image.get("prompt")) or _text(self.settings.get("prompt"))

    @property
    def negative_prompt(self) -> str:
        """The negative prompt that was used, or else the one that was typed."""
        return _text(self.image.get("negative_prompt")) or _text(
            self.settings.get("negative_prompt")
        )

    @property
    def seed(self) -> str:
        """The number that made the image, as text. Empty if it is not known."""
        return _text(self.image.get("seed")) or _text(self.settings.get("seed"))

    @property
    def model(self) -> str:
        """The name of the model, for the user."""
        return _text(self.image.get("model")) or _text(self.settings.get("model"))

    def search_text(self) -> str:
        """Return all that a search looks at, folded."""
        typed = _text(self.settings.get("prompt")), _text(self.settings.get("seed"))
        style = _text(self.settings.get("style"))
        parts = (self.prompt, self.negative_prompt, self.seed, self.model, self.source, style)
        return "\n".join((*parts, *typed, self.time, self.name)).casefold()


_TYPES = {
    declared.name: {"number": int}.get(declared.name, str) for declared in fields(Entry)
} | dict.fromkeys(("settings", "image", "result", "other"), dict)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def new_name(now: datetime | None = None) -> str:
    """Return a name for an entry that is made now: unique, and later ones sort after it."""
    return f"{(now or datetime.now(UTC)).strftime(_TIME)}_{secrets.token_hex(4)}"


def is_name(text: str) -> bool:
    """Tell whether a text is the name of an entry, and so safe as the name of a file."""
    return _NAME.fullmatch(text) is not None


def time_of_name(name: str) -> str:
    """Return the time in a name, as `Entry.time` has it."""
    return datetime.strptime(name[:-9], _TIME).replace(tzinfo=UTC).isoformat()
