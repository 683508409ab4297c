"""``Run``: what a caller holds of one run. It reads the run's events, and can be left from any task, at any time."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias

from .shield import to_the_end

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from contextlib import AbstractContextManager

    from google.genai import types

    from adk_stream.sessions.event import Event

__all__ = ["Loop", "Run", "RunningRuns"]


class Loop(Protocol):
    """What a run reads: a conversation by rounds, or a live one.

    Attributes:
        usage: Of everything so far.
        left: The events that were stored when the run was left, for a reader who is still there.
    """

    usage: types.GenerateContentResponseUsageMetadata
    left: list[Event]

    @property
    def session_id(self) -> str:
        """The session that the run goes on with."""
        ...

    def events(self, noted: AbstractContextManager[None]) -> AsyncGenerator[Event, None]:
        """The run's events, while ``noted`` is entered."""
        ...


class Run(AsyncIterator["Event"]):
    """The events of one run, as they come. Nothing happens before the first is asked for.

    One task reads; any task (of any loop or thread) may call ``aclose`` or ``cancel``. A run that is let go of in
    the middle is closed by its event loop soon after; use ``contextlib.aclosing`` to have that at once.
    """

    def __init__(self, loop: Loop, running: RunningRuns) -> None:
        self._loop = loop
        self._events = loop.events(running.noted(loop.session_id, weakref.ref(self)))
        self._home: asyncio.AbstractEventLoop | None = None  # where it is read, once it is
        self._reader: asyncio.Task[object] | None = None  # the task that waits for the next event just now
        self._read: asyncio.Event | None = None  # set when that has ended, for those who interrupt it
        self._interrupted = False
        self._closing: asyncio.Task[None] | None = None
        self._tell = True  # give the reader, if there is one, the events that the end still brings

    @property
    def usage(self) -> types.GenerateContentResponseUsageMetadata:
        """Token counts of all rounds so far, added up. Each event keeps its own beside."""
        return self._loop.usage

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """The next event.

        Raises:
            StopAsyncIteration: the run has ended.
            Exception: as ``Runner.run_async`` says.
        """
        reader = asyncio.current_task()
        if self._reader is not None or reader is None:
            raise RuntimeError("another task is reading this run")
        if self._closing is not None or self._interrupted:
            return await self._next_left()
        self._home = reader.get_loop()
        self._reader = reader
        cancellings = reader.cancelling()
        try:
            return await self._events.__anext__()
        except asyncio.CancelledError:
            if not self._interrupted or reader.cancelling() > cancellings + 1:
                raise  # somebody else cancelled the task itself
            return await self._next_left()
        finally:
            self._reader = None
            if self._interrupted:
                reader.uncancel()
            if self._read is not None:
                self._read.set()

    async def aclose(self) -> None:
        """Leave the run. What had come is stored, marked ``cancelled``, when this returns. Again: does nothing."""
        await self._leave(tell=False)

    async def cancel(self) -> None:
        """As ``aclose``, but whoever reads still gets the ``cancelled`` events, and then the end; nothing is raised."""
        await self._leave(tell=True)

    async def _next_left(self) -> Event:
        if self._closing is not None:
            await asyncio.shield(self._closing)
        if self._tell and self._loop.left:
            return self._loop.left.pop(0)
        raise StopAsyncIteration

    async def _leave(self, *, tell: bool) -> None:
        home = self._home
        if home is None or home is asyncio.get_running_loop():
            await self._leave_here(tell)
        elif not home.is_closed():
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._leave_here(tell), home))

    async def _leave_here(self, tell: bool) -> None:
        self._tell = self._tell and tell
        if self._reader is not None:
            # The generator is at work and cannot be closed; what it waits for is cancelled, as a timeout does it.
            self._read = self._read or asyncio.Event()
            if not self._interrupted:
                self._interrupted = True
                self._reader.cancel()
            if self._reader is not asyncio.current_task():
                await self._read.wait()
            return
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await to_the_end(self._closing)

    async def _close(self) -> None:
        await self._events.aclose()


_Entry: TypeAlias = "tuple[weakref.ref[Run], Future[None]]"


class RunningRuns:
    """The runs of one runner that have begun and not ended, by session. Holds none of them alive."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._entries: dict[str, list[_Entry]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    @contextmanager
    def noted(self, session_id: str, run: weakref.ref[Run]) -> Iterator[None]:
        """While this is entered, ``cancel`` finds the run."""
        entry: _Entry = (run, Future())
        with self._guard:
            self._entries.setdefault(session_id, []).append(entry)
        try:
            yield
        finally:
            with self._guard:
                entries = self._entries[session_id]
                entries.remove(entry)
                if not entries:
                    del self._entries[session_id]
            entry[1].set_result(None)

    async def cancel(self, session_id: str) -> bool:
        """Cancel the runs of that session; whether there were any."""
        with self._guard:
            entries = list(self._entries.get(session_id, ()))
        await asyncio.gather(*map(_cancel, entries))
        return bool(entries)


async def _cancel(entry: _Entry) -> None:
    run, ended = entry
    held = run()
    if held is not None:
        await held.cancel()
    else:  # let go of, and being closed by its event loop
        await asyncio.wrap_future(ended)
