"""Drives a Blender with windows: scenarios that yield the seconds to wait, run by a timer."""

import ctypes
import json
import os
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path

import bpy
import numpy as np

OUT = Path(os.environ["TESSERA_WINDOW_OUT"])
_LIMIT_S = 90.0

bpy.context.preferences.view.show_splash = False  # before the first redraw, or it covers everything


class Skipped(Exception):  # noqa: N818  named like the outcome
    """This system cannot run the scenario."""


def window():
    return bpy.context.window_manager.windows[0]


def area_of(kind):
    """Return the largest area of a kind, such as "VIEW_3D"."""
    found = [area for area in window().screen.areas if area.type == kind]
    return max(found, key=lambda area: area.width * area.height)


def region_of(area, kind):
    return next(region for region in area.regions if region.type == kind)


def inside(area, kind="UI"):
    """Context override: as if the user pressed a button in this region."""
    return bpy.context.temp_override(
        window=window(), screen=window().screen, area=area, region=region_of(area, kind)
    )


def open_editor(area, ui_type, tab="Tessera"):
    """Make an area this editor with its sidebar open at a tab."""
    area.ui_type = ui_type
    area.spaces.active.show_region_ui = True
    for _ in range(100):
        yield 0.1
        region = region_of(area, "UI")
        if region.width > 1:
            if region.active_panel_category == tab:
                break
            region.active_panel_category = tab  # only once the region was drawn
        area.tag_redraw()
    else:
        raise AssertionError(f"the sidebar of {ui_type} does not show the tab {tab}")
    yield 0.5


def until(condition, limit_s=_LIMIT_S):
    """Wait until the condition holds."""
    end_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end_s, f"not within {limit_s:.0f} s"
        yield 0.05


def capture(name):
    """Take a picture of the screen: (height, width, 3) `float32`, 0..1, row 0 at the top."""
    path = OUT / f"{name}.png"
    # The operator that takes screenshots saves black ones with a software renderer.
    argv = ["import", "-silent", "-window", "root", f"png32:{path}"]
    subprocess.run(argv, check=True, timeout=60)
    image = bpy.data.images.load(str(path))
    pixels = np.empty(len(image.pixels), np.float32)
    image.pixels.foreach_get(pixels)
    width, height = image.size
    bpy.data.images.remove(image)
    return pixels.reshape(height, width, 4)[::-1, :, :3]


def part(picture, region):
    """Cut a region or an area out of a picture of the screen."""
    bottom = picture.shape[0] - region.y
    return picture[bottom - region.height : bottom, region.x : region.x + region.width]


def share_of(picture, colour):
    """Return how much of a picture has this colour, 0 to 1."""
    near = np.abs(picture - np.array(colour, np.float32)).max(axis=2) < 0.2
    return float(near.mean())


def run(scenarios, between, figures):
    """Run scenarios one after the other, write what came of them, and end Blender."""
    results = {}

    def everything():
        for scenario in scenarios:
            yield from between()
            name = scenario.__name__
            sys.stdout.write(f"--- {name}\n")
            try:
                yield from scenario()
                results[name] = ["passed", ""]
            except Skipped as reason:
                results[name] = ["skipped", str(reason)]
            except Exception:  # noqa: BLE001  whatever it raises is its result
                results[name] = ["failed", traceback.format_exc()]
            _write(results, figures)
        leave()

    steps = everything()

    def tick():
        return max(0.01, float(next(steps)))

    def watch():
        time.sleep(float(os.environ["TESSERA_WINDOW_LIMIT_S"]))
        leave()

    threading.Thread(target=watch, daemon=True).start()
    bpy.app.timers.register(tick, first_interval=0.3, persistent=True)


def leave():
    """End Blender with what its own C code has printed: warnings about panels are among it."""
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)
    os._exit(0)


def _write(results, figures):
    text = json.dumps({"results": results, "figures": figures()})
    (OUT / "results.json").write_text(text, encoding="utf-8")
