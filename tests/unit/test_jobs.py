# SPDX-License-Identifier: GPL-3.0-or-later
"""The queue and the states of jobs. Bug reports P051 and P065."""

import numpy as np
import pytest
from tessera.generator_process.errors import ErrorKind
from tessera.generator_process.jobs import KEPT_JOBS, Jobs, JobState
from tessera.generator_process.messages import (
    Cancelled,
    Failed,
    Finished,
    ImageData,
    ImageFinished,
    Progress,
    Ready,
    SamplingSettings,
    TextToImage,
)

TERMINAL = [
    (Finished(job_id="a"), JobState.FINISHED),
    (Failed(job_id="a", kind=ErrorKind.GENERATOR, message="m"), JobState.FAILED),
    (Cancelled(job_id="a"), JobState.CANCELLED),
]


class Clock:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


def request(job_id):
    return TextToImage(job_id=job_id, sampling=SamplingSettings(prompt=job_id))


def image(value=0):
    return ImageData(pixels=np.full((1, 1, 3), value, np.uint8))


def started(*job_ids, clock=None):
    jobs = Jobs(clock or Clock())
    for job_id in job_ids:
        jobs.add(request(job_id))
    jobs.start(jobs.next_queued())
    return jobs


@pytest.mark.parametrize(("event", "state"), TERMINAL)
def test_a_terminal_event_ends_the_job(event, state):
    jobs = started("a")
    job = jobs.get("a")
    assert jobs.apply(Progress(job_id="a", step=1, steps=4, preview=image())) is job
    assert (job.state, job.progress, job.has_ended) == (JobState.RUNNING, 0.25, False)
    assert jobs.apply(event) is job
    assert (job.state, job.has_ended, job.result) == (state, True, event)
    assert job.preview is None
    assert job.seconds_left(0.0) is None
    assert jobs.running() == jobs.queued() == []
    assert job.progress == (1.0 if state is JobState.FINISHED else 0.25)


@pytest.mark.parametrize(("event", "state"), TERMINAL)
def test_a_waiting_job_can_be_ended_without_the_generator(event, state):
    jobs = Jobs()
    job = jobs.add(request("a"))
    jobs.apply(event)
    assert job.state is state
    assert job.started_s is None
    assert jobs.next_queued() is None


def test_a_late_or_unknown_event_changes_nothing(caplog):
    jobs = started("a")
    jobs.apply(Cancelled(job_id="a"))
    for event in [
        Finished(job_id="a"),
        Progress(job_id="a", step=1, steps=2),
        ImageFinished(job_id="a", index=0, seed=0, image=image()),
        Finished(job_id="other"),
    ]:
        caplog.clear()
        assert jobs.apply(event) is None
        assert "which has ended" in caplog.text
    job = jobs.get("a")
    assert (job.state, job.step, job.images_done) == (JobState.CANCELLED, 0, 0)
    assert jobs.apply(Ready(device="cpu", device_name="", versions=())) is None


def test_one_job_at_a_time_in_the_order_of_adding():
    jobs = started("a", "b", "c")
    assert [job.job_id for job in jobs.running()] == ["a"]
    assert [job.job_id for job in jobs.queued()] == ["b", "c"]
    assert jobs.next_queued() is None
    jobs.apply(Cancelled(job_id="b"))
    assert jobs.next_queued() is None
    jobs.apply(Finished(job_id="a"))
    assert jobs.next_queued().job_id == "c"
    assert [job.job_id for job in jobs.all()] == ["a", "b", "c"]


def test_a_name_is_used_once():
    jobs = started("a")
    with pytest.raises(ValueError, match="twice"):
        jobs.add(request("a"))
    with pytest.raises(KeyError):
        jobs.get("b")


def test_only_the_newest_preview_is_kept_and_progress_without_one_keeps_it():
    jobs = started("a")
    job = jobs.get("a")
    jobs.apply(Progress(job_id="a", step=1, steps=4, preview=image(1)))
    jobs.apply(Progress(job_id="a", step=2, steps=4, preview=image(2)))
    jobs.apply(Progress(job_id="a", step=3, steps=4, stage="Decoding"))
    assert job.preview.pixels[0, 0, 0] == 2
    assert (job.step, job.steps, job.stage) == (3, 4, "Decoding")


def test_images_are_counted_and_shown_until_the_end():
    jobs = started("a")
    job = jobs.get("a")
    assert (job.images_done, job.images_total) == (0, 1)
    jobs.apply(ImageFinished(job_id="a", index=0, seed=5, image=image(7)))
    assert job.images_done == 1
    assert job.preview.pixels[0, 0, 0] == 7
    jobs.apply(Cancelled(job_id="a"))
    assert (job.images_done, job.preview) == (1, None)


