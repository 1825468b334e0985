# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages to bytes and back. Side: both.

One frame: 4 bytes magic, 4 bytes length of the header, 8 bytes length of the payload (both little
endian), the header, the payload. The header is JSON in UTF-8, `["ClassName", {fields}]`; an array
field says only its dtype and shape, and its bytes lie in the payload, in the order of the fields.
Lone surrogates (from file names that are not UTF-8) are kept, as Python's "surrogatepass" does.

Nothing in a frame can name code: the class must be in the table below, no pickle, no import.
"""

import json
import struct
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, cast, get_args

import numpy as np
from numpy.typing import NDArray

from .codec import ArrayInput, ArrayOutput, codec_of
from .errors import ProtocolError
from .messages import Control, Event, Request

MAGIC = b"TSR\x01"
MAX_HEADER_BYTES = 16 * 2**20
MAX_PAYLOAD_BYTES = 2**30

Message = Request | Control | Event

_LENGTHS = struct.Struct("<IQ")
_CLASSES: dict[str, Any] = {kind.__name__: kind for kind in get_args(Message)}


class Readable(Protocol):
    """A blocking binary stream, such as `io.BufferedReader`."""

    def readinto(self, buffer: memoryview, /) -> int | None: ...


class Writable(Protocol):
    """A blocking binary stream that writes all it is given, such as `io.BufferedWriter`."""

    def write(self, data: bytes | memoryview, /) -> int: ...

    def flush(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frame:
    """The bytes of one message. `payload` is `uint8`, (bytes,)."""

    header: bytearray
    payload: NDArray[np.uint8]


def write_message(stream: Writable, message: Message) -> None:
    """Write one frame and flush.

    Raises:
        ProtocolError: A field holds what its annotation forbids, or the message is too large.
            Nothing was written.
        OSError: The other side is gone.
    """
    write_frame(stream, encode_message(message))


def write_frame(stream: Writable, frame: list[bytes | memoryview]) -> None:
    """Write what `encode_message` returned, and flush."""
    for part in frame:
        stream.write(part)
    stream.flush()


def read_message(stream: Readable) -> Message | None:
    """Read one frame, waiting for all of it. None at a clean end of the stream.

    Raises:
        ProtocolError: What arrived is not a message of this version.
        InvalidRequestError: It is one, with a value out of range. Reading can go on.
        OSError: The stream cannot be read.
    """
    frame = read_frame(stream)
    return None if frame is None else decode_frame(frame)


def encode_message(message: Message) -> list[bytes | memoryview]:
    """Return the frame in parts. Arrays are referred to, not copied: change them afterwards only.

    Raises:
        ProtocolError: A field holds what its annotation forbids, or the message is too large.
    """
    name = type(message).__name__
    if _CLASSES.get(name) is not type(message):
        raise ProtocolError(f"A {name} is not a message.")
    arrays = ArrayOutput()
    fields = codec_of(type(message)).encode(message, name, arrays)
    text = json.dumps([name, fields], ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    header = text.encode("utf-8", errors="surrogatepass")
    _check_lengths(len(header), arrays.size)
    return [MAGIC + _LENGTHS.pack(len(header), arrays.size) + header, *arrays.buffers]


def read_frame(stream: Readable) -> Frame | None:
    """Read the bytes of one message, without looking into them. None at a clean end.

    Raises:
        ProtocolError: These bytes do not begin a frame, or the stream ends within it.
        OSError: The stream cannot be read.
    """
    magic = _read_magic(stream)
    if not magic:
        return None
    lengths = bytearray(_LENGTHS.size)
    _read_all(stream, memoryview(lengths))
    header_bytes, payload_bytes = _LENGTHS.unpack(lengths)
    _check_lengths(header_bytes, payload_bytes)
    header = bytearray(header_bytes)
    _read_all(stream, memoryview(header))
    payload = np.empty(payload_bytes, dtype=np.uint8)
    _read_all(stream, payload.data)
    return Frame(header=header, payload=payload)


def decode_frame(frame: Frame) -> Message:
    """Make the message. Its arrays are writable views into the frame's payload.

    Raises:
        ProtocolError: The frame does not hold a message of this version.
        InvalidRequestError: A value is out of range.
    """
    name, fields = _parse(frame.header)
    kind = _CLASSES.get(name)
    if kind is None:
        raise ProtocolError(f"{name[:60]!a} is not a message of this version.")
    arrays = ArrayInput(frame.payload)
    message = codec_of(kind).decode(fields, name, arrays)
    if arrays.position != frame.payload.size:
        raise ProtocolError(
            f"{name}: {frame.payload.size} bytes of arrays arrived,"
            f" but the fields tell of {arrays.position}."
        )
    return cast("Message", message)


def job_id_of(frame: Frame) -> str | None:
    """Return the job that a frame is about, if that can be told although the rest is wrong."""
    try:
        _, fields = _parse(frame.header)
    except ProtocolError:
        return None
    job_id = fields.get("job_id")
    return job_id if isinstance(job_id, str) else None


def _parse(header: bytearray) -> tuple[str, dict[str, object]]:
    try:
        text = header.decode("utf-8", errors="surrogatepass")
        parsed: object = json.loads(
            text, parse_constant=_refuse_constant, object_pairs_hook=_unique_names
        )
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"The header of a message cannot be read ({error}).") from None
    match parsed:
        case [str() as name, dict() as fields]:  # pyright: ignore[reportUnknownVariableType]
            return name, cast("dict[str, object]", fields)
        case _:
            raise ProtocolError("The header of a message is not a name and its fields.")


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _unique_names(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a field is given twice")
    return result


def _check_lengths(header_bytes: int, payload_bytes: int) -> None:
    if header_bytes > MAX_HEADER_BYTES or payload_bytes > MAX_PAYLOAD_BYTES:
        raise ProtocolError(
            f"A message of {header_bytes} bytes of text and {payload_bytes} bytes of images"
            f" is too large. At most {MAX_HEADER_BYTES} and {MAX_PAYLOAD_BYTES} can be sent."
        )


def _read_magic(stream: Readable) -> bytes:
    """Read the first bytes one by one: a wrong one must be noticed before more arrive."""
    magic = bytearray()
    byte = bytearray(1)
    while len(magic) < len(MAGIC) and _read_into(stream, memoryview(byte)):
        magic += byte
        if not MAGIC.startswith(magic):
            raise ProtocolError(
                f"Expected a message, found the bytes {bytes(magic)!r}."
                " Something else wrote to the connection."
            )
    if 0 < len(magic) < len(MAGIC):
        raise ProtocolError("The connection ended within a message.")
    return bytes(magic)


def _read_all(stream: Readable, buffer: memoryview) -> None:
    received = _read_into(stream, buffer)
    if received < len(buffer):
        raise ProtocolError(
            f"The connection ended within a message, after {received} of {len(buffer)} bytes."
        )


def _read_into(stream: Readable, buffer: memoryview) -> int:
    """Fill the buffer, or stop at the end of the stream. Return the number of bytes."""
    received = 0
    while received < len(buffer):
        count = stream.readinto(buffer[received:])
        if not count:
            break
        received += count
    return received
