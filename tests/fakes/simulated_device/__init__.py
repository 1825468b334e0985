# SPDX-License-Identifier: GPL-3.0-or-later
"""A device "dml" that is simulated in host memory: it counts, limits, and runs out of memory.

It stands where torch-directml's device would: a backend of PyTorch's private-use kind without
streams, generators and `mem_get_info`. All operators really compute, on the CPU, so a model gives
the CPU's results and only the memory is simulated.

    from fakes import simulated_device

    with simulated_device.present() as device:          # torch.device("dml", 0)
        model.to(device)
        simulated_device.reset_peak()
        model(torch.ones(1, 3, 8, 8, device=device))
        simulated_device.peak()                         # most bytes at once since reset_peak()
        simulated_device.memory_allocated()             # bytes now
        with simulated_device.limited(free=2**20):      # allow 1 MiB more than is allocated now
            ...                                         # RuntimeError with DirectML's text
        with simulated_device.limited(free=2**20, wording="cuda"):
            ...                                         # torch.OutOfMemoryError with CUDA's text
        simulated_device.set_limit(2**30)               # or None: in total, until set again

Outside `present()` the device exists (PyTorch cannot forget one), but says that it is not
available, so `torch.accelerator.is_available()` stays False for the tests that come after.

Within `without_computing()` every operator only allocates its result: for the memory of sizes that
would take minutes. Values are then arbitrary, shapes and memory are right.

It is compiled by the C++ compiler (`$CXX`, c++, g++ or clang++) at the first use, about a minute,
and kept in TESSERA_DEV_CACHE or .cache, by PyTorch's version and the source. It needs neither
Python's headers nor ninja. `why_not()` says what is missing, for a skip.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import torch
from torch.utils import cpp_extension

NAME = "dml"
_SOURCE = Path(__file__).with_name("device.cpp")
_ROOT = Path(__file__).resolve().parents[3]
_COMPILERS = ("c++", "g++", "clang++")

_module = types.ModuleType(f"torch.{NAME}")
_registered = False


def why_not() -> str | None:
    """Return what is missing on this machine to have the device, or None."""
    if _library().is_file() or _compiler():
        return None
    return "the simulated device needs a C++ compiler: c++, g++ or clang++"


@contextmanager
def present() -> Iterator[torch.device]:
    """Within this context the device is there. Its limit is lifted afterwards."""
    register()
    before = _module.is_available()
    _module.is_available = lambda: True
    try:
        yield torch.device(NAME, 0)
    finally:
        _module.is_available = lambda: before
        set_limit(None)


@contextmanager
def limited(*, free: int, wording: Literal["dml", "cuda"] = "dml") -> Iterator[None]:
    """Within this context only `free` bytes more than are allocated now can be allocated."""
    set_limit(memory_allocated() + free, wording=wording)
    try:
        yield
    finally:
        set_limit(None)


@contextmanager
def without_computing() -> Iterator[None]:
    """Within this context operators only allocate their results; nothing is copied either."""
    _operators().set_skip_compute(True)
    try:
        yield
    finally:
        _operators().set_skip_compute(False)


def memory_allocated() -> int:
    """Return the bytes that are allocated now."""
    return _operators().memory_allocated()


def peak() -> int:
    """Return the most bytes that were allocated at once since `reset_peak()`."""
    return _operators().peak()


def reset_peak() -> None:
    """Forget the peak: it is what is allocated now."""
    _operators().reset_peak()


def set_limit(limit: int | None, *, wording: Literal["dml", "cuda"] = "dml") -> None:
    """Allow this many bytes in total; None allows all. `wording`: whose error is raised."""
    _operators().set_limit(-1 if limit is None else limit, wording == "cuda")


def operators() -> int:
    """Return how many operators have run on the device."""
    return _operators().operators()


def register() -> None:
    """Compile and load the device, once for each process. `present()` calls it."""
    global _registered  # noqa: PLW0603
    if _registered:
        return
    library = _library()
    if not library.is_file():
        _compile(library)
    torch.ops.load_library(str(library))
    torch.ops.tessera_simulated_device.register_device()
    torch.utils.rename_privateuse1_backend(NAME)
    _module.is_available = lambda: False
    _module.device_count = lambda: int(_module.is_available())
    _module.current_device = lambda: 0
    _module._is_in_bad_fork = lambda: False
    _module.manual_seed_all = lambda _seed: None
    torch._register_device_module(NAME, _module)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    _registered = True


def _operators():
    register()
    return torch.ops.tessera_simulated_device


def _library() -> Path:
    key = hashlib.sha256(_SOURCE.read_bytes() + torch.__version__.encode()).hexdigest()[:10]
    given = os.environ.get("TESSERA_DEV_CACHE")
    cache = Path(given).expanduser().resolve() if given else _ROOT / ".cache"
    return cache / "simulated_device" / f"device-{key}.so"


def _compiler() -> str | None:
    names = (os.environ.get("CXX"), *_COMPILERS)
    return next((found for name in names if name and (found := shutil.which(name))), None)


def _compile(library: Path) -> None:
    compiler = _compiler()
    if compiler is None:
        raise RuntimeError(why_not())
    library.parent.mkdir(parents=True, exist_ok=True)
    abi = int(torch._C._GLIBCXX_USE_CXX11_ABI)
    folders = cpp_extension.library_paths()
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        made = Path(folder) / "device.so"
        subprocess.run(
            [
                compiler, "-shared", "-fPIC", "-O1", "-std=c++20",
                f"-D_GLIBCXX_USE_CXX11_ABI={abi}",
                *[f"-isystem{path}" for path in cpp_extension.include_paths()],
                str(_SOURCE), "-o", str(made),
                *[part for path in folders for part in (f"-L{path}", f"-Wl,-rpath,{path}")],
                "-ltorch", "-ltorch_cpu", "-lc10",
            ],
            check=True,
        )  # fmt: skip
        made.replace(library)  # whole or not at all, also when two processes compile
