"""What comes into the history, from jobs that end in all ways."""

import json

import bpy
import numpy as np
import pytest
from fakes.painter import paint, pixels_of
from tessera import api, png, properties, screen, session
from tessera.generator_process.messages import Cancelled, ImageData, ImageFinished
from tessera.history import place


@pytest.fixture
def store():
    return place.store()


def _entries(store):
    return [store.read(name) for name in reversed(store.list().names)]


def test_every_image_is_there_with_all_settings(painter, store):
    result = api.generate(
        prompt="{red|red} 苔",
        negative_prompt="blur",
        style="",
        width=16,
        height=8,
        seed="moss",
        number_of_images=3,
        vae_tiling="EXACT",
    )
    entries = _entries(store)
    assert [int(entry.seed) for entry in entries] == list(result.seeds)
    entry = entries[1]
    assert entry.settings["prompt"] == "{red|red} 苔"
    assert entry.image["prompt"] == "red 苔"
    assert entry.settings["seed"] == "moss"
    assert entry.settings["vae_tiling"] == "EXACT"
    assert (entry.settings["width"], entry.image["height"]) == (16, 8)
    assert entry.settings["scheduler"] == "DPM_SOLVER_MULTISTEP"
    assert (entry.state, entry.number) == ("FINISHED", 1)
    assert entry.result["notes"] == ["A note."]
    assert entry.blender == bpy.app.version_string
    assert set(entry.settings) >= set(properties.REQUEST_NAMES)


def test_the_picture_is_the_delivered_file(painter, store):
    result = api.generate(prompt="p", width=16, height=8, seed="1")
    (name,) = store.list().names
    packed = bytes(bpy.data.images[result.images[0]].packed_file.data)
    assert store.picture(name) == packed
    assert json.loads(png.read_text(packed)["tessera"])["prompt"] == "p"


def test_what_a_cancelled_job_had_finished_is_there(generator, store):
    job = session.get().submit(_request())
    image = ImageData(pixels=pixels_of(1, 16, 8))
    generator.push(ImageFinished(job_id=job.job_id, index=0, seed=1, image=image))
    generator.push(Cancelled(job_id=job.job_id))
    with pytest.raises(api.errors.CancelledError):
        session.get().wait(job)
    (entry,) = _entries(store)
    assert (entry.state, entry.settings["prompt"]) == ("CANCELLED", "p")


def test_an_image_is_there_before_its_job_has_ended(generator, store):
    """So that a crash of Blender loses none of a long job."""
    job = session.get().submit(_request())
    image = ImageData(pixels=pixels_of(1, 16, 8))
    generator.push(ImageFinished(job_id=job.job_id, index=0, seed=1, image=image))
    while not store.list().names:
        session.get().pump()
    assert not job.has_ended
    assert _entries(store)[0].state == "RUNNING"


def test_the_limit_of_the_preferences(painter, store, machine_preferences):
    machine_preferences.history_limit = 2
    api.generate(prompt="p", width=16, height=8, seed="1", number_of_images=4)
    assert [entry.seed for entry in _entries(store)] == ["3", "4"]


def test_lines_of_a_text_are_prompts_of_their_own(painter, store):
    bpy.data.texts.new("Lines").write("one\ntwo\n")
    api.generate(prompts_text="Lines", width=16, height=8, seed="1")
    assert [entry.settings["prompt"] for entry in _entries(store)] == ["one", "two"]
    assert [entry.settings["prompts_text"] for entry in _entries(store)] == ["", ""]


def test_a_history_that_cannot_be_written_stops_nothing(painter, store):
    store.folder.parent.mkdir(exist_ok=True)
    store.folder.write_text("in the way")
    result = api.generate(prompt="p", width=16, height=8, seed="1")
    assert result.images == ("p 1",)
    assert "The history could not be written" in " ".join(result.notes)


def test_the_user_is_told_without_a_script(painter, store, monkeypatch):
    store.folder.parent.mkdir(exist_ok=True)
    store.folder.write_text("in the way")
    told = []
    monkeypatch.setattr(screen, "report", lambda kind, text: told.append((kind, text)))
    session.get().submit(_request())
    while session.get().needs_pump:
        session.get().pump()
    ((kind, text),) = told
    assert kind == "WARNING"
    assert "could not be written" in text


def test_ending_tessera_writes_what_is_left(generator, store):
    job = session.get().submit(_request())
    generator.push(*paint(job.request))
    session.get().pump()
    session.stop()
    (entry,) = _entries(store)
    assert np.frombuffer(store.picture(entry.name)[:8], np.uint8)[0] == 0x89


def _request():
    settings = bpy.context.scene.tessera
    settings.prompt, settings.width, settings.height, settings.seed = "p", 16, 8, "1"
    return settings.to_text_to_image()
