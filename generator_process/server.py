# SPDX-License-Identifier: GPL-3.0-or-later
"""Takes requests one after the other and answers each with exactly one terminal event.

Side: generator.

One thread reads: it queues requests and sets the flags of cancelled jobs. The main thread runs the
tasks, because some libraries insist on it. When the input ends, Blender is gone, and the process
ends, whatever it is doing. No torch here: what needs it is behind `Worker`.
"""

import logging
import os
import queue
import threading
import traceback
from typing import Protocol

from .context import TaskContext
from .errors import (
    CancelledError,
    ErrorKind,
    InvalidRequestError,
    ProtocolError,
    TesseraError,
    kind_of,
)
from .messages import (
    Cancel,
    Cancelled,
    Event,
    Failed,
    Finished,
    ImageFinished,
    Progress,
    Ready,
    Request,
    Shutdown,
)
from .wire import (
    Readable,
    Writable,
    decode_frame,
    encode_message,
    job_id_of,
    read_frame,
    write_frame,
)

logger = logging.getLogger(__name__)

GRACE_S = 2.0
"""How long a busy task may go on after Blender is gone."""

MAX_MESSAGE_CHARACTERS = 2000
MAX_DETAIL_CHARACTERS = 20_000


class Worker(Protocol):
    """Everything that knows torch."""

    def ready(self) -> Ready:
        """Import what is needed and find the device. Called once, before the first `run`."""
        ...

    def run(self, request: Request, context: TaskContext) -> Finished:
        """Do one job. Ends by returning or raising; `CancelledError` after a cancel."""
        ...

    def explain(self, error: BaseException) -> tuple[ErrorKind, str] | None:
        """Say in a sentence what an error of a library means, or None if that is not known."""
        ...


def serve(stream_in: Readable, stream_out: Writable, worker: Worker) -> None:
    """Answer requests until the input ends or `Shutdown` arrives.

    Raises:
        ProtocolError: What arrived is not a message; nothing more can be read.
        TesseraError: The worker could not get ready.
        OSError: Blender is gone.
    """
    server = _Server(stream_in, stream_out, worker)
    try:
        server.run()
    finally:
        server.ended.set()


