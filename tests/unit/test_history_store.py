"""The history as files. Bug reports P003, P009, P022 and P025."""

import errno
import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from tessera import png
from tessera.history.entries import DamagedEntryError, Entry, is_name, new_name, time_of_name
from tessera.history.store import HistoryError, Store
from tessera.history.thumbnails import thumbnail_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "Пользователь (1) & 日本" / "history")


def _entry(**values):
    name = values.pop("name", None) or new_name()
    settings = {"prompt": "苔 {a|b}", "seed": "moss", "future": [1, {"x": None}]}
    image = {"prompt": "苔 a", "seed": "18446744073709551615", "model": "Starter"}
    return Entry(name=name, time=time_of_name(name), settings=settings, image=image, **values)


def _add(store, count):
    for number in range(count):
        name = new_name(datetime(2026, 1, 1, 0, 0, number, tzinfo=UTC))
        store.add(_entry(name=name, number=number), b"picture", b"small")
    return store.list().names


def test_names_sort_by_time():
    early, late = datetime(2026, 9, 30, 23, 59, 59, 999999, UTC), datetime(2026, 10, 1, tzinfo=UTC)
    assert new_name(early) < new_name(late)
    assert new_name(early) != new_name(early)
    assert time_of_name(new_name(early)) == "2026-09-30T23:59:59.999999+00:00"
    assert is_name(new_name())
    for text in ("", "../x", f"../{new_name()}", f"{new_name()}/", f"{new_name()}\n", "a.json"):
        assert not is_name(text)


def test_an_entry_is_the_same_after_writing_and_reading(store):
    entry = _entry(state="FINISHED", result={"applied": ["Tiling: exact"]}, job="j", number=3)
    store.add(entry, b"picture", b"small")
    assert store.list().names == (entry.name,)
    assert store.read(entry.name) == entry
    assert store.picture(entry.name) == b"picture"
    assert sorted(path.name for path in store.folder.iterdir()) == sorted(
        f"{entry.name}{ending}" for ending in (".json", ".png", ".small.png")
    )
    values = json.loads(store.path(entry.name, ".json").read_text("utf-8"))
    assert (values["format"], values["version"]) == ("tessera-history", 1)
    assert values["image"]["seed"] == "18446744073709551615"


def test_fields_of_a_later_version_are_kept(store):
    entry = _entry()
    values = {**entry.to_values(), "mood": "calm", "other": {"old": 1}}
    read = Entry.from_values(values, entry.name)
    assert read.other == {"mood": "calm", "old": 1}
    assert Entry.from_json(read.to_json(), entry.name) == read


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not an entry"),
        (b'{"format": "tessera-history"}', "no version"),
        (b'{"format": "tessera-history", "version": true}', "no version"),
        (b'{"format": "tessera-history", "version": 99}', "later version"),
        (b'{"format": "tessera-history", "version": 1}', "no time"),
        (b'{"format": "tessera-history", "version": 1, "time": 3}', '"time" is not'),
        (b'{"format": "tessera-history", "version": 1, "time": "", "image": []}', '"image" is'),
        (b'{"format": "tessera-history", "version": 1, "time": "", "number": true}', '"number"'),
        (b" " * (4 * 2**20 + 1), "too large"),
    ],
    ids=range(12),
)
def test_damaged_files_are_told_and_kept(store, text, why):
    good = _entry(name=new_name(datetime(2026, 1, 2, tzinfo=UTC)))
    damaged = new_name(datetime(2026, 1, 1, tzinfo=UTC))
    store.add(good)
    store.path(damaged, ".json").write_bytes(text)
    (store.folder / "notes.txt").write_text("mine")
    listing = store.list()
    assert listing.names == (good.name, damaged)
    assert listing.foreign == ("notes.txt",)
    with pytest.raises(DamagedEntryError, match=why):
        store.read(damaged)
    with pytest.raises(DamagedEntryError, match=why):
        store.remove(damaged)
    store.trim(1)
    assert store.list().names == (good.name, damaged), "neither the damaged nor the newest is gone"
    assert (store.folder / "notes.txt").exists()


