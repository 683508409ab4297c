"""execute_blocking: execute, for code without an event loop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, Self

from tenacity import Retrying

from adk_stream.execution.attempt import LINGER, ExecutionBase, Left, Setup
from adk_stream.execution.options import StreamExecutionOptions
from adk_stream.execution.retrying import retry_arguments
from adk_stream.execution.threads import ThreadBell, ThreadPump, pull

if TYPE_CHECKING:
    from adk_stream.aggregator.core import Audio, Flush
    from adk_stream.parts import StreamLimits
    from adk_stream.response import LlmResponse

__all__ = ["BlockingExecution", "execute_blocking"]


class BlockingExecution(ExecutionBase, Iterator["LlmResponse"]):
    """The responses of one stream, as they come; what ``execute_blocking`` gives. One thread iterates it.

    Attributes:
        final: As for ``Execution``.
        attempts: As for ``Execution``.
    """

    def __init__(self, start: Callable[[], Any], setup: Setup, options: StreamExecutionOptions) -> None:
        super().__init__(setup, options)
        self._start = start
        self._bell = ThreadBell()
        self._pump: ThreadPump | None = None
        self._lingers = False  # the line's end mark came, and the source may end by itself
        self._lock = threading.RLock()  # held while something is taken in, never while something is waited for

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> LlmResponse:
        while True:
            with self._lock:
                if self._ready:
                    return self._ready.popleft()
            if self._over:
                self._stop()
                self._raise_failure()
                raise StopIteration
            self._advance()

    def _advance(self) -> None:
        """Wait until there is something to give, or the stream is over."""
        try:
            if self._pump is None:
                retrying = retry_arguments(self._options, self._patience, self._may_retry, self._sleep)
                Retrying(**retrying)(self._try)
            else:
                self._read()
        except Left:
            pass
        except Exception as problem:
            with self._lock:
                self._fail(problem)
        except BaseException as problem:
            with self._lock:
                self._leave(problem)
            self._stop()
            raise

    def _try(self) -> None:
        """One attempt, until it shows something or is over."""
        with self._lock:
            self._check_left()
            self._begin()
        self._pump = ThreadPump(self._start, self._bell, self._options.close_timeout)
        try:
            while not (self._ready or self._over):
                self._read()
        except Exception as problem:
            self._stop()
            self._raise_as_ours(problem)

    def _read(self) -> None:
        """Take in what comes next."""
        assert self._pump is not None
        came = pull(self._pump, self._bell, self._patience, self._check_left)
        with self._lock:
            self._check_left()
            if came:
                self._lingers = self._take(came[0])
            elif self._pump.ended:
                self._finish()
            else:
                self._cut_short()
                self._pump.stop()

    def _sleep(self, seconds: float) -> None:
        """The wait before a retry; ``cancel()`` ends it."""
        while seconds > 0:
            self._check_left()
            took = self._bell.wait(seconds)
            self._patience.waited += took
            seconds -= took
        self._check_left()

    # ------------------------------------------------------------- leaving

    def cancel(self) -> None:
        """Leave the stream, from any thread: it gives nothing more, and its connection is closed.

        A thread that waits for the next response gets the end of the iteration. Cancelling again does nothing.
        """
        with self._lock:
            self._leave(CancelledError("the consumer left"))
        self._bell.ring()
        if self._pump is not None:
            self._pump.stop()

    def close(self) -> None:
        """Leave the stream, and wait until its connection is closed (``close_timeout`` at most)."""
        self.cancel()
        self._stop()

    def _stop(self) -> None:
        if self._pump is not None:
            if self._lingers:
                self._pump.linger(LINGER)
            self._pump.stop()
            self._pump.closed()

    def __del__(self) -> None:
        """The consumer let go without closing."""
        pump = getattr(self, "_pump", None)
        if pump is not None:
            pump.stop()


def execute_blocking(
    start: Callable[[], Any],
    options: StreamExecutionOptions | None = None,
    *,
    provider: str = "auto",
    flush: Flush = "close",
    candidate_index: int = 0,
    audio: Audio | None = None,
    think_tags: bool | None = None,
    on_malformed: str = "raise",
    limits: StreamLimits | None = None,
) -> BlockingExecution:
    """``execute`` over blocking iterables: the same arguments, limits, retries and errors.

    ``start`` gives an iterable of pieces; a daemon thread calls it and reads it. A limit holds even if the source
    blocks for ever. To close at once when leaving early, use ``contextlib.closing``.
    """
    setup = Setup(
        provider,
        flush,
        candidate_index=candidate_index,
        audio=audio,
        think_tags=think_tags,
        on_malformed=on_malformed,
        limits=limits,
    )
    return BlockingExecution(start, setup, options or StreamExecutionOptions())
