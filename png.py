# SPDX-License-Identifier: GPL-3.0-or-later
"""PNG files with text in them, written and read without an image library. Side: both.

Blender writes PNG files too, but cannot put text into them. What is read is the text only: pixels
are read by Blender.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOUR_TYPES = {3: 2, 4: 6}
_UP = 2  # filter: each byte minus the one above
_COMPRESSION = 4  # of 0..9: a noisy 1024 x 1024 image in a fifth of the time of 9, 2 % larger


def encode(pixels: "NDArray[np.uint8]", text: Mapping[str, str]) -> bytes:
    """Return a PNG file.

    Args:
        pixels: `uint8` (height, width, 3 or 4), row 0 at the top, sRGB encoding, straight alpha.
        text: By keyword (1 to 79 Latin letters). Text that fits into Latin-1 becomes a `tEXt`
            chunk and any other an `iTXt` chunk, as other tools write and expect them.

    Source: PNG specification (third edition), W3C 2025.
    """
    import numpy as np

    height, width, channels = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    rows = np.empty((height, 1 + width * channels), np.uint8)
    rows[:, 0] = _UP
    flat = pixels.reshape(height, width * channels)
    rows[0, 1:] = flat[0]
    np.subtract(flat[1:], flat[:-1], out=rows[1:, 1:])  # wraps around, as the filter wants
    chunks = [_chunk(b"IHDR", header), _chunk(b"sRGB", b"\0")]
    chunks += [_text_chunk(keyword, value) for keyword, value in text.items()]
    chunks += [_chunk(b"IDAT", zlib.compress(rows.data, _COMPRESSION)), _chunk(b"IEND", b"")]
    return _SIGNATURE + b"".join(chunks)


def is_png(data: bytes) -> bool:
    """Tell whether data begins as a PNG file does."""
    return data.startswith(_SIGNATURE)


def has_alpha(data: bytes) -> bool:
    """Tell whether a file that `encode` made has four channels."""
    return data[25] == _COLOUR_TYPES[4]


def read_text(data: bytes) -> dict[str, str]:
    """Return the text of a PNG file by keyword. Damaged chunks and other files give none."""
    text: dict[str, str] = {}
    for kind, body in _chunks(data):
        keyword, separator, rest = body.partition(b"\0")
        if not separator:
            continue
        if kind == b"tEXt":
            text[keyword.decode("latin-1")] = rest.decode("latin-1")
        elif kind == b"iTXt" and rest[:1] == b"\0":  # not compressed
            value = rest[2:].split(b"\0", 2)[-1]
            text[keyword.decode("latin-1")] = value.decode("utf-8", errors="replace")
    return text


def with_text(data: bytes, text: Mapping[str, str]) -> bytes:
    """Return a PNG file with these texts in place of any that it has under the same keywords.

    Raises:
        ValueError: `data` is not a PNG file.
    """
    if not is_png(data):
        raise ValueError("not a PNG file")
    kept = [
        _chunk(kind, body)
        for kind, body in _chunks(data)
        if kind not in {b"tEXt", b"iTXt"} or body.partition(b"\0")[0].decode("latin-1") not in text
    ]
    added = [_text_chunk(keyword, value) for keyword, value in text.items()]
    return _SIGNATURE + b"".join([kept[0], *added, *kept[1:]])


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    position = len(_SIGNATURE)
    if not is_png(data):
        return
    while position + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, position)
        kind = data[position + 4 : position + 8]
        body = data[position + 8 : position + 8 + length]
        if len(body) < length:
            return
        yield kind, body
        position += 12 + length


def _chunk(kind: bytes, body: bytes) -> bytes:
    checksum = zlib.crc32(body, zlib.crc32(kind))
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", checksum)


def _text_chunk(keyword: str, value: str) -> bytes:
    key = keyword.encode("latin-1")
    try:
        return _chunk(b"tEXt", key + b"\0" + value.encode("latin-1"))
    except UnicodeEncodeError:
        return _chunk(b"iTXt", key + b"\0\0\0\0\0" + value.encode("utf-8"))


def bytes_of(pixels: "NDArray[Any]") -> "NDArray[np.uint8]":
    """Return pixels as `uint8`: floats of 0..1 are rounded to the nearest of 256 values.

    Floats beyond 0..1 take the nearest value. A PNG file holds nothing finer.

    Raises:
        ValueError: A float is not a number.
    """
    import numpy as np

    if pixels.dtype == np.uint8:
        return np.ascontiguousarray(pixels)
    if np.isnan(pixels).any():
        raise ValueError("a pixel is not a number")
    return np.rint(np.clip(pixels, 0.0, 1.0) * 255.0).astype(np.uint8)
