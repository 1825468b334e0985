# SPDX-License-Identifier: GPL-3.0-or-later
"""Run in Blender by dev.py: install the runtime environment and write its interpreter's path."""

import importlib
import logging
import sys
from pathlib import Path

import bpy


def main() -> None:
    """Call the add-on's operator, as the button in the preferences does."""
    logging.basicConfig(level=logging.INFO, format="  %(message)s", stream=sys.stdout)
    bpy.ops.tessera.install_runtime()
    runtime = importlib.import_module("bl_ext.user_default.tessera.runtime")
    python = runtime.installed_python()
    if python is None:
        sys.exit("The operator ended without an error, but the runtime is not installed.")
    Path(sys.argv[1]).write_text(str(python), encoding="utf-8")


main()
