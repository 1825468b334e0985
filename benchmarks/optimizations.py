# SPDX-License-Identifier: GPL-3.0-or-later
"""What each optimization is worth here: every usable option alone, and the automatic choice.

Run with: python3 dev.py bench optimizations [--models starter,sd15] [--size PX] [--steps N]
    [--rounds N] [--only NAME,...] [--skip NAME,...]

All sets of options take turns in one process, `--rounds` times. Whole jobs run, as in the
generator, each after one of a single step that is not counted, in which engines prepare. For
each set: seconds of a step for one image (guided, so two evaluations), seconds to decode,
peak memory, and the difference of the image from the one without any optimization, in shares of
its range. "sd15" and "sdxl" have random weights, which are made once and kept in dev.py's cache.

Peak memory is the device's on CUDA. On the CPU it is what the process has allocated, weights
included; file contents that the system can drop, such as OpenVINO's network on disk, do not count.

The last line: `auto_speedup` = step without any / step with the automatic set; `auto_peak_ratio` =
peak automatic / peak without any; `auto_error` = mean difference of the automatic set's image. They
are those of the last of the models; `models` has them for each, with every other set's speed-up.
"""

import argparse
import gc
import importlib.util
import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from pathlib import Path
from typing import Any

ENVIRONMENT = "generator"

ROOT = Path(__file__).resolve().parents[1]
NONE, AUTOMATIC = "none", "automatic"

# Numbers that do something on their own, and with how many images. The others shape another option.
NUMBERS = {"batch_size": (2, 2), "cfg_end": (0.5, 1)}

_MIB = 2**20


