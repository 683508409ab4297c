"""execute: one stream from the request to its final, with time limits, retries and cancellation."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Self

from tenacity import AsyncRetrying

from adk_stream.execution.attempt import LINGER, ExecutionBase, Left, Setup
from adk_stream.execution.faults import as_stream_error
from adk_stream.execution.options import StreamExecutionOptions
from adk_stream.execution.pump import Bell, Pump
from adk_stream.execution.retrying import retry_arguments

if TYPE_CHECKING:
    from adk_stream.aggregator.core import Audio, Flush
    from adk_stream.parts import StreamLimits
    from adk_stream.response import LlmResponse

__all__ = ["Execution", "execute"]


class Execution(ExecutionBase, AsyncIterator["LlmResponse"]):
    """The responses of one stream, as they come; what ``execute`` gives.

    Attributes:
        final: The last final, once the stream has ended; after ``cancel()`` or ``aclose()`` in mid-stream, what had
            come, with status ``cancelled``. None if nothing had come.
        attempts: How many attempts were begun.
    """

    def __init__(self, start: Callable[[], Any], setup: Setup, options: StreamExecutionOptions) -> None:
        super().__init__(setup, options)
        self._start = start
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bell: Bell
        self._pump: Pump | None = None
        self._busy = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LlmResponse:
        if self._busy:
            raise RuntimeError("two tasks ask for the next response of one execution")
        self._busy = True
        try:
            while True:
                if self._ready:
                    return self._ready.popleft()
                if self._over:
                    await self._closed()
                    self._raise_failure()
                    raise StopAsyncIteration
                await self._advance()
        finally:
            self._busy = False

    async def _advance(self) -> None:
        """Wait until there is something to give, or the stream is over."""
        try:
            if self._loop is None:
                self._loop = asyncio.get_running_loop()
                self._bell = Bell()
                retrying = retry_arguments(self._options, self._patience, self._may_retry, self._sleep)
                await AsyncRetrying(**retrying)(self._try)
            else:
                await self._read()
        except Left:
            pass
        except Exception as problem:
            self._fail(problem)
            self._stop()
        except GeneratorExit as problem:  # nothing may be awaited now
            self._leave(problem)
            self._stop()
            raise
        except BaseException as problem:
            self._leave(problem)
            self._stop()
            await self._closed()
            raise

    async def _try(self) -> None:
        """One attempt, until it shows something or is over."""
        self._begin()
        self._pump = Pump(self._start, self._bell, self._options.close_timeout)
        try:
            while not (self._ready or self._over):
                await self._read()
        except Exception as problem:
            self._pump.conclude(None, as_stream_error(problem))
            self._pump.stop()
            await self._pump.closed()
            self._raise_as_ours(problem)

    async def _read(self) -> None:
        """Take in what comes next."""
        pump = self._pump
        assert pump is not None
        while not pump.pieces:
            self._check_left()
            if pump.ended:
                if pump.problem is not None:
                    raise pump.problem
                self._finish()
                self._stop()
                return
            if self._patience.is_over():
                self._cut_short()
                self._stop()
                return
            self._patience.waited += await self._bell.wait(self._patience.left)
        if self._take(pump.take()):
            pump.linger(LINGER)

    async def _sleep(self, seconds: float) -> None:
        """The wait before a retry; ``cancel()`` ends it."""
        while seconds > 0:
            self._check_left()
            took = await self._bell.wait(seconds)
            self._patience.waited += took
            seconds -= took
        self._check_left()

    # ------------------------------------------------------------- leaving

    def cancel(self) -> None:
        """Leave the stream, from any task or thread: it gives nothing more, and its connection is closed.

        Called in the loop's own thread it takes effect at once; from another thread, as soon as the loop gets to it.
        A task that waits for the next response gets the end of the iteration. Cancelling again does nothing.
        """
        if self._loop is None or self._loop.is_closed() or _running_loop() is self._loop:
            self._cancel()
        else:
            with contextlib.suppress(RuntimeError):  # the loop was closed just now
                self._loop.call_soon_threadsafe(self._cancel)

    async def aclose(self) -> None:
        """Leave the stream, and wait until its connection is closed (``close_timeout`` at most)."""
        self._cancel()
        await self._closed()

    def _cancel(self) -> None:
        self._leave(asyncio.CancelledError("the consumer left"))
        self._stop()

    def _end(self, final: LlmResponse | None) -> None:
        super()._end(final)
        if self._pump is not None:
            self._pump.conclude(final, self._failure)

    def _leave(self, problem: BaseException) -> None:
        super()._leave(problem)
        if self._pump is not None:
            self._pump.conclude(self.final, problem)

    def _stop(self) -> None:
        if self._pump is not None:
            self._pump.stop()
        if self._loop is not None:
            self._bell.ring()
            self._bell.put_away()

    async def _closed(self) -> None:
        if self._pump is not None:
            await self._pump.closed()
        if self._loop is not None:
            self._bell.put_away()

    def __del__(self) -> None:
        """The consumer let go without closing."""
        pump, loop = getattr(self, "_pump", None), getattr(self, "_loop", None)
        if pump is not None and loop is not None and not (pump.ended and self._over):
            with contextlib.suppress(RuntimeError):  # the loop is closed, and with it the connection
                loop.call_soon_threadsafe(pump.abandon)


def execute(
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
) -> Execution:
    """Run one streamed request: partials while it runs, then the finals.

    Args:
        start: Makes the request: gives an async iterator of pieces (bytes or str cut anywhere, decoded events, or
            SDK objects), or an awaitable of one, such as ``lambda: client.messages.create(..., stream=True)``.
            Called once for each attempt.
        options: Time limits and retries; None: the defaults.
        provider: As for ``aggregate``, and so are all that follow.
        flush: ``"close"`` or ``"boundary"``.
        candidate_index: The candidate (choice) that is aggregated.
        audio: ``"join"`` or ``"drop"``.
        think_tags: Split ``<think>`` tags out of the text.
        on_malformed: ``"raise"`` or ``"skip"``.
        limits: Bounds on what is held.

    The stream ends at the provider's end mark, without waiting for the socket. A fault gives a ``failed`` final with
    what had come, and is then raised as an error of this package, whichever client it came from. It is retried, if
    retries are left and it may pass, only while nothing was shown. An answer that is cut after it has shown something
    ends with an ``incomplete`` final, and nothing is raised.

    A source with a method ``follow_outcome`` (see ``ToldSource``) is told what became of its answer.

    The idle limit sees what the source gives. A client that keeps pings to itself, as Anthropic's does, hides them:
    then the limit must be longer than the model's longest silence, or the source be the response's bytes.

    To close at once when leaving early, use ``contextlib.aclosing``; a plain ``break`` closes when the iterator is
    let go. If the consuming task is cancelled, the connection is closed first, and what had come is in ``.final``.

    Raises (while iterating):
        StreamTimeoutError: a limit was hit; ``.limit`` names it.
        StreamCutError: the answer ended before it had shown anything.
        ConnectionLostError: the connection failed, or broke off.
        ProviderError: the provider refused the request, or reported an error inside the stream.
        MalformedStreamError: an event cannot be read.
        Exception: what ``start`` or its source raised otherwise, unchanged.
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
    return Execution(start, setup, options or StreamExecutionOptions())


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
