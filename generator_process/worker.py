# SPDX-License-Identifier: GPL-3.0-or-later
"""The side of the generator that knows torch. Side: generator.

`Ready` waits for torch alone. diffusers and transformers, which take longer to import, follow in
the background while Blender's first request is still to come.
"""

import gc
import importlib
import logging
import os
import threading
from typing import TYPE_CHECKING

from .context import TaskContext
from .errors import ErrorKind, GeneratorError
from .messages import Finished, Ready, Request

if TYPE_CHECKING:
    from .sampling import Resources

_log = logging.getLogger(__name__)

# Read by the libraries when they are imported. Nothing is fetched and nothing is reported.
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TQDM_DISABLE": "1",
    "PYTORCH_ENABLE_MPS_FALLBACK": "1",
}

_PATIENCE_S = 0.1

_HEAVY_NAMES = (
    ("diffusers", "StableDiffusionPipeline"),
    ("diffusers", "DPMSolverMultistepScheduler"),
    ("transformers", "CLIPTextModel"),
    ("transformers", "CLIPTokenizer"),
)


class TorchWorker:
    """Runs tasks with torch and diffusers. One at a time, on the thread that asks."""

    def __init__(self) -> None:
        self._resources: Resources | None = None
        self._last_request: Request | None = None
        self._memory_ran_out = False
        self._imports = threading.Thread(target=_import_heavy, name="tessera imports", daemon=True)

    def ready(self) -> Ready:
        """Find the device and say what is here. Imports torch."""
        from . import devices, environments
        from .pipelines import Models
        from .sampling import Resources

        device = environments.probed(devices.detect())
        self._resources = Resources(device=device, models=Models(device))
        self._imports.start()
        return Ready(
            device=device.kind,
            device_name=device.description,
            versions=devices.installed_versions(),
            environment=device.environment,
        )

    def run(self, request: Request, context: TaskContext) -> Finished:
        """Do one job.

        Raises:
            TesseraError: As the task says.
            Exception: Anything that a library raises; `explain` knows the usual ones.
        """
        resources = self._ready_resources()
        self._last_request = request
        while self._imports.is_alive():  # two threads importing diffusers get half of it
            context.raise_if_cancelled()
            self._imports.join(_PATIENCE_S)
        from .explanations import is_out_of_memory
        from .tasks import TASKS

        if self._memory_ran_out:  # what the failed job held is free only now
            gc.collect()
            resources.models.release()
            self._memory_ran_out = False
        try:
            return TASKS[type(request)](request, context, resources)
        except (RuntimeError, MemoryError) as error:
            self._memory_ran_out = is_out_of_memory(error)
            raise

    def explain(self, error: BaseException) -> tuple[ErrorKind, str] | None:
        """Return the kind of a foreign error and what to do about it, or None if unknown."""
        from .explanations import explain

        kind = self._resources.device.kind if self._resources is not None else "cpu"
        return explain(error, device_kind=kind, size=_size_of(self._last_request))

    def _ready_resources(self) -> "Resources":
        if self._resources is None:
            raise GeneratorError("The generator was asked before it was ready.")
        return self._resources


def make_worker() -> TorchWorker:
    """Return the worker of this process. Has to be called before anything imports torch."""
    os.environ.update(_ENVIRONMENT)
    return TorchWorker()


def _size_of(request: Request | None) -> str:
    if request is None:
        return "this request"
    sampling = request.sampling
    size = f"{sampling.width_px} x {sampling.height_px}"
    at_once = min(request.optimizations.batch_size, len(sampling.seeds))
    return f"{size}, {at_once} at a time," if at_once > 1 else size


def _import_heavy() -> None:
    try:
        for module, name in _HEAVY_NAMES:
            getattr(importlib.import_module(module), name)
    except (ImportError, OSError, RuntimeError):  # diffusers wraps import errors in RuntimeError
        _log.warning("a package could not be imported ahead", exc_info=True)
