"""PNG files with text. Read back by Python's zlib alone, and by Blender in tests/blender."""

import struct
import zlib

import numpy as np
import pytest
from tessera import png


def _decode(data):
    """The pixels of a PNG file with the filters "none" and "up", written from the specification."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    position, body = 8, b""
    while position < len(data):
        (length,) = struct.unpack_from(">I", data, position)
        kind = data[position + 4 : position + 8]
        chunk = data[position + 8 : position + 8 + length]
        (checksum,) = struct.unpack_from(">I", data, position + 8 + length)
        assert checksum == zlib.crc32(kind + chunk)
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack_from(">IIBB", chunk)
        if kind == b"IDAT":
            body += chunk
        position += 12 + length
    assert (kind, depth) == (b"IEND", 8)
    channels = {2: 3, 6: 4}[colour]
    rows = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, 1 + width * channels)
    assert set(rows[:, 0]) <= {0, 2}
    pixels = np.cumsum(rows[:, 1:], axis=0, dtype=np.uint64).astype(np.uint8)
    return pixels.reshape(height, width, channels)


@pytest.mark.parametrize("shape", [(1, 1, 3), (1, 9, 4), (17, 5, 3), (64, 48, 4)])
def test_pixels_come_back(shape):
    pixels = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    assert np.array_equal(_decode(png.encode(pixels, {})), pixels)


def test_text_comes_back():
    pixels = np.zeros((2, 2, 3), np.uint8)
    text = {"parameters": "a\nb, é", "tessera": '{"prompt": "苔 🧱"}'}
    data = png.encode(pixels, text)
    assert png.read_text(data) == text
    assert b"tEXtparameters\0a\nb, \xe9" in data
    assert b"iTXttessera\0\0\0\0\0{" in data
    assert np.array_equal(_decode(data), pixels)


def test_text_can_be_replaced():
    pixels = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)
    data = png.encode(pixels, {"parameters": "old", "Comment": "kept"})
    new = png.with_text(data, {"parameters": "new"})
    assert png.read_text(new) == {"parameters": "new", "Comment": "kept"}
    assert np.array_equal(_decode(new), pixels)
    with pytest.raises(ValueError, match="not a PNG file"):
        png.with_text(b"GIF89a", {})


def test_damaged_files_give_no_text():
    data = png.encode(np.zeros((2, 2, 3), np.uint8), {"parameters": "x" * 100})
    for end in range(0, len(data), 7):
        assert png.read_text(data[:end]) in ({}, {"parameters": "x" * 100})
    assert png.read_text(b"") == {}
    assert png.read_text(b"not a PNG") == {}


def test_floats_are_rounded_to_the_nearest_byte():
    """Values beyond the range take its ends, and what is no number is refused. P115."""
    floats = np.array([[[-1.0, 0.0, 0.5], [127.4 / 255, 1.0, 7.0]]], np.float32)
    assert png.bytes_of(floats).tolist() == [[[0, 0, 128], [127, 255, 255]]]
    every = np.arange(256, dtype=np.uint8).reshape(1, 64, 4)
    assert np.array_equal(png.bytes_of(every / np.float32(255)), every)
    floats[0, 0, 0] = np.nan
    with pytest.raises(ValueError, match="not a number"):
        png.bytes_of(floats)


def test_alpha_is_told_from_the_file():
    assert png.has_alpha(png.encode(np.zeros((1, 1, 4), np.uint8), {}))
    assert not png.has_alpha(png.encode(np.zeros((1, 1, 3), np.uint8), {}))
