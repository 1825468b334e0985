# SPDX-License-Identifier: GPL-3.0-or-later
"""Tiny real pipelines on disk, and a context that records."""

import importlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

os.environ["OMP_NUM_THREADS"] = "1"
for _package in ("torch", "diffusers", "transformers"):
    if importlib.util.find_spec(_package) is None:
        if "generator" in os.environ.get("TESSERA_REQUIRE", ""):
            raise RuntimeError(f"the generator suite needs {_package}")
        pytest.skip(f"needs {_package}", allow_module_level=True)

importlib.import_module("tessera.generator_process.worker").make_worker()  # nothing is fetched

import torch  # noqa: E402
from fakes import simulated_device, tiny_models  # noqa: E402
from tessera.generator_process import devices  # noqa: E402
from tessera.generator_process.errors import CancelledError  # noqa: E402
from tessera.generator_process.messages import (  # noqa: E402
    Finished,
    ImageFinished,
    ModelRef,
    ModelSource,
    PreviewMode,
    Progress,
    SamplingSettings,
    TextToImage,
)
from tessera.generator_process.pipelines import Models  # noqa: E402
from tessera.generator_process.sampling import Resources  # noqa: E402
from tessera.generator_process.tasks import text_to_image  # noqa: E402

torch.set_num_threads(1)

_IGNORED = (
    # diffusers computes with NumPy on tensors, which NumPy 2 finds outdated
    "ignore:__array__ implementation doesn't accept a copy:DeprecationWarning:diffusers.schedulers",
    "ignore:__array_wrap__ must accept:DeprecationWarning:numpy",
    "ignore:__array_wrap__ must accept:DeprecationWarning:diffusers.schedulers",
)


def pytest_collection_modifyitems(items):
    """Warnings are errors, but for those that are third parties' own affair."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for ignored in _IGNORED:
                item.add_marker(pytest.mark.filterwarnings(ignored))


class RecordingContext:
    """A task's context that keeps what is emitted, and can cancel after some events."""

    def __init__(self, job_id: str = "job") -> None:
        self.job_id = job_id
        self.events: list[Progress | ImageFinished] = []
        self.cancel_when: Callable[[Progress | ImageFinished], bool] = lambda _event: False
        self._cancelled = False

    def emit(self, event: Progress | ImageFinished) -> None:
        assert not self._cancelled or isinstance(event, Progress)
        self.events.append(event)
        self._cancelled = self._cancelled or self.cancel_when(event)

    def raise_if_cancelled(self) -> None:
        if self._cancelled:
            raise CancelledError("cancelled by the test")

    @property
    def images(self):
        return [event.image.pixels for event in self.events if isinstance(event, ImageFinished)]

    @property
    def progress(self) -> list[Progress]:
        return [event for event in self.events if isinstance(event, Progress)]


class Runner:
    """Runs text to image on one tiny model."""

    def __init__(self, folder: Path, resources: Resources) -> None:
        self.folder = folder
        self.ref = ModelRef(source=ModelSource.FOLDER, location=str(folder))
        self.resources = resources
        self.finished: Finished | None = None

    def request(self, optimizations=None, **sampling) -> TextToImage:
        settings = {
            "prompt": "red brick wall",
            "width_px": 64,
            "height_px": 64,
            "steps": 2,
            "preview": PreviewMode.NONE,
        } | sampling
        more = {"optimizations": optimizations} if optimizations is not None else {}
        return TextToImage(
            job_id="job", sampling=SamplingSettings(**settings), model=self.ref, **more
        )

    def run(self, context: RecordingContext | None = None, **settings) -> RecordingContext:
        context = context or RecordingContext()
        request = self.request(**settings)
        self.finished = text_to_image.run(request, context, self.resources)
        return context

    def images(self, **settings):
        return self.run(**settings).images

    @property
    def model(self):
        return self.resources.models.load(self.ref, torch.float32)


def cpu_resources() -> Resources:
    device = devices.Device(kind="cpu", torch_device=torch.device("cpu"), name="CPU")
    return Resources(device=device, models=Models(device))


_MAKERS = {
    "sd": tiny_models.sd_pipeline,
    "starter": tiny_models.starter_like_pipeline,
    "sdxl": tiny_models.sdxl_pipeline,
}


@pytest.fixture(scope="session")
def model_folders(tmp_path_factory) -> dict[str, Path]:
    """The folder of each tiny model, by kind. Tests must not change them."""
    folders = {}
    for kind, make in _MAKERS.items():
        folders[kind] = tmp_path_factory.mktemp("models") / f"tiny {kind}"
        make(tmp_path_factory.mktemp("tokenizers")).save_pretrained(folders[kind])
    return folders


@pytest.fixture(scope="session")
def runners(model_folders) -> dict[str, Runner]:
    return {kind: Runner(folder, cpu_resources()) for kind, folder in model_folders.items()}


@pytest.fixture(params=sorted(_MAKERS))
def runner(request, runners) -> Runner:
    """Each of the three shapes of model."""
    return runners[request.param]


@pytest.fixture
def starter(runners) -> Runner:
    return runners["starter"]


@pytest.fixture
def sd(runners) -> Runner:
    return runners["sd"]


@pytest.fixture
def sdxl(runners) -> Runner:
    return runners["sdxl"]


@pytest.fixture
def dml():
    """The simulated device, `torch.device("dml", 0)`, with its counters reset."""
    reason = simulated_device.why_not()
    if reason:
        if "generator" in os.environ.get("TESSERA_REQUIRE", ""):
            pytest.fail(reason)
        pytest.skip(reason)
    with simulated_device.present() as device:
        simulated_device.reset_peak()
        yield device
