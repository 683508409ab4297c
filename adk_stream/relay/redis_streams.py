"""``RedisRelay``: producers and followers in any number of processes, with Redis between them.

Three tasks do the work of one process: the outbox writes for all its producers, the reader reads for all its
followers, the keeper looks after leases. They start with the first call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from adk_stream.errors import RelayUnavailableError, StreamOwnedError
from adk_stream.sessions import Session
from adk_stream.sessions.service import SessionService
from adk_stream.sessions.stored import SessionKey

from .entries import end_of
from .following import follow
from .positions import START, read_cursor, write_cursor
from .producing import checked_id, session_key
from .protocol import Item, Producer, Relay, RelayOptions, StreamStatus
from .redis_keeper import Keeper
from .redis_link import UNREACHABLE, Link, as_text, log
from .redis_outbox import Outbox
from .redis_producer import RedisProducer
from .redis_reader import Reader
from .reload import Reload, reload_by

__all__ = ["RedisRelay"]


class RedisRelay(Relay):
    """A relay over one Redis server (6.2 or later).

    Args:
        url: ``redis://host:port/db``, ``rediss://…`` or ``unix://…``. Nothing is opened before the first call.
        prefix: What the names of all keys begin with. Relays of one prefix see each other's streams.
        reload: Where finals are that Redis no longer holds: a session store, or a function.
        options: Bounds. Those of all processes should be alike, ``lease`` above all.

    Raises:
        RelayError: no server is meant by that URL.
        MissingExtraError: redis-py is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "adk_stream:",
        reload: SessionService | Reload | None = None,
        options: RelayOptions | None = None,
    ) -> None:
        self._link = Link(url, prefix, options or RelayOptions())
        self._outbox = Outbox(self._link)
        self._reader = Reader(self._link, reload_by(reload), self._end_was_asked)
        self._keeper = Keeper(self._link, self._outbox, self._reader)
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False

    async def open(
        self, stream_id: str, *, session: Session | SessionKey | None = None, takeover: float = 0.0
    ) -> Producer:
        """See ``Relay``. Succeeds while Redis cannot be reached: the stream appears when Redis is back."""
        self._start()
        producer = RedisProducer(self._link, self._outbox, checked_id(stream_id), session_key(session), takeover)
        if any(one.stream_id == stream_id for one in self._outbox.producers):
            raise StreamOwnedError(f"there is a stream {stream_id!r} already")
        try:
            async with self._link.timed():
                reply = await producer.claim()
            producer.claimed(reply)
        except UNREACHABLE as problem:
            log.warning("stream %r begins without Redis, which cannot be reached: %r", stream_id, problem)
        self._outbox.add(producer)
        return producer

    async def take_over(self, stream_id: str) -> Producer:
        """See ``Relay``."""
        self._start()
        producer = RedisProducer(self._link, self._outbox, checked_id(stream_id), None, 0.0)
        async with self._link.reaching():
            reply = await producer.claim(take=True)
        producer.claimed(reply, take=True)
        self._outbox.add(producer)
        return producer

    async def subscribe(self, stream_id: str, after: str | None = None) -> AsyncGenerator[Item, None]:
        """See ``Relay``."""
        self._start()
        position = START if after is None else read_cursor(stream_id, after)
        async with self._reader.following(stream_id) as followed, aclosing(follow(followed, position)) as items:
            async for item in items:
                yield item

    async def status(self, stream_id: str) -> StreamStatus | None:
        """See ``Relay``."""
        self._start()
        found = await self._reader.look(stream_id)
        if found is None:
            return None
        position, outcome, session = found
        cursor = write_cursor(stream_id, position)
        if outcome is None:
            return StreamStatus(stream_id, "in_progress", cursor, session)
        end = end_of(outcome, cursor)
        return StreamStatus(stream_id, end.status, cursor, session, end.error_code)

    async def running(self) -> list[str]:
        """See ``Relay``."""
        self._start()
        async with self._link.reaching():
            return list(map(as_text, await self._link.redis.zrange(self._link.keys.running, 0, -1)))

    async def cancel(self, stream_id: str) -> bool:
        """See ``Relay``."""
        self._start()
        link = self._link
        async with link.reaching():
            inbox = await link.ask_end(keys=link.keys.of(stream_id), args=[stream_id])
            if inbox is None:
                return False
            await link.tell(as_text(inbox), "end", stream_id)
        return True

    async def close(self) -> None:
        """See ``Relay``. Streams of this process that were not finished end as those of a dead one."""
        if self._closed:
            return
        self._closed = True
        self._reader.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._link.close()

    def _start(self) -> None:
        if self._closed:
            raise RelayUnavailableError("the relay is closed")
        if not self._tasks:
            self._tasks = [asyncio.create_task(one.run()) for one in (self._outbox, self._reader, self._keeper)]

    def _end_was_asked(self, stream_id: str) -> None:
        for producer in self._outbox.producers:
            if producer.stream_id == stream_id:
                producer.cancel()
