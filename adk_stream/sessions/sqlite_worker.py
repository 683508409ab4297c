"""A thread that owns one SQLite connection and runs operations on it for any number of event loops.

Operations that wait together are committed together, and each is acknowledged only after that commit: making
a commit durable costs hundreds of microseconds, an insert ten. A savepoint around each keeps one's failure
from the others.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future as ThreadFuture
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

from adk_stream.errors import SessionError

from .operations import Operation

__all__ = ["SqliteWorker"]

_T = TypeVar("_T")


class _Job(NamedTuple):
    operation: Operation[Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]


class _Outcome(NamedTuple):
    job: _Job
    value: Any = None
    problem: BaseException | None = None


class SqliteWorker:
    """Runs operations one after another, in the order of ``submit``.

    Args:
        connect: Opens the connection; called on the thread, at the first operation (again, if it raised).
        begin: How a transaction begins.
        group: The most operations that share one transaction.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], *, begin: str, group: int) -> None:
        self._connect = connect
        self._begin = begin
        self._group = group
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()  # None: no more will come
        self._lock = threading.Lock()
        self._closed = False
        self._thread: threading.Thread | None = None
        self._ended: ThreadFuture[None] = ThreadFuture()
        self._ended.set_running_or_notify_cancel()  # so that one waiter's cancel is not everybody's

    def submit(self, operation: Operation[_T]) -> asyncio.Future[_T]:
        """Run ``operation`` in a transaction; the future is done when it is committed.

        Cancelling the future does not stop the operation.

        Raises:
            SessionError: the worker is closed.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()
        with self._lock:
            if self._closed:
                raise SessionError("the session service is closed")
            if self._thread is None:
                # A daemon: an interpreter that exits does not wait for a service nobody closed.
                self._thread = threading.Thread(target=self._work, name="adk-stream-sqlite", daemon=True)
                self._thread.start()
            self._jobs.put(_Job(operation, loop, future))
        return future

    async def close(self) -> None:
        """Run what was submitted, close the connection, end the thread. May be called again."""
        self._say_end()
        await asyncio.wrap_future(self._ended)
        self.join(timeout=None)

    def join(self, timeout: float | None) -> None:
        """The blocking form of ``close``."""
        self._say_end()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _say_end(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            if self._thread is None:
                self._ended.set_result(None)
            else:
                self._jobs.put(None)

    def _work(self) -> None:
        connection: sqlite3.Connection | None = None
        # Nothing of an operation may stay in this frame: it would keep the service alive that nobody closed.
        more = True
        try:
            while more:
                connection, more = self._run_next(connection)
            if connection is not None:
                connection.close()
        finally:
            self._ended.set_result(None)

    def _run_next(self, connection: sqlite3.Connection | None) -> tuple[sqlite3.Connection | None, bool]:
        jobs, more = self._next_jobs()
        if jobs:
            try:
                connection = connection or self._connect()
            except BaseException as problem:
                _deliver([_Outcome(job, problem=_as_ours(problem)) for job in jobs])
            else:
                _deliver(self._run(connection, jobs))
        return connection, more

    def _next_jobs(self) -> tuple[list[_Job], bool]:
        """What waits now, at least one; and whether more may come."""
        jobs: list[_Job] = []
        item = self._jobs.get()
        while item is not None:
            jobs.append(item)
            if len(jobs) == self._group:
                return jobs, True
            try:
                item = self._jobs.get_nowait()
            except Empty:
                return jobs, True
        return jobs, False

    def _run(self, connection: sqlite3.Connection, jobs: list[_Job]) -> list[_Outcome]:
        try:
            connection.execute(self._begin)
            outcomes = [_run_one(connection, job) for job in jobs]
            connection.execute("COMMIT")
        except BaseException as problem:
            # Not one operation failed but the transaction: disk full, locked by another process for too long.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            return [_Outcome(job, problem=_as_ours(problem)) for job in jobs]
        return outcomes


def _run_one(connection: sqlite3.Connection, job: _Job) -> _Outcome:
    connection.execute("SAVEPOINT one")
    try:
        outcome = _Outcome(job, _drive(connection, job.operation))
    except BaseException as problem:
        if not connection.in_transaction:
            raise  # SQLite itself rolled everything back, the others' work too
        connection.execute("ROLLBACK TO one")
        outcome = _Outcome(job, problem=_as_ours(problem))
    connection.execute("RELEASE one")
    return outcome


def _drive(connection: sqlite3.Connection, operation: Operation[_T]) -> _T:
    rows = None
    while True:
        try:
            statement, parameters = operation.send(rows)  # type: ignore[arg-type]
        except StopIteration as end:
            value: _T = end.value
            return value
        rows = connection.execute(statement, parameters).fetchall()


def _as_ours(problem: BaseException) -> BaseException:
    if isinstance(problem, SessionError):
        return problem
    ours = SessionError(f"the session database failed: {problem}")
    ours.__cause__ = problem
    return ours


def _deliver(outcomes: list[_Outcome]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[_Outcome]] = {}
    for outcome in outcomes:
        by_loop.setdefault(outcome.job.loop, []).append(outcome)
    for loop, theirs in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, theirs)
        except RuntimeError:
            pass  # the loop was closed: nobody waits any more


def _settle(outcomes: list[_Outcome]) -> None:
    for (_, _, future), value, problem in outcomes:
        if future.done():
            continue  # cancelled
        if problem is not None:
            future.set_exception(problem)
        else:
            future.set_result(value)
