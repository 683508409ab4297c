"""Sessions in a SQL database; today SQLite.

One file may be open in many processes at once, each of which may share one service among its threads and
event loops. Nothing is opened before the first call.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
import weakref
from functools import partial
from typing import Any, Literal
from weakref import WeakValueDictionary

from adk_stream.errors import SchemaVersionError, SessionError

from . import operations
from .event import Event, new_id
from .service import SessionService
from .session import GetSessionConfig, ListSessionsResponse, Session
from .stored import MAX_EVENT_SIZE, apply, check_key, prepare, read_event, split_state

try:
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError
except ImportError as missing:
    raise SessionError("sessions in a database need SQLAlchemy: pip install 'adk-stream[sql]'") from missing

from .schema import SCHEMA_VERSION, compile_for_sqlite, metadata, sqlite_ddl
from .sqlite_worker import SqliteWorker

__all__ = ["SqlSessionService"]

_GROUP = 256  # operations in one commit
_EXIT_PATIENCE = 30.0  # seconds that the interpreter's exit waits for what was handed in and not yet written

Synchronous = Literal["FULL", "NORMAL"]


class SqlSessionService(SessionService):
    """Sessions in a SQL database.

    A task that is cancelled while its append is being written goes on being cancelled only when the write has
    ended (milliseconds; at most ``busy_timeout``): so the session object and the store agree, and what the
    cancelled task still has to store can be appended.

    Args:
        url: ``sqlite:///relative.db``, ``sqlite:////absolute.db``; ``sqlite://`` is in memory.
        synchronous: ``"FULL"``: what ``append_event`` returned survives a loss of power. ``"NORMAL"``: it
            survives the death of the process only, and one append at a time costs less.
        busy_timeout: Seconds to wait while another process writes.
        max_event_size: The largest event that is taken, in characters of its JSON.

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
    ) -> None:
        if synchronous not in ("FULL", "NORMAL"):
            raise SessionError(f"synchronous must be 'FULL' or 'NORMAL', not {synchronous!r}")
        self._path = _sqlite_path(url)
        self._pragmas = (f"synchronous={synchronous}", "foreign_keys=ON")
        self._busy_timeout = busy_timeout
        self._max_event_size = max_event_size
        self._sql = compile_for_sqlite()
        self._turns: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        connect = partial(_connect, self._path, self._busy_timeout, self._pragmas)
        self._writer = self._reader = SqliteWorker(connect, begin="BEGIN IMMEDIATE", group=_GROUP)
        if self._path != ":memory:":
            # In WAL mode readers see what is committed; they and the writer never wait for each other.
            self._reader = SqliteWorker(
                partial(_connect, self._path, self._busy_timeout, (*self._pragmas, "query_only=ON")),
                begin="BEGIN",
                group=1,
            )
        for worker in {self._writer, self._reader}:
            # Runs when a service nobody closed is collected, and when the interpreter exits.
            weakref.finalize(self, worker.join, _EXIT_PATIENCE)

    def _in_this_process(self) -> None:
        """After a fork, threads are the parent's and so are its connections: begin anew."""
        if self._process != os.getpid():
            self._turns = WeakValueDictionary()
            self._start()

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """A new session; see ``SessionService``."""
        self._in_this_process()
        key = check_key(app_name, user_id, session_id or new_id())
        texts = split_state(state or {})
        return await self._writer.submit(operations.create_session(self._sql, key, texts, time.time()))

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """The session as it is now; see ``SessionService``."""
        self._in_this_process()
        key = check_key(app_name, user_id, session_id)
        return await self._reader.submit(operations.get_session(self._sql, key, config or GetSessionConfig()))

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """The sessions without their events; see ``SessionService``."""
        self._in_this_process()
        sessions = await self._reader.submit(operations.list_sessions(self._sql, app_name, user_id))
        return ListSessionsResponse(sessions=sessions)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete it, if it is there."""
        self._in_this_process()
        key = check_key(app_name, user_id, session_id)
        await self._writer.submit(operations.delete_session(self._sql, key))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store ``event`` and bring ``session`` up to date; see ``SessionService``."""
        self._in_this_process()
        async with self._turn(session):
            append, kept = prepare(session, event, max_event_size=self._max_event_size)
            writing = self._writer.submit(operations.append_event(self._sql, append))
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
        self._in_this_process()
        for worker in {self._writer, self._reader}:
            await worker.close()

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


def _sqlite_path(url: str) -> str:
    try:
        parsed = make_url(url)
    except ArgumentError as problem:
        raise SessionError(f"not a database URL: {url!r}") from problem
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite", "sqlite+aiosqlite"):
        raise SessionError(f"sessions cannot be kept in {parsed.drivername!r} yet; use sqlite:///path/to/file.db")
    if parsed.query or parsed.host:
        raise SessionError("a SQLite URL is sqlite:///path/to/file.db, without a host and without options")
    return parsed.database or ":memory:"


def _connect(path: str, busy_timeout: float, pragmas: tuple[str, ...]) -> sqlite3.Connection:
    """A connection to a database with our tables, which are made if it is empty."""
    if sqlite3.sqlite_version_info < (3, 35):  # RETURNING came with it, in 2021
        raise SessionError(f"SQLite {sqlite3.sqlite_version} is too old; 3.35 is needed")
    try:
        connection = sqlite3.connect(path, timeout=busy_timeout, isolation_level=None)
    except sqlite3.Error as problem:
        raise SessionError(f"cannot open {path!r}: {problem}") from problem
    try:
        _make_ready(connection, busy_timeout)
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")
    except BaseException as problem:
        connection.close()
        if isinstance(problem, SessionError):
            raise
        raise SessionError(f"cannot use {path!r}: {problem}") from problem
    return connection


def _make_ready(connection: sqlite3.Connection, busy_timeout: float) -> None:
    version = _schema_version(connection)
    if version is None:
        _use_write_ahead_log(connection, busy_timeout)
        connection.execute("BEGIN IMMEDIATE")
        version = _schema_version(connection)  # another process may have been first
        if version is None:
            for statement in sqlite_ddl():
                connection.execute(statement)
            connection.execute("INSERT INTO schema_version VALUES (?)", (SCHEMA_VERSION,))
            version = SCHEMA_VERSION
        connection.execute("COMMIT")
    if version > SCHEMA_VERSION:
        raise SchemaVersionError(
            f"schema version {version} is newer than {SCHEMA_VERSION}, which this package knows: update it"
        )
    # Migrations from older versions will go here; version 1 is the first.


def _schema_version(connection: sqlite3.Connection) -> int | None:
    """The database's version; None if it is empty."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "schema_version" in tables:
        row = connection.execute("SELECT version FROM schema_version").fetchone()
        if row is not None and isinstance(row[0], int):
            return row[0]
    if tables & set(metadata.tables):
        raise SessionError("it holds tables of another program under the names that sessions need")
    return None


def _use_write_ahead_log(connection: sqlite3.Connection, busy_timeout: float) -> None:
    """Switch the file to WAL, once for all; SQLite does not wait for other processes here, so this does."""
    deadline = time.monotonic() + busy_timeout
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