class _Server:
    def __init__(self, stream_in: Readable, stream_out: Writable, worker: Worker) -> None:
        self.ended = threading.Event()
        self._in = stream_in
        self._out = stream_out
        self._worker = worker
        self._write_lock = threading.Lock()
        self._accepted: dict[str, threading.Event] = {}  # by job: set when cancelled
        self._requests: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._read_error: Exception | None = None

    def run(self) -> None:
        threading.Thread(target=self._read, name="tessera reader", daemon=True).start()
        self._write(self._worker.ready())
        while (request := self._requests.get()) is not None:
            self._answer(request)
            del request  # its arrays are not needed while the next one is awaited
        if self._read_error is not None:
            raise self._read_error

    # The reading thread

    def _read(self) -> None:
        try:
            while self._read_one():
                pass
        except (ProtocolError, OSError) as error:
            self._read_error = error
        except Exception as error:
            logger.exception("reading failed")
            self._read_error = error
        for flag in list(self._accepted.values()):
            flag.set()
        self._requests.put(None)
        if not self.ended.wait(GRACE_S):
            logger.warning(
                "ending while a task is busy: %s", self._read_error or "Blender needs it no more"
            )
            os._exit(1)

    def _read_one(self) -> bool:
        """Take one message. False when there will be none any more."""
        frame = read_frame(self._in)
        if frame is None:
            return False
        try:
            message = decode_frame(frame)
        except (InvalidRequestError, ProtocolError) as error:
            job_id = job_id_of(frame)
            if job_id is None or job_id in self._accepted:
                raise
            self._write(Failed(job_id=job_id, kind=kind_of(error), message=str(error)))
            return True
        match message:
            case Shutdown():
                return False
            case Cancel():
                flag = self._accepted.get(message.job_id)
                if flag is not None:  # else it has ended, which needs no answer
                    flag.set()
            case Ready() | Progress() | ImageFinished() | Finished() | Failed() | Cancelled():
                raise ProtocolError(f"A {type(message).__name__} was sent to the generator.")
            case _:
                self._accept(message)
        return True

    def _accept(self, request: Request) -> None:
        if request.job_id in self._accepted:
            raise ProtocolError(f"Job {request.job_id} was sent twice.")
        self._accepted[request.job_id] = threading.Event()
        self._requests.put(request)

    # The main thread

    def _answer(self, request: Request) -> None:
        logger.info("job %s: %s", request.job_id, type(request).__name__)
        event = self._outcome(request)
        logger.info("job %s: %s", request.job_id, type(event).__name__)
        del self._accepted[request.job_id]
        try:
            self._write(event)
        except ProtocolError as error:
            logger.exception("the result of job %s cannot be sent", request.job_id)
            self._write(Failed(job_id=request.job_id, kind=kind_of(error), message=str(error)))

    def _outcome(self, request: Request) -> Finished | Failed | Cancelled:
        """Run the task. Whatever it raises, even `SystemExit`, becomes an event.

        The first `Progress` tells the client that the job is in hands: if the process dies before,
        the client may send the job to another one.
        """
        job_id = request.job_id
        cancelled = self._accepted[job_id]
        context = TaskContext(job_id, self._write, cancelled)
        try:
            context.raise_if_cancelled()
            self._write(Progress(job_id=job_id, step=0, steps=1, stage="Starting"))
            result = self._worker.run(request, context)
            return _checked(result, job_id)
        except CancelledError:
            return Cancelled(job_id=job_id)
        except BaseException as error:  # noqa: BLE001 - every job ends in exactly one event
            if cancelled.is_set() and _comes_from_cancelling(error):
                return Cancelled(job_id=job_id)
            return self._failure(job_id, error)

    def _failure(self, job_id: str, error: BaseException) -> Failed:
        detail = _traceback_of(error)
        logger.error("job %s failed\n%s", job_id, detail)
        kind, message = self._explanation(error)
        return Failed(
            job_id=job_id, kind=kind, message=_cut(message, MAX_MESSAGE_CHARACTERS), detail=detail
        )

    def _explanation(self, error: BaseException) -> tuple[ErrorKind, str]:
        if isinstance(error, TesseraError):
            return kind_of(error), _text_of(error)
        try:
            explanation = self._worker.explain(error)
        except BaseException:
            logger.exception("an error could not be explained")
            explanation = None
        if explanation is not None:
            return explanation
        text = _text_of(error).rstrip(".")
        return (
            ErrorKind.GENERATOR,
            f"Generating stopped with an unexpected error: {text}. The log says more.",
        )

    def _write(self, event: Event) -> None:
        frame = encode_message(event)
        with self._write_lock:
            write_frame(self._out, frame)


def _checked(result: object, job_id: str) -> Finished:
    if not isinstance(result, Finished) or result.job_id != job_id:
        raise TypeError(f"the task returned {type(result).__name__}, not its Finished")
    return result


def _comes_from_cancelling(error: BaseException) -> bool:
    """Whether a library wrapped the `CancelledError` that went through it."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, CancelledError):
            return True
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return False


def _text_of(error: BaseException) -> str:
    try:
        text = str(error).strip()
    except BaseException:  # noqa: BLE001 - a foreign `__str__` may do anything
        text = ""
    return text or type(error).__name__


def _traceback_of(error: BaseException) -> str:
    try:
        text = "".join(traceback.format_exception(error))
    except BaseException:  # noqa: BLE001 - as above
        text = f"{type(error).__name__}, which cannot be shown"
    return _cut(text, MAX_DETAIL_CHARACTERS)


def _cut(text: str, limit: int) -> str:
    """Shorten by leaving out the middle: a traceback says most at its ends."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
