# SPDX-License-Identifier: GPL-3.0-or-later
"""Frames: every message survives the way, and nothing else gets through. Bug report P059."""

import dataclasses
import io
import json
import random
import struct
import tracemalloc
from typing import get_args

import numpy as np
import pytest
from tessera.generator_process import wire
from tessera.generator_process.codec import ALIGNMENT, codec_of
from tessera.generator_process.errors import ErrorKind, InvalidRequestError, ProtocolError
from tessera.generator_process.messages import (
    Cancel,
    Cancelled,
    Failed,
    Finished,
    ImageData,
    ImageFinished,
    ModelRef,
    ModelSource,
    PreviewMode,
    Progress,
    Ready,
    SamplingSettings,
    Scheduler,
    SeamlessAxes,
    Shutdown,
    TextToImage,
)
from tessera.generator_process.seeds import SEED_LIMIT
from tessera.optimizations import Optimizations

PIXELS = np.arange(5 * 3 * 4, dtype=np.uint8).reshape(5, 3, 4)
FLOATS = np.linspace(0, 1, 7 * 2 * 3, dtype=np.float32).reshape(7, 2, 3)

EXAMPLES = [
    TextToImage(
        job_id="a",
        sampling=SamplingSettings(
            prompt='red "brick" wall\n\x01 苔 🧱 \ud800',
            negative_prompt="\udcff",
            width_px=8192,
            height_px=8,
            steps=1000,
            guidance=7.25,
            scheduler=Scheduler.DPM_SOLVER_SINGLESTEP_KARRAS,
            seeds=(SEED_LIMIT - 1, 0, 2**53 + 1),
            seamless=SeamlessAxes.BOTH,
            preview=PreviewMode.ACCURATE,
        ),
        model=ModelRef(source=ModelSource.FOLDER, location="/a b (c) & d/苔"),
        optimizations=Optimizations(),
    ),
    TextToImage(job_id="", sampling=SamplingSettings(prompt="")),
    Cancel(job_id="a"),
    Shutdown(),
    Ready(device="cpu", device_name="A CPU", versions=(("torch", "2.13"), ("diffusers", "0.42"))),
    Progress(job_id="a", step=3, steps=20, stage="Sampling"),
    Progress(job_id="a", step=3, steps=20, preview=ImageData(pixels=PIXELS)),
    ImageFinished(job_id="a", index=1, seed=SEED_LIMIT - 1, image=ImageData(pixels=FLOATS)),
    ImageFinished(
        job_id="a", index=0, seed=0, image=ImageData(pixels=np.empty((0, 3, 3), np.float32))
    ),
    Finished(job_id="a"),
    Finished(
        job_id="a",
        model="Starter",
        applied=("half_precision: on",),
        skipped=("x",),
        notes=("y", "z"),
        seconds=(("load", 1.5), ("sample", 2)),
    ),
    Failed(job_id="a", kind=ErrorKind.OUT_OF_MEMORY, message="m", detail="d"),
    Cancelled(job_id="a"),
]


def frame_of(message):
    return b"".join(bytes(part) for part in wire.encode_message(message))


def read(data):
    return wire.read_message(io.BytesIO(data))


def by_hand(header, payload=b"", magic=wire.MAGIC):
    if not isinstance(header, bytes):
        header = json.dumps(header).encode()
    return struct.pack("<4sIQ", magic, len(header), len(payload)) + header + payload


def same(left, right):
    """Compare by value, arrays included."""
    assert type(left) is type(right)
    if dataclasses.is_dataclass(left):
        return all(
            same(getattr(left, field.name), getattr(right, field.name))
            for field in dataclasses.fields(left)
        )
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    return left == right


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_round_trip(message):
    stream = io.BytesIO()
    wire.write_message(stream, message)
    wire.write_message(stream, Cancel(job_id="next"))
    stream.seek(0)
    assert same(wire.read_message(stream), message)
    assert wire.read_message(stream) == Cancel(job_id="next")
    assert wire.read_message(stream) is None


