"""What the client sends, in order, over whichever connection there is.

While there is none, messages wait here, and go out before any later one when there is one again. Before them go those
that were sent and lost with the connection, as far as that is known: a session that is gone on with is as it was when
its handle was given.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from adk_stream.errors import ConnectionLostError

from .faults import close_code

__all__ = ["Outbox", "Outgoing"]

_log = logging.getLogger("adk_stream.live")


@dataclass(frozen=True)
class Outgoing:
    """One message to the server.

    Attributes:
        method: The method of google-genai's session that sends it.
        fields: Its arguments.
        again: Whether it is a question, to be put again if the connection is lost before anything is answered.
    """

    method: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    again: bool = False


class Outbox:
    """Sends from any task of one event loop.

    Args:
        limit: Messages that wait while there is no connection, and that are remembered to be sent again; when so
            many wait, a sender waits too.
        remember: Keep all that was sent until the server says that it was consumed (``consumed``), to send it again
            on the next connection: transparent resumption. Else questions alone are kept, until something of the
            answer comes (``answered``).
    """

    def __init__(self, limit: int, *, remember: bool = False) -> None:
        self._limit = limit
        self._remember = remember
        self._session: Any = None
        self._waiting: deque[Outgoing] = deque()
        self._sent: deque[Outgoing] = deque()  # on this connection, and perhaps lost with it
        self._first = 1  # the index of the first of them; the setup is number 0
        self._order = asyncio.Lock()
        self._changed = asyncio.Event()
        self._end: BaseException | None = None

    async def send(self, message: Outgoing) -> None:
        """Send it, or keep it for the next connection.

        Raises:
            StreamError: the session has ended; nothing can be sent any more.
            ValueError: the client refuses the message.
        """
        async with self._order:
            while self._end is None:
                if self._session is not None:
                    await self._write(message)
                    return
                if len(self._waiting) < self._limit:
                    self._waiting.append(message)
                    return
                self._changed.clear()
                await self._changed.wait()
        raise ConnectionLostError("the live session has ended") from self._end

    async def connect(self, session: Any) -> None:
        """Send what waits, and from now on over this session."""
        self._waiting.extendleft(reversed(self._sent))
        self._sent.clear()
        self._first = 1
        while self._waiting:
            try:
                await _put_out(session, self._waiting[0])
            except Exception as problem:
                if _is_lost(problem):
                    raise
                _log.warning("a message that had waited could not be sent: %r", problem)
            self._note(self._waiting.popleft())
        self._session = session
        self._changed.set()

    def disconnect(self) -> None:
        """From now on messages wait."""
        self._session = None

    def consumed(self, index: int) -> None:
        """The session's newest handle holds all messages up to this one: they need not be sent again."""
        while self._remember and self._sent and self._first <= index:
            self._sent.popleft()
            self._first += 1

    def answered(self) -> None:
        """The model has begun to answer: a question that was lost now would show its answer twice."""
        if not self._remember:
            self._sent.clear()

    def close(self, problem: BaseException | None = None) -> None:
        """Nothing can be sent any more; who waits to send is told so."""
        self._end = self._end or problem or ConnectionLostError("the live session was closed")
        self._session = None
        self._waiting.clear()
        self._sent.clear()
        self._changed.set()

    async def _write(self, message: Outgoing) -> None:
        session = self._session
        try:
            await _put_out(session, message)
        except Exception as problem:
            if not _is_lost(problem):
                raise
            if self._session is session:
                self._session = None
            self._waiting.append(message)
            return
        if self._session is session:
            self._note(message)

    def _note(self, message: Outgoing) -> None:
        if not (self._remember or message.again):
            return
        self._sent.append(message)
        if len(self._sent) > self._limit:
            self._sent.popleft()
            self._first += 1


def _is_lost(problem: Exception) -> bool:
    """Whether it is the connection that failed, and not the message."""
    return close_code(problem) is not None or isinstance(problem, OSError)


async def _put_out(session: Any, message: Outgoing) -> None:
    await getattr(session, message.method)(**message.fields)
