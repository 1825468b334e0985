# SPDX-License-Identifier: GPL-3.0-or-later
# pyright: reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
# pyright: reportArgumentType=false, reportOptionalSubscript=false, reportIndexIssue=false
"""From a prompt to a baked and rendered material, inside Blender with the extension enabled.

Run by "python3 dev.py demo". Leaves texture.png, baked.png, render.png, scene.blend and
summary.json in the folder that --out names, and what Blender printed in blender.log.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import json
import math
import os
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bpy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TILE = 1.5
"""Side of one repetition of the texture on the ground, in metres."""

RENDER_SIZE_PX = (640, 480)
RENDER_SAMPLES = 16
BAKE_UV_MAP = "Bake"


class Stopwatch:
    """Seconds of each stage, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        """Add the time spent inside to a stage, and say what is being done."""
        print(f"{stage} ...", flush=True)
        start_s = time.perf_counter()
        yield
        self.seconds[stage] = time.perf_counter() - start_s


@contextmanager
def log_of_blender(folder: Path) -> Iterator[None]:
    """Send what Blender's own code prints, a line for each sample, to blender.log."""
    sys.stdout.flush()
    console = os.dup(1)
    try:
        with (folder / "blender.log").open("ab") as log:
            os.dup2(log.fileno(), 1)
        yield
    finally:
        sys.stdout.flush()
        flush_c_output()
        os.dup2(console, 1)
        os.close(console)


def flush_c_output() -> None:
    """Write out what C code has printed and still keeps."""
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)


def main(arguments: Sequence[str]) -> int:
    """Make the demo and return the exit status."""
    options = _parser().parse_args(arguments)
    if options.out.exists() and not options.out.is_dir():
        print(f'"{options.out}" is a file. Give --out the name of a folder.', file=sys.stderr)
        return 2
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        summary = make_demo(options)
    except (RuntimeError, OSError) as error:
        print(str(error).strip().removeprefix("Error: "), file=sys.stderr)
        return 1
    except tessera("generator_process.errors").TesseraError as error:
        print(error, file=sys.stderr)
        return 1
    for name in summary["files"]:
        print(options.out / name)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dev.py demo", description=__doc__)
    parser.add_argument("--prompt", default="red brick wall", help="what the texture shows")
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="folder for the results")
    parser.add_argument("--size", type=int, default=512, help="of the texture, in pixels")
    parser.add_argument("--seed", default="7", help="a whole number or any word")
    return parser


def tessera(module: str) -> Any:  # noqa: ANN401 - whose types are not known here
    """Return a module of the extension, under the name that Blender gave it.

    Raises:
        RuntimeError: The extension is not enabled.
    """
    for name in bpy.context.preferences.addons.keys():  # noqa: SIM118 - not a dict
        if name.rpartition(".")[2] == "tessera":
            return importlib.import_module(f"{name}.{module}")
    raise RuntimeError("Tessera is not enabled. Run this with: python3 dev.py demo")


def make_demo(options: argparse.Namespace) -> dict[str, Any]:
    """Do everything and return the summary that was written."""
    out: Path = options.out.resolve()
    watch = Stopwatch()
    started = os.environ.get("TESSERA_DEV_STARTED")  # set by dev.py, in seconds since 1970
    if started:
        watch.seconds["install"] = time.time() - float(started)
    ball = build_scene()

    with watch.measure("generate"):
        result = tessera("api").generate(
            prompt=options.prompt,
            width=options.size,
            height=options.size,
            seed=options.seed,
            seamless="BOTH",
            assign_to_material=True,
        )
    (texture,) = result.images
    share_material(ball)

    with watch.measure("bake"), log_of_blender(out):
        bpy.ops.tessera.bake(
            object=ball.name,
            uv_map=BAKE_UV_MAP,
            make_uv=True,
            image="Baked",
            width=options.size,
            height=options.size,
        )
    with watch.measure("render"), log_of_blender(out):
        render(out / "render.png")
    with watch.measure("save"), log_of_blender(out):
        for image, name in ((texture, "texture.png"), ("Baked", "baked.png")):
            bpy.ops.tessera.save_image(image=image, filepath=str(out / name))
        bpy.data.images["Baked"].use_fake_user = True
        bpy.ops.wm.save_as_mainfile(filepath=str(out / "scene.blend"))
    return write_summary(out, options, result, watch)


