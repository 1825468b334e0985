"""The thread that writes the history."""

import threading

import numpy as np
import pytest
from tessera.history.entries import Entry, new_name, time_of_name
from tessera.history.recorder import Recorder
from tessera.history.store import Store

PIXELS = np.zeros((4, 4, 3), np.uint8)


@pytest.fixture
def recorder():
    made = Recorder()
    yield made
    made.close()
    assert "tessera history_0" not in [thread.name for thread in threading.enumerate()]


def _keep(recorder, store, job="j", limit=0):
    name = new_name()
    entry = Entry(name=name, time=time_of_name(name), job=job, state="RUNNING")
    recorder.keep(store, entry, b"picture", PIXELS, limit=limit)
    return name


def test_an_image_is_written_at_once_and_its_end_later(recorder, tmp_path):
    store = Store(tmp_path / "history")
    name = _keep(recorder, store)
    recorder.wait()
    assert store.read(name).state == "RUNNING"
    assert store.path(name, ".small.png").read_bytes().startswith(b"\x89PNG")
    recorder.finish("j", "CANCELLED", {"notes": ["a"]})
    recorder.wait()
    assert store.read(name).state == "CANCELLED"
    assert store.read(name).result == {"notes": ["a"]}
    assert not recorder.has_news


def test_the_limit_is_kept(recorder, tmp_path):
    store = Store(tmp_path / "history")
    names = [_keep(recorder, store, limit=2) for _ in range(4)]
    recorder.finish("j", "FINISHED", {})
    recorder.close()
    assert store.list().names == (names[3], names[2])
    assert store.read(names[3]).state == "FINISHED"


def test_what_goes_wrong_is_told_once(recorder, tmp_path):
    (tmp_path / "history").write_text("in the way")
    store = Store(tmp_path / "history")
    _keep(recorder, store)
    _keep(recorder, store)
    recorder.finish("j", "FINISHED", {})
    recorder.wait()
    assert recorder.has_news
    (sentence,) = recorder.take_problems()
    assert "could not be written" in sentence
    assert not recorder.has_news
    assert recorder.take_problems() == []
