"""The connections of one live session, one after the other.

A server closes each connection after some minutes: it says so before (``goAway``), or the network does it unsaid. With
the newest handle another connection goes on in the same session. The old one is closed first: the server refuses a
handle whose connection still stands.

Wire facts: https://ai.google.dev/gemini-api/docs/live-session. google-genai's ``receive`` ends with each turn, and
loses nothing when it is cancelled.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from google.genai import types
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from adk_stream.errors import ConnectionLostError

from .faults import NORMAL_CLOSURE, close_code, live_error, may_resume, unreadable
from .outbox import Outbox

__all__ = ["Connect", "Listener", "LiveSession", "Reconnecting"]

#: Opens a connection: google-genai's ``client.aio.live.connect`` with the model filled in.
Connect: TypeAlias = "Callable[[types.LiveConnectConfig], AbstractAsyncContextManager[Any]]"

_log = logging.getLogger("adk_stream.live")

#: Of the time that a go-away leaves, this is kept for closing; and never more than so many seconds.
_RESERVE, _RESERVE_SECONDS = 0.25, 5.0
#: For what was on its way when a connection is left.
_LEAVE_SECONDS = 2.0


@dataclass(frozen=True)
class Reconnecting:
    """When and how often a session is gone on with.

    Attributes:
        wanted: Ask the server for handles, and use them.
        attempts: Tries to connect again after one connection, before the session is given up.
        backoff: Seconds; the wait before each further try is random, up to this doubled each time.
        longest: Seconds that one wait takes at most.
        timeout: Seconds that making a connection may take.
    """

    wanted: bool = True
    attempts: int = 5
    backoff: float = 0.5
    longest: float = 8.0
    timeout: float | None = 30.0


class Listener(Protocol):
    """Who a session's messages are for."""

    @property
    def open(self) -> bool:
        """Whether a turn is going on."""
        ...

    async def take(self, message: types.LiveServerMessage) -> None:
        """A message came."""
        ...

    def disconnected(self) -> None:
        """Nothing more comes over this connection."""
        ...

    def broke(self) -> None:
        """The session goes on with another connection."""
        ...