def write_summary(
    out: Path,
    options: argparse.Namespace,
    result: Any,  # noqa: ANN401 - a GenerationResult
    watch: Stopwatch,
) -> dict[str, Any]:
    """Write summary.json and return what is in it."""
    ready = tessera("session").get().ready
    stages = dict(result.seconds)
    # What the generator did not spend on the stages went into its start, and a little transfer.
    stages = {"start": watch.seconds["generate"] - sum(stages.values()), **stages}
    names = ("texture.png", "baked.png", "render.png", "scene.blend", "summary.json")
    summary = {
        "prompt": options.prompt,
        "seed": str(result.seeds[0]),
        "size": [options.size, options.size],
        "model": result.model,
        "device": ready.device if ready else "",
        "device_name": ready.device_name if ready else "",
        "versions": dict(ready.versions) if ready else {},
        "seconds": {name: round(value, 3) for name, value in {**watch.seconds, **stages}.items()},
        "applied": list(result.applied),
        "skipped": list(result.skipped),
        "notes": list(result.notes),
        "blender": bpy.app.version_string,
        "tessera": tessera("metadata").version(),
        "files": list(names),
    }
    text = json.dumps(summary, indent=2, ensure_ascii=False)
    (out / "summary.json").write_text(text + "\n", encoding="utf-8")
    return summary


def build_scene() -> bpy.types.Object:
    """Make a ball and a block on a floor, with UV maps that repeat, and return the ball, active."""
    for found in list(bpy.data.objects):
        bpy.data.objects.remove(found)
    bpy.ops.mesh.primitive_plane_add(size=16 * TILE)
    scale_uvs(bpy.context.object, 16, 16)
    bpy.ops.mesh.primitive_cube_add(size=TILE, location=(1.65, 0.9, TILE / 2), rotation=(0, 0, 0.5))
    block = bpy.context.object
    unwrap_upright(block.data)
    bevel = block.modifiers.new("Bevel", "BEVEL")
    bevel.width, bevel.segments = 0.06, 4
    bpy.ops.mesh.primitive_uv_sphere_add(
        segments=64, ring_count=32, radius=1, location=(-0.7, 0, 1)
    )
    bpy.ops.object.shade_smooth()
    ball = bpy.context.object
    assert ball is not None, "just added"
    ball.name = "Ball"
    scale_uvs(ball, 4, 2)  # as wide around the equator as it is high
    add_light_and_camera()
    bpy.context.view_layer.objects.active = ball
    return ball


def unwrap_upright(mesh: bpy.types.Mesh) -> None:
    """Show the whole texture once on each side of a block, with its upper edge at the top."""
    for polygon in mesh.polygons:
        x, y, z = polygon.normal
        for corner in polygon.loop_indices:
            point = mesh.vertices[mesh.loops[corner].vertex_index].co
            lying = abs(z) > 0.5
            u = point.x if lying else x * point.y - y * point.x
            v = point.y if lying else point.z
            mesh.uv_layers[0].uv[corner].vector = (u / TILE + 0.5, v / TILE + 0.5)


def scale_uvs(found: bpy.types.Object, u: float, v: float) -> None:
    """Repeat the texture `u` times across and `v` times up."""
    for corner in found.data.uv_layers[0].uv:
        corner.vector = (corner.vector[0] * u, corner.vector[1] * v)


def add_light_and_camera() -> None:
    """Add a sun with a soft edge, light from the sky, and a camera that sees it all."""
    scene = bpy.context.scene
    sun = bpy.data.objects.new("Sun", bpy.data.lights.new("Sun", "SUN"))
    sun.data.energy, sun.data.angle = 3.0, math.radians(4)
    sun.rotation_euler = (math.radians(48), math.radians(8), math.radians(35))
    camera = bpy.data.objects.new("Camera", bpy.data.cameras.new("Camera"))
    camera.location = (0.9, -6.6, 3.1)
    camera.rotation_euler = (math.radians(72), 0, math.radians(6))
    camera.data.lens = 42
    for made in (sun, camera):
        scene.collection.objects.link(made)
    scene.camera = camera
    world = bpy.data.worlds.new("Sky")
    if world.node_tree is None:
        world.use_nodes = True
    for node in world.node_tree.nodes:
        if node.bl_idname == "ShaderNodeBackground":
            node.inputs[0].default_value = (0.75, 0.85, 1.0, 1.0)
            node.inputs[1].default_value = 0.45
    scene.world = world


def share_material(ball: bpy.types.Object) -> None:
    """Give the ball's material to all other meshes."""
    material = ball.active_material
    for found in bpy.context.scene.objects:
        if found.type == "MESH" and found != ball:
            found.data.materials.append(material)


def render(path: Path) -> None:
    """Render with Cycles, in colours as they are: no tone mapping."""
    scene = bpy.context.scene
    scene.render.engine = "CYCLES"
    scene.cycles.device = "CPU"
    scene.cycles.samples = RENDER_SAMPLES
    scene.cycles.max_bounces = 3
    scene.cycles.use_denoising = True
    scene.render.resolution_x, scene.render.resolution_y = RENDER_SIZE_PX
    scene.view_settings.view_transform = "Standard"
    scene.render.image_settings.file_format = "PNG"
    scene.render.filepath = str(path)
    bpy.ops.render.render(write_still=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
