"""The queue in the sidebars and in the status bar."""

from contextlib import suppress
from types import SimpleNamespace

import bpy
import pytest
import tessera
from fakes.layout import RecordingLayout, texts
from fakes.painter import pixels_of
from tessera import session
from tessera.generator_process.errors import ErrorKind, TesseraError
from tessera.generator_process.messages import (
    Cancelled,
    Failed,
    Finished,
    ImageData,
    ImageFinished,
    Progress,
)
from tessera.panels import queue, status_bar
from tessera.panels.queue import TESSERA_PT_queue_image, TESSERA_PT_queue_shader


def _submit(prompt="red brick wall", number_of_images=1):
    settings = bpy.context.scene.tessera
    settings.prompt, settings.width, settings.height, settings.seed = prompt, 16, 8, "5"
    settings.number_of_images = number_of_images
    return session.get().submit(settings.to_text_to_image())


def _draw(panel=TESSERA_PT_queue_image, width=180):
    layout = RecordingLayout()
    context = SimpleNamespace(region=SimpleNamespace(width=width))
    panel.draw(SimpleNamespace(layout=layout), context)
    return layout


def _buttons(layout, name):
    return [call[2] for call in layout.calls if call[:2] == ("operator", f"tessera.{name}")]


def _header():
    layout = RecordingLayout()
    TESSERA_PT_queue_image.draw_header_preset(SimpleNamespace(layout=layout), None)
    return texts(layout.calls)


def _status_bar():
    layout = RecordingLayout()
    status_bar.draw(SimpleNamespace(layout=layout), None)
    return layout


def _end(generator, *events):
    """Let the job of these events end."""
    generator.push(*events)
    with suppress(TesseraError):
        session.get().wait(session.get().jobs.get(events[-1].job_id))


def test_without_jobs():
    assert texts(_draw().calls) == ["No jobs yet"]
    assert _header() == []
    session.get()
    assert texts(_draw().calls) == ["No jobs yet"]
    assert _status_bar().calls == []


def test_the_editors_show_the_same(generator):
    _submit()
    _submit()
    kinds = [
        [call[:2] for call in _draw(panel).calls]
        for panel in (TESSERA_PT_queue_image, TESSERA_PT_queue_shader)
    ]
    assert kinds[0] == kinds[1]


def test_it_is_closed_at_first_and_says_how_much_there_is_to_do(generator):
    assert TESSERA_PT_queue_image.bl_options == TESSERA_PT_queue_shader.bl_options
    assert TESSERA_PT_queue_image.bl_options == {"DEFAULT_CLOSED"}
    first = _submit()
    _submit()
    assert _header() == ["2 to do"]
    _end(generator, Finished(job_id=first.job_id))
    assert _header() == ["1 to do"]


def test_a_running_job(generator):
    job = _submit(number_of_images=3)
    generator.push(Progress(job_id=job.job_id, step=4, steps=60, stage="Sampling"))
    session.get().pump()
    layout = _draw()
    assert texts(layout.calls) == ["red brick wall", "0 of 3 images"]
    assert texts(layout.calls, "progress") == ["Sampling 4/60"]
    one, every = _buttons(layout, "cancel")
    assert one.job_id == job.job_id
    assert not hasattr(every, "job_id"), "Cancel All"
    bpy.ops.tessera.cancel(job_id=one.job_id)
    assert texts(_draw().calls, "progress") == ["Stopping"]


def test_the_buttons_of_jobs_that_wait(generator):
    _submit("runs")
    first, second, third = (_submit(name) for name in ("a", "b", "c"))
    layout = _draw()
    moves = [(move.job_id, move.direction) for move in _buttons(layout, "queue_move")]
    ids = [job.job_id for job in (first, second, third)]
    assert moves == [(job_id, way) for job_id in ids for way in ("UP", "DOWN")]
    assert [stop.job_id for stop in _buttons(layout, "cancel")[1:-1]] == ids
    bpy.ops.tessera.queue_move(job_id=second.job_id, direction=moves[2][1])
    assert [text for text in texts(_draw().calls) if len(text) == 1] == ["b", "a", "c"]


class _Watching(RecordingLayout):
    """Remembers of each button the name, the icon, whether it can be pressed, and its context."""

    def __init__(self, parent=None):
        super().__init__(parent)
        self.seen = [] if parent is None else parent.seen

    def row(self, **_options):
        return _Watching(self)

    box = column = row

    def operator(self, name, **options):
        context = vars(self).get("operator_context", "")
        self.seen.append(
            (name.removeprefix("tessera."), options.get("icon"), self.enabled, context)
        )
        return super().operator(name, **options)


def _watch():
    layout = _Watching()
    context = SimpleNamespace(region=SimpleNamespace(width=180))
    TESSERA_PT_queue_image.draw(SimpleNamespace(layout=layout), context)
    return layout.seen


def test_at_the_ends_of_the_queue_there_is_nowhere_to_move(generator):
    for _ in range(3):
        _submit()
    assert [seen[1:3] for seen in _watch() if seen[0] == "queue_move"] == [
        ("TRIA_UP", False),
        ("TRIA_DOWN", True),
        ("TRIA_UP", True),
        ("TRIA_DOWN", False),
    ]


