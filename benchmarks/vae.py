# SPDX-License-Identifier: GPL-3.0-or-later
"""What slicing and tiling of the VAE cost and change, side by side in one run.

Run with: python3 dev.py bench vae [--size PX] [--batch-size PX] [--tile PX] [--rounds N] [--large]

* Decodes with a VAE of Stable Diffusion 1.5's size and random weights: plain, with slicing, with
  slicing and fast tiling, with slicing and exact tiling; one image, and eight of `--batch-size`.
* Seconds are CPU seconds of this process, which say more on a busy machine; on CUDA wall seconds.
* Memory is that of the device, weights included. For the CPU it is counted at `--size` by the
  simulated device of the tests, where operators only allocate their results and the exact mode
  keeps what is not being computed outside ("store"). On CUDA it is PyTorch's peak.
* Errors are shares of the plain image's range. The colour shift is the largest difference of the
  mean of a channel within one tile.
* `--large` also computes a 4096 x 4096 image with the starter model and a 2048 x 2048 one with the
  large VAE, which takes half an hour on two cores. Without it their memory is only counted.
"""

import argparse
import gc
import importlib.util
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

ENVIRONMENT = "generator"

ROOT = Path(__file__).resolve().parents[1]
MANY = 8
MIB = 2**20
LARGE_TILE = 512