def test_there_is_an_example_of_every_message():
    assert {type(message) for message in EXAMPLES} == set(get_args(wire.Message))


def test_every_field_of_every_message_can_be_sent():
    for kind in get_args(wire.Message):
        codec_of(kind)
    with pytest.raises(TypeError, match="cannot be a field"):
        codec_of(dict[str, int])


def test_an_array_that_is_not_contiguous_arrives_as_it_looks():
    flipped = np.arange(24, dtype=np.float32).reshape(2, 4, 3)[::-1, ::2]
    message = Progress(job_id="a", step=0, steps=1, preview=ImageData(pixels=flipped))
    assert np.array_equal(read(frame_of(message)).preview.pixels, flipped)


def test_arrays_that_arrive_can_be_written_and_are_aligned():
    pixels = read(frame_of(EXAMPLES[7])).image.pixels
    assert pixels.flags.writeable
    assert pixels.flags.c_contiguous
    assert pixels.ctypes.data % ALIGNMENT == 0


def test_large_arrays_are_not_copied():
    pixels = np.ones((1024, 1024, 4), np.float32)
    message = ImageFinished(job_id="a", index=0, seed=0, image=ImageData(pixels=pixels))
    stream = io.BytesIO(frame_of(message))
    tracemalloc.start()
    parts = wire.encode_message(message)
    _, encoding = tracemalloc.get_traced_memory()
    assert np.shares_memory(np.frombuffer(parts[-1], np.uint8), pixels)
    assert encoding < 100_000
    tracemalloc.reset_peak()
    wire.read_message(stream)
    _, decoding = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert decoding < pixels.nbytes * 1.05


@pytest.mark.parametrize(
    "message",
    [
        Cancel(job_id=5),
        Cancel(job_id=None),
        Progress(job_id="a", step=1.0, steps=2),
        Progress(job_id="a", step=True, steps=2),
        Progress(job_id="a", step=2**64, steps=2),
        Finished(job_id="a", seconds=(("load", float("nan")),)),
        Finished(job_id="a", seconds=(("load", float("inf")),)),
        Finished(job_id="a", seconds=(("load",),)),
        Finished(job_id="a", notes=["a list"]),
        Finished(job_id="a", notes=(object(),)),
        Failed(job_id="a", kind="CRASHED", message="m"),
        Progress(job_id="a", step=1, steps=2, preview=PIXELS),
        TextToImage(job_id="a", sampling=None),
        object(),
        Optimizations(),
    ],
)
def test_a_value_of_the_wrong_type_is_not_sent(message):
    stream = io.BytesIO()
    with pytest.raises(ProtocolError, match=r"\.$"):
        wire.write_message(stream, message)
    assert stream.getvalue() == b""


def test_what_is_too_large_is_not_sent(monkeypatch):
    monkeypatch.setattr(wire, "MAX_PAYLOAD_BYTES", 100)
    with pytest.raises(ProtocolError, match="too large"):
        frame_of(EXAMPLES[7])
    with pytest.raises(ProtocolError, match="too large"):
        frame_of(Cancel(job_id="x" * (wire.MAX_HEADER_BYTES + 1)))


CANCEL = ["Cancel", {"job_id": "a"}]
PROGRESS = {"job_id": "a", "step": 1, "steps": 2, "stage": "", "preview": None}


