# SPDX-License-Identifier: GPL-3.0-or-later
"""Every scheduler, fresh for each job. Bug reports P033, P042, P129 and P131."""

import inspect

import numpy as np
import pytest
import torch
from tessera.generator_process import schedulers
from tessera.generator_process.errors import InvalidRequestError, ModelError
from tessera.generator_process.messages import Scheduler
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CONFIG = {
    "_class_name": "PNDMScheduler",
    "num_train_timesteps": 1000,
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "skip_prk_steps": False,
    "clip_sample": True,
    "thresholding": True,
    "steps_offset": 1,
}


def _toy_result(scheduler, steps, predict):
    """Denoise four numbers with the prediction of a perfect model that knows the answer."""
    scheduler.set_timesteps(steps, device="cpu")
    generator = torch.Generator().manual_seed(1)
    value = torch.randn((1, 1, 2, 2), generator=generator) * scheduler.init_noise_sigma
    more = {}
    if "generator" in inspect.signature(scheduler.step).parameters:
        more["generator"] = [generator]
    for timestep in scheduler.timesteps:
        scaled = scheduler.scale_model_input(value, timestep)
        predicted = predict(scaled, timestep)
        value = scheduler.step(predicted, timestep, value, return_dict=False, **more)[0]
        assert value.dtype == torch.float32
    return value


def _knowing(answer, prediction_type):
    """The prediction of a model that knows the answer, from the noise schedule alone."""
    betas = torch.linspace(0.00085**0.5, 0.012**0.5, 1000, dtype=torch.float64) ** 2
    cumulated = (1 - betas).cumprod(0).numpy()

    def predict(scaled, timestep):
        alpha = float(np.interp(float(timestep), np.arange(1000), cumulated))
        signal, noise_level = alpha**0.5, (1 - alpha) ** 0.5
        noise = (scaled - signal * answer) / noise_level
        return noise if prediction_type == "epsilon" else signal * noise - noise_level * answer

    return predict


@pytest.mark.parametrize("prediction_type", ["epsilon", "v_prediction"])
@pytest.mark.parametrize("spacing", ["leading", "trailing", "linspace"])
@pytest.mark.parametrize("scheduler", Scheduler)
def test_a_perfect_model_is_sampled_to_its_answer(scheduler, spacing, prediction_type):
    """Also beyond -1..1, where clipping or thresholding would show (DDIM clips by default)."""
    answer = torch.tensor([[[[3.0, -2.0], [0.5, 0.0]]]])
    config = CONFIG | {"timestep_spacing": spacing, "prediction_type": prediction_type}
    built = schedulers.build(scheduler, config, 20)
    result = _toy_result(built, 20, _knowing(answer, prediction_type))
    assert float((result - answer).abs().max()) < 0.15


@pytest.mark.parametrize("spacing", ["leading", "trailing", "linspace"])
@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("scheduler", Scheduler)
def test_few_steps_work(scheduler, steps, spacing):
    built = schedulers.build(scheduler, CONFIG | {"timestep_spacing": spacing}, steps)
    assert torch.isfinite(_toy_result(built, steps, lambda value, _timestep: 0.5 * value)).all()


@pytest.mark.parametrize("scheduler", Scheduler)
def test_as_many_steps_as_the_model_has_levels_work(scheduler):
    config = CONFIG | {"num_train_timesteps": 30}
    for steps in (29, 30):
        built = schedulers.build(scheduler, config, steps)
        assert torch.isfinite(_toy_result(built, steps, lambda value, _timestep: 0.5 * value)).all()
    with pytest.raises(InvalidRequestError, match=r"Steps 31 is more than .* Use 30 or less"):
        schedulers.build(scheduler, config, 31)


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("scheduler", Scheduler)
def test_a_real_pipeline_runs_with_few_steps(starter, scheduler, steps):
    (image,) = starter.images(scheduler=scheduler, steps=steps, width_px=32, height_px=32)
    assert image.std() > 0


@pytest.mark.parametrize("scheduler", Scheduler)
def test_a_real_pipeline_repeats_itself(starter, scheduler):
    """With another size and number of steps in between, as in P131.

    Four steps: the methods that look back do so over three steps at most.
    """
    first, _, again = (
        starter.images(scheduler=scheduler, steps=steps, width_px=width, height_px=32)[0]
        for steps, width in ((4, 32), (3, 48), (4, 32))
    )
    assert np.array_equal(first, again)
    assert first.std() > 0


def test_the_schedulers_differ(starter):
    """Karras spacing included: each choice is what it says."""
    images = {
        scheduler: starter.images(scheduler=scheduler, steps=5, width_px=32, height_px=32)[
            0
        ].tobytes()
        for scheduler in Scheduler
    }
    assert len(set(images.values())) >= len(images) - 2


