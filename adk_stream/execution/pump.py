"""The pump: a task of its own reads the source, so that whoever waits for it can stop waiting at any time.

A read that hangs, or a source that hangs while it closes, then holds up nobody but this task; and the source is
opened, read and closed in one task, which cancel scopes and task groups inside it need.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from adk_stream.execution.told import ToldSource

if TYPE_CHECKING:
    from adk_stream.execution.told import Tell
    from adk_stream.response import LlmResponse

__all__ = ["Bell", "Pump"]

_AHEAD = 16  # pieces read ahead of the consumer, no more: a slow one holds the source back

_LAST_MOMENT = 0.1  # for a close that was itself cancelled to come to its end


class Bell:
    """Wakes the one who waits: at a ring, or when the time is over.

    One timer serves a whole stream. It is set anew only when it goes off too early, not at each wait.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = self._set_for = math.inf

    def ring(self) -> None:
        """Wake the one who waits, if anyone does."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, seconds: float) -> float:
        """Wait for a ring, at most that long (it may be infinite).

        Returns:
            The seconds that it took.
        """
        began = self._loop.time()
        self._due = began + seconds
        if self._due < self._set_for:
            self._set_timer()
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        return self._loop.time() - began

    def put_away(self) -> None:
        """Nobody will wait any more."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._set_for = None, math.inf

    def _set_timer(self) -> None:
        self.put_away()
        self._timer, self._set_for = self._loop.call_at(self._due, self._go_off), self._due

    def _go_off(self) -> None:
        self._timer, self._set_for = None, math.inf
        if self._waiter is None or self._due == math.inf:
            return
        if self._loop.time() < self._due:
            self._set_timer()
        else:
            self.ring()


class Pump:
    """Reads one source, ahead of its consumer.

    Args:
        start: Opens the source: gives an async iterator, or an awaitable of one. A plain iterable will do as well.
        bell: Rung when something has come.
        close_timeout: Seconds that the source has for closing, before its close is cancelled.

    Attributes:
        pieces: What has come and was not taken.
        ended: Nothing more comes.
        problem: What the source raised.
    """

    def __init__(self, start: Callable[[], Any], bell: Bell, close_timeout: float) -> None:
        self.pieces: deque[Any] = deque()
        self.ended = False
        self.problem: BaseException | None = None
        self._bell = bell
        self._close_timeout = close_timeout
        self._room: asyncio.Future[None] | None = None
        self._unwanted = self._stopped = False
        self._tell: Tell | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run(start), name="adk-stream-source")
        self._task.add_done_callback(self._done)

    def take(self) -> Any:
        """The oldest piece."""
        piece = self.pieces.popleft()
        if not self.pieces:
            self._make_room()
        return piece

    def linger(self, seconds: float) -> None:
        """The source may come to its end by itself, which keeps its connection usable; then it is closed."""
        self._throw_away()
        if self._timer is None:
            self._timer = self._loop.call_later(seconds, self.stop)

    def stop(self) -> None:
        """Close the source. Stopping again does nothing."""
        if self._stopped or self._task.done() or self._loop.is_closed():
            return
        self._stopped = True
        self._throw_away()
        if not self.ended:  # else it is closing already
            self._task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(self._close_timeout, self._task.cancel)  # now the close itself

    def conclude(self, final: LlmResponse | None, problem: BaseException | None) -> None:
        """Tell the source what became of its answer, if it wants to know. Telling again does nothing."""
        tell, self._tell = self._tell, None
        if tell is not None:
            tell(final, problem)

    def abandon(self) -> None:
        """Nobody will ever read what the source gives, nor what it came to."""
        self.conclude(None, GeneratorExit())
        self.stop()

    def _throw_away(self) -> None:
        """Nobody wants what came, nor what comes."""
        self._unwanted = True
        self.pieces.clear()
        self._make_room()

    def _make_room(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    async def closed(self) -> None:
        """Wait until the source is closed, no longer than the bound."""
        if not self._task.done():
            await asyncio.wait({self._task}, timeout=self._close_timeout + _LAST_MOMENT)

    def _done(self, task: asyncio.Task[None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._end()

    def _end(self) -> None:
        self.ended = True
        self._bell.ring()

    async def _run(self, start: Callable[[], Any]) -> None:
        stream: Any = None
        pieces: Any = None
        try:
            stream = start()
            if isinstance(stream, Awaitable) and not isinstance(stream, AsyncIterable):
                stream = await stream
            if isinstance(stream, ToldSource):
                self._tell = stream.follow_outcome()
            pieces = _pieces(stream)
            async for piece in pieces:
                if self._unwanted:
                    await asyncio.sleep(0)  # a source that never waits could not be stopped else
                    continue
                self.pieces.append(piece)
                self._bell.ring()
                if len(self.pieces) >= _AHEAD:
                    await self._wait_for_room()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as problem:
            self.problem = problem
            if self._stopped and isinstance(problem, asyncio.CancelledError):
                raise
        finally:
            self._end()  # first: nobody shall wait for the close to learn of the end
            try:
                await _close(pieces)
            finally:
                if pieces is not stream:
                    await _close(stream)

    async def _wait_for_room(self) -> None:
        self._room = self._loop.create_future()
        try:
            await self._room
        finally:
            self._room = None


def _pieces(stream: Any) -> AsyncIterator[Any]:
    return aiter(stream) if isinstance(stream, AsyncIterable) else _in_turn(stream)


async def _in_turn(stream: Any) -> AsyncIterator[Any]:
    whole = isinstance(stream, (bytes, bytearray, memoryview, str, Mapping))
    for piece in (stream,) if whole else stream:
        yield piece


async def _close(source: Any) -> None:
    """Close an async iterator, or a client's stream, whose method may be called either way and be sync or not.

    What it says to that is of no interest to anybody: the stream is over, or its error is known.
    """
    close = getattr(source, "aclose", None) or getattr(source, "close", None)
    if close is None:
        return
    with contextlib.suppress(Exception):
        closed = close()
        if isinstance(closed, Awaitable):
            await closed
