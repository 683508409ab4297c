"""An event loop for callers that have none: the blocking form of a run.

A client's open connections belong to the loop that opened them. So one loop serves all blocking runs of a runner,
and stays when they are over; its thread, in which they run at once, does not.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

__all__ = ["LoopThread"]

_T = TypeVar("_T")


class LoopThread:
    """A loop, and a thread that runs it while somebody is inside the ``with`` block. May be shared by threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        with self._guard:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                weakref.finalize(self, self._loop.close)
            self._users += 1
            if self._thread is None:
                # A daemon: an interpreter that exits does not wait for a run that nobody reads.
                self._thread = threading.Thread(target=self._loop.run_forever, name="adk-stream-run", daemon=True)
                self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._guard:
            self._users -= 1
            if self._users or self._loop is None or self._thread is None:
                return
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._thread = None

    def wait_for(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run ``work`` in the loop, and wait for what it gives. An interrupt of this thread cancels it.

        Raises:
            RuntimeError: called in the loop's own thread, which would wait for itself.
        """
        if self._loop is None or threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("a blocking run cannot be read from within a run of the same runner")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise
