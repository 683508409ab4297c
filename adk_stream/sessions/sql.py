"""Sessions in a SQL database: SQLite or PostgreSQL.

One database may be open in many processes at once, each of which may share one service among its threads and
event loops. Nothing is opened before the first call.
"""

from __future__ import annotations

import asyncio
import os
import time
import weakref
from typing import Any, Literal
from weakref import WeakValueDictionary

from adk_stream.errors import SessionError

from .event import Event, new_id
from .service import SessionService
from .session import GetSessionConfig, ListSessionsResponse, Session
from .store import DatabaseStore
from .stored import MAX_EVENT_SIZE, apply, check_key, prepare, read_event, split_state

try:
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError
except ImportError as missing:
    raise SessionError("sessions in a database need SQLAlchemy: pip install 'adk-stream[sql]'") from missing

__all__ = ["SqlSessionService"]

_EXIT_PATIENCE = 30.0  # seconds that the interpreter's exit waits for what was handed in and not yet written

_SQLITE = ("sqlite", "sqlite+pysqlite", "sqlite+aiosqlite")
_POSTGRES = ("postgresql", "postgres", "postgresql+psycopg")

Synchronous = Literal["FULL", "NORMAL"]


class SqlSessionService(SessionService):
    """Sessions in a SQL database.

    May be called from any number of event loops and threads; the connections live on threads of its own. A task
    that is cancelled while its append is being written goes on being cancelled only when the write has ended
    (milliseconds; at most ``busy_timeout``): so the session object and the store agree, and what the cancelled
    task still has to store can be appended.

    Args:
        url: ``sqlite:///relative.db``, ``sqlite:////absolute.db``; ``sqlite://`` is in memory.
            ``postgresql://user@host/database`` (``postgresql+psycopg://`` is the same; libpq's options may follow
            as a query). The tables are made in the first schema of the connection's ``search_path``.
        synchronous: ``"FULL"``: what ``append_event`` returned survives a loss of power (on PostgreSQL: as the
            server is set up). ``"NORMAL"``: it survives the death of this process only, and one append at a time
            costs less.
        busy_timeout: Seconds to wait for a lock that another process holds.
        max_event_size: The largest event that is taken, in characters of its JSON.
        pool_size: The most connections to PostgreSQL at a time; calls beyond them wait in line.

    Raises:
        SessionError: no store for that URL. The calls raise it when the database fails or is not ours,
            ``SchemaVersionError`` when a newer version of this package wrote it.
    """

    def __init__(
        self,
        url: str,
        *,
        synchronous: Synchronous = "FULL",
        busy_timeout: float = 5.0,
        max_event_size: int = MAX_EVENT_SIZE,
        pool_size: int = 4,
    ) -> None:
        if synchronous not in ("FULL", "NORMAL"):
            raise SessionError(f"synchronous must be 'FULL' or 'NORMAL', not {synchronous!r}")
        self._url = url
        self._synchronous = synchronous
        self._busy_timeout = busy_timeout
        self._max_event_size = max_event_size
        self._pool_size = pool_size
        self._turns: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._store = self._open()

    def _open(self) -> DatabaseStore:
        self._process = os.getpid()
        try:
            url = make_url(self._url)
        except (ArgumentError, ValueError) as problem:
            raise SessionError("not a database URL") from problem
        store: DatabaseStore
        if url.drivername in _SQLITE:
            from .sqlite import SqliteStore

            store = SqliteStore(url, synchronous=self._synchronous, busy_timeout=self._busy_timeout)
        elif url.drivername in _POSTGRES:
            from .postgres import PostgresStore

            store = PostgresStore(
                url,
                synchronous=self._synchronous,
                busy_timeout=self._busy_timeout,
                pool_size=self._pool_size,
            )
        else:
            raise SessionError(f"sessions cannot be kept in {url.drivername!r}; use sqlite:/// or postgresql://")
        # Runs when a service nobody closed is collected, and when the interpreter exits.
        weakref.finalize(self, store.join, _EXIT_PATIENCE)
        return store

    def _here(self) -> DatabaseStore:
        """The store; after a fork a new one, for threads are the parent's and so are its connections."""
        if self._process != os.getpid():
            self._turns = WeakValueDictionary()
            self._store = self._open()
        return self._store

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """A new session; see ``SessionService``."""
        key = check_key(app_name, user_id, session_id or new_id())
        texts = split_state(state or {})
        return await self._here().create_session(key, texts, time.time())

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """The session as it is now; see ``SessionService``."""
        key = check_key(app_name, user_id, session_id)
        return await self._here().get_session(key, config or GetSessionConfig())

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """The sessions without their events; see ``SessionService``."""
        return ListSessionsResponse(sessions=await self._here().list_sessions(app_name, user_id))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete it, if it is there."""
        await self._here().delete_session(check_key(app_name, user_id, session_id))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store ``event`` and bring ``session`` up to date; see ``SessionService``."""
        store = self._here()
        async with self._turn(session):
            append, kept = prepare(session, event, max_event_size=self._max_event_size)
            writing = store.append_event(append)
            cancel = await _settled(writing)
            try:
                earlier = writing.result()
                if earlier is None:
                    apply(session, append, kept, event)
            finally:
                if cancel is not None:
                    raise cancel
            return kept if earlier is None else read_event(earlier)

    async def close(self) -> None:
        """Write what was handed in, close the database, end the threads. Closing again does nothing."""
        await self._here().close()

    def _turn(self, session: Session) -> asyncio.Lock:
        """Appends through one session object take turns: each has to see the revision the last one made."""
        turn = self._turns.get(id(session))
        if turn is None:
            turn = self._turns[id(session)] = asyncio.Lock()
        return turn


async def _settled(future: asyncio.Future[Any]) -> asyncio.CancelledError | None:
    """Wait until ``future`` is done, whatever happens to the waiting task; the cancel that came meanwhile."""
    cancel = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as problem:
            cancel = problem
    return cancel
