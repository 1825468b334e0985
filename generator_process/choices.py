# SPDX-License-Identifier: GPL-3.0-or-later
"""The choices and limits of a request. Side: both.

Apart from `messages.py`, so that enabling the add-on, which declares its properties with them, need
not make all the messages' classes.
"""

from enum import Enum

MIN_SIZE_PX = 8
MAX_SIZE_PX = 8192
MAX_STEPS = 1000
MAX_GUIDANCE = 100.0
MAX_IMAGES = 1000

STARTER = "Starter"
"""What the user types, and reads, for the model that comes with Tessera."""


class ModelSource(Enum):
    """Where a model comes from."""

    STARTER = "STARTER"
    FOLDER = "FOLDER"
    HUB = "HUB"


class Scheduler(Enum):
    """The sampling methods that are offered, by the names of their diffusers classes."""

    DDIM = "DDIM"
    DDPM = "DDPM"
    DEIS_MULTISTEP = "DEIS Multistep"
    DPM_SOLVER_MULTISTEP = "DPM Solver Multistep"
    DPM_SOLVER_MULTISTEP_KARRAS = "DPM Solver Multistep Karras"
    DPM_SOLVER_SINGLESTEP = "DPM Solver Singlestep"
    DPM_SOLVER_SINGLESTEP_KARRAS = "DPM Solver Singlestep Karras"
    EULER_DISCRETE = "Euler Discrete"
    EULER_DISCRETE_KARRAS = "Euler Discrete Karras"
    EULER_ANCESTRAL_DISCRETE = "Euler Ancestral Discrete"
    HEUN_DISCRETE = "Heun Discrete"
    HEUN_DISCRETE_KARRAS = "Heun Discrete Karras"
    KDPM2_DISCRETE = "KDPM2 Discrete"
    KDPM2_ANCESTRAL_DISCRETE = "KDPM2 Ancestral Discrete"
    LMS_DISCRETE = "LMS Discrete"
    LMS_DISCRETE_KARRAS = "LMS Discrete Karras"
    PNDM = "PNDM"
    UNIPC_MULTISTEP = "UniPC Multistep"


class SeamlessAxes(Enum):
    """Along which axes the image continues on its opposite edge."""

    OFF = "OFF"
    X = "X"
    Y = "Y"
    BOTH = "BOTH"


class PreviewMode(Enum):
    """What is shown while an image is being made."""

    NONE = "NONE"
    FAST = "FAST"
    ACCURATE = "ACCURATE"
