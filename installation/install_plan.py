# SPDX-License-Identifier: GPL-3.0-or-later
"""What the installation of the runtime environment runs, in which order. Side: Blender.

Standard library only, and nothing is started here.

Which build of PyTorch comes: with uv, the one that fits this machine's GPU and driver, from
PyTorch's own index. Without, what the index that pip is configured with offers: on Linux the one
for CUDA, on macOS the one for MPS, on Windows the one for the CPU. Only the installation with pip
on Linux, for the CPU, is tested regularly.
"""

import hashlib
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

REQUIREMENTS = Path(__file__).parents[1] / "requirements" / "runtime.txt"
OPENVINO_REQUIREMENTS = REQUIREMENTS.with_name("openvino.txt")
STAMP = "tessera-runtime.txt"
"""Written into the environment when it is complete: the key of its requirements."""

UV = "uv==0.13.9"

_VERIFY = (
    "import torch, diffusers, transformers, accelerate, safetensors, scipy, PIL\n"
    "from diffusers import StableDiffusionPipeline\n"
    "print('PyTorch', torch.__version__, 'and diffusers', diffusers.__version__, 'work')"
)
_VERIFY_OPENVINO = (
    "\nimport sys\n"
    "sys.modules['openvino_telemetry'] = None  # it would report the import over the network\n"
    "import openvino\n"
    "print('OpenVINO', openvino.__version__, 'works')"
)
_FOREIGN = ("PYTHON", "LD_PRELOAD", "__PYVENV", "VIRTUAL_ENV", "CONDA")
_FOREIGN_PIP = {"PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_REQUIRE_VIRTUALENV"}


class TorchBuild(Enum):
    """Which build of PyTorch to install."""

    AUTO = "auto"
    """The one for this machine's GPU if uv can get it, or else `INDEX`."""
    CPU = "cpu"
    XPU = "xpu"
    INDEX = ""
    """What pip's configured index offers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A command. `label` is shown to the user.

    `counted` if it installs the requirements, `is_offline` if pip's configuration, which may name
    an index, must not be read. `variables` are added to its environment.
    """

    label: str
    argv: tuple[str, ...]
    counted: bool = False
    is_offline: bool = False
    variables: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user has chosen.

    `wheel_folder` is searched instead of the network. `uv` is uv's executable where there is one.
    With `openvino` that engine is installed too.
    """

    torch: TorchBuild = TorchBuild.AUTO
    wheel_folder: Path | None = None
    uv: Path | None = None
    openvino: bool = False

    @property
    def requirements(self) -> tuple[Path, ...]:
        """The files that name the packages."""
        return (REQUIREMENTS, OPENVINO_REQUIREMENTS) if self.openvino else (REQUIREMENTS,)


def interpreter_in(folder: Path) -> Path:
    """Return the path of the interpreter of a virtual environment."""
    if sys.platform == "win32":
        return folder / "Scripts" / "python.exe"
    return folder / "bin" / "python"


@cache
def requirements_key(files: tuple[Path, ...] = (REQUIREMENTS,)) -> str:
    """Return what distinguishes the requirements of this version of Tessera from others."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


@cache
def requirement_count(files: tuple[Path, ...] = (REQUIREMENTS,)) -> int:
    """Return how many packages are required."""
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return sum("==" in line.partition("#")[0] for line in lines)


def create_step(base: Path, staging: Path) -> Step:
    """Return the step that makes an empty environment."""
    return Step(
        label="Creating the environment",
        argv=(str(base), "-I", "-X", "utf8", "-m", "venv", "--clear", str(staging)),
    )


def _pip(staging: Path, *arguments: str) -> tuple[str, ...]:
    python = str(interpreter_in(staging))
    options = ("--no-input", "--no-user", "--disable-pip-version-check", "--progress-bar=off")
    # Most modules are never imported; those that are get compiled by the step that checks them.
    options = (*options, "--no-compile")
    return (python, "-I", "-X", "utf8", "-m", "pip", "install", *options, *arguments)


def uv_step(staging: Path) -> Step:
    """Return the step that gets uv into the environment."""
    return Step(label="Getting uv", argv=_pip(staging, UV))