def with_preview(pixels, payload=b"\0" * 12):
    return by_hand(["Progress", PROGRESS | {"preview": {"pixels": pixels}}], payload)


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        b"Hello, this is a library that prints",
        frame_of(EXAMPLES[0])[:-1],
        frame_of(EXAMPLES[6])[:-1],
        frame_of(EXAMPLES[6])[:20],
        by_hand(CANCEL, magic=b"TSR\x02"),
        by_hand(b""),
        by_hand(b"\xff\xfe"),
        by_hand(b'["Cancel", {"job_id": "\xc3"}]'),
        by_hand(b'["Cancel", {"job_id": "a"}] '[:-3]),
        by_hand(b'["Cancel", {"job_id": "a"}] x'),
        by_hand(b'["Cancel", {"job_id": "a", "job_id": "a"}]'),
        by_hand(b'["Progress", {"job_id": "a", "step": NaN, "steps": 1}]'),
        by_hand(b"[" * 100_000),
        by_hand(b"[" + b"9" * 10_000 + b"]"),
        by_hand({"Cancel": {"job_id": "a"}}),
        by_hand(["Cancel"]),
        by_hand(["Cancel", {"job_id": "a"}, 1]),
        by_hand(["Cancel", []]),
        by_hand([1, {}]),
        by_hand(["os.system", {"job_id": "a"}]),
        by_hand(["SamplingSettings", {"prompt": "a"}]),
        by_hand(["Cancel", {}]),
        by_hand(["Cancel", {"job_id": "a", "more": 1}]),
        by_hand(["Cancel", {"job_id": 1}]),
        by_hand(["Cancel", {"job_id": None}]),
        by_hand(["Progress", PROGRESS | {"step": 1.5}]),
        by_hand(["Progress", PROGRESS | {"step": 1.0}]),
        by_hand(["Progress", PROGRESS | {"step": True}]),
        by_hand(["Progress", PROGRESS | {"step": 2**64}]),
        by_hand(["Progress", PROGRESS | {"preview": []}]),
        by_hand(["Failed", {"job_id": "a", "kind": "LATE", "message": "", "detail": ""}]),
        by_hand(["Failed", {"job_id": "a", "kind": ["MODEL"], "message": "", "detail": ""}]),
        by_hand(CANCEL, payload=b"trailing"),
        with_preview({"dtype": "uint8", "shape": [2, 2, 3]}, b"\0" * 11),
        with_preview({"dtype": "uint8", "shape": [2, 2, 3]}, b"\0" * 13),
        with_preview({"dtype": "float64", "shape": [1, 1, 3]}, b"\0" * 24),
        with_preview({"dtype": "object", "shape": [1, 1, 3]}, b"\0" * 24),
        with_preview({"dtype": "O", "shape": [1, 1, 3]}, b"\0" * 24),
        with_preview({"dtype": "uint8", "shape": [-2, -2, 3]}),
        with_preview({"dtype": "uint8", "shape": [2.0, 2, 3]}),
        with_preview({"dtype": "uint8", "shape": [2**40, 2**40, 3]}),
        with_preview({"dtype": "uint8", "shape": [2] * 100}),
        with_preview({"dtype": "uint8", "shape": [2, 2, 3], "strides": [0]}),
        with_preview({"dtype": "uint8"}),
        with_preview(None),
    ],
)
def test_what_is_not_a_message_is_a_protocol_error(data):
    with pytest.raises(ProtocolError, match=r"\.$"):
        read(data)


def test_a_float_beyond_all_bounds_is_refused():
    fields = json.loads(bytes(frame_of(EXAMPLES[10]))[16:])[1]
    header = json.dumps(["Finished", fields]).replace("1.5", "1e999").encode()
    with pytest.raises(ProtocolError, match=r"seconds\[0\]\[1\]: expected a finite number"):
        read(by_hand(header))


@pytest.mark.parametrize(
    ("header", "payload"), [(wire.MAX_HEADER_BYTES + 1, 0), (2, wire.MAX_PAYLOAD_BYTES + 1)]
)
def test_lengths_beyond_the_limits_are_refused_before_anything_is_read(header, payload):
    with pytest.raises(ProtocolError, match="too large"):
        read(struct.pack("<4sIQ", wire.MAGIC, header, payload))


def test_values_out_of_range_are_invalid_requests():
    data = frame_of(TextToImage(job_id="a", sampling=SamplingSettings(prompt="", steps=77)))
    changed = data.replace(b'"steps":77', b'"steps":-1')
    with pytest.raises(InvalidRequestError, match=r"Steps -1 is out of range"):
        read(changed)
    frame = wire.read_frame(io.BytesIO(changed))
    assert wire.job_id_of(frame) == "a"
    with pytest.raises(InvalidRequestError, match="cannot be sent"):
        read(with_preview({"dtype": "uint8", "shape": [12]}))


