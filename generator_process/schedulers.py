# SPDX-License-Identifier: GPL-3.0-or-later
"""The schedulers that are offered, built fresh for each job. Side: generator."""

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .errors import InvalidRequestError, ModelError
from .messages import Scheduler

if TYPE_CHECKING:
    from diffusers import SchedulerMixin

_KARRAS = " Karras"

_CLASSES: dict[str, str] = {
    "DDIM": "DDIMScheduler",
    "DDPM": "DDPMScheduler",
    "DEIS Multistep": "DEISMultistepScheduler",
    "DPM Solver Multistep": "DPMSolverMultistepScheduler",
    "DPM Solver Singlestep": "DPMSolverSinglestepScheduler",
    "Euler Discrete": "EulerDiscreteScheduler",
    "Euler Ancestral Discrete": "EulerAncestralDiscreteScheduler",
    "Heun Discrete": "HeunDiscreteScheduler",
    "KDPM2 Discrete": "KDPM2DiscreteScheduler",
    "KDPM2 Ancestral Discrete": "KDPM2AncestralDiscreteScheduler",
    "LMS Discrete": "LMSDiscreteScheduler",
    "PNDM": "PNDMScheduler",
    "UniPC Multistep": "UniPCMultistepScheduler",
}

# What describes the model rather than the sampling method, and so goes from one class to another.
_OF_THE_MODEL = frozenset(
    {
        "num_train_timesteps",
        "beta_start",
        "beta_end",
        "beta_schedule",
        "trained_betas",
        "prediction_type",
        "timestep_spacing",
        "steps_offset",
        "rescale_betas_zero_snr",
        "set_alpha_to_one",
    }
)

# Clipping and thresholding are for models of pixels: latents are not limited to -1..1, and some
# classes clip by default. The sigma options exclude each other; the name decides.
_ALWAYS: dict[str, Any] = {
    "clip_sample": False,
    "thresholding": False,
    "use_karras_sigmas": False,
    "use_exponential_sigmas": False,
    "use_beta_sigmas": False,
    "use_flow_sigmas": False,
    "use_lu_lambdas": False,
}

# These fail in their first step with a model that predicts the image instead of the noise.
_NEED_NOISE_PREDICTION = frozenset(
    {
        "EulerAncestralDiscreteScheduler",
        "KDPM2AncestralDiscreteScheduler",
        "KDPM2DiscreteScheduler",
        "PNDMScheduler",
    }
)

_BY_CLASS: dict[str, dict[str, Any]] = {
    "PNDMScheduler": {"skip_prk_steps": True},  # the other way needs more steps than are asked for
    "DPMSolverSinglestepScheduler": {"lower_order_final": True},  # or it fails at odd steps
}


def build(scheduler: Scheduler, model_config: Mapping[str, Any], steps: int) -> "SchedulerMixin":
    """Return a new scheduler for one batch of a job.

    Args:
        scheduler: The user's choice.
        model_config: The scheduler configuration that came with the model, unchanged.
        steps: How many steps will be asked for.

    Returns:
        A diffusers scheduler that keeps the model's noise schedule, prediction type and spacing.
        Only the spacing becomes "trailing" where another one fails: "leading" with more steps than
        half the noise levels would leave the noisiest ones out, and with as many steps as levels
        some classes run off the end or take a level twice.

    Raises:
        InvalidRequestError: The model was trained with fewer noise levels than steps.
        ModelError: This method cannot run what this model predicts.
    """
    import diffusers

    trained = int(model_config.get("num_train_timesteps", 1000))
    if steps > trained:
        raise InvalidRequestError(
            f"Steps {steps} is more than this model has noise levels. Use {trained} or less."
        )
    class_name = _CLASSES[scheduler.value.removesuffix(_KARRAS)]
    if model_config.get("prediction_type") == "sample" and class_name in _NEED_NOISE_PREDICTION:
        raise ModelError(
            f"{scheduler.value} cannot run this model, which predicts the image itself."
            " Choose another scheduler."
        )
    scheduler_class: Any = getattr(diffusers, class_name)
    if class_name == "LMSDiscreteScheduler":
        from .linear_multistep import LinearMultistepScheduler

        scheduler_class = LinearMultistepScheduler
    config = {
        name: value
        for name, value in model_config.items()
        if name in _OF_THE_MODEL or model_config.get("_class_name") == class_name
    }
    config |= _ALWAYS | _BY_CLASS.get(class_name, {})
    if scheduler.value.endswith(_KARRAS):
        config["use_karras_sigmas"] = True
    parameters = inspect.signature(scheduler_class.__init__).parameters
    if "timestep_spacing" in parameters:
        default = parameters["timestep_spacing"].default
        spacing = config.get("timestep_spacing", default)
        if (spacing == "leading" and 2 * steps > trained) or steps == trained:
            config["timestep_spacing"] = "trailing"
    config = {name: value for name, value in config.items() if name in parameters}
    try:
        return scheduler_class.from_config(config)
    except (NotImplementedError, ValueError) as error:
        raise ModelError(
            f"{scheduler.value} cannot run this model: {error}. Choose another scheduler."
        ) from error