def test_the_oldest_are_removed(store):
    names = _add(store, 5)
    assert store.trim(0) == 0
    assert store.trim(5) == 0
    assert store.trim(2) == 3
    assert store.list().names == names[:2]
    assert len(list(store.folder.iterdir())) == 6, "pictures go with their entries"


def test_removing(store):
    (name,) = _add(store, 1)
    store.remove(name)
    store.remove(name)
    assert list(store.folder.iterdir()) == []
    with pytest.raises(DamagedEntryError, match="not there any more"):
        store.read(name)
    store.change(_entry(name=name))
    assert store.list().names == (), "a late change does not bring it back"


def test_an_entry_without_a_picture(store):
    entry = _entry()
    store.add(entry)
    with pytest.raises(HistoryError, match="no picture"):
        store.picture(entry.name)


def test_a_full_disk_leaves_nothing_half_written(store, monkeypatch):
    def fill(path, data):
        with path.open("wb") as file:
            file.write(data[:3])
        if path.name.endswith(".tmp") and ".json." in path.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", fill)
    with pytest.raises(HistoryError, match=r"No space left on device.*in this file all the same"):
        store.add(_entry(), b"picture", b"small")
    assert list(store.folder.iterdir()) == []


def test_a_place_where_no_folder_can_be(tmp_path):
    (tmp_path / "history").write_text("a file")
    store = Store(tmp_path / "history")
    with pytest.raises(HistoryError, match="could not be written"):
        store.add(_entry(), b"picture", b"small")
    with pytest.raises(HistoryError, match="cannot be read"):
        store.list()
    assert (tmp_path / "history").read_text() == "a file"


def test_leftovers_of_a_blender_that_crashed_go_after_a_day(store):
    (name,) = _add(store, 1)
    old = store.folder / f".{name}.png.abc.tmp"
    new = store.folder / f".{name}.json.def.tmp"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 100_000,) * 2)
    assert store.list().foreign == ()
    store.trim(5)
    assert (old.exists(), new.exists()) == (False, True)


def test_several_blenders_at_once(store):
    """Each of four processes writes 25 entries and trims to 40, all in one folder."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import conftest\n"
        "from pathlib import Path\n"
        "from tessera.history.entries import Entry, new_name, time_of_name\n"
        "from tessera.history.store import Store\n"
        "store = Store(Path(sys.argv[2]))\n"
        "for number in range(25):\n"
        "    name = new_name()\n"
        "    store.add(Entry(name=name, time=time_of_name(name)), b'p' * 9999, b's')\n"
        "    store.trim(40)\n"
    )
    command = [sys.executable, "-c", script, str(ROOT / "tests"), str(store.folder)]
    writers = [subprocess.Popen(command) for _ in range(4)]
    assert [writer.wait(120) for writer in writers] == [0] * 4
    names = store.list().names
    assert 37 <= len(names) <= 40
    for name in names:
        assert store.read(name).name == name
        assert len(store.picture(name)) == 9999
    assert len(list(store.folder.iterdir())) == 3 * len(names)


@pytest.mark.parametrize(
    ("shape", "small"),
    [
        ((1000, 500, 3), (128, 64)),
        ((8, 4, 4), (8, 4)),
        ((1, 8192, 3), (1, 128)),
        ((129, 130, 3), (127, 128)),
    ],
)
def test_small_pictures(shape, small):
    data = thumbnail_of(np.full(shape, 0.5, np.float32))
    assert int.from_bytes(data[16:20]) == small[1]
    assert int.from_bytes(data[20:24]) == small[0]
    assert png.has_alpha(data) is (shape[2] == 4)


def test_a_small_picture_is_a_mean(monkeypatch):
    pixels = np.zeros((256, 256, 3), np.uint8)
    pixels[::2] = 200  # stripes of one pixel become an even grey
    pixels[:, 128:] = 10
    seen = []
    monkeypatch.setattr(png, "encode", lambda pixels, text: seen.append(pixels) or b"")
    thumbnail_of(pixels)
    assert (seen[0][:, :64] == 100).all()
    assert (seen[0][:, 64:] == 10).all()
