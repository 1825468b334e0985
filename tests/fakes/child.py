# SPDX-License-Identifier: GPL-3.0-or-later
"""A real generator process with a worker that needs no torch: the prompt says what to do.

Run as `python -I tests/fakes/child.py`, in place of `generator_process/__main__.py`, whose code it
uses. Set `TESSERA_FAKE` to let the start fail.
"""

import ctypes
import importlib.util
import os
import sys
import threading
import time
from pathlib import Path

ENTRY = Path(__file__).resolve().parents[2] / "generator_process" / "__main__.py"
NAME = "tessera.generator_process.__main__"


def load_entry():
    spec = importlib.util.spec_from_file_location(NAME, ENTRY)
    entry = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(entry)
    return entry


class UnprintableError(Exception):
    """Its text cannot be had."""

    def __str__(self):
        raise RuntimeError("no text")


class HoldingError(Exception):
    """Holds what no pickle can hold, and a large array."""

    def __init__(self, array):
        super().__init__("holds a lock", threading.Lock(), lambda: array)
        self.array = array


class FakeWorker:
    """Runs `request.sampling.prompt`: a command and its argument."""

    def __init__(self, descriptor_out):
        self._descriptor_out = descriptor_out

    def ready(self):
        from tessera.generator_process.messages import Ready

        match os.environ.get("TESSERA_FAKE", "").split(" ", 1):
            case ["exit", status]:
                os._exit(int(status))
            case ["ready_then_exit"]:
                self._write(Ready(device="cpu", device_name="", versions=()))
                sys.stderr.write("one more start\n")
                os._exit(8)
            case ["import", name]:
                __import__(name)
            case ["sleep", seconds]:
                time.sleep(float(seconds))
        python = f"{sys.version_info[0]}.{sys.version_info[1]}"
        return Ready(device="cpu", device_name=str(Path.cwd()), versions=(("python", python),))

    def explain(self, error):
        from tessera.generator_process.errors import ErrorKind

        if isinstance(error, MemoryError):
            return ErrorKind.OUT_OF_MEMORY, "Not enough memory. Lower the size."
        if isinstance(error, LookupError):
            raise RuntimeError("the explanation fails")  # noqa: TRY004
        return None

    def run(self, request, context):
        command, _, argument = request.sampling.prompt.partition(" ")
        if request.sampling.prompt == "":
            command = "images"
        result = getattr(self, f"_{command}")(argument, request, context)
        return self._finished(request) if result is None else result

    def _finished(self, request, **values):
        from tessera.generator_process.messages import Finished

        return Finished(job_id=request.job_id, model="fake", **values)

    def _images(self, _, request, context):
        import numpy as np
        from tessera.generator_process.messages import ImageData, ImageFinished, Progress

        size = (request.sampling.height_px, request.sampling.width_px, 3)
        for index, seed in enumerate(request.sampling.seeds):
            context.raise_if_cancelled()
            pixels = np.full(size, seed % 256, np.uint8)
            steps = len(request.sampling.seeds)
            context.emit(Progress(job_id=request.job_id, step=index + 1, steps=steps))
            context.emit(
                ImageFinished(
                    job_id=request.job_id, index=index, seed=seed, image=ImageData(pixels=pixels)
                )
            )

    def _steps(self, argument, request, context):
        from tessera.generator_process.messages import Progress

        for step in range(request.sampling.steps):
            context.raise_if_cancelled()
            time.sleep(float(argument))
            context.emit(
                Progress(job_id=request.job_id, step=step + 1, steps=request.sampling.steps)
            )

    def _wrapped_steps(self, argument, request, context):
        try:
            self._steps(argument, request, context)
        except Exception as error:
            raise RuntimeError("a callback failed") from error

    def _native(self, argument, request, context):
        """Busy in native code, deaf to cancelling."""
        self._steps("0", request, context)
        ctypes.CDLL(None).usleep(int(float(argument) * 1e6))

    def _raise(self, argument, request, context):
        import numpy as np

        match argument:
            case "holding":
                raise HoldingError(np.zeros(10))
            case "unprintable":
                raise UnprintableError
            case "exit":
                raise SystemExit(7)
            case "interrupt":
                raise KeyboardInterrupt
            case "recursion":
                self._raise(argument, request, context)
            case "memory":
                raise MemoryError
            case "lookup":
                raise LookupError("x" * 1_000_000)
            case "invalid":
                from tessera.generator_process.errors import InvalidRequestError

                raise InvalidRequestError("Strength 1.4 is out of range. Use a value from 0 to 1.")
            case _:
                raise ValueError(argument)

    def _return(self, argument, request, context):
        from tessera.generator_process.messages import Cancelled, Finished

        match argument:
            case "wrong type":
                return {"images": []}
            case "wrong event":
                return Cancelled(job_id=request.job_id)
            case "wrong job":
                return Finished(job_id="other")
            case "nan":
                return self._finished(request, seconds=(("load", float("nan")),))
            case _:
                return self._finished(request, notes=({"not": "text"},))

    def _emit(self, argument, request, context):
        from tessera.generator_process.messages import Finished

        context.emit(Finished(job_id=request.job_id))

    def _print(self, argument, request, context):
        print("a library says hello", argument)  # noqa: T201
        sys.stdout.write("without a line end")
        sys.stdout.flush()
        os.write(1, b"\xff\xfe written past Python")
        os.system("echo a program says hello")
        ctypes.CDLL(None).puts(b"a C library says hello")
        ctypes.CDLL(None).fflush(None)
        sys.stderr.write("Grüße 苔 \ud800 \n")

    def _flood(self, argument, request, context):
        line = b"\x80 flood " + b"x" * 990 + b"\n"
        for _ in range(int(argument)):
            os.write(2, line)

    def _garbage(self, argument, request, context):
        os.write(self._descriptor_out, argument.encode() or b"\x00garbage" * 10)
        time.sleep(30)

    def _event(self, argument, request, context):
        """Write a message that only Blender may send."""
        from tessera.generator_process.messages import Shutdown

        self._write(Shutdown())
        time.sleep(30)

    def _write(self, message):
        from tessera.generator_process.wire import encode_message

        os.write(self._descriptor_out, b"".join(encode_message(message)))

    def _half(self, argument, request, context):
        """Die within a frame."""
        from tessera.generator_process.wire import encode_message

        frame = b"".join(encode_message(self._finished(request)))
        os.write(self._descriptor_out, frame[: len(frame) // 2])
        os._exit(5)

    def _die(self, argument, request, context):
        sys.stderr.write("the last words\n")
        sys.stderr.flush()
        os.kill(os.getpid(), int(argument)) if int(argument) else os._exit(6)

    def _segfault(self, argument, request, context):
        ctypes.string_at(0)

    def _stdin(self, argument, request, context):
        return self._finished(request, notes=(repr(sys.stdin.read()),))

    def _about(self, argument, request, context):
        return self._finished(request, notes=(argument, *sys.path))


def main(worker=FakeWorker):
    entry = load_entry()
    streams = entry._private_streams

    def private_streams():
        stream_in, stream_out = streams()
        private_streams.descriptor = stream_out.fileno()
        return stream_in, stream_out

    entry._private_streams = private_streams
    entry.end(entry.main(lambda: worker(private_streams.descriptor)))


if __name__ == "__main__":
    main()
