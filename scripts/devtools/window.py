# SPDX-License-Identifier: GPL-3.0-or-later
"""Blender with windows, in a Debian system of its own: no display and no GPU are needed.

Debian's packages of Blender, of a virtual display and of a software renderer are installed into a
folder of the cache, and run in it (chroot) with mounts and processes of their own, so that nothing
is changed on this machine and nothing is left running.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from .cache import ROOT, cache_folder, key_of, lock, log_file, remove
from .console import DevError, run_with_progress, say

RELEASES = ("sid", "trixie")
"""Debian releases whose Blender is new enough, best first. One that cannot be had is left out."""

STAMP = "blender-version.txt"
"""Written last into the system's folder: its package of Blender."""

CHECKOUT = "/checkout"
"""Where the repository is inside the system."""

_PACKAGES = (
    "blender,python3-numpy,python3-cattr,python3-requests,python3-zstandard,"
    "xvfb,imagemagick,libgl1-mesa-dri,libglx-mesa0,libegl-mesa0,libegl1,"
    "fonts-dejavu-core,ca-certificates"
)
_TOOLS = ("mmdebstrap", "unshare", "chroot", "mount")
_BOOTSTRAP = ("mmdebstrap", "debian-archive-keyring")
_OF_THE_SYSTEM = {"usr", "bin", "lib", "opt", "etc"}
_ENTER = Path(__file__).with_name("enter_system.sh")


def why_not() -> str | None:
    """Return why there can be no windows on this machine, or None."""
    if sys.platform != "linux":
        return "needs Linux: Blender runs in a Debian system of its own"
    if os.geteuid() != 0:
        return "needs root, to set up a Debian system (chroot) for Blender with windows"
    if shutil.which("apt-get") is None:
        return "needs apt-get, to get Debian's Blender"
    result = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True, check=False
    )
    if result.returncode:
        return "needs mounts of its own, which this container does not allow (unshare failed)"
    return None


def ready() -> Path:
    """Return the folder of the system; set it up unless it is there.

    Raises:
        DevError: It cannot be set up. The text says why.
    """
    folder = cache_folder() / "environments" / f"window-{key_of(_PACKAGES, *RELEASES)}"
    with lock("window"):
        if not (folder / STAMP).is_file():
            _make(folder)
    return folder


def blender_version(system: Path) -> str:
    """Return the version of Blender in a system, such as "5.2.2"."""
    return (system / STAMP).read_text(encoding="utf-8").partition("+")[0]


def folders_of_python(python: Path) -> list[Path]:
    """Return the folders that an interpreter needs, none if they would hide the system's own."""
    code = "import sys; print(sys.prefix, sys.base_prefix, sep=chr(10))"
    result = subprocess.run(
        [str(python), "-I", "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    folders = [Path(line) for line in dict.fromkeys(result.stdout.splitlines())]
    return [] if any(folder.parts[1] in _OF_THE_SYSTEM for folder in folders) else folders


def run(
    system: Path,
    command: Sequence[str],
    *,
    shared: Mapping[Path, str],
    timeout_s: float,
    output: IO[str],
) -> int:
    """Run a command inside the system, with a virtual display, and return its status.

    Args:
        system: What `ready` has returned.
        command: What to run, by names inside the system.
        shared: Folders of this machine and their places inside the system. The repository is at
            `CHECKOUT` anyway.
        timeout_s: What still runs after it is ended.
        output: Takes all that is printed.
    """
    binds = [f"{source}\t{place}" for source, place in {ROOT: CHECKOUT, **shared}.items()]
    argv = [
        *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"),
        *("bash", str(_ENTER), str(system), str(len(binds)), *binds, f"{timeout_s:.0f}"),
    ]
    kept = {key: os.environ[key] for key in ("PATH", "OMP_NUM_THREADS") if key in os.environ}
    return subprocess.run(
        [*argv, *command], env=kept, stdout=output, stderr=subprocess.STDOUT, check=False
    ).returncode


def _make(folder: Path) -> None:
    log = log_file("window")
    log.write_text("", encoding="utf-8")
    if any(shutil.which(tool) is None for tool in _TOOLS):
        _apt("update", log)
        _apt("install", log, "-y", "--no-install-recommends", *_BOOTSTRAP)
    mirror = _mirror() or (_apt("update", log), _mirror())[1]
    if not mirror:
        raise DevError("apt is set up with no mirror of Debian, from which Blender could be had.")
    for release in RELEASES:
        try:
            _bootstrap(release, mirror, folder, log)
        except DevError as error:
            remove(folder)
            if release == RELEASES[-1]:
                raise
            say(f"{error}\nTrying another release of Debian")
        else:
            return


def _bootstrap(release: str, mirror: str, folder: Path, log: Path) -> None:
    remove(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    run_with_progress(
        [
            *("mmdebstrap", "--mode=root", "--variant=apt", "--format=directory"),
            # The archive may have been kept for longer than it says. Signatures are checked.
            '--aptopt=Acquire::Check-Valid-Until "false"',
            '--aptopt=APT::Install-Recommends "false"',
            *("--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/doc/*"),
            *(f"--include={_PACKAGES}", release, str(folder), f"deb {mirror} {release} main"),
        ],
        label=f"Blender with windows: setting up Debian {release}",
        log=log,
    )
    (folder / "etc" / "mtab").unlink(missing_ok=True)
    (folder / "etc" / "mtab").symlink_to("/proc/self/mounts")
    version = subprocess.run(
        ["chroot", str(folder), "dpkg-query", "-W", "-f", "${Version}", "blender"],
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout
    (folder / STAMP).write_text(f"{version}, Debian {release}\n", encoding="utf-8")


def _apt(command: str, log: Path, *arguments: str) -> None:
    run_with_progress(
        ["apt-get", "-q", command, *arguments],
        label=f"apt-get {command}",
        log=log,
        environment={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
    )


def _mirror() -> str:
    """Return the mirror of Debian that apt is set up with, so that none is named here."""
    found = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"],
        capture_output=True,
        encoding="utf-8",
        check=False,
    ).stdout.split()
    return next((uri for uri in found if uri.rstrip("/").endswith("/debian")), "")
