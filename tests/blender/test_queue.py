"""The operators of the queue. Bug report P065: counters that do not lie."""

import bpy
import numpy as np
import pytest
from fakes.painter import paint
from tessera import preview, session
from tessera.delivery import Delivery
from tessera.generator_process.errors import ErrorKind, StartError
from tessera.generator_process.jobs import JobState
from tessera.generator_process.messages import Failed, Finished, ImageData, Progress


def _submit(seed="1", number_of_images=1):
    settings = bpy.context.scene.tessera
    settings.prompt, settings.width, settings.height, settings.seed = "p", 16, 8, seed
    settings.number_of_images = number_of_images
    return session.get().submit(settings.to_text_to_image(), Delivery(seed_text=seed))


def _order():
    return [job.job_id for job in session.get().jobs.queued()]


def test_without_jobs_there_is_nothing_to_do(generator):
    for operator in (
        bpy.ops.tessera.queue_move,
        bpy.ops.tessera.queue_rerun,
        bpy.ops.tessera.queue_clear,
    ):
        with pytest.raises(RuntimeError, match="There are no jobs"):
            operator()


def test_moving_changes_what_the_generator_gets_next(generator):
    first, second, third = (_submit() for _ in range(3))
    assert bpy.ops.tessera.queue_move(job_id=third.job_id, direction="FIRST") == {"FINISHED"}
    assert _order() == [third.job_id, second.job_id]
    assert bpy.ops.tessera.queue_move(job_id=third.job_id, direction="UP") == {"CANCELLED"}
    assert bpy.ops.tessera.queue_move(job_id=third.job_id, direction="DOWN") == {"FINISHED"}
    assert bpy.ops.tessera.queue_move(job_id=third.job_id, direction="FIRST") == {"FINISHED"}
    generator.push(Finished(job_id=first.job_id))
    session.get().pump()
    assert generator.sent[-1] == third.request
    bpy.ops.tessera.queue_move(job_id=second.job_id, direction="LAST")
    assert session.get().newest is third, "submitted last, wherever it is"
    with pytest.raises(RuntimeError, match='There is no job "other"'):
        bpy.ops.tessera.queue_move(job_id="other", direction="UP")


@pytest.mark.parametrize(("seed", "same"), [("moss", True), ("", False)])
def test_running_again_uses_the_settings_as_given(generator, seed, same):
    """Changes of the scene in between do not count, and without a seed there is another image."""
    generator.responder = paint
    job = _submit(seed, number_of_images=2)
    session.get().wait(job)
    bpy.context.scene.tessera.prompt = "another"
    assert bpy.ops.tessera.queue_rerun(job_id=job.job_id) == {"FINISHED"}
    again = session.get().newest
    assert again.state is JobState.FINISHED, "it has waited"
    assert again.job_id != job.job_id
    assert again.request.sampling.prompt == "p"
    seeds = session.get().result_of(again).seeds
    assert (seeds == session.get().result_of(job).seeds) is same
    assert seeds[1] == seeds[0] + 1
    assert bpy.ops.tessera.queue_rerun() == {"FINISHED"}, "the newest"
    with pytest.raises(RuntimeError, match='There is no job "other"'):
        bpy.ops.tessera.queue_rerun(job_id="other")


def test_running_again_tells_what_went_wrong(generator):
    job = _submit()
    generator.push(Finished(job_id=job.job_id))
    session.get().wait(job)
    generator.responder = lambda request: [
        Failed(job_id=request.job_id, kind=ErrorKind.MODEL, message="The model is gone.")
    ]
    with pytest.raises(RuntimeError, match="The model is gone"):
        bpy.ops.tessera.queue_rerun()
    generator.send_error = StartError("It does not start.")
    with pytest.raises(RuntimeError, match="It does not start"):
        bpy.ops.tessera.queue_rerun()


def test_clearing_leaves_what_waits_or_runs(generator):
    first, second, third = (_submit() for _ in range(3))
    bpy.ops.tessera.cancel(job_id=second.job_id)
    with pytest.raises(RuntimeError, match="that has ended"):
        bpy.ops.tessera.queue_clear(job_id=first.job_id)
    assert bpy.ops.tessera.queue_clear() == {"FINISHED"}
    assert session.get().jobs.all() == [first, third]
    assert (first.state, third.state) == (JobState.RUNNING, JobState.QUEUED)


def test_no_preview_is_made_while_a_script_waits(generator, monkeypatch):
    job = _submit()
    shown = ImageData(pixels=np.full((8, 8, 3), 9, np.uint8))
    monkeypatch.setattr(preview.Preview, "show_newest", lambda *_: pytest.fail("nobody sees it"))
    generator.push(
        Progress(job_id=job.job_id, step=1, steps=2, preview=shown), Finished(job_id=job.job_id)
    )
    session.get().wait(job)
    assert (job.step, job.steps) == (1, 2)
