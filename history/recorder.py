# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes finished images into the history, on a thread. Side: both.

An image is written as soon as it is there, and its settings again when its job has ended: then the
generator has said what it did. Nobody waits for it but a script.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .entries import Entry
from .store import HistoryError, Store
from .thumbnails import thumbnail_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Recorder:
    """The thread, and what it could not do. For the main thread."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None  # none before the first image
        self._running: list[Future[None]] = []
        self._kept: dict[str, list[tuple[Store, Entry]]] = {}
        self._lost: set[str] = set()
        self._problems: list[str] = []

    @property
    def has_news(self) -> bool:
        """Whether something is not written yet, or went wrong and was not taken yet."""
        return bool(self._problems) or not all(future.done() for future in self._running)

    def keep(
        self, store: Store, entry: Entry, picture: bytes, pixels: "NDArray[Any]", *, limit: int
    ) -> None:
        """Write an image, and remove the oldest ones beyond `limit` (0: none).

        Args:
            store: Where.
            entry: Its settings.
            picture: Its PNG file.
            pixels: What is in it, as in `messages.ImageData`. They must not change any more.
            limit: How many images are kept.
        """

        def write() -> None:
            try:
                store.add(entry, picture, thumbnail_of(pixels))
            except HistoryError:
                self._lost.add(entry.name)
                raise
            store.trim(limit)

        self._kept.setdefault(entry.job, []).append((store, entry))
        self._start(write)

    def finish(self, job: str, state: str, result: Mapping[str, Any]) -> None:
        """Write how a job has ended into the entries of its images."""
        for store, entry in self._kept.pop(job, []):
            self._start(lambda store=store, entry=entry: self._change(store, entry, state, result))

    def _change(self, store: Store, entry: Entry, state: str, result: Mapping[str, Any]) -> None:
        if entry.name in self._lost:
            self._lost.remove(entry.name)
            return
        store.change(replace(entry, state=state, result=dict(result)))

    def take_problems(self) -> list[str]:
        """Return what went wrong since the last call, each sentence once."""
        problems, self._problems = self._problems, []
        return list(dict.fromkeys(problems))

    def wait(self) -> None:
        """Wait until all is written."""
        for future in self._running:
            future.exception()

    def close(self) -> None:
        """Write what there is to write, and end the thread."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None

    def _start(self, write: Callable[[], None]) -> None:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="tessera history")
        self._running = [future for future in self._running if not future.done()]
        self._running.append(self._thread.submit(self._guarded, write))

    def _guarded(self, write: Callable[[], None]) -> None:
        try:
            write()
        except HistoryError as error:
            self._problems.append(str(error))