def test_progress_stays_between_0_and_1():
    jobs = started("a")
    job = jobs.get("a")
    assert job.progress == 0.0
    for step, steps, progress in [(0, 0, 0.0), (0, 4, 0.0), (4, 4, 1.0), (9, 4, 1.0)]:
        jobs.apply(Progress(job_id="a", step=step, steps=steps))
        assert job.progress == progress


def test_times_and_the_estimate():
    clock = Clock()
    jobs = started("a", clock=clock)
    job = jobs.get("a")
    assert job.started_s == 100
    clock.now_s = 160  # loading does not count
    jobs.apply(Progress(job_id="a", step=0, steps=10))
    assert job.seconds_left(clock.now_s) is None
    clock.now_s = 164
    jobs.apply(Progress(job_id="a", step=2, steps=10))
    assert job.seconds_left(164) == pytest.approx(16)
    assert job.seconds_left(167) == pytest.approx(13), "it counts down between two steps"
    assert job.seconds_gone(167) == 67
    clock.now_s = 170
    jobs.apply(Progress(job_id="a", step=10, steps=10))
    assert job.seconds_left(170) == 0
    jobs.apply(Finished(job_id="a"))
    assert job.ended_s == 170
    assert job.seconds_gone(999) == 70


def test_a_retry_does_not_make_the_numbers_jump():
    """It begins with the first step again: the bar waits and the pace is remembered."""
    clock = Clock()
    jobs = started("a", clock=clock)
    job = jobs.get("a")
    jobs.apply(Progress(job_id="a", step=0, steps=1, stage="Starting"))
    for step in range(9):
        jobs.apply(Progress(job_id="a", step=step, steps=10, stage="Sampling"))
        clock.now_s += 2
    assert job.progress == 0.8
    clock.now_s += 60  # out of memory, and the model is loaded again
    for step in range(9):
        jobs.apply(Progress(job_id="a", step=step, steps=10, stage="Sampling"))
        assert (job.step, job.progress) == (step, 0.8)
        assert job.seconds_left(clock.now_s) == pytest.approx((10 - step) * 2)
        clock.now_s += 2
    jobs.apply(Progress(job_id="a", step=9, steps=10, stage="Sampling"))
    assert job.progress == 0.9


def test_waiting_jobs_can_be_moved():
    jobs = started("a", "b", "c", "d")

    def order():
        return [job.job_id for job in jobs.queued()]

    assert jobs.move("d", -1)
    assert order() == ["b", "d", "c"]
    assert jobs.move("b", 99)
    assert order() == ["d", "c", "b"]
    assert not jobs.move("d", -1), "it is the first"
    assert not jobs.move("a", 1), "it runs"
    assert [job.job_id for job in jobs.all()] == ["a", "d", "c", "b"]
    jobs.apply(Finished(job_id="a"))
    assert jobs.next_queued().job_id == "d"
    with pytest.raises(KeyError):
        jobs.move("other", 1)


def test_only_ended_jobs_can_be_forgotten():
    jobs = started("a", "b", "c")
    jobs.apply(Cancelled(job_id="b"))
    assert jobs.forget("a") == jobs.forget("other") == 0
    jobs.apply(Finished(job_id="a"))
    assert jobs.forget("b") == 1
    assert jobs.forget() == 1
    assert [job.job_id for job in jobs.all()] == ["c"]


def test_the_first_sign_of_life_is_not_taken_for_the_first_step():
    clock = Clock()
    jobs = started("a", clock=clock)
    jobs.apply(Progress(job_id="a", step=0, steps=1, stage="Starting"))
    clock.now_s += 60
    jobs.apply(Progress(job_id="a", step=0, steps=10, stage="Sampling"))
    clock.now_s += 1
    jobs.apply(Progress(job_id="a", step=1, steps=10, stage="Sampling"))
    assert jobs.get("a").seconds_left(clock.now_s) == pytest.approx(9)


def test_a_failed_job_keeps_its_sentence():
    jobs = started("a")
    assert jobs.get("a").sentence == ""
    jobs.apply(Failed(job_id="a", kind=ErrorKind.MODEL, message="No model.", detail="Traceback"))
    assert jobs.get("a").sentence == "No model."


def test_a_failure_is_logged_with_its_detail(caplog):
    caplog.set_level("INFO")
    jobs = started("a")
    jobs.apply(Failed(job_id="a", kind=ErrorKind.MODEL, message="No model.", detail="Traceback"))
    assert "No model." in caplog.text
    assert "Traceback" in caplog.text


def test_old_jobs_are_forgotten_but_never_one_that_waits_or_runs():
    jobs = started("a", "b")
    for number in range(KEPT_JOBS + 50):
        jobs.add(request(str(number)))
        jobs.apply(Cancelled(job_id=str(number)))
    jobs.add(request("last"))
    assert len(jobs) == KEPT_JOBS + 3
    assert [job.job_id for job in jobs.running()] == ["a"]
    assert [job.job_id for job in jobs.queued()] == ["b", "last"]
    with pytest.raises(KeyError):
        jobs.get("0")
