"""``Reader``: one connection that waits for news of all streams that are followed in this process.

A new follower changes what is to be waited for, so the reader waits on an inbox of this process too: a message there
ends the wait, and is also how another process asks for the end of a stream that is produced here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from adk_stream.errors import RelayUnavailableError, UnknownStreamError
from adk_stream.sessions.event import Event
from adk_stream.sessions.stored import SessionKey

from .entries import STREAM_LOST, Entry, read_outcome
from .positions import START, Position
from .redis_layout import entry_id, final_field, read_entries
from .redis_link import UNREACHABLE, Backoff, Link, as_text, warn
from .reload import Reload
from .tail import Tail

__all__ = ["Followed", "Reader"]


class Followed:
    """One stream that is followed in this process. The source of its followers here.

    Attributes:
        stream_id: The stream.
        tail: Its newest entries.
        followers: How many there are.
        missing_since: Since when Redis does not know the stream; None while it does.
    """

    def __init__(self, link: Link, stream_id: str, start: Position, session: SessionKey | None, reload: Reload) -> None:
        self.stream_id = stream_id
        self.tail = Tail(start, link.options.max_tail_bytes)
        self.followers = 0
        self.missing_since: float | None = None
        self._link = link
        self._session = session
        self._reload = reload

    async def page(self, position: Position) -> Sequence[Entry] | None:
        """See ``Source``: from Redis."""
        link = self._link
        try:
            async with link.timed():
                found = await link.redis.xrange(
                    link.keys.log(self.stream_id), f"({entry_id(position)}", "+", count=link.options.page
                )
        except UNREACHABLE:
            return None  # the reader has met it too, and wakes everybody when Redis is back
        return read_entries(found)

    async def finals(self, first: int, last: int) -> Mapping[int, Event]:
        """See ``Source``."""
        link, numbers = self._link, range(first, last + 1)
        fields = [final_field(number) for number in numbers]
        found = await link.patiently(lambda: link.redis.hmget(link.keys.info(self.stream_id), fields))
        ids = {number: as_text(id) for number, id in zip(numbers, found, strict=True) if id is not None}
        events = await self._reload(self._session, list(ids.values())) if ids else {}
        return {number: events[id] for number, id in ids.items() if id in events}


class Reader:
    """Reads for all followers of one process.

    Args:
        link: The way to Redis.
        reload: Where finals are that Redis no longer holds.
        asked_to_end: Called with the id of a stream that somebody wishes to end.
    """

    def __init__(self, link: Link, reload: Reload, asked_to_end: Callable[[str], None]) -> None:
        self.followed: dict[str, Followed] = {}
        self._link = link
        self._reload = reload
        self._asked_to_end = asked_to_end
        self._heard = "0-0"
        self._closed = False

    @asynccontextmanager
    async def following(self, stream_id: str) -> AsyncIterator[Followed]:
        """The stream, read for as long as the block lasts.

        Raises:
            UnknownStreamError: there is none.
            RelayUnavailableError: Redis cannot be reached.
        """
        followed = self.followed.get(stream_id) or await self._find(stream_id)
        followed.followers += 1  # before anything is waited for: who leaves last takes the stream off the list
        try:
            if followed.followers == 1 and followed.tail.outcome is None:
                async with self._link.reaching():
                    await self._link.tell(self._link.inbox, "look")
            yield followed
        finally:
            followed.followers -= 1
            if not followed.followers and self.followed.get(stream_id) is followed:
                del self.followed[stream_id]

    async def look(self, stream_id: str) -> tuple[Position, Mapping[str, str] | None, SessionKey | None] | None:
        """The newest position of a stream, how it ended, and its session; None if there is none."""
        link = self._link
        async with link.reaching(), link.redis.pipeline(transaction=False) as pipe:
            pipe.hmget(link.keys.info(stream_id), ["term", "outcome", "session"])
            pipe.xrevrange(link.keys.log(stream_id), count=1)
            (term, outcome, session), newest = await pipe.execute()
        if term is None:
            return None
        last = read_entries(newest)
        key = SessionKey(*json.loads(session)) if session else None
        return last[-1].position if last else START, None if outcome is None else read_outcome(outcome), key

    async def _find(self, stream_id: str) -> Followed:
        found = await self.look(stream_id)
        if found is None:
            raise UnknownStreamError(f"there is no stream {stream_id!r}")
        if self._closed:
            raise RelayUnavailableError("the relay is closed")
        if stream_id in self.followed:  # somebody else was quicker
            return self.followed[stream_id]
        start, outcome, session = found
        followed = Followed(self._link, stream_id, start, session, self._reload)
        if outcome is None:
            self.followed[stream_id] = followed
        else:
            followed.tail.end(outcome)
        return followed

    async def run(self) -> None:
        """Read, for ever."""
        link, backoff, is_down = self._link, Backoff(), False
        block = int(link.options.timeout * 500)
        while True:
            tails = {link.keys.log(stream_id): one.tail for stream_id, one in self.followed.items()}
            places: dict[Any, Any] = {key: entry_id(tail.newest) for key, tail in tails.items()}
            places[link.inbox] = self._heard
            try:
                async with link.timed():
                    reply = await link.redis.xread(places, block=block, count=_AT_ONCE)
                self._take(reply, tails)
            except Exception as problem:  # whatever it is, it must be tried again: all followers hang on it
                if not is_down:
                    warn("Redis cannot be read; followers wait", problem)
                is_down = True
                await backoff.wait()
                continue
            if is_down:
                is_down = False
                backoff.reset()
                for one in self.followed.values():
                    one.tail.wake()
            await asyncio.sleep(link.options.pause)

    def _take(self, reply: Any, tails: Mapping[str, Tail]) -> None:
        """Hand the news to the tails that were asked for; whoever joined meanwhile has a tail that begins elsewhere."""
        for key, found in reply:
            tail = tails.get(as_text(key))
            if tail is not None:
                tail.add(read_entries(found))
            else:
                self._hear(found)

    def _hear(self, messages: Any) -> None:
        self._heard = as_text(messages[-1][0])
        for _, message in messages:
            for word, value in message.items():
                if word == b"end":
                    self._asked_to_end(as_text(value))

    def lost(self, followed: Followed) -> None:
        """Redis has forgotten the stream, and nobody brings it back."""
        followed.tail.end(STREAM_LOST)

    def close(self) -> None:
        """Whoever still follows is told."""
        self._closed = True
        for followed in self.followed.values():
            followed.tail.close(RelayUnavailableError("the relay is closed"))


#: Entries of one stream that are read at once.
_AT_ONCE = 100