def probe_step(staging: Path, options: Options) -> Step:
    """Return the step that succeeds if uv can get the build of PyTorch for this machine.

    uv knows where the builds are. Nothing is downloaded, and it gives up soon without a network.
    """
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    torch = next(line for line in lines if line.startswith("torch=="))
    options_of_uv = ("--dry-run", "--no-deps", torch)
    return Step(
        label="Looking for the build of PyTorch",
        argv=(*_uv_install(staging, options), *options_of_uv),
        variables=(("UV_HTTP_TIMEOUT", "10"), ("UV_HTTP_RETRIES", "0")),
    )


def _uv_install(staging: Path, options: Options) -> tuple[str, ...]:
    python = str(interpreter_in(staging))
    uv = (str(options.uv),) if options.uv else (python, "-I", "-m", "uv")
    backend = f"--torch-backend={options.torch.value}"
    return (*uv, "pip", "install", "--no-progress", "--python", python, backend)


def packages_step(staging: Path, options: Options, *, torch_index_answers: bool) -> Step:
    """Return the step that installs the packages.

    Args:
        staging: The environment.
        options: What the user has chosen.
        torch_index_answers: Whether `probe_step` has succeeded.
    """
    label = "Installing packages"
    requirements = tuple(part for file in options.requirements for part in ("-r", str(file)))
    if options.wheel_folder is not None:
        offline = ("--isolated", "--no-index", "--find-links", str(options.wheel_folder))
        argv = _pip(staging, *offline, *requirements)
        return Step(label=label, argv=argv, counted=True, is_offline=True)
    if uses_uv(options, torch_index_answers=torch_index_answers):
        argv = (*_uv_install(staging, options), *requirements)
        return Step(label=label, argv=argv, counted=True)
    return Step(label=label, argv=_pip(staging, *requirements), counted=True)


def uses_uv(options: Options, *, torch_index_answers: bool) -> bool:
    """Tell whether uv chooses the build of PyTorch."""
    if options.wheel_folder is not None or options.torch is TorchBuild.INDEX:
        return False
    return torch_index_answers or options.torch is not TorchBuild.AUTO


def verify_step(staging: Path, options: Options) -> Step:
    """Return the step that imports what the generator needs."""
    python = str(interpreter_in(staging))
    code = _VERIFY + _VERIFY_OPENVINO if options.openvino else _VERIFY
    return Step(label="Checking the packages", argv=(python, "-I", "-X", "utf8", "-c", code))


def step_environment(inherited: Mapping[str, str], *, is_offline: bool) -> dict[str, str]:
    """Return a step's environment: without what would install elsewhere or load other packages."""
    kept = {
        name: value
        for name, value in inherited.items()
        if not name.upper().startswith(_FOREIGN) and name.upper() not in _FOREIGN_PIP
    }
    kept["PYTHONUTF8"] = "1"
    if is_offline:
        kept["PIP_CONFIG_FILE"] = os.devnull
    return kept


_PACKAGE_AT_FAULT = (
    re.compile(r"No matching distribution found for (\S+)"),
    re.compile(r"Could not find a version that satisfies the requirement (\S+)"),
    re.compile(r"Cannot install (\S+)"),
    re.compile(r"Failed to build .*\((\S+)\)$"),
    re.compile(r"Because (\S+) was not found"),
    re.compile(r"there is no version of (\S+)"),
    re.compile(r"No module named '([\w.]+)'"),
    re.compile(r"cannot import name '\w+' from '([\w.]+)'"),
)


def package_at_fault(lines: list[str]) -> str | None:
    """Return the package that the output of a failed step names, or None."""
    for line in reversed(lines):
        for pattern in _PACKAGE_AT_FAULT:
            match = pattern.search(line)
            if match:
                return match.group(1).strip("`,.;:")
    return None


_PROGRESS = re.compile(
    r"^\s*(?:Collecting (\w[\w.\-]*?)(?:[=<>!~\[ ]|$)|Processing \S*?([\w.]+)-\d\S*\.whl)"
)


def package_begun(line: str) -> str | None:
    """Return the package that a line of pip's output is about, or None."""
    match = _PROGRESS.match(line)
    return (match.group(1) or match.group(2)) if match else None