class LiveSession:
    """Reads one session from its first connection to its end.

    Args:
        connect: Opens a connection.
        config: The session's settings.
        outbox: What is sent.
        listener: Who the messages are for.
        reconnecting: When the session is gone on with.
        on_malformed: What a frame does that cannot be read: end the session, or nothing.

    Attributes:
        connected: Set when the first connection stands.
        session_id: The server's id of the session, once it has told it.
        handle: With what the session can be gone on with; None while it cannot.
        connections: How many were made.
    """

    def __init__(
        self,
        connect: Connect,
        config: types.LiveConnectConfig,
        outbox: Outbox,
        listener: Listener,
        reconnecting: Reconnecting,
        on_malformed: Literal["raise", "skip"],
    ) -> None:
        self._connect = connect
        self._config = config
        self._outbox = outbox
        self._listener = listener
        self._reconnecting = reconnecting
        self._skips = on_malformed == "skip"
        self.connected = asyncio.Event()
        self.session_id: str | None = None
        given = config.session_resumption
        self.handle = given.handle if given is not None else None
        self.connections = 0
        self._current: Any = None
        self._messages: Any = None  # the client's iterator over the turn that comes
        self._fresh = False  # nothing of the conversation came since the handle
        self._going_away = False
        self._deadline: float | None = None  # of the connection, by the loop's clock
        self._leaving: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Read the session to its end, which is the server's normal closure between two turns.

        Raises:
            StreamError: the session broke off and cannot be gone on with, or the server reported an error.
            Exception: what the listener raised.
        """
        problem = await self._connection()
        while problem is not None:
            if self.handle is None or not self._reconnecting.wanted or not may_resume(problem):
                raise problem
            self._listener.broke()
            problem = await self._resumed()

    def abort(self) -> None:
        """Cut the connection, if there is one, without its closing handshake."""
        # private to google-genai, which offers no way out of a handshake that the other side does not answer
        transport = getattr(getattr(self._current, "_ws", None), "transport", None)
        if transport is not None:
            transport.abort()

    async def _resumed(self) -> BaseException | None:
        """One more connection, tried as often as is allowed; one that brings nothing counts as a try."""
        wanted = self._reconnecting
        async for attempt in AsyncRetrying(
            stop=stop_after_attempt(wanted.attempts),
            wait=wait_random_exponential(multiplier=wanted.backoff, max=wanted.longest),
            retry=retry_if_exception(may_resume),
            reraise=True,
        ):
            with attempt:
                return await self._connection(again=True)
        raise AssertionError("a retry ends with a result or an error")

    async def _connection(self, *, again: bool = False) -> BaseException | None:
        """Live through one connection; why it ended, None if the session has ended with it.

        Raises:
            BaseException: it could not be made, brought nothing the second time, or the listener failed.
        """
        brought = False
        self._going_away, self._deadline, self._messages = False, None, None
        try:
            async with contextlib.AsyncExitStack() as stack:
                async with asyncio.timeout(self._reconnecting.timeout):
                    session = await stack.enter_async_context(self._connect(self._settings()))
                    self._current = session
                    await self._outbox.connect(session)
                self.connections += 1
                self.session_id = session.session_id or self.session_id
                self.connected.set()
                while True:
                    message = await self._next(session)
                    brought = True
                    await self._listener.take(message)
                    self._note(message)
                    self.consider_leaving()
        except Exception as trouble:
            problem = live_error(trouble)
            if problem is trouble and not may_resume(problem):
                raise
        finally:
            self._current = None
            self._outbox.disconnect()
            left = await self._have_left()
        self._listener.disconnected()
        if left:
            return problem
        if close_code(problem) == NORMAL_CLOSURE and not (self._listener.open or self._going_away):
            return None
        if not self.connected.is_set() or (again and not brought):
            raise problem
        return problem

    def _settings(self) -> types.LiveConnectConfig:
        if not self._reconnecting.wanted:
            return self._config
        given = self._config.session_resumption or types.SessionResumptionConfig()
        resumption = given.model_copy(update={"handle": self.handle})
        return self._config.model_copy(update={"session_resumption": resumption})

    async def _next(self, session: Any) -> types.LiveServerMessage:
        while True:
            self._messages = self._messages or session.receive()
            try:
                async with asyncio.timeout_at(self._deadline):
                    message: types.LiveServerMessage = await anext(self._messages)
                    return message
            except StopAsyncIteration:  # the turn is over, the session is not
                self._messages = None
            except TimeoutError:
                self._messages = None
                self._time_is_over(session)
            except ValueError as problem:
                self._messages = None
                if not self._skips:
                    raise unreadable(problem) from problem
                _log.warning("a frame of the live server was passed over: %s", unreadable(problem))

    def _note(self, message: types.LiveServerMessage) -> None:
        """What a message says about the session itself."""
        if message.server_content is not None or message.tool_call is not None:
            self._fresh = False
        update = message.session_resumption_update
        if update is not None:
            self.handle = (update.new_handle or None) if update.resumable is not False else None
            self._fresh = self.handle is not None
            if self._fresh and update.last_consumed_client_message_index is not None:
                self._outbox.consumed(update.last_consumed_client_message_index)
        if message.go_away is not None:
            self._going_away = True
            left = _seconds(message.go_away.time_left)
            reserve = min(left * _RESERVE, _RESERVE_SECONDS)
            self._deadline = asyncio.get_running_loop().time() + left - reserve

    def consider_leaving(self) -> None:
        """Leave a connection that goes away between two turns, as soon as nothing of them could be lost."""
        if self._current is not None and self._going_away and self._fresh and not self._listener.open:
            self._leave(self._current)

    def _time_is_over(self, session: Any) -> None:
        if self._leaving is not None:
            self.abort()
            raise ConnectionLostError("the server did not answer the end of the connection")
        if self.handle is not None and self._reconnecting.wanted:
            self._leave(session)
        else:
            self._deadline = None  # there is nowhere to go: stay as long as it lasts

    def _leave(self, session: Any) -> None:
        """Close our side. What the server had sent before is still read; then the connection ends by itself."""
        if self._leaving is None and self._reconnecting.wanted:
            self._outbox.disconnect()
            self._leaving = asyncio.create_task(session.close(), name="adk-stream-live-leave")
            self._deadline = asyncio.get_running_loop().time() + _LEAVE_SECONDS

    async def _have_left(self) -> bool:
        """Whether the connection was left by us."""
        leaving, self._leaving = self._leaving, None
        if leaving is None:
            return False
        leaving.cancel()
        await asyncio.wait([leaving])
        return True


def _seconds(duration: str | None) -> float:
    """Seconds of a protobuf duration (``"1.5s"``); 0 for what is none."""
    try:
        return max(float((duration or "").removesuffix("s")), 0.0)
    except ValueError:
        return 0.0
