"""``Keeper``: renews the leases of this process's producers, and ends streams whose producers are dead.

Every process looks after the streams of all, whether it follows them or not; the first that finds one overdue ends it.
"""

from __future__ import annotations

import asyncio
import time

from .entries import PRODUCER_LOST, write_outcome
from .redis_link import Link, as_text, log
from .redis_outbox import Outbox
from .redis_reader import Followed, Reader

__all__ = ["Keeper"]


class Keeper:
    """Looks after leases, in one process.

    Args:
        link: The way to Redis.
        outbox: Has the producers.
        reader: Has what is followed.
    """

    def __init__(self, link: Link, outbox: Outbox, reader: Reader) -> None:
        self._link = link
        self._outbox = outbox
        self._reader = reader
        self._trusted_from = 0.0

    async def run(self) -> None:
        """Look after them, for ever."""
        tick = self._link.tick
        while True:
            start = time.monotonic()
            try:
                async with self._link.timed():
                    await self._renew()
                    if start >= self._trusted_from:
                        await self._bury_overdue()
                    await self._look_after_followed()
            except Exception as problem:
                log.debug("leases could not be looked after: %r", problem)
                # Who could not reach Redis cannot tell whether others could: they get the time to come back.
                self._trusted_from = time.monotonic() + self._link.options.lease
                await asyncio.sleep(min(tick, _RETRY))
                continue
            await asyncio.sleep(max(0.0, start + tick - time.monotonic()))

    async def _renew(self) -> None:
        producers = [one for one in self._outbox.producers if not one.is_over and not one.is_unsure]
        link = self._link
        async with link.redis.pipeline(transaction=False) as pipe:
            for producer in producers:
                await producer.renew(pipe)
            pipe.pexpire(link.inbox, link.keep_ms)
            replies = await pipe.execute()
        for producer, reply in zip(producers, replies, strict=False):
            producer.renewed(as_text(reply))

    async def _bury_overdue(self) -> None:
        """End every stream that nobody has been heard of, and nobody has taken over."""
        link = self._link
        overdue = await link.overdue(keys=link.keys.of(""), args=["", _AT_ONCE])
        if not overdue:
            return
        outcome, keep = write_outcome(PRODUCER_LOST), int(link.options.retention * 1000)
        async with link.redis.pipeline(transaction=False) as pipe:
            for stream_id in map(as_text, overdue):
                await link.bury(link.keys.of(stream_id), [stream_id, outcome, keep], client=pipe)
            replies = await pipe.execute()
        for stream_id, reply in zip(overdue, replies, strict=True):
            if as_text(reply) == "ok":
                log.warning("the producer of stream %r is gone; the stream is marked as failed", as_text(stream_id))

    async def _look_after_followed(self) -> None:
        """Tell followers of streams that Redis knows no longer, or whose end they cannot meet in the log."""
        followed = [one for one in self._reader.followed.values() if one.tail.outcome is None]
        if not followed:
            return
        link = self._link
        async with link.redis.pipeline(transaction=False) as pipe:
            for one in followed:
                pipe.hmget(link.keys.info(one.stream_id), ["term", "outcome"])
            replies = await pipe.execute()
        now = time.monotonic()
        for one, (term, outcome) in zip(followed, replies, strict=True):
            if term is not None:
                one.missing_since = None
            elif one.missing_since is None:
                one.missing_since = now
            elif now - one.missing_since > link.options.lease:
                self._reader.lost(one)
            if outcome is not None:
                await self._end_if_read(one)

    async def _end_if_read(self, followed: Followed) -> None:
        found = await self._reader.look(followed.stream_id)
        if found is not None and found[1] is not None and found[0][:2] <= followed.tail.newest[:2]:
            followed.tail.end(found[1])


_RETRY = 0.5

#: Streams that are ended in one round.
_AT_ONCE = 100
