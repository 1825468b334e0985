# SPDX-License-Identifier: GPL-3.0-or-later
"""What dev.py says, and long commands with their progress."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

SECONDS_BETWEEN_LINES = 5.0
LINES_OF_LOG_SHOWN = 15
_INTERESTING = re.compile(r"^\s*(Collecting|Downloading|Processing|Building|Installing collected)")


class DevError(Exception):
    """A command of dev.py cannot go on. The text says why and what to do."""


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def run_with_progress(
    argv: Sequence[str],
    *,
    label: str,
    log: Path,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a long command: its output goes to `log`, a line of it is shown every few seconds.

    Raises:
        DevError: The command failed. The last lines of its output are in the text.
    """
    start = shown = time.monotonic()
    say(f"{label} ...")
    log.parent.mkdir(parents=True, exist_ok=True)
    lines: list[str] = []
    with log.open("a", encoding="utf-8") as file:
        file.write(f"$ {' '.join(argv)}\n")
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env=dict(environment) if environment is not None else None,
        )
        assert process.stdout is not None
        try:
            with process.stdout as output:
                for line in output:
                    file.write(line)
                    file.flush()
                    lines.append(line.rstrip())
                    now = time.monotonic()
                    if _INTERESTING.match(line) and now - shown >= SECONDS_BETWEEN_LINES:
                        say(f"  {now - start:4.0f} s  {_shortened(line)}")
                        shown = now
            status = process.wait()
        except BaseException:  # also Ctrl-C: do not leave the command running
            process.terminate()
            process.wait()
            raise
    if status:
        tail = "\n".join("    " + line for line in lines[-LINES_OF_LOG_SHOWN:])
        raise DevError(f"{label} failed with status {status}. See {log}\n{tail}")
    say(f"{label}: done in {time.monotonic() - start:.0f} s")


def run_through(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    timeout_s: float | None = None,
) -> int:
    """Run a command with its output on the console and return its status (124: too slow)."""
    sys.stdout.flush()
    try:
        return subprocess.run(
            list(argv),
            env=dict(environment) if environment is not None else None,
            cwd=folder,
            timeout=timeout_s,
            check=False,
        ).returncode
    except subprocess.TimeoutExpired:
        say(f"Stopped after {timeout_s:.0f} s")
        return 124


def _shortened(line: str) -> str:
    text = re.sub(r"\s*\((from|using|\d+\.\d+ [kMG]?B).*", "", line.strip())
    return text if len(text) <= 90 else text[:87] + "..."
