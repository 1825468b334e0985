"""A fresh Blender for each test, and a generator that does what the test says."""

import pytest

pytest.importorskip("bpy")

from fakes.blender import (  # noqa: F401  fixtures
    fresh_blender,
    generator,
    machine_preferences,
    painter,
    pixels_of_image,
)