def _import_project() -> tuple[Any, Any]:
    """Return the library and the simulated device of this checkout."""
    folder = ROOT / "generator_process" / "tiled_vae"
    spec = importlib.util.spec_from_file_location(
        "tiled_vae", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    library = importlib.util.module_from_spec(spec)
    sys.modules["tiled_vae"] = library
    spec.loader.exec_module(library)
    sys.path.insert(0, str(ROOT / "tests"))
    return library, importlib.import_module("fakes.simulated_device")


tiled_vae, simulated_device = _import_project()


@dataclass
class Row:
    """One mode with one number of images."""

    mode: str
    images: int
    seconds: float
    result: torch.Tensor


def large_vae() -> Any:  # noqa: ANN401
    """Return a VAE of Stable Diffusion 1.5's shape with random weights."""
    from diffusers import AutoencoderKL

    torch.manual_seed(0)
    return AutoencoderKL(
        block_out_channels=(128, 256, 512, 512),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=2,
        latent_channels=4,
        sample_size=512,
    ).eval()


def starter_vae() -> Any:  # noqa: ANN401
    """Return the starter model's VAE."""
    from diffusers import AutoencoderKL

    return AutoencoderKL.from_pretrained(ROOT / "starter_model" / "vae").eval()


def latents_for(vae: Any, images: int, size: int) -> torch.Tensor:  # noqa: ANN401
    """Return the same random latents for the same size."""
    side = size // tiled_vae.factor_of(vae)
    numbers = torch.Generator().manual_seed(0)
    return torch.randn(images, vae.config.latent_channels, side, side, generator=numbers)


def modes(tile: int, store: str | None) -> dict[str, Callable[[Any], None]]:
    """Return what sets up each mode."""
    install = tiled_vae.install
    exact = tiled_vae.ExactTiling(tile_px=tile, store=store)
    fast = tiled_vae.FastTiling(tile_px=tile, blend_px=tile // 8)
    return {
        "plain": tiled_vae.remove,
        "slicing": install,
        "fast": lambda vae: install(vae, fast),
        "exact": lambda vae: install(vae, exact),
    }


def decode(vae: Any, latents: torch.Tensor) -> tuple[torch.Tensor, float]:  # noqa: ANN401
    """Decode and return the images on the CPU, and the seconds."""
    cuda = latents.device.type == "cuda"
    clock = time.perf_counter if cuda else time.process_time
    if cuda:
        torch.cuda.synchronize()
    start = clock()
    images = vae.decode(latents, return_dict=False)[0]
    if cuda:
        torch.cuda.synchronize()
    return images.float().cpu(), clock() - start


def measure(vae: Any, options: argparse.Namespace) -> list[Row]:  # noqa: ANN401
    """Decode in every mode: one image of the size, and several small ones."""
    rows = []
    plans = ((1, options.size, options.tile), (MANY, options.batch_size, options.batch_size // 2))
    for images, size, tile in plans:
        latents = latents_for(vae, images, size)
        for mode, set_up in modes(tile, None).items():
            if mode == "slicing" and images == 1:
                continue  # nothing to slice
            set_up(vae)
            runs = [decode(vae, latents) for _ in range(options.rounds)]
            tiled_vae.remove(vae)
            rows.append(Row(mode, images, min(seconds for _, seconds in runs), runs[0][0]))
            print(f"{mode:<8} {images} x {size} px: {rows[-1].seconds:8.2f} s", flush=True)
    return rows


def count_memory(size: int, tile: int) -> dict[tuple[str, int], int]:
    """Return the peak bytes of each mode for one and for several images.

    On a VAE of its own: its weights are lost where nothing is computed.
    """
    vae = large_vae()
    found = {}
    with simulated_device.present() as device, simulated_device.without_computing():
        vae.to(device)
        for mode, set_up in modes(tile, "cpu").items():
            set_up(vae)
            for images in (1, MANY):
                found[mode, images] = count_decode(vae, latents_for(vae, images, size), device)
            tiled_vae.remove(vae)
    return found


def count_decode(vae: Any, latents: torch.Tensor, device: torch.device) -> int:  # noqa: ANN401
    """Return the peak bytes of one decoding on the simulated device, weights included."""
    given = latents.to(device)
    gc.collect()
    simulated_device.reset_peak()
    vae.decode(given)
    return simulated_device.peak()


def count_large() -> None:
    """Print the memory that the largest images need."""
    for name, make, size in (
        ("starter model", starter_vae, 4096),
        ("SD 1.5 size", large_vae, 2048),
    ):
        vae = make()
        weights = sum(weight.nbytes for weight in vae.parameters())
        with simulated_device.present() as device, simulated_device.without_computing():
            vae.to(device)
            peaks = {}
            for mode in ("plain", "exact"):
                modes(LARGE_TILE, "cpu")[mode](vae)
                peaks[mode] = count_decode(vae, latents_for(vae, 1, size), device)
        image = 3 * size**2 * 4
        print(
            f"{name}, {size} px: exact {peaks['exact'] / MIB:.0f} MiB on the device (weights"
            f" {weights / MIB:.0f}, image {image / MIB:.0f}), plain {peaks['plain'] / MIB:.0f}"
        )


def compute_large() -> None:
    """Decode the largest images and print the memory of the process."""
    import resource

    for name, make, size in (
        ("starter model", starter_vae, 4096),
        ("SD 1.5 size", large_vae, 2048),
    ):
        vae = make()
        tiled_vae.install(vae, tiled_vae.ExactTiling(tile_px=LARGE_TILE))
        image, seconds = decode(vae, latents_for(vae, 1, size))
        assert image.shape[-2:] == (size, size)
        assert bool(torch.isfinite(image).all())
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{name}, {size} px: {seconds:.0f} s, peak of the process {peak:.0f} MiB", flush=True)


def errors(found: torch.Tensor, plain: torch.Tensor, tile: int) -> tuple[float, float, float]:
    """Return the largest and the mean error and the largest colour shift of a tile."""
    difference = (found - plain) / (plain.max() - plain.min())
    tile = min(tile, *difference.shape[-2:])
    means = torch.nn.functional.avg_pool2d(difference, tile)
    magnitude = difference.abs()
    return float(magnitude.max()), float(magnitude.mean()), float(means.abs().max())


def print_table(
    rows: list[Row], peaks: dict[tuple[str, int], int], options: argparse.Namespace
) -> dict[str, tuple[float, float, float]]:
    """Print every row against plain, and return the errors of the single images."""
    print(f"\n{'mode':<8}{'images':>7}{'s':>9}{'peak MiB':>10}{'max':>10}{'mean':>10}{'shift':>10}")
    plain = {row.images: row.result for row in rows if row.mode == "plain"}
    single = {}
    for row in rows:
        tile = options.tile if row.images == 1 else options.batch_size // 2
        largest, mean, shift = errors(row.result, plain[row.images], tile)
        if row.images == 1:
            single[row.mode] = (largest, mean, shift)
        peak = peaks[row.mode, row.images] / MIB
        print(
            f"{row.mode:<8}{row.images:>7}{row.seconds:>9.2f}{peak:>10.0f}"
            f"{largest:>10.1e}{mean:>10.1e}{shift:>10.1e}"
        )
    return single


def measure_cuda(options: argparse.Namespace) -> None:
    """Print seconds, peak and errors on a CUDA device in float16, one and several images."""
    vae = large_vae().to("cuda", torch.float16)
    for images in (1, MANY):
        latents = latents_for(vae, images, options.size).to("cuda", torch.float16)
        plain = None
        for mode, set_up in modes(options.tile, None).items():
            set_up(vae)
            decode(vae, latents)
            torch.cuda.reset_peak_memory_stats()
            result, seconds = decode(vae, latents)
            peak = torch.cuda.max_memory_allocated() / MIB
            plain = result if plain is None else plain
            largest, mean, shift = errors(result, plain, options.tile)
            print(
                f"cuda {mode:<8}{images:>3} x {options.size} px: {seconds:7.3f} s {peak:8.0f} MiB"
                f"  max {largest:.1e} mean {mean:.1e} shift {shift:.1e}",
                flush=True,
            )
        tiled_vae.remove(vae)


def main() -> None:
    """Measure everything, print tables, and one JSON object as the last line."""
    parser = argparse.ArgumentParser(description="Slicing and tiling of the VAE.")
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--batch-size", type=int, default=128, help="px of the several images")
    parser.add_argument("--tile", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    with torch.inference_mode():
        if torch.cuda.is_available():
            measure_cuda(options)
        vae = large_vae()
        peaks = count_memory(options.size, options.tile)
        count_large()
        rows = measure(vae, options)
        single = print_table(rows, peaks, options)
        if options.large:
            compute_large()
    seconds = {row.mode: row.seconds for row in rows if row.images == 1}
    figures = {
        "batch_peak_ratio": round(peaks["exact", MANY] / peaks["exact", 1], 4),
        "exact_time_ratio": round(seconds["exact"] / seconds["plain"], 4),
        "exact_peak_ratio": round(peaks["exact", 1] / peaks["plain", 1], 4),
        "exact_error": single["exact"][0],
        "fast_error": single["fast"][0],
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
