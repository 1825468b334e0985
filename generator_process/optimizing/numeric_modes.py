# SPDX-License-Identifier: GPL-3.0-or-later
"""How CUDA multiplies and convolves: TF32 and the search for algorithms. Side: generator.

These are settings of the whole process. PyTorch has two interfaces to TF32 and refuses to have both
used, so only the newer one is touched where it exists.
"""

from contextlib import ExitStack

import torch

from ...optimizations import Optimizations
from .target import Target

OPTIONS = ("tf32", "cudnn_benchmark")


def apply(_target: Target, options: Optimizations, undo: ExitStack) -> list[str]:
    """Set the modes that are wanted. Off, matrices are multiplied in full precision."""
    if options.tf32:
        _set_tf32(undo)
    if options.cudnn_benchmark:
        undo.callback(setattr, torch.backends.cudnn, "benchmark", torch.backends.cudnn.benchmark)
        torch.backends.cudnn.benchmark = True
    return []


def _set_tf32(undo: ExitStack) -> None:
    matmul = torch.backends.cuda.matmul
    name, value = (
        ("fp32_precision", "tf32")
        if hasattr(matmul, "fp32_precision")
        else (
            "allow_tf32",
            True,
        )
    )
    undo.callback(setattr, matmul, name, getattr(matmul, name))
    setattr(matmul, name, value)
