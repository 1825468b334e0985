# SPDX-License-Identifier: GPL-3.0-or-later
"""How numbers, times and prompts are written in one line. Side: Blender."""

MINUTE_S = 60
HOUR_S = 3600


def duration(seconds: float) -> str:
    """Return a time of at least 0 seconds as "2.4 s", "45 s", "2 min 5 s" or "1 h 4 min"."""
    if round(seconds, 1) < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < MINUTE_S:
        return f"{whole} s"
    if whole < HOUR_S:
        return f"{whole // MINUTE_S} min {whole % MINUTE_S} s"
    minutes = round(whole / MINUTE_S)
    return f"{minutes // 60} h {minutes % 60} min"


def clock(seconds: float) -> str:
    """Return a time that changes while it is read, without tenths: "2 s", then as `duration`."""
    whole = round(seconds)
    return f"{whole} s" if whole < MINUTE_S else duration(whole)


def counted(number: int, noun: str) -> str:
    """Return "1 image" or "2 images"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def short(text: str, letters: int) -> str:
    """Return a text in one line, cut to this many letters. Empty for one of white space."""
    line = " ".join(text.split())
    return line if len(line) <= letters else f"{line[: letters - 1].rstrip()}…"
