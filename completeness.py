# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether every file of the extension has been unpacked. Side: Blender.

Where a path becomes too long, Windows drops files while Blender reports that all went well.
"""

from pathlib import Path

FILE_LIST = "packaged_files.txt"
"""Written into the archive when it is built: the paths of its files, one in each line."""


def first_missing(folder: Path) -> str | None:
    """Return the first file of the list that is not in the folder, or None.

    None too where there is no list: in a checkout.
    """
    try:
        names = (folder / FILE_LIST).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    return next((name for name in names if not (folder / name).is_file()), None)


def check(folder: Path) -> None:
    """Make sure that the extension in this folder can work.

    Raises:
        ImportError: A file is missing. Of all errors while enabling, Blender shows only this kind
            without a traceback, and only if its text begins like this.
    """
    missing = first_missing(folder)
    if missing is not None:
        raise ImportError(
            f"Add-on Tessera is incomplete: {missing} is missing in {folder}. Uninstall Tessera,"
            " restart Blender and install it again. If that does not help on Windows, the folder's"
            " path is too long for it: turn on long paths in Windows."
        )
