# SPDX-License-Identifier: GPL-3.0-or-later
"""What the generator process writes to stderr: to a log file, and kept for errors. Side: Blender.

Two Blenders may share a log file: each appends whole blocks. Nothing here may fail, since a pipe
that nobody empties stops the generator.
"""

import codecs
import io
import logging
import re
from collections import deque
from logging.handlers import RotatingFileHandler
from pathlib import Path

logger = logging.getLogger(__name__)

MAX_LOG_BYTES = 10_000_000
OLD_LOGS = 2
LAST_LINES = 40

_MAX_LINE = 2000
_CHUNK_BYTES = 2**16
_UNEVENTFUL = ("DEBUG ", "INFO ")
_LINE_END = re.compile(r"[\r\n]+")  # progress bars go back with \r


class ProcessLog:
    """Appends to a log file that is renamed when it is full, and remembers the last lines."""

    def __init__(self, path: Path) -> None:
        self._lines: deque[str] = deque(maxlen=LAST_LINES)
        self._fatal = ""
        self._handler = _open_log(path)

    def last_lines(self) -> list[str]:
        """Return the last lines that are not empty, oldest first."""
        return list(self._lines)

    def last_words(self) -> str:
        """Return the line that says most about an end: of a fatal error, or else the last one.

        Empty if the last line only says what the process was doing.
        """
        last = self._lines[-1].strip() if self._lines else ""
        return self._fatal or ("" if last.startswith(_UNEVENTFUL) else last)

    def drain(self, stream: io.BufferedReader) -> None:
        """Read until the end of the stream and close it. Takes a thread of its own."""
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        begun = ""
        with stream:
            while chunk := stream.read1(_CHUNK_BYTES):
                *whole, begun = _LINE_END.split(begun + decoder.decode(chunk))
                if len(begun) > _MAX_LINE:
                    whole.append(begun)
                    begun = ""
                self._add(whole)
        self._add([begun + decoder.decode(b"", final=True)])
        if self._handler is not None:
            self._handler.close()

    def _add(self, lines: list[str]) -> None:
        lines = [line[:_MAX_LINE] for line in lines if line.strip()]
        self._lines.extend(lines)
        for line in lines:
            if line.startswith("Fatal Python error"):
                self._fatal = line
        if lines and self._handler is not None:
            self._handler.handle(logging.makeLogRecord({"msg": "\n".join(lines)}))


class _LogFile(RotatingFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Go on: a full disk, or a file that another Blender holds, must not stop the reading."""


def _open_log(path: Path) -> _LogFile | None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = _LogFile(
            path,
            maxBytes=MAX_LOG_BYTES,
            backupCount=OLD_LOGS,
            encoding="utf-8",
            errors="backslashreplace",
        )
    except OSError as error:
        logger.warning("%s cannot be written: %s", path, error)
        return None
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    return handler
