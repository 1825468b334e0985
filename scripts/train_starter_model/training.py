# SPDX-License-Identifier: GPL-3.0-or-later
"""What both trainers share: workers, circular padding, averaged weights, resumable state."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.distributed as dist
from diffusers.models.downsampling import Downsample2D
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Workers:
    """The position of this process among the processes that train together."""

    rank: int
    count: int

    @property
    def leads(self) -> bool:
        """Whether this process logs and saves."""
        return self.rank == 0

    def average(self, parameters: Sequence[nn.Parameter]) -> None:
        """Replace the gradients by their mean over all workers."""
        if self.count == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        dist.all_reduce(flat)
        flat /= self.count
        start = 0
        for gradient in gradients:
            gradient.copy_(flat[start : start + gradient.numel()].view_as(gradient))
            start += gradient.numel()

    def agree(self, value: float) -> float:
        """Return the value that the leading worker has."""
        if self.count == 1:
            return value
        shared = torch.tensor([value], dtype=torch.float64)
        dist.broadcast(shared, 0)
        return float(shared)


def join_workers() -> Workers:
    """Join the group described by RANK and WORLD_SIZE, or work alone without them."""
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        return Workers(0, 1)
    dist.init_process_group("gloo")
    return Workers(dist.get_rank(), count)


def wrap(pixels: Tensor, before: int = 1, after: int = 1) -> Tensor:
    """Pad all four sides with what lies at the opposite side; keeps the memory layout."""
    for axis in (3, 2):
        size = pixels.shape[axis]
        parts = [pixels.narrow(axis, size - before, before), pixels] if before else [pixels]
        pixels = torch.cat([*parts, pixels.narrow(axis, 0, after)], axis)
    return pixels


class CircularConv2d(nn.Conv2d):
    """A convolution that wraps around the edges or pads with zeros, as ``circular`` says.

    It does what ``padding_mode="circular"`` does, about twice as fast in channels-last layout.
    """

    circular = False

    def _conv_forward(self, pixels: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if not self.circular or self.padding == (0, 0):
            return super()._conv_forward(pixels, weight, bias)
        return functional.conv2d(wrap(pixels), weight, bias, self.stride)


class _CircularDownsample(Downsample2D):
    """The VAE's halving, which pads one pixel at the right and below."""

    circular = False

    def forward(self, hidden_states: Tensor) -> Tensor:
        if not self.circular:
            return super().forward(hidden_states)
        result: Tensor = self.conv(wrap(hidden_states, 0, 1))
        return result


def set_circular(model: nn.Module, *, circular: bool) -> None:
    """Make every convolution wrap around the edges, or pad with zeros again."""
    for module in model.modules():
        if type(module) is nn.Conv2d and module.kernel_size == (3, 3):
            module.__class__ = CircularConv2d
        if type(module) is Downsample2D and module.padding == 0:
            module.__class__ = _CircularDownsample
        if isinstance(module, CircularConv2d | _CircularDownsample):
            module.circular = circular


def plain_classes(model: nn.Module) -> None:
    """Give the convolutions their ordinary classes back, as ``from_pretrained`` makes them."""
    for module in model.modules():
        if type(module) is CircularConv2d:
            module.__class__ = nn.Conv2d
        elif type(module) is _CircularDownsample:
            module.__class__ = Downsample2D


class Averaged:
    """A moving average of parameters, warmed up over the first steps."""

    def __init__(self, parameters: Iterable[nn.Parameter], decay: float) -> None:
        self.parameters = list(parameters)
        self.values = [p.detach().clone() for p in self.parameters]
        self.decay = decay

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Move the averages towards the current parameters."""
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self.values, [p.detach() for p in self.parameters], 1 - decay)

    @torch.no_grad()
    def swap(self) -> None:
        """Exchange the averages and the parameters."""
        for value, parameter in zip(self.values, self.parameters, strict=True):
            kept = parameter.detach().clone()
            parameter.copy_(value)
            value.copy_(kept)


@dataclass
class Clock:
    """How much of the training budget is used up, over all runs."""

    budget: float
    """Seconds of training in total."""
    spent: float = 0.0
    step: int = 0
    seen: int = 0
    last: float = field(default_factory=time.monotonic)

    def tick(self, samples: int) -> None:
        """Count one step and the time since the last."""
        now = time.monotonic()
        self.spent += now - self.last
        self.last = now
        self.step += 1
        self.seen += samples

    def rate(self, peak: float, warm: int = 100, hold: float = 0.5, floor: float = 0.02) -> float:
        """Learning rate: linear warm-up, constant, then half a cosine down to the floor."""
        progress = min(1.0, self.spent / self.budget)
        fall = max(0.0, (progress - hold) / (1 - hold))
        shape = floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * fall))
        return peak * min(1.0, (self.step + 1) / warm) * shape


@dataclass
class Run:
    """A model in training, with everything that a checkpoint has to keep."""

    path: Path
    model: nn.Module
    optimiser: torch.optim.Optimizer
    averaged: Averaged
    clock: Clock
    workers: Workers
    saved: float = 0.0

    def resume(self) -> None:
        """Continue from the checkpoint, when there is one; with any number of workers."""
        if self.path.exists():
            state = torch.load(self.path, weights_only=True)
            self.model.load_state_dict(state["model"])
            self.optimiser.load_state_dict(state["optimiser"])
            self.averaged.values = state["averaged"]
            self.clock.spent, self.clock.step = state["spent"], state["step"]
            self.clock.seen = state["seen"]
            self.saved = self.clock.spent

    def goes_on(self) -> bool:
        """Say whether the budget is not spent yet; all workers get the same answer."""
        return self.workers.agree(self.clock.spent) < self.clock.budget

    def learn(self, loss: Tensor, samples: int, peak: float) -> None:
        """Take one step down the gradient of the loss."""
        parameters = self.averaged.parameters
        self.optimiser.zero_grad()
        loss.backward()
        self.workers.average(parameters)
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        for group in self.optimiser.param_groups:
            group["lr"] = group.get("factor", 1.0) * self.clock.rate(peak)
        self.optimiser.step()
        self.clock.tick(samples * self.workers.count)
        self.averaged.update(self.clock.step)

    def report(self, text: str) -> None:
        """Print a line with the time, the steps and the speed."""
        clock = self.clock
        speed = clock.seen / clock.spent
        print(f"{clock.spent:.0f} s step {clock.step} {text} {speed:.1f}/s", flush=True)

    def must_save(self, interval: float) -> bool:
        """Say whether this worker has to write a checkpoint now."""
        waited = self.clock.spent - self.saved > interval
        return self.workers.leads and (waited or self.clock.spent >= self.clock.budget)

    def save(self) -> None:
        """Write a checkpoint so that an interruption leaves the old one intact."""
        self.saved = self.clock.spent
        state = {"model": self.model.state_dict(), "optimiser": self.optimiser.state_dict()}
        state |= {"averaged": self.averaged.values, "spent": self.clock.spent}
        state |= {"step": self.clock.step, "seen": self.clock.seen}
        partial = self.path.with_suffix(".partial")
        torch.save(state, partial)
        partial.replace(self.path)


def load_averaged(path: Path, model: nn.Module) -> None:
    """Give the model the averaged weights of a checkpoint and make it ready for use."""
    state = torch.load(path, weights_only=True)
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), state["averaged"], strict=True):
            parameter.copy_(value)
    model.eval()
    for parameter in model.parameters():
        parameter.requires_grad = False
