"""Fixtures for every test that runs in Blender. Import them all in a conftest."""

import bpy
import numpy as np
import pytest
import tessera

from .generator import FakeGenerator
from .painter import paint


@pytest.fixture(autouse=True)
def fresh_blender(tmp_path_factory):
    """An empty file, an empty history and a fresh registration.

    A class left registered can crash Blender at exit.
    """
    from tessera.history import place

    folder = tmp_path_factory.mktemp("user") / "история 1"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place, "folder", lambda: folder)
        bpy.ops.wm.read_factory_settings(use_empty=True)
        tessera.register()
        yield
        tessera.unregister()


@pytest.fixture
def generator(fresh_blender):
    """A generator whose events the test pushes."""
    from tessera import session

    fake = FakeGenerator()
    session.start(lambda: fake)
    return fake


@pytest.fixture
def painter(generator):
    """A generator that answers each request with images that depend on the seed alone."""
    generator.responder = paint
    return generator


@pytest.fixture
def machine_preferences(fresh_blender):
    """The add-on's preferences, as an installed Tessera has them."""
    addons = bpy.context.preferences.addons
    addon = addons.new()
    addon.module = "tessera"
    yield addon.preferences
    addons.remove(addon)


@pytest.fixture
def pixels_of_image():
    """Return a function: an image datablock to `uint8` (height, width, 4), row 0 at the top."""

    def read(image):
        width, height = image.size
        flat = np.empty(width * height * 4, np.float32)
        image.pixels.foreach_get(flat)
        return np.rint(flat * 255).astype(np.uint8).reshape(height, width, 4)[::-1]

    return read