def _load_tessera() -> None:
    """Make the repository root the package `tessera`, as the generator process does."""
    spec = importlib.util.spec_from_file_location(
        "tessera", ROOT / "__init__.py", submodule_search_locations=[str(ROOT)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["tessera"] = module
    spec.loader.exec_module(module)
    sys.path.insert(0, str(ROOT))
    importlib.import_module("tessera.generator_process.worker").make_worker()


_load_tessera()

import numpy as np  # noqa: E402
import random_models  # noqa: E402
import torch  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from tessera.generator_process import devices, environments  # noqa: E402
from tessera.generator_process.errors import TesseraError  # noqa: E402
from tessera.generator_process.messages import (  # noqa: E402
    ImageFinished,
    ModelRef,
    ModelSource,
    PreviewMode,
    Progress,
    SamplingSettings,
    Scheduler,
    TextToImage,
)
from tessera.generator_process.optimizing.resolving import neutral_value  # noqa: E402
from tessera.generator_process.pipelines import Models  # noqa: E402
from tessera.generator_process.sampling import Resources  # noqa: E402
from tessera.generator_process.tasks import text_to_image  # noqa: E402
from tessera.optimizations import Optimizations  # noqa: E402

from scripts.devtools.cache import cache_folder  # noqa: E402


@dataclass
class Measured:
    """One set of options: what it is, and what its runs took."""

    name: str
    options: Optimizations
    images: int = 1
    step_s: list[float] = field(default_factory=list)
    decode_s: list[float] = field(default_factory=list)
    peaks: list[int] = field(default_factory=list)
    image: NDArray[Any] | None = None
    refused: str = ""
    applied: tuple[str, ...] = ()

    @property
    def step(self) -> float:
        """Seconds of a step for one image in the quickest run: other processes only add to it."""
        return min(self.step_s)

    @property
    def peak(self) -> int:
        """Largest peak, in bytes."""
        return max(self.peaks)


class Recorder:
    """A task's context that keeps the first image."""

    job_id = "bench"

    def __init__(self) -> None:
        self.image: NDArray[Any] | None = None

    def emit(self, event: Progress | ImageFinished) -> None:
        """Keep the image, if it is one."""
        if isinstance(event, ImageFinished) and self.image is None:
            self.image = event.image.pixels

    def raise_if_cancelled(self) -> None:
        """Never cancelled."""

    is_cancelled = False


def sets_for(device: devices.Device, options: argparse.Namespace) -> list[Measured]:
    """Return none, every usable option or choice alone, and the automatic set."""
    settings: dict[str, Any] = {
        declared.name: neutral_value(declared.name) for declared in fields(Optimizations)
    }
    none = Optimizations(**(settings | {"automatic": False}))
    found = [Measured(NONE, none)]
    for option in Optimizations.options_for(device.kind, device.environment):
        value = getattr(none, option)
        if option in (AUTOMATIC, "cpu_only"):
            continue
        if option in NUMBERS:
            number, images = NUMBERS[option]
            found.append(Measured(option, replace(none, **{option: number}), images))
        elif isinstance(value, bool):
            found.append(Measured(option, replace(none, **{option: not value})))
        elif isinstance(value, Enum):
            found += [
                Measured(name, replace(none, **{option: type(value)(name.partition(".")[2])}))
                for name in Optimizations.choices_of(option)
                if name != f"{option}.{value.value}"
                and Optimizations.can_use(name, device.kind, device.environment)
            ]
    found.append(Measured(AUTOMATIC, Optimizations()))
    kept = {NONE, AUTOMATIC}
    return [
        each
        for each in found
        if each.name in kept
        or ((not options.only or each.name in options.only) and each.name not in options.skip)
    ]


def measure(
    each: Measured, request: TextToImage, resources: Resources, *, counted: bool = True
) -> None:
    """Run one job with one set of options."""
    gc.collect()
    recorder = Recorder()
    sampling = replace(request.sampling, seeds=tuple(range(1, each.images + 1)))
    try:
        with _watching_memory(resources.device) as peak:
            finished = text_to_image.run(
                replace(request, sampling=sampling, optimizations=each.options),
                recorder,  # pyright: ignore[reportArgumentType]
                resources,
            )
    except TesseraError as error:
        each.refused = str(error)
        return
    lines = [line for line in finished.applied if each.name.partition(".")[0] in line]
    if each.name not in (NONE, AUTOMATIC) and not lines and finished.skipped:
        each.refused = finished.skipped[0]
    each.applied = finished.applied
    if counted:
        seconds = dict(finished.seconds)
        each.step_s.append(seconds["sample"] / (request.sampling.steps * each.images))
        each.decode_s.append(seconds["decode"] / each.images)
        each.peaks.append(peak[0])
        each.image = recorder.image


@contextmanager
def _watching_memory(device: devices.Device) -> Iterator[list[int]]:
    """Yield a list whose only value becomes the peak in bytes when the context ends."""
    peak = [0]
    if device.kind == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        yield peak
        peak[0] = torch.cuda.max_memory_allocated()
        return
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.005):
            peak[0] = max(peak[0], _allocated())

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()


def _allocated() -> int:
    """Return the process's anonymous memory in bytes, or all resident memory if not on Linux."""
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text(encoding="ascii").splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    import psutil

    return int(psutil.Process().memory_info().rss)


def run_model(name: str, device: devices.Device, options: argparse.Namespace) -> dict[str, Any]:
    """Measure all sets on one model, print the table, and return the ratios."""
    resources = Resources(device=device, models=Models(device))
    model = ModelRef()
    if name != "starter":
        folder = random_models.folder_of(name, cache_folder() / "benchmarks")
        model = ModelRef(source=ModelSource.FOLDER, location=str(folder))
    size = options.size or {"starter": 256, "sd15": 512, "sdxl": 1024}[name]
    sampling = SamplingSettings(
        prompt="red brick wall",
        width_px=size,
        height_px=size,
        steps=options.steps,
        scheduler=Scheduler.DDIM,
        preview=PreviewMode.NONE,
    )
    request = TextToImage(job_id="bench", sampling=sampling, model=model)
    one_step = replace(request, sampling=replace(sampling, steps=1))
    sets = sets_for(device, options)
    print(f"\n{name}, {size} px, {options.steps} steps, {options.rounds} rounds", flush=True)
    for each in sets:
        measure(each, one_step, resources, counted=False)
        if each.name == AUTOMATIC:
            print(f"automatic is: {', '.join(each.applied)}", flush=True)
    for _ in range(options.rounds):
        for each in sets:
            if not each.refused:
                measure(each, one_step, resources, counted=False)
                measure(each, request, resources)
    return _report(sets)


def _report(sets: list[Measured]) -> dict[str, Any]:
    none = sets[0]
    assert not none.refused, none.refused
    print(
        f"{'':<28}{'s/step':>9}{'faster':>8}{'decode s':>10}{'peak MiB':>10}{'mean':>9}{'max':>8}"
    )
    ratios: dict[str, Any] = {"speedup": {}}
    for each in sets:
        if each.refused:
            print(f"{each.name:<28} {each.refused}")
            continue
        assert each.image is not None
        assert none.image is not None
        difference = np.abs(each.image.astype(np.float64) - none.image) / 255
        faster = none.step / each.step
        print(
            f"{each.name:<28}{each.step:>9.3f}{faster:>8.2f}"
            f"{min(each.decode_s):>10.3f}{each.peak / _MIB:>10.0f}"
            f"{difference.mean():>9.5f}{difference.max():>8.4f}",
            flush=True,
        )
        ratios["speedup"][each.name] = round(faster, 3)
        if each.name == AUTOMATIC:
            ratios["auto_speedup"] = round(faster, 3)
            ratios["auto_peak_ratio"] = round(each.peak / none.peak, 3)
            ratios["auto_error"] = round(float(difference.mean()), 6)
    return ratios


def main() -> None:
    """Measure, and print the ratios as the last line."""
    device = environments.probed(devices.detect())
    options = _arguments(device)
    print(f"{device.name}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    print("bfloat16 instructions:", _has_bfloat16(device))
    models = {name: run_model(name, device, options) for name in options.models}
    last = models[options.models[-1]]
    top = {key: last.get(key) for key in ("auto_speedup", "auto_peak_ratio", "auto_error")}
    print(json.dumps(top | {"models": models}))


def _has_bfloat16(device: devices.Device) -> bool:
    return Optimizations.can_use("half_precision.bfloat16", device.kind, device.environment)


def _arguments(device: devices.Device) -> argparse.Namespace:
    def names(text: str) -> list[str]:
        return [name for name in text.split(",") if name]

    usual = ["starter", "sd15", "sdxl"] if device.kind == "cuda" else ["starter", "sd15"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=names, default=usual, help="starter, sd15, sdxl")
    parser.add_argument("--size", type=int, default=0, help="0: the size that each is made for")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", type=names, default=[], help="besides none and automatic")
    parser.add_argument("--skip", type=names, default=[])
    return parser.parse_args()


if __name__ == "__main__":
    os.environ.setdefault("TESSERA_CACHE", str(cache_folder() / "benchmarks" / "cache"))
    main()
