# SPDX-License-Identifier: GPL-3.0-or-later
"""What Tessera costs on top of the bare libraries, side by side in one run.

Run with: python3 dev.py bench overhead [--rounds N] [--steps N] [--size PX]

* `operator_over_bare`: from the call of `tessera.generate` to the finished image datablock, over
  `bare_diffusers.py` with the same weights, precision, size, steps and threads, both warm, taken in
  turns.
* `ready_over_import`: from the start of the generator process to `Ready`, over a Python that only
  imports torch and the pipeline.
* `enable_extra_ms`: enabling Tessera in a new Blender, less enabling an empty extension, with
  bytecode written as Blender does. `enable_extra_cpu_ms` is the same in CPU time, which says more
  on a busy machine; the names with `min` compare the quickest rounds instead of the medians.
"""

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import bpy

ENVIRONMENT = "blender"

MODULE = "bl_ext.user_default.tessera"
EMPTY = "bl_ext.user_default.tessera_empty"
PROMPT = "red brick wall"
IMPORTS = "import torch; from diffusers import StableDiffusionPipeline"
BARE = Path(__file__).with_name("bare_diffusers.py")


class Bare:
    """The bare loop, in a process of its own that keeps its model."""

    def __init__(self, python: str, model: Path, options: argparse.Namespace) -> None:
        self._process = subprocess.Popen(
            [
                python, "-I", "-X", "utf8", str(BARE), "--model", str(model),
                "--steps", str(options.steps), "--size", str(options.size), "--prompt", PROMPT,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )  # fmt: skip

    def run(self, seed: int) -> float:
        """Generate an image and return its seconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{seed}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{BARE.name} ended with status {self._process.wait()}.")
        return float(json.loads(line)["seconds"])

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def operator_seconds(seed: int, options: argparse.Namespace) -> float:
    """Generate an image through the operator and return the seconds until it is a datablock."""
    before = {image.name for image in bpy.data.images}
    start = time.perf_counter()
    result = bpy.ops.tessera.generate(
        prompt=PROMPT,
        width=options.size,
        height=options.size,
        steps=options.steps,
        seed=str(seed),
        scheduler="DDIM",
        seamless="OFF",
        automatic=False,  # where it would choose bfloat16, the work would not be the same
        half_precision="OFF",
    )
    seconds = time.perf_counter() - start
    new = [image.name for image in bpy.data.images if image.name not in before]
    assert result == {"FINISHED"}, result
    assert len(new) == 1 and tuple(bpy.data.images[new[0]].size) == (options.size,) * 2
    bpy.data.images.remove(bpy.data.images[new[0]])
    return seconds


def compare_generation(python: str, options: argparse.Namespace) -> tuple[float, float]:
    """Return the median seconds of the operator and of the bare loop."""
    folder = Path(sys.modules[MODULE].__file__ or "").parent / "starter_model"
    bare = Bare(python, folder, options)
    try:
        operator, loop = [], []
        for number in range(options.rounds + 1):
            pair = (operator_seconds(number, options), bare.run(number))
            print(f"generate: operator {pair[0]:.3f} s, bare {pair[1]:.3f} s", flush=True)
            if number:  # the first round loads the model and warms up
                operator.append(pair[0])
                loop.append(pair[1])
    finally:
        bare.close()
    return statistics.median(operator), statistics.median(loop)


def ready_seconds() -> float:
    """Start a generator process and return the seconds until it is ready."""
    client_module = importlib.import_module(f"{MODULE}.generator_process.client")
    runtime = importlib.import_module(f"{MODULE}.runtime")
    client = client_module.GeneratorProcess(runtime.generator_command())
    start = time.perf_counter()
    client.start()
    while client.ready is None:
        client.wait(0.005)
        for event in client.poll():
            if type(event).__name__ == "Failed":
                raise RuntimeError(event.message)
    seconds = time.perf_counter() - start
    client.close()
    return seconds


def import_seconds(python: str) -> float:
    """Start a Python that only imports, and return its seconds."""
    start = time.perf_counter()
    subprocess.run([python, "-I", "-c", IMPORTS], check=True)
    return time.perf_counter() - start


def compare_start(python: str, options: argparse.Namespace) -> tuple[float, float]:
    """Return the median seconds to `Ready` and of the imports."""
    ready, imports = [], []
    for number in range(options.rounds + 1):
        pair = (ready_seconds(), import_seconds(python))
        print(f"start: ready {pair[0]:.2f} s, imports {pair[1]:.2f} s", flush=True)
        if number:
            ready.append(pair[0])
            imports.append(pair[1])
    return statistics.median(ready), statistics.median(imports)


def install_empty_extension() -> None:
    """Install an extension that does nothing."""
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        (folder / "__init__.py").write_text(
            "def register(): pass\ndef unregister(): pass\n", encoding="utf-8"
        )
        (folder / "blender_manifest.toml").write_text(
            'schema_version = "1.0.0"\nid = "tessera_empty"\nversion = "1.0.0"\nname = "Empty"\n'
            'tagline = "Nothing"\nmaintainer = "Nobody"\ntype = "add-on"\n'
            'blender_version_min = "4.2.0"\nlicense = ["SPDX:GPL-3.0-or-later"]\n',
            encoding="utf-8",
        )
        tool = Path(bpy.utils.system_resource("SCRIPTS"), "addons_core/bl_pkg/cli/blender_ext.py")
        archive = folder / "empty.zip"
        subprocess.run(
            [sys.executable, str(tool), "build", "--source-dir", text,
             "--output-filepath", str(archive)],
            check=True,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        bpy.ops.extensions.package_install_files(
            filepath=str(archive), repo="user_default", enable_on_install=False
        )


def enable_seconds(module: str) -> tuple[float, float]:
    """Enable an extension in a new Blender with this profile; return wall and CPU seconds."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    result = subprocess.run(
        [sys.executable, "-X", "utf8", __file__, "--enable", module],
        check=True,
        capture_output=True,
        encoding="utf-8",
        env=kept,
    )
    report = json.loads(result.stdout.splitlines()[-1])
    return float(report["seconds"]), float(report["cpu_seconds"])


