# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of dev.py."""

from __future__ import annotations

import argparse
import ast
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from . import blender, generator_runtime, packaging, suites
from .cache import ROOT
from .console import DevError, run_through, say
from .environments import UNIT

CHECKS = (
    ("ruff format", ["-m", "ruff", "format", "--check", "."]),
    ("ruff", ["-m", "ruff", "check", "."]),
    ("pyright", ["-m", "pyright"]),
    ("guards", ["-m", "pytest", "-q", "tests/unit/test_source.py"]),
)


def main(argv: Sequence[str]) -> int:
    """Run one command and return the exit status."""
    signal.signal(signal.SIGTERM, _interrupt)  # so that what was started ends too
    parser = _parser()
    own, passed_on = split(list(argv))
    options, unknown = parser.parse_known_args(own)
    passed_on = unknown + passed_on
    if passed_on and options.command in {"check", "build"}:
        parser.error(f"unrecognized arguments: {' '.join(passed_on)}")
    try:
        return options.function(options, passed_on)
    except DevError as error:
        say(f"dev.py {options.command}: {error}")
        return 1
    except KeyboardInterrupt:
        say("\nInterrupted. What was half made will be made again.")
        return 130


def _interrupt(number: int, frame: object) -> None:
    del number, frame
    raise KeyboardInterrupt


def split(argv: list[str]) -> tuple[list[str], list[str]]:
    """Separate dev.py's own arguments from those for the script, the benchmark or pytest."""
    if argv[:1] in (["run"], ["bench"]):
        index = 1
        while index < len(argv) and argv[index].startswith("-"):
            index += 1 if "=" in argv[index] or argv[index] in {"-h", "--help"} else 2
        return argv[: index + 1], argv[index + 1 :]
    if "--" in argv:
        index = argv.index("--")
        return argv[:index], argv[index + 1 :]
    return argv, []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dev.py", description="Work on Tessera. Makes the environments that it needs."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, function: object, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(function=function)
        return command

    versions = ", ".join(blender.VERSIONS)
    demo = add("demo", _demo, "From a prompt to a rendered material, through the installed zip")
    demo.epilog = "Further options, such as --prompt, --out, --size and --seed: scripts/demo.py"
    demo.add_argument("--blender", metavar="X.Y", help=f"one of {versions}")
    test = add("test", _test, "Run the test suites; arguments after -- go to pytest")
    test.add_argument(
        "suites", nargs="*", metavar="SUITE", help=", ".join((*suites.SUITES, *suites.ON_REQUEST))
    )
    test.add_argument("--blender", metavar="X.Y", action="append", help=f"only with {versions}")
    run = add("run", _run, "Run a script in headless Blender with the extension installed")
    run.add_argument("--blender", metavar="X.Y", help=f"one of {versions}")
    run.add_argument("script", type=Path, metavar="SCRIPT.py")
    bench = add("bench", _bench, "Run benchmarks/NAME.py")
    bench.add_argument("--blender", metavar="X.Y", help=f"one of {versions}")
    bench.add_argument("name", metavar="NAME")
    add("check", _check, "Format, lint, types and import rules")
    add("build", _build, "Build the zip into dist/")
    return parser


def _in_blender(version: str | None, script: Path, arguments: Sequence[str]) -> int:
    started_s = time.time()
    version = version or blender.default_version()
    blender.environment(version)
    runtime = generator_runtime.ready()
    with tempfile.TemporaryDirectory(prefix="tessera-build-") as folder:
        archive = packaging.build(version, Path(folder))
        return blender.run_script(
            version,
            script,
            arguments,
            archive=archive,
            variables={"TESSERA_PYTHON": str(runtime), "TESSERA_DEV_STARTED": str(started_s)},
        )


def _demo(options: argparse.Namespace, passed_on: Sequence[str]) -> int:
    return _in_blender(options.blender, blender.demo_script(), passed_on)


def _run(options: argparse.Namespace, passed_on: Sequence[str]) -> int:
    return _in_blender(options.blender, options.script, passed_on)


def _test(options: argparse.Namespace, passed_on: Sequence[str]) -> int:
    return suites.run(options.suites, options.blender or (), passed_on)


def _bench(options: argparse.Namespace, passed_on: Sequence[str]) -> int:
    script = ROOT / "benchmarks" / f"{options.name}.py"
    if not script.is_file():
        names = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py"))
        raise DevError(f"There is no benchmark {options.name}. Benchmarks: {', '.join(names)}.")
    if environment_of(script) == "blender":
        return _in_blender(options.blender, script, passed_on)
    python = generator_runtime.test_environment(generator_runtime.ready()).ready()
    return run_through([str(python), str(script), *passed_on], folder=ROOT)


def environment_of(script: Path) -> str:
    """Return where a benchmark runs: its constant ENVIRONMENT, "blender" or "generator".

    Raises:
        DevError: The benchmark does not say it.
    """
    for node in ast.parse(script.read_text(encoding="utf-8")).body:
        if (
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == "ENVIRONMENT"
            and isinstance(node.value, ast.Constant)
            and node.value.value in {"blender", "generator"}
        ):
            return str(node.value.value)
    raise DevError(f'{script.name} must set ENVIRONMENT to "blender" or "generator".')


def _check(options: argparse.Namespace, passed_on: Sequence[str]) -> int:
    del options, passed_on
    python = UNIT.ready()
    failed = []
    for name, arguments in CHECKS:
        say(f"--- {name}")
        start = time.monotonic()
        if run_through([str(python), *arguments], folder=ROOT):
            failed.append(name)
        say(f"    {time.monotonic() - start:.1f} s")
    say(f"check: {'failed: ' + ', '.join(failed) if failed else 'passed'}")
    return 1 if failed else 0


def _build(options: argparse.Namespace, passed_on: Sequence[str]) -> int:
    del options, passed_on
    archive = packaging.build(blender.default_version(), ROOT / "dist")
    say(f"{archive}  {archive.stat().st_size / 2**20:.1f} MB")
    return 0
