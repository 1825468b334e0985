# SPDX-License-Identifier: GPL-3.0-or-later
"""What errors of torch, diffusers and the system mean, and what to do. Side: generator."""

import errno
from collections.abc import Callable

import torch

from .errors import ErrorKind

_MEMORY_TEXTS = (
    "out of memory",
    "not enough gpu video memory",
    "could not allocate tensor",
    "cublas_status_alloc_failed",
    "cudnn_status_alloc_failed",
    "can't allocate memory",
    "not enough memory",
    "insufficient memory",
)
_NO_KERNEL_TEXTS = ("no kernel image is available", "not compiled for the gpu")
_LOST_GPU_TEXTS = ("cuda error", "hip error", "device removed", "device lost")

Explanation = tuple[ErrorKind, str]


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says, in any of its forms, that memory ran out. Bug report P049."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and _says(error, _MEMORY_TEXTS)


def explain(error: BaseException, *, device_kind: str, size: str) -> Explanation | None:
    """Return the kind and the sentence for the user, or None if the error is not known.

    Args:
        error: What a task raised.
        device_kind: Kind of the device that the task ran on.
        size: What the task was making, for example "1024 x 1024, 4 at a time".
    """
    if is_out_of_memory(error):
        return ErrorKind.OUT_OF_MEMORY, _out_of_memory(device_kind, size)
    for explainer in _EXPLAINERS:
        explanation = explainer(error)
        if explanation is not None:
            return explanation
    return None


def _out_of_memory(device_kind: str, size: str) -> str:
    where = "memory" if device_kind == "cpu" else "GPU memory"
    return (
        f"Not enough {where} for {size} with this model. Lower the size or the batch size,"
        " or close other programs, and try again."
    )


def _kernels(error: BaseException) -> Explanation | None:
    if not (isinstance(error, RuntimeError) and _says(error, _NO_KERNEL_TEXTS)):
        return None
    return ErrorKind.GENERATOR, (
        f"PyTorch {torch.__version__} was not built for this GPU. Install the runtime environment"
        " again in Preferences to get a newer PyTorch."
    )


def _lost_gpu(error: BaseException) -> Explanation | None:
    if not (isinstance(error, RuntimeError) and _says(error, _LOST_GPU_TEXTS)):
        return None
    return ErrorKind.GENERATOR, (
        f"The GPU reported an error: {first_line(error)}. Release the memory, which starts the"
        " generator afresh, and try again. If it stays, update the GPU's driver."
    )


def _missing_package(error: BaseException) -> Explanation | None:
    if not isinstance(error, ImportError):
        return None
    what = f'"{error.name}"' if error.name else f"a package ({first_line(error)})"
    return ErrorKind.NOT_INSTALLED, (
        f"The generator's Python lacks {what} or it cannot be loaded. Press Install Generator in"
        " Preferences, or choose another Python there or by TESSERA_PYTHON."
    )


def _system(error: BaseException) -> Explanation | None:
    if not isinstance(error, OSError):
        return None
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f' that holds "{error.filename}"' if error.filename else ""
        return ErrorKind.GENERATOR, f"The disk{where} is full. Free some space and try again."
    if isinstance(error, PermissionError) and error.filename:
        return ErrorKind.GENERATOR, (
            f'"{error.filename}" may not be read. Change its permissions and try again.'
        )
    return None


def _damaged_weights(error: BaseException) -> Explanation | None:
    if type(error).__name__ != "SafetensorError" and type(error).__name__ != "UnpicklingError":
        return None
    return ErrorKind.MODEL, (
        f"The model's weights could not be read ({first_line(error)}). The file is damaged or is"
        " not a file of weights. Download the model again."
    )


_EXPLAINERS: tuple[Callable[[BaseException], Explanation | None], ...] = (
    _kernels,
    _lost_gpu,
    _missing_package,
    _system,
    _damaged_weights,
)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text without a full stop, or the name of its class."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def _says(error: BaseException, texts: tuple[str, ...]) -> bool:
    said = str(error).lower()
    return any(text in said for text in texts)