def test_the_job_of_a_wrong_frame_is_told_if_it_can_be():
    for data, job_id in [
        (by_hand(["Later", {"job_id": "a"}]), "a"),
        (by_hand(["Later", {"job_id": 5}]), None),
        (by_hand(["Later", {}]), None),
        (by_hand(b"\xff"), None),
    ]:
        assert wire.job_id_of(wire.read_frame(io.BytesIO(data))) == job_id


def test_a_stream_that_gives_little_at_a_time_is_read_whole():
    class Trickle(io.BytesIO):
        def readinto(self, buffer):
            return super().readinto(memoryview(buffer)[:3])

    assert same(wire.read_message(Trickle(frame_of(EXAMPLES[6]))), EXAMPLES[6])


VALUES = [None, True, -1, 0, 2**63, 1e300, "", "DDIM", "\ud800", [], [[]], {}, ["a", 1], {"a": {}}]
INTERESTING = [
    b"\x00",
    b"\xff",
    b'"',
    b"{",
    b"]",
    b"null",
    b"-1",
    b"1e999",
    b"__class__",
    b"\\ud800",
]


def mutated(data, chance):
    """Change bytes, cut, repeat, or put interesting ones in, mostly behind the fixed prefix."""
    data = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
        start = chance.randrange(16 if chance.random() < 0.8 and len(data) > 16 else 0, len(data))
        match chance.randrange(5):
            case 0:
                data[start] = chance.randrange(256)
            case 1:
                del data[start : start + chance.randrange(1, 20)]
            case 2:
                data[start:start] = chance.choice(INTERESTING)
            case 3:
                data[start:start] = data[start : start + chance.randrange(1, 30)]
            case 4:
                piece = chance.choice(INTERESTING)
                data[start : start + len(piece)] = piece
        if not data:
            return bytes(data)
    if chance.random() < 0.5:  # so that what lies behind the lengths is reached
        header = chance.randrange(len(data) + 1)
        if chance.random() < 0.8 and b"}]" in data:
            header = data.rindex(b"}]") + 2 - 16
        header = max(header, 0)
        rest = max(len(data) - 16 - header, 0)
        data[:16] = struct.pack("<4sIQ", wire.MAGIC, header, rest)
    return bytes(data)


def with_another_value(data, chance):
    """Put any value, or another name, anywhere into the header of a good frame."""
    size = struct.unpack_from("<4sI", data)[1]
    header = json.loads(data[16 : 16 + size].decode("utf-8", "surrogatepass"))
    place, deeper = header, header[1]
    while isinstance(deeper, dict | list) and deeper and chance.random() < 0.8:
        place = deeper
        key = chance.choice(list(place) if isinstance(place, dict) else range(len(place)))
        deeper = place[key]
    key = chance.choice(list(place) if isinstance(place, dict) else range(len(place)))
    match chance.randrange(5):
        case 0:
            del place[key]
        case 1 if isinstance(place, dict):
            place[chance.choice(["__class__", "", key + "x"])] = place.pop(key)
        case _:
            place[key] = chance.choice(VALUES)
    return by_hand(header, data[16 + size :])


def test_ten_thousand_mutated_frames_are_messages_or_clear_errors():
    chance = random.Random(20261130)
    frames = [frame_of(message) for message in EXAMPLES]
    outcomes = {"message": 0, "ProtocolError": 0, "InvalidRequestError": 0}
    for _ in range(10_000):
        mutate = chance.choice((mutated, with_another_value))
        data = mutate(chance.choice(frames), chance)
        try:
            message = read(data)
        except (ProtocolError, InvalidRequestError) as error:
            outcomes[type(error).__name__] += 1
            assert 10 < len(str(error)) < 1000
        else:
            assert message is None or type(message) in get_args(wire.Message)
            outcomes["message"] += 1
    assert outcomes["message"] > 500
    assert outcomes["ProtocolError"] > 5000
    assert outcomes["InvalidRequestError"] > 20
