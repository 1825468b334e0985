# SPDX-License-Identifier: GPL-3.0-or-later
"""Put tiling and slicing on an autoencoder, and take them off again. Side: generator."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from .exact import ExactAutoencoder
from .fast import FastAutoencoder
from .settings import Conditions, ExactTiling, Tiling, UnsupportedAutoencoderError
from .slicing import Sliced, needs_slices

_NAME = "_tiled_vae"


class _Installation:
    """What is on an autoencoder, and the attributes of the object that were there before."""

    def __init__(self) -> None:
        self.runner: ExactAutoencoder | FastAutoencoder | None = None
        self._before: dict[str, Any] = {}
        self._absent: set[str] = set()

    def set(self, vae: nn.Module, name: str, value: object) -> None:
        """Set an attribute of the object itself, past what its class does on it."""
        attributes = vars(vae)
        if name in attributes:
            self._before.setdefault(name, attributes[name])
        else:
            self._absent.add(name)
        attributes[name] = value

    def restore(self, vae: nn.Module) -> None:
        """Undo all that was set."""
        attributes = vars(vae)
        for name in self._absent:
            attributes.pop(name, None)
        attributes.update(self._before)


def install(vae: nn.Module, tiling: Tiling | None = None, *, slicing: bool = True) -> None:
    """Let an autoencoder decode and encode in tiles, one image at a time.

    What was installed before is replaced. The object's methods are: its class, its weights, hooks
    and configuration stay as they are.

    Args:
        vae: An autoencoder of diffusers, on any device, with or without offload hooks.
        tiling: How to tile; None does not.
        slicing: Whether several images are done one after the other. It comes before tiling, so
            the memory does not grow with the number of images.

    Raises:
        UnsupportedAutoencoderError: This autoencoder cannot be tiled so; nothing is installed.
        TilingSettingsError: A size does not fit this autoencoder; nothing is installed.
    """
    remove(vae)
    made = _Installation()
    try:
        if tiling is not None:
            _install_tiling(vae, tiling, made)
        _install_slicing(vae, made, slicing=slicing)
    except Exception:
        made.restore(vae)
        raise
    vars(vae)[_NAME] = made


def remove(vae: nn.Module) -> None:
    """Make an autoencoder what it was before `install`. Does nothing if nothing is installed."""
    made = vars(vae).pop(_NAME, None)
    if made is not None:
        made.restore(vae)


def installed(vae: nn.Module) -> bool:
    """Return whether something is installed."""
    return _NAME in vars(vae)


@contextmanager
def conditions(
    vae: nn.Module,
    *,
    wrap_x: bool = False,
    wrap_y: bool = False,
    before_tile: Callable[[], None] | None = None,
) -> Iterator[None]:
    """Within this context tiles keep to what one job needs. Without tiling nothing changes.

    Args:
        vae: An autoencoder on which tiling may be installed.
        wrap_x: The left and right edges are neighbours. The caller makes the convolutions
            circular.
        wrap_y: The same for the top and bottom edges.
        before_tile: Called before each tile; may raise to end the job. None: as outside.
    """
    made = vars(vae).get(_NAME)
    runner = made.runner if made is not None else None
    if runner is None:
        yield
        return
    before = runner.conditions
    runner.conditions = Conditions(
        wrap_x=wrap_x or before.wrap_x,
        wrap_y=wrap_y or before.wrap_y,
        before_tile=before_tile or before.before_tile,
    )
    try:
        yield
    finally:
        runner.conditions = before


def _install_tiling(vae: nn.Module, tiling: Tiling, made: _Installation) -> None:
    decode, encode = "_decode", "_encode"
    if isinstance(tiling, ExactTiling):
        runner = ExactAutoencoder(vae, tiling)
    elif _tiles_beside_slices(vae):
        runner = FastAutoencoder(vae, tiling, vae.decoder, vae.encoder)
        decode, encode = "_tiled_decode", "_tiled_encode"
    elif hasattr(vae, decode) and hasattr(vae, encode):
        runner = FastAutoencoder(vae, tiling, vae._decode, vae._encode)  # noqa: SLF001
    else:
        raise UnsupportedAutoencoderError(
            f"{type(vae).__name__} cannot be tiled: its class has no tiling. Turn VAE Tiling off."
        )
    if hasattr(vae, "use_tiling"):  # of its class: it would tile the tiles
        made.set(vae, "use_tiling", _tiles_beside_slices(vae))
    made.runner = runner
    made.set(vae, decode, runner.decode)
    made.set(vae, encode, runner.encode)


def _tiles_beside_slices(vae: nn.Module) -> bool:
    """Return whether it is an AutoencoderTiny, whose `decode` chooses `_tiled_decode` itself."""
    return hasattr(vae, "_tiled_decode") and not hasattr(vae, "_decode")


def _install_slicing(vae: nn.Module, made: _Installation, *, slicing: bool) -> None:
    if needs_slices(vae):
        if slicing:
            made.set(vae, "decode", Sliced(vae.decode))
            made.set(vae, "encode", Sliced(vae.encode))
    elif hasattr(vae, "use_slicing"):
        made.set(vae, "use_slicing", slicing)
