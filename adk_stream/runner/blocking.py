"""An event loop for callers that have none: the blocking form of a run.

A client's open connections belong to the loop that opened them. So one loop serves all blocking runs of a runner,
and stays when they are over; its thread, in which they run at once, does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import weakref
from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from adk_stream.sessions.event import Event

    from .run import Run

__all__ = ["LoopThread"]

_T = TypeVar("_T")


class LoopThread:
    """A loop, and a thread that runs it while there is a run to read. May be shared by threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._runs: set[Run] = set()  # those that are being read
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def read(self, run: Run) -> Generator[Event, None, None]:
        """The run's events. An interrupt of the calling thread leaves the run, and so does closing this iterator.

        Raises:
            RuntimeError: called in the loop's own thread, which would wait for itself.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("a blocking run cannot be read from within another of the same runner")
        loop = self._begin(run)
        try:
            while (event := _wait_for(_next_of(run), loop)) is not None:
                yield event
        finally:
            if not sys.is_finalizing():  # then the thread runs no more, and _end has left the run
                _wait_for(run.aclose(), loop)
                self._finish(run, loop)

    def _begin(self, run: Run) -> asyncio.AbstractEventLoop:
        with self._guard:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                weakref.finalize(self, _end, self._loop, self._runs)
            self._runs.add(run)
            if self._thread is None:
                # A daemon: an interpreter that exits does not wait for a run that nobody reads.
                self._thread = threading.Thread(target=self._loop.run_forever, name="adk-stream-run", daemon=True)
                self._thread.start()
            return self._loop

    def _finish(self, run: Run, loop: asyncio.AbstractEventLoop) -> None:
        with self._guard:
            self._runs.discard(run)
            if not self._runs and self._thread is not None:
                loop.call_soon_threadsafe(loop.stop)
                self._thread.join()
                self._thread = None


def _wait_for(work: Coroutine[Any, Any, _T], loop: asyncio.AbstractEventLoop) -> _T:
    """Run ``work`` in the loop, and wait for what it gives. An interrupt of this thread cancels it."""
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def _next_of(run: Run) -> Event | None:
    return await anext(run, None)


#: Seconds that runs which nobody closed have to store what had come, when the interpreter ends.
_LAST_WORDS = 5.0


def _end(loop: asyncio.AbstractEventLoop, runs: set[Run]) -> None:
    """Close the loop; at the interpreter's end, leave the runs first that are still open."""
    if not loop.is_running():
        loop.close()
        return
    for run in list(runs):
        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(run.aclose(), loop).result(_LAST_WORDS)
    loop.call_soon_threadsafe(loop.stop)
