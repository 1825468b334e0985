# SPDX-License-Identifier: GPL-3.0-or-later
"""Stable Diffusion image generation inside Blender. Side: both.

Nothing is imported at module level, so that the generator process and the tests can import the
package without Blender.
"""


def register() -> None:
    """Add Tessera to Blender. Called by Blender when the extension is enabled."""
    from pathlib import Path

    from . import completeness

    completeness.check(Path(__file__).parent)
    from . import registration

    registration.register()


def unregister() -> None:
    """Remove everything that `register` added."""
    from . import registration

    registration.unregister()
