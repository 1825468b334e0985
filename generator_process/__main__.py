# SPDX-License-Identifier: GPL-3.0-or-later
"""Entry point: `python -I -X utf8 <add-on>/generator_process/__main__.py`. Side: generator.

Frames go over the descriptors that were stdin and stdout at the start. What libraries print goes to
stderr, which Blender's side writes to the log. Any Python 3.8 or newer must be able to read this
file, to say that it is too old.
"""

import atexit
import faulthandler
import io
import logging
import os
import signal
import sys
import types
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .server import Worker

PACKAGE = "tessera"
EXIT_FAILED = 1
EXIT_NOT_INSTALLED = 3
EXIT_START = 4

_ROOT = Path(__file__).resolve().parent.parent
_END_S = 2.0

_QUIET = {
    "DIFFUSERS_VERBOSITY": "warning",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "warning",
}


def main(make_worker: "Callable[[], Worker] | None" = None) -> int:
    """Serve until Blender is gone. Return the exit status; its reason is the last line on stderr.

    Args:
        make_worker: Makes what runs the tasks; the one that needs torch if not given.
    """
    if sys.version_info < (3, 11):  # noqa: UP036 - the user may have chosen any Python
        return _refuse(
            EXIT_NOT_INSTALLED,
            f"{sys.executable} is Python {sys.version_info[0]}.{sys.version_info[1]}."
            " Tessera needs Python 3.11 or newer. Choose another one in Preferences.",
        )
    stream_in, stream_out = _private_streams()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C in a terminal is for Blender
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    faulthandler.enable()
    _set_up_logging()
    load_package()
    return _serve(stream_in, stream_out, make_worker or _torch_worker)


def load_package() -> None:
    """Make the add-on's folder the package `tessera`, without running its `__init__`."""
    package = types.ModuleType(PACKAGE)
    package.__path__ = [str(_ROOT)]
    sys.modules[PACKAGE] = package


def end(status: int) -> None:
    """End the process, at once and whatever the libraries' threads are doing.

    What libraries registered to tidy up is still called, but may not take long. The interpreter
    is not taken down: with native threads alive that may hang or crash.
    """
    faulthandler.dump_traceback_later(_END_S, exit=True)
    atexit._run_exitfuncs()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _serve(
    stream_in: io.BufferedReader,
    stream_out: io.BufferedWriter,
    make_worker: "Callable[[], Worker]",
) -> int:
    try:
        from .server import serve

        serve(stream_in, stream_out, make_worker())
    except BrokenPipeError:
        return EXIT_FAILED  # Blender is gone
    except Exception as error:
        logging.getLogger(f"{PACKAGE}.main").debug("the end", exc_info=True)
        return _refuse(*_reason(error))
    return 0


def _reason(error: Exception) -> "tuple[int, str]":
    from .errors import NotInstalledError, ProtocolError, TesseraError

    if isinstance(error, ImportError):
        return EXIT_NOT_INSTALLED, _missing(error)
    if isinstance(error, NotInstalledError):
        return EXIT_NOT_INSTALLED, str(error)
    if isinstance(error, ProtocolError):
        return EXIT_FAILED, str(error)
    if isinstance(error, TesseraError):
        return EXIT_START, str(error)
    logging.getLogger(f"{PACKAGE}.main").error("unexpected", exc_info=error)
    return EXIT_FAILED, f"{type(error).__name__}: {error}"


def _torch_worker() -> "Worker":
    from .worker import make_worker

    return make_worker()


def _missing(error: ImportError) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        what = f'lacks the package "{error.name}"'
    else:
        what = f"has a package that cannot be loaded ({str(error).splitlines()[0]})"
    return (
        f"The Python environment in {sys.prefix} {what}. Press Install Generator in Preferences,"
        " or choose another Python there or by TESSERA_PYTHON."
    )


def _refuse(status: int, reason: str) -> int:
    sys.stderr.write("\n" + " ".join(reason.split()) + "\n")
    sys.stderr.flush()
    return status


def _private_streams() -> "tuple[io.BufferedReader, io.BufferedWriter]":
    """Take the pipes away from everything else in this process and in those that it starts."""
    descriptor_in, descriptor_out = os.dup(0), os.dup(1)  # `dup` makes them not inheritable
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(descriptor_in, os.O_BINARY)
        msvcrt.setmode(descriptor_out, os.O_BINARY)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace", line_buffering=True)
    return (
        io.BufferedReader(io.FileIO(descriptor_in, "r")),
        io.BufferedWriter(io.FileIO(descriptor_out, "w")),
    )


def _set_up_logging() -> None:
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    level = os.environ.get("TESSERA_LOG_LEVEL", "INFO").upper()
    logging.getLogger(PACKAGE).setLevel(level if level in ("DEBUG", "WARNING") else "INFO")
    logging.captureWarnings(capture=True)


if __name__ == "__main__":
    __package__ = f"{PACKAGE}.generator_process"  # for the relative imports above
    end(main())
