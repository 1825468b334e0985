# SPDX-License-Identifier: GPL-3.0-or-later
"""Seeds: noise, pictures, batches. Bug reports P039, P041, P042 and P125."""

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tessera.generator_process.messages import Scheduler
from tessera.generator_process.noise import generators_of, starting_noise
from tessera.generator_process.seeds import SEED_LIMIT
from tessera.optimizations import Optimizations

STOCHASTIC = (
    Scheduler.DDPM,
    Scheduler.EULER_ANCESTRAL_DISCRETE,
    Scheduler.KDPM2_ANCESTRAL_DISCRETE,
)


def test_noise_of_an_image_depends_on_its_seed_alone():
    together = starting_noise(generators_of([5, 6, 7]), (4, 8, 8))
    reversed_order = starting_noise(generators_of([7, 6, 5]), (4, 8, 8))
    alone = starting_noise(generators_of([6]), (4, 8, 8))
    assert together.dtype == torch.float32
    assert torch.equal(together[1], alone[0])
    assert torch.equal(together, reversed_order.flip(0))
    assert not torch.equal(together[0], together[1])


@pytest.mark.parametrize("seed", [0, 2**31, 2**32 - 1, 2**63, SEED_LIMIT - 1])
def test_every_seed_is_taken(seed):
    noise = starting_noise(generators_of([seed]), (4, 32, 32))
    assert abs(float(noise.mean())) < 0.1
    assert 0.9 < float(noise.std()) < 1.1


def test_noise_is_what_it_always_was():
    """A change here changes every picture that users have a seed for."""
    noise = starting_noise(generators_of([7]), (1, 4, 4))
    expected = torch.randn((1, 1, 4, 4), generator=torch.Generator().manual_seed(7))
    assert torch.equal(noise, expected)


@pytest.mark.parametrize("scheduler", [Scheduler.DPM_SOLVER_MULTISTEP, *STOCHASTIC])
def test_each_image_is_the_one_of_its_seed_alone(starter, scheduler):
    together = starter.images(seeds=(3, 4, 5), scheduler=scheduler)
    for seed, image in zip((3, 4, 5), together, strict=True):
        (alone,) = starter.images(seeds=(seed,), scheduler=scheduler)
        assert np.array_equal(image, alone)
    assert not np.array_equal(together[0], together[1])


@pytest.mark.parametrize("scheduler", [Scheduler.DPM_SOLVER_MULTISTEP, *STOCHASTIC])
def test_a_batch_gives_the_same_images(starter, scheduler):
    singles = starter.images(seeds=(3, 4, 5), scheduler=scheduler)
    batch = starter.images(
        seeds=(3, 4, 5), scheduler=scheduler, optimizations=Optimizations(batch_size=2)
    )
    for single, batched in zip(singles, batch, strict=True):
        assert np.abs(single.astype(int) - batched.astype(int)).max() <= 1


def test_steps_of_stochastic_schedulers_add_noise(starter):
    """Else the tests above would prove nothing about their noise."""
    still = starter.images(scheduler=Scheduler.EULER_DISCRETE, steps=4)
    noisy = starter.images(scheduler=Scheduler.EULER_ANCESTRAL_DISCRETE, steps=4)
    assert not np.array_equal(still[0], noisy[0])


@pytest.mark.slow
def test_a_new_process_makes_the_same_picture(starter):
    """Also after a reload of the model: nothing of this process is in that one."""
    script = f"""
import importlib.util, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import conftest
from generator.conftest import Runner, cpu_resources
(image,) = Runner(Path({str(starter.folder)!r}), cpu_resources()).images(seeds=(11,))
import hashlib
print(hashlib.sha256(image.tobytes()).hexdigest())
"""
    (image,) = starter.images(seeds=(11,))
    output = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True
    ).stdout
    assert output.strip() == hashlib.sha256(image.tobytes()).hexdigest()
