# SPDX-License-Identifier: GPL-3.0-or-later
"""Autoencoders of diffusers in tiles, with the result of the whole image. Side: generator.

A library of its own: it needs torch and diffusers, and nothing of Tessera or Blender.

    from tiled_vae import ExactTiling, conditions, install, remove

    install(vae, ExactTiling(tile_px=256, store="cpu"))    # or FastTiling(tile_px=512, blend_px=64)
    image = vae.decode(latents).sample                      # as always, also encode()
    with conditions(vae, wrap_x=True, before_tile=stop_if_cancelled):
        image = vae.decode(latents).sample                  # left and right edges are neighbours
    remove(vae)                                             # the object is what it was

`install` without a tiling only slices. Installing again replaces what was installed. With slicing,
which is the default, several images are done one after the other, and each of them in tiles.

* `ExactTiling`: group-norm statistics, attention and the neighbourhood of convolutions are those
  of the whole image. For `AutoencoderKL` and `AutoencoderKLFlux2`: Stable Diffusion 1 to 3.5,
  XL, Flux, Z-Image and others. With `store="cpu"` the device's memory is bounded by the tile.
  `why_not_exact(vae)` says which layer is unknown.
* `FastTiling`: each tile on its own, faded into its neighbours. For every class with `_decode` and
  `_encode`, and `AutoencoderTiny`. Colours differ from tile to tile.

Slicing is the class's own where it slices before it tiles; `AsymmetricAutoencoderKL` and
`ConsistencyDecoderVAE` are wrapped. Out of scope: `VQModel` and `AutoencoderKLTemporalDecoder`,
which no image family of Tessera uses (quantised codes; video), and audio. `why_not_exact` names
Wan and Qwen-Image too: their norms are per pixel, so fast tiling of them lacks only what lies
beyond a tile.
"""

from .installation import conditions, install, installed, remove
from .settings import (
    Conditions,
    ExactTiling,
    FastTiling,
    TiledVaeError,
    Tiling,
    TilingSettingsError,
    UnsupportedAutoencoderError,
)
from .support import factor_of, why_not_exact

__all__ = [
    "Conditions",
    "ExactTiling",
    "FastTiling",
    "TiledVaeError",
    "Tiling",
    "TilingSettingsError",
    "UnsupportedAutoencoderError",
    "conditions",
    "factor_of",
    "install",
    "installed",
    "remove",
    "why_not_exact",
]