def test_ended_jobs_newest_end_first(generator):
    done, stopped, broken, waits = (_submit(name) for name in ("a", "b", "c", "d"))
    bpy.ops.tessera.cancel(job_id=stopped.job_id)
    image = ImageData(pixels=pixels_of(5, 16, 8))
    _end(
        generator,
        ImageFinished(job_id=done.job_id, index=0, seed=5, image=image),
        Finished(job_id=done.job_id),
    )
    message = "Not enough memory for 8192 x 8192 with this model. Lower the size."
    kind = ErrorKind.OUT_OF_MEMORY
    _end(generator, Failed(job_id=broken.job_id, kind=kind, message=message))
    _end(generator, Cancelled(job_id=waits.job_id))
    layout = _draw()
    lines = texts(layout.calls)
    assert lines[:3] == ["d", "Cancelled", "c"]
    assert " ".join(lines[3 : lines.index("Failed")]) == message
    assert max(map(len, lines)) <= 30, "readable at 180 px"
    assert lines[lines.index("Failed") + 1 :] == ["a", "1 image, 0.0 s", "b", "Cancelled"]
    order = [waits.job_id, broken.job_id, done.job_id, stopped.job_id]
    assert [again.job_id for again in _buttons(layout, "queue_rerun")] == order
    *each, every = _buttons(layout, "queue_clear")
    assert [one.job_id for one in each] == order
    assert not hasattr(every, "job_id")
    assert "tessera.queue_clear" not in layout.locked
    bpy.ops.tessera.queue_clear(job_id=each[0].job_id)
    assert texts(_draw().calls)[0] == "c"
    bpy.ops.tessera.queue_clear()
    assert texts(_draw().calls) == ["No jobs yet"]


def test_without_ended_jobs_there_is_nothing_to_clear(generator):
    _submit()
    assert "tessera.queue_clear" in _draw().locked


def test_images_of_a_stopped_job_are_counted(generator):
    job = _submit("", number_of_images=3)
    image = ImageData(pixels=pixels_of(5, 16, 8))
    events = [
        ImageFinished(job_id=job.job_id, index=index, seed=index, image=image) for index in (0, 1)
    ]
    _end(generator, *events, Cancelled(job_id=job.job_id))
    assert texts(_draw().calls) == ["Without a prompt", "Cancelled, 2 images"]


def test_a_long_queue_is_cut(generator):
    for number in range(queue.SHOWN_WAITING + 3):
        _submit(str(number))
    lines = texts(_draw().calls)
    assert lines[-1] == "2 more wait"
    assert len(_buttons(_draw(), "queue_move")) == 2 * queue.SHOWN_WAITING
    bpy.ops.tessera.cancel()
    lines = texts(_draw().calls)
    assert lines[-1] == f"{queue.SHOWN_WAITING + 2 - queue.SHOWN_ENDED} more have ended"
    assert len(_buttons(_draw(), "queue_rerun")) == queue.SHOWN_ENDED


def test_a_button_that_starts_a_job_does_not_wait_for_it(generator):
    job = _submit()
    _end(generator, Cancelled(job_id=job.job_id))
    assert [seen[3] for seen in _watch() if seen[0] == "queue_rerun"] == ["INVOKE_DEFAULT"]


def test_the_status_bar(generator, monkeypatch):
    job = _submit()
    _submit()
    clock = iter(range(100, 200, 4))
    monkeypatch.setattr(session.get().jobs, "_clock", lambda: next(clock))
    for step in (1, 2):
        generator.push(Progress(job_id=job.job_id, step=step, steps=20, stage="Sampling"))
        session.get().pump()
    monkeypatch.setattr(status_bar.time, "monotonic", lambda: 104.0)
    job.started_s = 74.0
    layout = _status_bar()
    assert texts(layout.calls, "progress") == ["Tessera: Sampling 2/20"]
    assert texts(layout.calls) == ["30 s, 1 min 12 s left, 1 more"]
    assert [stop.job_id for stop in _buttons(layout, "cancel")] == [job.job_id]
    bpy.ops.tessera.cancel()
    _end(generator, Cancelled(job_id=job.job_id))
    assert _status_bar().calls == []


def _drawn():
    return bpy.types.STATUSBAR_HT_header.draw._draw_funcs


def test_the_status_bar_is_left_as_it_was():
    assert _drawn().count(status_bar.draw) == 1
    tessera.unregister()
    assert status_bar.draw not in _drawn()
    tessera.register()
    assert _drawn().count(status_bar.draw) == 1


@pytest.mark.parametrize("name", ["QUEUED", "RUNNING", "FINISHED", "FAILED", "CANCELLED"])
def test_every_state_has_an_icon(name):
    from tessera.generator_process.jobs import JobState

    assert [state.name for state in JobState] == list(queue._ICONS)
    icons = bpy.types.UILayout.bl_rna.functions["label"].parameters["icon"].enum_items
    assert queue._ICONS[name] in icons
