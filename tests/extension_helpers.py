"""Installing the extension in the running Blender, for the package suite."""

import sys
from pathlib import Path

import bpy

MODULE = "bl_ext.user_default.tessera"


def install(archive: Path) -> None:
    """Install and enable an archive, and check it: Blender reports success in any case."""
    assert archive.is_file()
    bpy.ops.extensions.package_install_files(
        filepath=str(archive), repo="user_default", enable_on_install=True, overwrite=True
    )
    assert MODULE in bpy.context.preferences.addons
    assert MODULE in sys.modules


def uninstall() -> None:
    """Remove the extension's files."""
    repositories = bpy.context.preferences.extensions.repos
    index = next(i for i, repo in enumerate(repositories) if repo.module == "user_default")
    bpy.ops.extensions.package_uninstall(repo_index=index, pkg_id="tessera")
