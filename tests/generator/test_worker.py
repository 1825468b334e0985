# SPDX-License-Identifier: GPL-3.0-or-later
"""The worker: ready, running, and what foreign errors mean."""

import errno
import os

import pytest
import torch
from generator.conftest import RecordingContext
from tessera.generator_process.errors import ErrorKind
from tessera.generator_process.explanations import explain, is_out_of_memory
from tessera.generator_process.worker import make_worker

CUBLAS = "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
DIRECTML = (
    "Could not allocate tensor with 1073741824 bytes."
    " There is not enough GPU video memory available!"
)
CPU = "[enforce fail at alloc_cpu.cpp:125] DefaultCPUAllocator: can't allocate memory"


@pytest.fixture(scope="module")
def worker():
    worker = make_worker()
    ready = worker.ready()
    assert ready.device in ("cuda", "mps", "xpu", "dml", "cpu")
    assert dict(ready.versions)["torch"] == torch.__version__
    worker._imports.join()
    return worker


def test_runs_a_job(worker, starter):
    context = RecordingContext()
    finished = worker.run(starter.request(), context)
    assert finished.job_id == "job"
    assert len(context.images) == 1


def test_nothing_is_fetched(worker):
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    import huggingface_hub.constants as constants

    assert constants.HF_HUB_OFFLINE


OUT_OF_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    RuntimeError(CUBLAS),
    RuntimeError(DIRECTML),
    RuntimeError(CPU),
    RuntimeError("MPS backend out of memory (MPS allocated: 5 GB)"),
    MemoryError(),
]


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=lambda error: str(error)[:30])
def test_any_form_of_out_of_memory_says_what_to_do_and_the_next_job_works(worker, starter, error):
    """Bug report P049."""
    worker.run(starter.request(), RecordingContext())
    model = worker._resources.models._loaded

    def fail(_module, _inputs):
        raise error

    hook = model.pipeline.unet.register_forward_pre_hook(fail)
    try:
        with pytest.raises(type(error)) as raised:
            worker.run(starter.request(width_px=128), RecordingContext())
    finally:
        hook.remove()
    kind, message = worker.explain(raised.value)
    assert kind is ErrorKind.OUT_OF_MEMORY
    assert "128 x 64" in message
    assert "Lower the size" in message
    del model
    context = RecordingContext()
    worker.run(starter.request(), context)
    assert len(context.images) == 1


def _unpickling_error():
    import pickle

    return pickle.UnpicklingError("Weights only load failed")


def _safetensors_error():
    from safetensors import SafetensorError

    return SafetensorError("Error while deserializing header: incomplete metadata")


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (
            RuntimeError("CUDA error: no kernel image is available for execution on the device"),
            ErrorKind.GENERATOR,
            "was not built for this GPU. Install the runtime environment again",
        ),
        (
            RuntimeError("CUDA error: an illegal memory access was encountered\nmore"),
            ErrorKind.GENERATOR,
            "illegal memory access was encountered. Release the memory",
        ),
        (
            ModuleNotFoundError("No module named 'accelerate'", name="accelerate"),
            ErrorKind.NOT_INSTALLED,
            'lacks "accelerate"',
        ),
        (ImportError("DLL load failed"), ErrorKind.NOT_INSTALLED, "DLL load failed"),
        (OSError(errno.ENOSPC, "full", "/tmp/x"), ErrorKind.GENERATOR, "is full. Free some space"),
        (PermissionError(errno.EACCES, "no", "/m/unet"), ErrorKind.GENERATOR, '"/m/unet" may not'),
        (_safetensors_error(), ErrorKind.MODEL, "Download the model again"),
        (_unpickling_error(), ErrorKind.MODEL, "Download the model again"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_known_errors_are_explained(error, kind, words):
    explanation = explain(error, device_kind="cuda", size="64 x 64")
    assert explanation is not None
    assert explanation[0] is kind
    assert words in explanation[1]
    assert explanation[1].endswith(".")


@pytest.mark.parametrize("error", [ValueError("out of memory"), KeyError("x"), OSError("other")])
def test_unknown_errors_are_left_to_the_server(error):
    assert explain(error, device_kind="cpu", size="64 x 64") is None
    assert not is_out_of_memory(error)
