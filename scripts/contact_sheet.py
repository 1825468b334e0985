# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo for eleven materials, on one sheet, inside Blender with the extension enabled.

Run by "python3 dev.py run scripts/contact_sheet.py --out DIR [--sheet FILE.jpg]". Each prompt
leaves the files of the demo in a folder of its own; the sheet shows of each the texture, twice in
both directions, above the render.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import bpy
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import demo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

PROMPTS = (
    "red brick wall",
    "wooden planks",
    "green grass",
    "sand",
    "grey cobblestone",
    "white marble",
    "blue tiles",
    "rusty metal",
    "brown woven fabric",
    "clouds",
    "lava",
    "black and white checkerboard",
)
COLUMNS = 4
CELL_PX = 320
GAP_PX = 8


def main(arguments: Sequence[str]) -> int:
    """Make all demos and the sheet, and return the exit status."""
    parser = argparse.ArgumentParser(prog="contact_sheet.py", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/contact_sheet"))
    parser.add_argument("--sheet", type=Path, default=Path("docs/images/main_job.jpg"))
    parser.add_argument("--size", default="256", help="of each texture, in pixels")
    options = parser.parse_args(arguments)
    for prompt in PROMPTS:
        print(f"--- {prompt}", flush=True)
        bpy.ops.wm.read_homefile(use_empty=True)
        folder = options.out / prompt.replace(" ", "_")
        status = demo.main(["--prompt", prompt, "--out", str(folder), "--size", options.size])
        if status:
            return status
    cells = [cell_of(options.out / prompt.replace(" ", "_")) for prompt in PROMPTS]
    save(sheet_of(cells), options.sheet)
    print(options.sheet)
    return 0


def cell_of(folder: Path) -> NDArray[np.float32]:
    """Return the texture above the render, (height, `CELL_PX`, 3), row 0 at the top."""
    texture = scaled(np.tile(pixels_of(folder / "texture.png"), (2, 2, 1)), CELL_PX, CELL_PX)
    width, height = demo.RENDER_SIZE_PX
    render = scaled(pixels_of(folder / "render.png"), CELL_PX, CELL_PX * height // width)
    return np.concatenate((texture, render))


def pixels_of(path: Path) -> NDArray[np.float32]:
    """Return the stored colours of an image file, (height, width, 3) in 0..1, row 0 at the top."""
    image = bpy.data.images.load(str(path.resolve()))
    width, height = image.size
    flat = np.empty(width * height * 4, np.float32)
    image.pixels.foreach_get(flat)  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]
    bpy.data.images.remove(image)
    return flat.reshape(height, width, 4)[::-1, :, :3]


def scaled(pixels: NDArray[np.float32], width: int, height: int) -> NDArray[np.float32]:
    """Return the picture at another size: the mean of four samples for each pixel."""
    rows = (np.arange(2 * height) + 0.5) * pixels.shape[0] / (2 * height)
    columns = (np.arange(2 * width) + 0.5) * pixels.shape[1] / (2 * width)
    samples = pixels[rows.astype(int)][:, columns.astype(int)]
    return samples.reshape(height, 2, width, 2, 3).mean(axis=(1, 3))


def sheet_of(cells: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """Arrange cells of equal size in rows, with gaps."""
    height, width, _ = cells[0].shape
    lines = -(-len(cells) // COLUMNS)
    shape = (lines * (height + GAP_PX) - GAP_PX, COLUMNS * (width + GAP_PX) - GAP_PX, 3)
    sheet = np.ones(shape, np.float32)
    for number, cell in enumerate(cells):
        top = number // COLUMNS * (height + GAP_PX)
        left = number % COLUMNS * (width + GAP_PX)
        sheet[top : top + height, left : left + width] = cell
    return sheet


def save(sheet: NDArray[np.float32], path: Path) -> None:
    """Write the sheet as a JPEG file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    height, width, _ = sheet.shape
    image = bpy.data.images.new("Sheet", width, height)
    opaque = np.dstack((sheet[::-1], np.ones((height, width), np.float32)))
    image.pixels.foreach_set(np.ascontiguousarray(opaque, np.float32).reshape(-1))  # pyright: ignore[reportAttributeAccessIssue, reportArgumentType]
    image.file_format = "JPEG"
    image.save(filepath=str(path.resolve()), quality=80)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
