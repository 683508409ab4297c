"""The way to Redis: client, keys, scripts and bounds, which everything in this process shares."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from adk_stream.errors import MissingExtraError, RelayError, RelayUnavailableError
from adk_stream.sessions.event import new_id

from . import redis_scripts
from .protocol import RelayOptions
from .redis_layout import Keys

try:
    from redis.asyncio import BlockingConnectionPool, Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
    from redis.exceptions import RedisError
except ImportError as missing:
    raise MissingExtraError("the relay over Redis needs redis-py: pip install 'adk-stream[redis]'") from missing

__all__ = ["UNREACHABLE", "Backoff", "Link", "as_text", "log", "warn"]

log = logging.getLogger("adk_stream.relay")

_Result = TypeVar("_Result")

#: What a client raises when a server does not answer, or not as it should.
UNREACHABLE = (RedisError, OSError, asyncio.TimeoutError)

#: Of one process to the server at most.
_CONNECTIONS = 32


class Link:
    """One process's link.

    Args:
        url: ``redis://host:port/db``, ``rediss://…``, ``unix://…``.
        prefix: What all keys begin with.
        options: Bounds.

    Raises:
        RelayError: no server is meant by that URL.
    """

    def __init__(self, url: str, prefix: str, options: RelayOptions) -> None:
        self.options = options
        self.keys = Keys(prefix)
        self.id = new_id()
        self.inbox = self.keys.inbox(self.id)
        try:
            # Calls beyond the pool wait for their turn: many followers may join at once.
            pool = BlockingConnectionPool.from_url(
                url,
                max_connections=_CONNECTIONS,
                timeout=options.timeout,
                protocol=2,
                decode_responses=False,
                # Calls are timed by ``timed``: redis-py does it with wait_for(), which may lose a cancellation
                # before Python 3.12.
                socket_timeout=None,
                socket_connect_timeout=options.timeout,
                retry=Retry(NoBackoff(), 1),  # for a connection that went stale in the pool
            )
        except ValueError as problem:
            raise RelayError(f"no Redis is meant by {url!r}: {problem}") from problem
        self.redis: Redis = Redis.from_pool(pool)
        self.claim, self.renew, self.note, self.end, self.bury, self.overdue, self.ask_end = (
            self.redis.register_script(getattr(redis_scripts, name))
            for name in ("CLAIM", "RENEW", "NOTE", "END", "BURY", "OVERDUE", "ASK_END")
        )

    # A lease is renewed for six tenths of what it promises and looked after every fifth of that, so that the end of
    # a dead producer is told within it.

    @property
    def lease_ms(self) -> int:
        """For how long a renewal holds."""
        return max(1, int(self.options.lease * 600))

    @property
    def tick(self) -> float:
        """Seconds from one renewal to the next."""
        return self.options.lease / 5

    @property
    def keep_ms(self) -> int:
        """How long the keys of a stream stay after they were last touched."""
        return int((self.options.retention + self.options.lease) * 1000)

    def timed(self) -> asyncio.Timeout:
        """Bounds a call; every one is made inside such a block."""
        return asyncio.timeout(self.options.timeout)

    @asynccontextmanager
    async def reaching(self) -> AsyncIterator[None]:
        """Errors of the client as ours.

        Raises:
            RelayUnavailableError: Redis cannot be reached, or refuses.
        """
        try:
            async with self.timed():
                yield
        except UNREACHABLE as problem:
            raise RelayUnavailableError(f"Redis cannot be reached: {type(problem).__name__}: {problem}") from problem

    async def patiently(self, call: Callable[[], Awaitable[_Result]]) -> _Result:
        """Call until it works, for as long as a lease.

        Raises:
            RelayUnavailableError: it did not.
        """
        backoff = Backoff()
        try:
            async with asyncio.timeout(self.options.lease):
                while True:
                    try:
                        async with self.timed():
                            return await call()
                    except UNREACHABLE as problem:
                        log.warning("Redis cannot be reached, trying again: %r", problem)
                        await backoff.wait()
        except TimeoutError:
            raise RelayUnavailableError(f"Redis could not be reached for {self.options.lease:g} s") from None

    async def tell(self, inbox: str, message: str, value: str = "") -> None:
        """Put a message into the inbox of a process, this one's or another's."""
        async with self.redis.pipeline(transaction=False) as pipe:
            pipe.execute_command("XADD", inbox, "MAXLEN", "~", _INBOX_LENGTH, "*", message, value)
            pipe.pexpire(inbox, self.keep_ms)
            await pipe.execute()

    async def close(self) -> None:
        """Give back the connections."""
        try:
            async with self.timed():
                await self.redis.delete(self.inbox)
        except UNREACHABLE:
            pass
        await self.redis.aclose()


_INBOX_LENGTH = 1000


class Backoff:
    """Growing waits between attempts, up to a second."""

    def __init__(self) -> None:
        self._seconds = _FIRST_WAIT

    async def wait(self) -> None:
        """Wait; longer the next time."""
        await asyncio.sleep(self._seconds)
        self._seconds = min(self._seconds * 2, _LONGEST_WAIT)

    def reset(self) -> None:
        """It works again."""
        self._seconds = _FIRST_WAIT


_FIRST_WAIT, _LONGEST_WAIT = 0.05, 1.0


def warn(what: str, problem: Exception) -> None:
    """Log what goes wrong; with a traceback if it is not merely that Redis is away."""
    known = isinstance(problem, UNREACHABLE)
    log.warning("%s: %r", what, problem, exc_info=None if known else problem)


def as_text(value: Any) -> str:
    """A word of a script's answer."""
    return value.decode() if isinstance(value, bytes) else str(value)
