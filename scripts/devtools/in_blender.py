# SPDX-License-Identifier: GPL-3.0-or-later
"""Run inside Blender's Python: install the extension, enable it, run a script, end with its status.

Usage: in_blender.py ARCHIVE SCRIPT [ARGUMENTS], with BLENDER_USER_RESOURCES set to the profile.
"""

import ctypes
import os
import runpy
import sys
import traceback
from pathlib import Path

import bpy

MODULE = "bl_ext.user_default.tessera"


def install(archive: Path) -> None:
    """Install and enable the extension, and make sure that this really happened.

    Raises:
        RuntimeError: Blender reports success but the extension is not there.
    """
    if not archive.is_file():
        raise RuntimeError(f"{archive} does not exist. Run: python3 dev.py build")
    bpy.ops.extensions.package_install_files(
        filepath=str(archive), repo="user_default", enable_on_install=True, overwrite=True
    )
    if MODULE not in bpy.context.preferences.addons or MODULE not in sys.modules:
        raise RuntimeError(f"{archive} was not installed. See the messages above.")


def run(script: Path, arguments: list[str]) -> int:
    """Run the script as `__main__` and return its exit status."""
    sys.argv = [str(script), *arguments]
    sys.path[0] = str(script.parent)
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:  # noqa: BLE001 - whatever the script raises is its result
        traceback.print_exc()
        return 1
    return 0


def leave(status: int) -> None:
    """End without the interpreter's own clean-up, in which Blender 4.2 crashes and 4.5 hangs."""
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None) if os.name == "posix" else None
    os._exit(status)


def main() -> None:
    """Do what the module's docstring says."""
    archive, script = Path(sys.argv[1]), Path(sys.argv[2])
    arguments = sys.argv[3:]
    status = 1
    try:
        bpy.context.preferences.system.use_online_access = (
            os.environ.get("TESSERA_DEV_ONLINE") == "1"
        )
        install(archive)
        status = run(script, arguments)
        bpy.ops.preferences.addon_disable(module=MODULE)
    except Exception:  # noqa: BLE001 - the process must end here with a status
        traceback.print_exc()
        status = status or 1
    leave(status)


if __name__ == "__main__":
    main()