def compare_enabling(options: argparse.Namespace) -> dict[str, float]:
    """Return how much longer enabling Tessera takes than an empty extension, in milliseconds."""
    install_empty_extension()
    tessera, empty = [], []
    for number in range(2 * options.rounds + 1):
        (wall, cpu), (empty_wall, empty_cpu) = enable_seconds(MODULE), enable_seconds(EMPTY)
        print(
            f"enable: Tessera {wall * 1e3:.1f} ms (CPU {cpu * 1e3:.1f}),"
            f" empty {empty_wall * 1e3:.1f} ms (CPU {empty_cpu * 1e3:.1f})",
            flush=True,
        )
        if number:  # the first round compiles
            tessera.append((wall, cpu))
            empty.append((empty_wall, empty_cpu))
    extra = {}
    for column, clock in enumerate(("", "cpu_")):
        for measure, choose in (("", statistics.median), ("min_", min)):
            ours, theirs = (choose([row[column] for row in rows]) for rows in (tessera, empty))
            extra[f"enable_extra_{clock}{measure}ms"] = round((ours - theirs) * 1e3, 1)
    return extra


def measure_enabling(module: str) -> None:
    """Enable an extension in this process, print the seconds and end."""
    start, cpu_start = time.perf_counter(), time.process_time()
    bpy.ops.preferences.addon_enable(module=module)
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    assert module in bpy.context.preferences.addons
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu_seconds}), flush=True)
    bpy.ops.preferences.addon_disable(module=module)
    os._exit(0)  # Blender 4.2 crashes when its interpreter is taken down


def main() -> None:
    """Measure everything, print a table, and one JSON object as the last line."""
    parser = argparse.ArgumentParser(description="What Tessera costs on top of the libraries.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--enable", metavar="MODULE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.enable:
        measure_enabling(options.enable)
    python = os.environ["TESSERA_PYTHON"]
    operator, bare = compare_generation(python, options)
    ready, imports = compare_start(python, options)
    extra = compare_enabling(options)
    print(f"\nmedians of {options.rounds}, {options.size} px, {options.steps} steps")
    print(f"{'operator':<12}{operator:>9.3f} s    {'bare loop':<12}{bare:>9.3f} s")
    print(f"{'ready':<12}{ready:>9.3f} s    {'imports':<12}{imports:>9.3f} s")
    ratios = {
        "operator_over_bare": round(operator / bare, 4),
        "ready_over_import": round(ready / imports, 4),
        **extra,
    }
    print(json.dumps(ratios))


if __name__ == "__main__":
    main()
