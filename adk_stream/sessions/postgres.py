"""Sessions in PostgreSQL, through SQLAlchemy's asynchronous engine on psycopg 3.

An engine belongs to one event loop, and a service may be called from several. So the engine has a thread with a
loop of its own, and calls are handed over to it; that costs a tenth of a millisecond and makes a cancelled or
ended caller harmless to the connections.

An append is one statement, which is its own transaction and one round trip; so is reading a session, which
thereby sees it as it was at one moment.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future as ThreadFuture
from typing import Any, TypeVar

from sqlalchemy import Connection, event, insert, inspect, select, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, DisconnectionError

from adk_stream.errors import SchemaVersionError, SessionError

from . import operations
from .operations import Operation
from .schema import SCHEMA_VERSION, compile_for_postgres, metadata, schema_version
from .session import GetSessionConfig, Session
from .store import DatabaseStore
from .stored import Append, ScopedState, SessionKey, read_event, read_state

try:
    import psycopg
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
except ImportError as missing:
    raise SessionError("sessions in PostgreSQL need psycopg: pip install 'adk-stream[postgres]'") from missing

__all__ = ["PostgresStore"]

_T = TypeVar("_T")

_CONNECT_TIMEOUT = 10  # seconds; libpq alone would wait for as long as the network does
_POOL_TIMEOUT = 30.0  # seconds that a call waits for its turn at a connection

# How an operation's statements belong together. "AUTOCOMMIT": each is a transaction.
_EACH, _ALL, _ONE_MOMENT = "AUTOCOMMIT", "READ COMMITTED", "REPEATABLE READ"

#: The key of the advisory lock under which the tables are made: "adkstrm" in ASCII.
_SCHEMA_LOCK = int.from_bytes(b"adkstrm")


class PostgresStore(DatabaseStore):
    """The sessions in the database that ``url`` names.

    Args:
        url: Where it is; libpq's own options may follow as a query.
        synchronous: ``"NORMAL"`` sets ``synchronous_commit=off``; any other word leaves the server's setting.
        busy_timeout: Seconds to wait for a lock that another connection holds.
        pool_size: The most connections at a time.
    """

    def __init__(self, url: URL, *, synchronous: str, busy_timeout: float, pool_size: int) -> None:
        settings = {"lock_timeout": f"{max(1, round(busy_timeout * 1000))}ms"}
        if synchronous == "NORMAL":
            settings["synchronous_commit"] = "off"
        self._sql = compile_for_postgres()
        self._thread = _EngineThread(lambda: _open(url, settings, pool_size))

    def create_session(self, key: SessionKey, state: ScopedState, now: float) -> asyncio.Future[Session]:
        """See ``DatabaseStore``."""
        return self._thread.submit(operations.create_session(self._sql, key, state, now), _ALL)

    def get_session(self, key: SessionKey, config: GetSessionConfig) -> asyncio.Future[Session | None]:
        """See ``DatabaseStore``."""
        return self._thread.submit(self._get(key, config), _EACH)

    def list_sessions(self, app_name: str, user_id: str | None) -> asyncio.Future[list[Session]]:
        """See ``DatabaseStore``."""
        return self._thread.submit(operations.list_sessions(self._sql, app_name, user_id), _ONE_MOMENT)

    def delete_session(self, key: SessionKey) -> asyncio.Future[None]:
        """See ``DatabaseStore``."""
        return self._thread.submit(operations.delete_session(self._sql, key), _EACH)

    def append_event(self, append: Append) -> asyncio.Future[str | None]:
        """See ``DatabaseStore``."""
        return self._thread.submit(self._append(append), _EACH)

    async def close(self) -> None:
        """See ``DatabaseStore``."""
        await self._thread.close()

    def join(self, timeout: float | None) -> None:
        """See ``DatabaseStore``."""
        self._thread.join(timeout)

    def _append(self, append: Append) -> Operation[str | None]:
        row: dict[str, Any] = {
            **append.key._asdict(),
            "expected": append.revision,
            "seq": append.revision + 1,
            "event_id": append.event_id,
            "timestamp": append.timestamp,
            "data": append.text,
        }
        for scope, texts in append.state._asdict().items():
            row[f"{scope}_names"], row[f"{scope}_values"] = list(texts), list(texts.values())
        written = yield self._sql.append, row
        return None if written else (yield from operations.why_not(self._sql, append))

    def _get(self, key: SessionKey, config: GetSessionConfig) -> Operation[Session | None]:
        wanted = operations.wanted_events(config)
        last = wanted["most"] if config.after_timestamp is None else operations.EVERYTHING
        rows = yield self._sql.read, {**key._asdict(), **wanted, "last": last}
        states: dict[str, dict[str, str]] = {"app": {}, "user": {}, "own": {}}
        events: list[tuple[int, str]] = []
        session = None
        for kind, name, value, number, moment in rows:
            if kind == "session":
                session = Session(
                    id=key.session_id,
                    app_name=key.app_name,
                    user_id=key.user_id,
                    revision=number,
                    last_update_time=moment,
                )
            elif kind == "event":
                events.append((number, value))
            else:
                states[kind][name] = value
        if session is not None:
            session.state = read_state(ScopedState(*states.values()))
            session.events = [read_event(data) for _, data in sorted(events)]
        return session


class _EngineThread:
    """A thread with an event loop that owns the engine; begun by the first ``submit``.

    Args:
        connect: Makes the engine, once its database is ready; called again if it raised.
    """

    def __init__(self, connect: Callable[[], Coroutine[Any, Any, AsyncEngine]]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._ended: ThreadFuture[None] = ThreadFuture()
        self._ended.set_running_or_notify_cancel()  # so that one waiter's cancel is not everybody's
        self._tasks: set[asyncio.Task[None]] = set()
        self._engine: asyncio.Task[AsyncEngine] | None = None

    def submit(self, operation: Operation[_T], isolation: str) -> asyncio.Future[_T]:
        """Run ``operation``; the future is done when it is committed. Cancelling it does not stop the operation.

        Raises:
            SessionError: the store is closed.
        """
        future: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        with self._lock:
            if self._closed:
                raise SessionError("the session service is closed")
            loop = self._loop or self._begin()
            loop.call_soon_threadsafe(self._start, operation, isolation, future)
        return future

    async def close(self) -> None:
        """Run what was submitted, close the connections, end the thread. May be called again."""
        self._say_end()
        await asyncio.wrap_future(self._ended)
        self.join(timeout=None)

    def join(self, timeout: float | None) -> None:
        """The blocking form of ``close``."""
        self._say_end()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _begin(self) -> asyncio.AbstractEventLoop:
        # psycopg cannot use the loop that is the default on Windows.
        self._loop = loop = asyncio.SelectorEventLoop()
        self._end = end = asyncio.Event()
        # A daemon: an interpreter that exits does not wait for a service nobody closed.
        self._thread = threading.Thread(target=self._work, args=(loop, end), name="adk-stream-postgres", daemon=True)
        self._thread.start()
        return loop

    def _say_end(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._loop is None or self._end is None:
                self._ended.set_result(None)
            else:
                self._loop.call_soon_threadsafe(self._end.set)

    def _work(self, loop: asyncio.AbstractEventLoop, end: asyncio.Event) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(self._until(end))
        finally:
            self._ended.set_result(None)

    async def _until(self, end: asyncio.Event) -> None:
        await end.wait()
        while self._tasks:
            await asyncio.wait(self._tasks)
        if self._engine is not None and self._engine.exception() is None:
            await self._engine.result().dispose()

    def _start(self, operation: Operation[Any], isolation: str, future: asyncio.Future[Any]) -> None:
        task = asyncio.get_running_loop().create_task(self._run(operation, isolation, future))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, operation: Operation[Any], isolation: str, future: asyncio.Future[Any]) -> None:
        value, problem = None, None
        try:
            engine = await self._ready_engine()
            async with engine.connect() as connection:
                if isolation != _EACH:
                    await connection.execution_options(isolation_level=isolation)
                value = await _drive(connection, operation)
                if isolation != _EACH:
                    await connection.commit()
        except BaseException as raised:
            problem = _as_ours(raised)
        try:
            future.get_loop().call_soon_threadsafe(_settle, future, value, problem)
        except RuntimeError:
            pass  # the loop was closed: nobody waits any more

    async def _ready_engine(self) -> AsyncEngine:
        """The engine, made once for all who wait for it; by the next call again if that failed."""
        if self._engine is None or (self._engine.done() and self._engine.exception() is not None):
            self._engine = asyncio.get_running_loop().create_task(self._connect())
        return await asyncio.shield(self._engine)


async def _drive(connection: AsyncConnection, operation: Operation[_T]) -> _T:
    rows: Any = None
    while True:
        try:
            statement, parameters = operation.send(rows)
        except StopIteration as end:
            value: _T = end.value
            return value
        result = await connection.exec_driver_sql(statement, parameters)
        rows = result.all() if result.returns_rows else []


def _settle(future: asyncio.Future[Any], value: Any, problem: BaseException | None) -> None:
    if future.done():
        return  # cancelled
    if problem is not None:
        future.set_exception(problem)
    else:
        future.set_result(value)


def _as_ours(problem: BaseException) -> BaseException:
    if isinstance(problem, SessionError):
        return problem
    # SQLAlchemy's own sentence holds the statement; the driver's holds neither that nor the event.
    told = problem.orig if isinstance(problem, DBAPIError) else problem
    ours = SessionError(f"the session database failed: {told}")
    ours.__cause__ = problem
    return ours


async def _open(url: URL, settings: dict[str, str], pool_size: int) -> AsyncEngine:
    """The engine of a database that has our tables, which are made if there are none."""
    engine = create_async_engine(
        url.set(drivername="postgresql+psycopg").update_query_dict(
            {"connect_timeout": url.query.get("connect_timeout", str(_CONNECT_TIMEOUT))}
        ),
        isolation_level=_EACH,
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=_POOL_TIMEOUT,
        hide_parameters=True,  # errors are logged, events are private
    )
    event.listen(engine.sync_engine, "connect", lambda connection, _: _set_up(connection, settings))
    event.listen(engine.sync_engine, "checkout", _check)
    try:
        async with engine.connect() as connection:
            await connection.execution_options(isolation_level=_ALL)
            await connection.run_sync(_make_ready)
            await connection.commit()
    except BaseException:
        await engine.dispose()
        raise
    return engine


def _set_up(connection: Any, settings: dict[str, str]) -> None:
    """Settings that outlive transactions; as statements, since poolers refuse them at the start of a connection."""
    autocommit, connection.autocommit = connection.autocommit, True
    cursor = connection.cursor()
    for name, value in settings.items():
        cursor.execute("SELECT set_config(%s, %s, false)", (name, value))
    cursor.close()
    connection.autocommit = autocommit


def _check(connection: Any, _record: Any, _proxy: Any) -> None:
    """Have the pool replace a connection that the server ended meanwhile.

    That the server did so is to be seen in what has arrived, without a round trip: first its last words, then
    the end.
    """
    try:
        for _ in range(2):
            connection.driver_connection.pgconn.consume_input()
    except psycopg.OperationalError as problem:
        raise DisconnectionError(str(problem)) from problem


def _make_ready(connection: Connection) -> None:
    encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
    if encoding != "UTF8":
        raise SessionError(f"the database is encoded in {encoding}; UTF8 is needed to hold any text")
    version = _schema_version(connection)
    if version is None:
        # Others may be at it too: whoever comes second waits here until the first has committed.
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _SCHEMA_LOCK})
        version = _schema_version(connection)
        if version is None:
            if _our_tables(connection):
                raise SessionError("it holds tables of another program under the names that sessions need")
            metadata.create_all(connection, checkfirst=False)
            connection.execute(insert(schema_version).values(version=SCHEMA_VERSION))
            version = SCHEMA_VERSION
    if version > SCHEMA_VERSION:
        raise SchemaVersionError(
            f"schema version {version} is newer than {SCHEMA_VERSION}, which this package knows: update it"
        )


def _schema_version(connection: Connection) -> int | None:
    """The database's version; None if it is not whole: it may be that another process is just making it."""
    if _our_tables(connection) != set(metadata.tables):
        return None
    version = connection.execute(select(schema_version.c.version)).scalar()
    return version if isinstance(version, int) else None


def _our_tables(connection: Connection) -> set[str]:
    """Which names of ours are taken. A statement for each: what others commit meanwhile, the later ones see."""
    inspector = inspect(connection)  # a new one: an inspector remembers what it saw
    return {name for name in metadata.tables if inspector.has_table(name)}
