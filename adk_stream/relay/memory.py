"""``MemoryRelay``: producers and followers in one process.

The same promises as over Redis, without a server. A producer dies here when nobody holds it any more.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

from adk_stream.errors import (
    RelayUnavailableError,
    StreamEndedError,
    StreamOwnedError,
    UnknownStreamError,
)
from adk_stream.sessions import Session
from adk_stream.sessions.event import Event
from adk_stream.sessions.service import SessionService
from adk_stream.sessions.stored import SessionKey

from .entries import PRODUCER_LOST, Entry, Kind, end_of, write_outcome
from .following import follow
from .positions import START, Position, read_cursor, write_cursor
from .producing import NumberingProducer, checked_id, session_key
from .protocol import Item, Producer, Relay, RelayOptions, StreamStatus
from .reload import Reload, reload_by
from .tail import Tail
from .window import Window

__all__ = ["MemoryRelay"]


class MemoryRelay(Relay):
    """A relay within this process and event loop.

    Args:
        reload: Where finals are that the relay no longer holds: a session store, or a function.
        options: Bounds.
    """

    def __init__(self, *, reload: SessionService | Reload | None = None, options: RelayOptions | None = None) -> None:
        self._reload = reload_by(reload)
        self._options = options or RelayOptions()
        self._streams: dict[str, _Stream] = {}
        self._closed = False

    async def open(
        self, stream_id: str, *, session: Session | SessionKey | None = None, takeover: float = 0.0
    ) -> Producer:
        """See ``Relay``."""
        self._check_open()
        if checked_id(stream_id) in self._streams:
            raise StreamOwnedError(f"there is a stream {stream_id!r} already")
        stream = _Stream(self, stream_id, session_key(session), takeover)
        self._streams[stream_id] = stream
        return stream.owned()

    async def take_over(self, stream_id: str) -> Producer:
        """See ``Relay``."""
        stream = self._stream(stream_id)
        if stream.tail.outcome is not None:
            raise StreamEndedError(f"stream {stream_id!r} has ended")
        if not stream.is_orphan:
            raise StreamOwnedError(f"the producer of stream {stream_id!r} is alive")
        return stream.owned()

    async def subscribe(self, stream_id: str, after: str | None = None) -> AsyncGenerator[Item, None]:
        """See ``Relay``."""
        stream = self._stream(stream_id)
        position = START if after is None else read_cursor(stream_id, after)
        async with aclosing(follow(stream, position)) as items:
            async for item in items:
                yield item

    async def status(self, stream_id: str) -> StreamStatus | None:
        """See ``Relay``."""
        self._check_open()
        stream = self._streams.get(stream_id)
        return None if stream is None else stream.status()

    async def running(self) -> list[str]:
        """See ``Relay``."""
        self._check_open()
        return [stream_id for stream_id, stream in self._streams.items() if stream.tail.outcome is None]

    async def cancel(self, stream_id: str) -> bool:
        """See ``Relay``."""
        self._check_open()
        stream = self._streams.get(stream_id)
        if stream is None or stream.tail.outcome is not None:
            return False
        stream.cancelled.set()
        return True

    async def close(self) -> None:
        """See ``Relay``."""
        self._closed = True
        for stream in self._streams.values():
            stream.close()
        self._streams.clear()

    def _stream(self, stream_id: str) -> _Stream:
        self._check_open()
        try:
            return self._streams[stream_id]
        except KeyError:
            raise UnknownStreamError(f"there is no stream {stream_id!r}") from None

    def _check_open(self) -> None:
        if self._closed:
            raise RelayUnavailableError("the relay is closed")


class _Stream:
    """One stream: its log, and who owns it. The source of its followers."""

    def __init__(self, relay: MemoryRelay, stream_id: str, session: SessionKey | None, takeover: float) -> None:
        self.stream_id = stream_id
        self.tail = Tail()
        self.cancelled = asyncio.Event()
        self.is_orphan = False
        self._relay = relay
        self._session = session
        self._takeover = takeover
        self._window = Window(relay._options)
        self._final_ids: dict[int, str] = {}
        self._saved: tuple[Position, bytes | None] = (START, None)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def owned(self) -> Producer:
        """A new producer, in a new term."""
        term, number, finals = self.tail.newest
        saved, snapshot = self._saved
        self.is_orphan = False
        self._stop_timer()
        self.append(Entry(Kind.OWNED, Position(term + 1, number, finals)))
        producer = _MemoryProducer(
            self, self._relay._options, saved._replace(term=term + 1), written=number, snapshot=snapshot
        )
        weakref.finalize(producer, self._tell, term + 1).atexit = False
        return producer

    def append(self, entry: Entry, final_id: str | None = None) -> None:
        """Put it into the log, and let go of what is too old."""
        if final_id is not None:
            self._final_ids[entry.position.finals] = final_id
        first = self._window.add(entry.position.number, entry.size, time.monotonic())
        tail = self.tail
        tail.add((entry,))
        while tail.first is not None and tail.first.position.number < first:
            tail.forget_first()
        if tail.outcome is not None:
            self._stop_timer()
            self._timer = self._loop.call_later(self._relay._options.retention, self._forget)

    def save(self, position: Position, snapshot: bytes) -> None:
        """Keep it for who takes over."""
        self._saved = position, snapshot

    def status(self) -> StreamStatus:
        """How it stands."""
        cursor, outcome = write_cursor(self.stream_id, self.tail.newest), self.tail.outcome
        if outcome is None:
            return StreamStatus(self.stream_id, "in_progress", cursor, self._session)
        end = end_of(outcome, cursor)
        return StreamStatus(self.stream_id, end.status, cursor, self._session, end.error_code)

    def close(self) -> None:
        """The relay is closed."""
        self._stop_timer()
        self.tail.close(RelayUnavailableError("the relay is closed"))

    async def page(self, position: Position) -> Sequence[Entry]:
        """See ``Source``: what is left."""
        return self.tail.oldest()

    async def finals(self, first: int, last: int) -> Mapping[int, Event]:
        """See ``Source``."""
        ids = {number: self._final_ids[number] for number in range(first, last + 1) if number in self._final_ids}
        events = await self._relay._reload(self._session, list(ids.values()))
        return {number: events[id] for number, id in ids.items() if id in events}

    def _tell(self, term: int) -> None:
        """The producer of that term is gone; garbage is collected in any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._lose, term)

    def _lose(self, term: int) -> None:
        if self.tail.newest.term == term and self.tail.outcome is None and self.tail.closed is None:
            self.is_orphan = True
            self._timer = self._loop.call_later(self._takeover, self._bury)

    def _bury(self) -> None:
        term, number, finals = self.tail.newest
        self.append(Entry(Kind.END, Position(term + 1, number + 1, finals), data=write_outcome(PRODUCER_LOST)))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _forget(self) -> None:
        self._relay._streams.pop(self.stream_id, None)


class _MemoryProducer(NumberingProducer):
    def __init__(
        self, stream: _Stream, options: RelayOptions, position: Position, written: int, snapshot: bytes | None
    ) -> None:
        super().__init__(stream.stream_id, options, position, written, snapshot)
        self._stream = stream

    @property
    def cancel_requested(self) -> bool:
        return self._stream.cancelled.is_set()

    async def wait_cancelled(self) -> None:
        await self._stream.cancelled.wait()

    async def save(self, snapshot: bytes) -> None:
        self._stream.save(self._position, snapshot)

    async def _append(self, entry: Entry, final_id: str | None) -> None:
        self._stream.append(entry, final_id)

    async def _end(self, entry: Entry, outcome: Mapping[str, str]) -> None:
        self._stream.append(entry)
