# SPDX-License-Identifier: GPL-3.0-or-later
"""A network is converted once, and again exactly when it has to be."""

import os
import shutil
import sys
from pathlib import Path

import pytest
import torch
from fakes import openvino_needed
from fakes.micro_models import denoise, error_of, micro_model, micro_unet
from tessera.generator_process import openvino_engine
from tessera.generator_process.messages import SeamlessAxes
from tessera.generator_process.openvino_engine import EngineError, cache, conversion, fingerprint


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(tmp_path / "cache"))


@pytest.fixture
def conversions(monkeypatch) -> list[SeamlessAxes]:
    """The axes of each conversion that really takes place."""
    found: list[SeamlessAxes] = []
    convert = conversion._convert

    def count(unet, axes, place, watch):
        found.append(axes)
        convert(unet, axes, place, watch)

    monkeypatch.setattr(conversion, "_convert", count)
    return found


def use(model, **settings):
    return openvino_engine.use_openvino(model, precision="f32", device="CPU", **settings)


def test_converted_once_and_again_for_damage_and_for_other_weights(tmp_path, conversions):
    model = micro_model(tmp_path / "model")
    expected = denoise(model)
    use(model)
    openvino_engine.remove(model)
    assert len(conversions) == 1

    again = micro_model(tmp_path / "model")  # as in another process
    use(again)
    assert len(conversions) == 1
    assert error_of(denoise(again), expected) < openvino_engine.tolerance_of("f32")
    openvino_engine.remove(again)

    (entry,) = cache.folder().iterdir()
    weights = bytearray((entry / cache.WEIGHTS).read_bytes())
    weights[len(weights) // 2] ^= 1
    (entry / cache.WEIGHTS).write_bytes(weights)
    use(model)
    assert len(conversions) == 2
    assert error_of(denoise(model), expected) < openvino_engine.tolerance_of("f32")
    openvino_engine.remove(model)

    with torch.no_grad():
        other = micro_model()
        other.pipeline.unet.conv_in.bias[0] += 1e-3
    changed = denoise(other)
    use(other)
    assert len(conversions) == 3
    assert error_of(denoise(other), changed) < openvino_engine.tolerance_of("f32")
    assert len(list(cache.folder().iterdir())) == 2


def write(place: Path) -> None:
    (place / cache.MODEL).write_text("model")
    (place / cache.WEIGHTS).write_bytes(b"weights" * 100)


@pytest.mark.parametrize(
    "damage",
    [
        lambda entry: (entry / cache.MODEL).unlink(),
        lambda entry: (entry / cache.MODEL).write_text("madel"),
        lambda entry: (entry / cache.WEIGHTS).write_bytes(b"weights" * 99),
        lambda entry: (entry / "entry.json").write_text("{"),
        lambda entry: (entry / "entry.json").unlink(),
    ],
)
def test_damaged_entries_are_not_found_and_can_be_made_again(damage):
    entry = cache.add("key", 1000, write)
    assert cache.find("key") == entry
    damage(entry)
    assert cache.find("key") is None
    assert not entry.exists()
    assert cache.add("key", 1000, write) == entry
    assert cache.find("key") == entry


def test_what_fails_half_way_leaves_nothing():
    def fail(place: Path) -> None:
        write(place)
        raise EngineError("failed by the test")

    with pytest.raises(EngineError, match="by the test"):
        cache.add("key", 1000, fail)
    assert list(cache.folder().iterdir()) == []


def test_two_processes_that_convert_the_same_both_get_it():
    def slower(place: Path) -> None:
        write(place)
        cache.add("key", 1000, write)

    assert cache.find(cache.add("key", 1000, slower).name) is not None
    assert [path.name for path in cache.folder().iterdir()] == ["key"]


def test_what_a_crash_left_is_deleted_after_a_day():
    folder = cache.folder()
    for name, age_s in (("old-1.partial", 25 * 3600), ("new-1.partial", 60)):
        (folder / name).mkdir(parents=True)
        now_s = (folder / name).stat().st_mtime
        os.utime(folder / name, (now_s - age_s, now_s - age_s))
    cache.add("key", 1000, write)
    assert sorted(path.name for path in folder.iterdir()) == ["key", "new-1.partial"]


def test_the_least_recently_used_goes_first(monkeypatch):
    for number, key in enumerate(("first", "second", "third")):
        entry = cache.add(key, 1000, write)
        os.utime(entry / "entry.json", (number, number))
    assert cache.find("first") is not None  # and so is used last
    size = cache._size(cache.folder() / "first")
    monkeypatch.setattr(cache, "LIMIT_BYTES", 3 * size)
    cache.add("fourth", size, write)
    assert sorted(path.name for path in cache.folder().iterdir()) == ["first", "fourth", "third"]


def test_too_little_space_is_a_sentence(monkeypatch):
    usage = shutil.disk_usage(openvino_needed.ROOT)._replace(free=10**9)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(EngineError, match=r"needs 3\.4 GB in .*, where 1\.0 GB are free"):
        cache.add("key", 3_400_000_000, write)


def test_a_folder_that_cannot_be_written_is_a_sentence(tmp_path):
    (tmp_path / "cache").write_text("a file is in the way")
    with pytest.raises(EngineError, match="could not be written"):
        cache.add("key", 1000, write)


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, "~/.cache/tessera/openvino"),
        ("linux", {"XDG_CACHE_HOME": "/c"}, "/c/tessera/openvino"),
        ("darwin", {}, "~/Library/Caches/tessera/openvino"),
        ("win32", {"LOCALAPPDATA": "/l"}, "/l/tessera/cache/openvino"),
        ("win32", {}, "~/AppData/Local/tessera/cache/openvino"),
        ("linux", {cache.CACHE_VARIABLE: "~/mine"}, "~/mine/openvino"),
    ],
)
def test_where_it_is(monkeypatch, platform, variables, expected):
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", cache.CACHE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert cache.folder() == Path(expected).expanduser()


def test_fingerprints_tell_single_values_types_and_names_apart():
    network = micro_unet()
    found = {fingerprint.of_module(network)}
    assert fingerprint.of_module(micro_unet()) in found
    with torch.no_grad():
        network.conv_out.weight[0, 0, 0, 0] += 1e-7
    found.add(fingerprint.of_module(network))
    found.add(fingerprint.of_module(network.bfloat16()))
    found.add(fingerprint.of_module(torch.nn.ModuleList([network])))
    assert len(found) == 4
