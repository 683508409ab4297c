"""``Outbox``: everything that this process writes into streams, in as few round trips as can be.

One task takes what all producers have waiting and sends it as one pipeline; meanwhile more gathers. A batch that
failed is sent again as it was, which does no harm: an entry whose id is there already is refused.
"""

from __future__ import annotations

import asyncio
from collections import deque

from adk_stream.errors import RelayError

from .redis_link import UNREACHABLE, Backoff, Link, warn
from .redis_producer import RedisProducer

__all__ = ["Outbox"]


class Outbox:
    """Sends for all producers of one process.

    Attributes:
        producers: Those that have not ended.
        is_down: Whether the last attempt failed.
    """

    def __init__(self, link: Link) -> None:
        self.producers: set[RedisProducer] = set()
        self.is_down = False
        self._link = link
        self._work = asyncio.Event()
        self._progress = asyncio.Event()
        self._finishing: deque[RedisProducer] = deque()

    def add(self, producer: RedisProducer) -> None:
        """Send for this one too."""
        self.producers.add(producer)
        self.wake()

    def wake(self) -> None:
        """There is something to be sent."""
        self._work.set()

    def progress(self) -> asyncio.Event:
        """Set when the next attempt is through."""
        return self._progress

    def finishing(self, producer: RedisProducer) -> None:
        """That producer sends its end. While Redis is away, so many such are remembered and no more."""
        self._finishing.append(producer)
        while self._finishing and (self._finishing[0].is_over or len(self._finishing) > _MAX_FINISHING):
            producer = self._finishing.popleft()
            if not producer.is_over:
                producer.lose(RelayError(f"the end of stream {producer.stream_id!r} could not be told"))

    async def run(self) -> None:
        """Send, for ever."""
        backoff = Backoff()
        while True:
            await self._work.wait()
            self._work.clear()
            try:
                while await self._send_in_time():
                    self._made_progress(down=False)
                self._made_progress(down=False)
                backoff.reset()
            except Exception as problem:  # whatever it is, producers go on, and so must this
                if not self.is_down:
                    warn("Redis does not take what is published; producers go on", problem)
                for producer in self.producers:
                    producer.is_unsure = True
                self._made_progress(down=True)
                await backoff.wait()
                self.wake()

    def _made_progress(self, *, down: bool) -> None:
        self.is_down = down
        self.producers = {producer for producer in self.producers if not producer.is_over}
        self._progress.set()
        self._progress = asyncio.Event()

    async def _send_in_time(self) -> bool:
        async with self._link.timed():
            return await self._send()

    async def _send(self) -> bool:
        """One round trip (two, if streams must be asked for); whether there was something to do."""
        busy = [producer for producer in self.producers if producer.has_work]
        if not busy:
            return False
        unsure = [producer for producer in busy if producer.is_unsure]
        if unsure:
            await self._claim(unsure)
        sent = []
        async with self._link.redis.pipeline(transaction=False) as pipe:
            for producer in busy:
                if not producer.is_over:
                    sent.append((producer, await producer.send(pipe)))
            replies = iter(await pipe.execute(raise_on_error=False))
        failure: Exception | None = None
        for producer, entries in sent:
            goes_on = True
            for entry in entries:
                reply = next(replies)
                try:
                    goes_on = goes_on and producer.sent(entry, reply)
                except UNREACHABLE as problem:
                    failure, goes_on = problem, False
        if failure is not None:
            raise failure
        return True

    async def _claim(self, producers: list[RedisProducer]) -> None:
        async with self._link.redis.pipeline(transaction=False) as pipe:
            for producer in producers:
                await producer.claim(pipe)
            replies = await pipe.execute(raise_on_error=False)
        for producer, reply in zip(producers, replies, strict=True):
            if isinstance(reply, Exception):
                raise reply
            try:
                producer.claimed(reply)
            except RelayError as problem:
                producer.lose(problem)


_MAX_FINISHING = 100
