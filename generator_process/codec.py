# SPDX-License-Identifier: GPL-3.0-or-later
"""Field values to JSON and back, driven by the annotations of the message classes. Side: both.

Strict in both directions: a value is either exactly what its annotation says, or a `ProtocolError`
names the field. What a class checks in `__post_init__` raises `InvalidRequestError`. Only classes
that the annotations name are ever made.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Protocol, TypeGuard, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from .errors import ProtocolError

ALIGNMENT = 16
"""Every array starts at a multiple of this many bytes, so that it can be used where it lies."""

_DTYPES = {"uint8": np.dtype(np.uint8), "float32": np.dtype(np.float32)}
_MAX_DIMENSIONS = 4
_MAX_LENGTH = 2**31
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1


class ArrayOutput:
    """Collects the arrays of one message, in the order of their fields."""

    def __init__(self) -> None:
        self.buffers: list[bytes | memoryview] = []
        self.size = 0

    def add(self, array: NDArray[Any]) -> None:
        """Append the bytes of an array in C order, copied only if it lies otherwise."""
        padding = -self.size % ALIGNMENT
        if padding:
            self.buffers.append(bytes(padding))
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.buffers.append(flat.data)
        self.size += padding + flat.nbytes


class ArrayInput:
    """Hands out the arrays of one message in the order of their fields, without copying."""

    def __init__(self, payload: NDArray[np.uint8]) -> None:
        self._payload = payload
        self.position = 0

    def take(self, dtype: np.dtype[Any], shape: tuple[int, ...], where: str) -> NDArray[Any]:
        """Return the next array, a writable view into the payload."""
        start = self.position + -self.position % ALIGNMENT
        end = start + math.prod(shape) * dtype.itemsize
        if end > self._payload.size:
            raise ProtocolError(
                f"{where}: an array of {end - start} bytes is announced,"
                f" but the message holds {self._payload.size} bytes of arrays."
            )
        self.position = end
        return self._payload[start:end].view(dtype).reshape(shape)


class Codec(Protocol):
    """Both directions for one kind of value. `where` names the field in errors."""

    def encode(self, value: object, where: str, arrays: ArrayOutput) -> object: ...

    def decode(self, value: object, where: str, arrays: ArrayInput) -> object: ...


class _Same:
    """Text and truth values: JSON has them."""

    def __init__(self, kind: type, expected: str) -> None:
        self._kind = kind
        self._expected = expected

    def encode(self, value: object, where: str, arrays: ArrayOutput) -> object:
        if not isinstance(value, self._kind):
            raise _wrong(where, self._expected, value)
        return value

    def decode(self, value: object, where: str, arrays: ArrayInput) -> object:
        return self.encode(value, where, ArrayOutput())


class _Integer:
    def encode(self, value: object, where: str, arrays: ArrayOutput) -> object:
        if not _is_int(value) or not _INT_MIN <= value <= _INT_MAX:
            raise _wrong(where, "a whole number of at most 64 bits", value)
        return value

    def decode(self, value: object, where: str, arrays: ArrayInput) -> object:
        return self.encode(value, where, ArrayOutput())


class _Float:
    def encode(self, value: object, where: str, arrays: ArrayOutput) -> object:
        if _is_int(value) and _INT_MIN <= value <= _INT_MAX:
            return float(value)
        if isinstance(value, float) and math.isfinite(value):
            return float(value)  # `numpy.float64`, a subclass, becomes a plain number
        raise _wrong(where, "a finite number", value)

    def decode(self, value: object, where: str, arrays: ArrayInput) -> object:
        return self.encode(value, where, ArrayOutput())


class _Member:
    """Enum members travel by their names."""

    def __init__(self, kind: type[Enum]) -> None:
        self._kind = kind

    def encode(self, value: object, where: str, arrays: ArrayOutput) -> object:
        if not isinstance(value, self._kind):
            raise _wrong(where, f"a member of {self._kind.__name__}", value)
        return value.name

    def decode(self, value: object, where: str, arrays: ArrayInput) -> object:
        member = self._kind.__members__.get(value) if isinstance(value, str) else None
        if member is None:
            raise _wrong(where, f"the name of a member of {self._kind.__name__}", value)
        return member


class _Optional:
    def __init__(self, inner: Codec) -> None:
        self._inner = inner

    def encode(self, value: object, where: str, arrays: ArrayOutput) -> object:
        return None if value is None else self._inner.encode(value, where, arrays)

    def decode(self, value: object, where: str, arrays: ArrayInput) -> object:
        return None if value is None else self._inner.decode(value, where, arrays)


class _Tuple:
    """`tuple[X, ...]`, or `tuple[X, Y]` with its exact length."""

    def __init__(self, items: tuple[Codec, ...], *, any_length: bool) -> None:
        self._items = items
        self._any_length = any_length

    def encode(self, value: object, where: str, arrays: ArrayOutput) -> object:
        if not isinstance(value, tuple):
            raise _wrong(where, "several values", value)
        items = cast("tuple[object, ...]", value)
        return [
            codec.encode(item, f"{where}[{index}]", arrays)
            for index, (codec, item) in enumerate(self._pairs(items, where))
        ]

    def decode(self, value: object, where: str, arrays: ArrayInput) -> object:
        if not isinstance(value, list):
            raise _wrong(where, "a list of values", value)
        items = cast("list[object]", value)
        return tuple(
            codec.decode(item, f"{where}[{index}]", arrays)
            for index, (codec, item) in enumerate(self._pairs(items, where))
        )

    def _pairs(self, items: Sequence[object], where: str) -> Iterable[tuple[Codec, object]]:
        codecs = self._items * len(items) if self._any_length else self._items
        if len(items) != len(codecs):
            raise ProtocolError(f"{where}: expected {len(codecs)} values, found {len(items)}.")
        return zip(codecs, items, strict=True)


class _Array:
    def encode(self, value: object, where: str, arrays: ArrayOutput) -> object:
        if not isinstance(value, np.ndarray):
            raise _wrong(where, "an array", value)
        array: NDArray[Any] = value
        if array.dtype not in _DTYPES.values() or array.ndim > _MAX_DIMENSIONS:
            raise ProtocolError(
                f"{where}: an array of type {array.dtype} with {array.ndim} dimensions cannot be"
                f" sent. Use uint8 or float32 with at most {_MAX_DIMENSIONS} dimensions."
            )
        arrays.add(array)
        return {"dtype": array.dtype.name, "shape": list(array.shape)}

    def decode(self, value: object, where: str, arrays: ArrayInput) -> object:
        match value:
            case {"dtype": str() as name, "shape": list() as shape, **rest} if not rest:
                lengths = cast("list[object]", shape)
            case _:
                raise _wrong(where, "the type and shape of an array", value)
        if name not in _DTYPES:
            raise _wrong(where, "uint8 or float32", name)
        if len(lengths) > _MAX_DIMENSIONS:
            raise _wrong(where, f"at most {_MAX_DIMENSIONS} dimensions", len(lengths))
        return arrays.take(_DTYPES[name], tuple(_length(item, where) for item in lengths), where)


class _Record:
    """A dataclass: every field, by name."""

    def __init__(self, kind: type) -> None:
        self._kind = kind
        hints = get_type_hints(kind, localns={"NDArray": NDArray})
        self._fields = {field.name: codec_of(hints[field.name]) for field in fields(kind)}

    def encode(self, value: object, where: str, arrays: ArrayOutput) -> object:
        if type(value) is not self._kind:
            raise _wrong(where, f"a {self._kind.__name__}", value)
        return {
            name: codec.encode(getattr(value, name), f"{where}.{name}", arrays)
            for name, codec in self._fields.items()
        }

    def decode(self, value: object, where: str, arrays: ArrayInput) -> object:
        if not isinstance(value, dict):
            raise _wrong(where, f"the fields of a {self._kind.__name__}", value)
        given = cast("dict[str, object]", value)
        for name in self._fields.keys() - given.keys():
            raise ProtocolError(f"{where}: the field {name} is missing.")
        for name in given.keys() - self._fields.keys():
            raise ProtocolError(f"{where}: the field {_short(name)} is unknown.")
        values = {
            name: codec.decode(given[name], f"{where}.{name}", arrays)
            for name, codec in self._fields.items()
        }
        try:
            return self._kind(**values)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise ProtocolError(f"{where}: the values do not fit together ({error}).") from error


_SCALARS: dict[type, Codec] = {
    str: _Same(str, "text"),
    bool: _Same(bool, "true or false"),
    int: _Integer(),
    float: _Float(),
}


@cache
def codec_of(kind: object) -> Codec:
    """Return what encodes and decodes values with this annotation.

    Raises:
        TypeError: A message class has a field of a kind that cannot be sent: an error in
            `messages.py`, which the tests find.
    """
    if isinstance(kind, type) and kind in _SCALARS:
        return _SCALARS[kind]
    if isinstance(kind, type) and is_dataclass(kind):
        return _Record(kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _Member(kind)
    return _generic_codec(kind)


def _generic_codec(kind: object) -> Codec:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is np.ndarray or origin is NDArray:  # the alias stands for itself from NumPy 2.5 on
        return _Array()
    if origin is tuple and arguments[-1] is Ellipsis:
        return _Tuple((codec_of(arguments[0]),), any_length=True)
    if origin is tuple:
        return _Tuple(tuple(codec_of(item) for item in arguments), any_length=False)
    if origin in (Union, UnionType) and len(arguments) == 2 and NoneType in arguments:
        return _Optional(codec_of(next(item for item in arguments if item is not NoneType)))
    raise TypeError(f"{kind} cannot be a field of a message")


def _length(value: object, where: str) -> int:
    if not _is_int(value) or not 0 <= value < _MAX_LENGTH:
        raise _wrong(where, "the length of a dimension", value)
    return value


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _wrong(where: str, expected: str, value: object) -> ProtocolError:
    return ProtocolError(f"{where}: expected {expected}, found {_short(value)}.")


def _short(value: object) -> str:
    if value is None or isinstance(value, bool | float):
        return repr(value)
    if isinstance(value, int):
        return repr(value) if abs(value) < 10**30 else "a very large number"
    if isinstance(value, str):
        return ascii(value if len(value) <= 60 else value[:60] + "...")
    return f"a value of type {type(value).__name__}"
