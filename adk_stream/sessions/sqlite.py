"""Sessions in a SQLite file: two threads, each with its own connection; one writes, one reads.

The asynchronous engine of SQLAlchemy over aiosqlite costs 1.4 ms an append, a thread that runs the same compiled
statements 0.2.
"""

from __future__ import annotations

import sqlite3
import time
from asyncio import Future
from functools import partial

from sqlalchemy.engine import URL

from adk_stream.errors import SchemaVersionError, SessionError

from . import operations
from .schema import SCHEMA_VERSION, compile_for_sqlite, metadata, sqlite_ddl
from .session import GetSessionConfig, Session
from .sqlite_worker import SqliteWorker
from .store import DatabaseStore
from .stored import Append, ScopedState, SessionKey

__all__ = ["SqliteStore"]

_GROUP = 256  # operations in one commit


class SqliteStore(DatabaseStore):
    """The sessions in the file that ``url`` names, or in memory when it names none.

    Args:
        url: Its host and query must be empty.
        synchronous: SQLite's pragma of that name.
        busy_timeout: Seconds to wait while another process writes.

    Raises:
        SessionError: the URL has parts that SQLite has no use for.
    """

    def __init__(self, url: URL, *, synchronous: str, busy_timeout: float) -> None:
        if url.query or url.host:
            raise SessionError("a SQLite URL is sqlite:///path/to/file.db, without a host and without options")
        path = url.database or ":memory:"
        pragmas = (f"synchronous={synchronous}", "foreign_keys=ON")
        self._sql = compile_for_sqlite()
        connect = partial(_connect, path, busy_timeout, pragmas)
        self._writer = self._reader = SqliteWorker(connect, begin="BEGIN IMMEDIATE", group=_GROUP)
        if path != ":memory:":
            # In WAL mode readers see what is committed; they and the writer never wait for each other.
            read_only = partial(_connect, path, busy_timeout, (*pragmas, "query_only=ON"))
            self._reader = SqliteWorker(read_only, begin="BEGIN", group=1)

    def create_session(self, key: SessionKey, state: ScopedState, now: float) -> Future[Session]:
        """See ``DatabaseStore``."""
        return self._writer.submit(operations.create_session(self._sql, key, state, now))

    def get_session(self, key: SessionKey, config: GetSessionConfig) -> Future[Session | None]:
        """See ``DatabaseStore``."""
        return self._reader.submit(operations.get_session(self._sql, key, config))

    def list_sessions(self, app_name: str, user_id: str | None) -> Future[list[Session]]:
        """See ``DatabaseStore``."""
        return self._reader.submit(operations.list_sessions(self._sql, app_name, user_id))

    def delete_session(self, key: SessionKey) -> Future[None]:
        """See ``DatabaseStore``."""
        return self._writer.submit(operations.delete_session(self._sql, key))

    def append_event(self, append: Append) -> Future[str | None]:
        """See ``DatabaseStore``."""
        return self._writer.submit(operations.append_event(self._sql, append))

    async def close(self) -> None:
        """See ``DatabaseStore``."""
        for worker in {self._writer, self._reader}:
            await worker.close()

    def join(self, timeout: float | None) -> None:
        """See ``DatabaseStore``."""
        for worker in {self._writer, self._reader}:
            worker.join(timeout)


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