@pytest.mark.parametrize("scheduler", Scheduler)
def test_the_name_decides_about_karras(scheduler):
    config = CONFIG | {"use_karras_sigmas": True, "use_beta_sigmas": True}
    for class_name in ("PNDMScheduler", "DPMSolverMultistepScheduler"):
        built = schedulers.build(scheduler, config | {"_class_name": class_name}, 10)
        assert built.config.get("use_karras_sigmas", False) == scheduler.name.endswith("KARRAS")
        assert not built.config.get("use_beta_sigmas", False)


def test_what_the_model_was_trained_with_is_kept():
    config = CONFIG | {
        "prediction_type": "v_prediction",
        "timestep_spacing": "trailing",
        "beta_schedule": "linear",
        "rescale_betas_zero_snr": True,
    }
    for scheduler in Scheduler:
        built = schedulers.build(scheduler, config, 10).config
        assert built.prediction_type == "v_prediction"
        assert built.get("timestep_spacing", "trailing") == "trailing"
        assert built.beta_schedule == "linear"
        assert not built.get("clip_sample", False)
        assert not built.get("thresholding", False)


def test_what_only_another_method_knows_is_left_out():
    """A stochastic solver's setting must not reach one that refuses it."""
    config = CONFIG | {
        "_class_name": "DPMSolverMultistepScheduler",
        "algorithm_type": "sde-dpmsolver++",
        "solver_order": 3,
    }
    assert schedulers.build(Scheduler.DEIS_MULTISTEP, config, 5).config.algorithm_type == "deis"
    own = schedulers.build(Scheduler.DPM_SOLVER_MULTISTEP, config, 5).config
    assert own.algorithm_type == "sde-dpmsolver++"


@pytest.mark.parametrize("scheduler", Scheduler)
def test_a_model_that_predicts_the_image_works_or_is_refused(scheduler):
    config = CONFIG | {"prediction_type": "sample"}
    answer = torch.tensor([[[[3.0, -2.0], [0.5, 0.0]]]])
    try:
        built = schedulers.build(scheduler, config, 10)
    except ModelError as error:
        assert "predicts the image itself. Choose another scheduler" in str(error)
        return
    result = _toy_result(built, 10, lambda _value, _timestep: answer)
    assert float((result - answer).abs().max()) < 0.15


def test_linear_multistep_needs_no_scipy(monkeypatch):
    from diffusers.schedulers import scheduling_lms_discrete

    config = CONFIG | {"timestep_spacing": "linspace"}
    built = schedulers.build(Scheduler.LMS_DISCRETE, config, 10)
    built.set_timesteps(10)
    theirs = scheduling_lms_discrete.LMSDiscreteScheduler.from_config(built.config)
    theirs.set_timesteps(10)
    expected = {}
    if hasattr(scheduling_lms_discrete, "integrate"):
        for step in (3, 5, 9):
            for order in range(4):
                expected[step, order] = theirs.get_lms_coefficient(4, step, order)
    monkeypatch.delattr(scheduling_lms_discrete, "integrate", raising=False)
    for (step, order), coefficient in expected.items():
        own = built.get_lms_coefficient(4, step, order)
        assert own == pytest.approx(float(coefficient), rel=1e-4, abs=1e-6)
    sums = sum(built.get_lms_coefficient(4, 5, order) for order in range(4))
    assert sums == pytest.approx(float(built.sigmas[6] - built.sigmas[5]), rel=1e-5)


class NoFloat64(TorchDispatchMode):
    """Fails when arithmetic, rather than a conversion, involves float64."""

    CONVERSIONS = ("_to_copy", "detach", "alias", "clone", "lift_fresh", "_local_scalar_dense")

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        name = function.overloadpacket._qualified_op_name.partition("::")[2]
        if name not in self.CONVERSIONS:
            for leaf in tree_leaves((args, kwargs, result)):
                if isinstance(leaf, torch.Tensor) and leaf.ndim > 1:
                    assert leaf.dtype != torch.float64, name
        return result


@pytest.mark.parametrize("scheduler", Scheduler)
def test_no_image_sized_tensor_is_float64(starter, scheduler):
    """Apple GPUs reject them. P042."""
    with NoFloat64():
        starter.images(scheduler=scheduler, steps=3, width_px=32, height_px=32)
    built = schedulers.build(scheduler, starter.model.scheduler_config, 5)
    built.set_timesteps(5, device="cpu")
    assert built.timesteps.dtype != torch.float64
