"""What only the database file, its threads and other processes can show."""

import asyncio
import gc
import sqlite3
import threading
import time

import pytest
from session_processes import python

from adk_stream.errors import SchemaVersionError, SessionError, StaleSessionError
from adk_stream.sessions import (
    Event,
    EventActions,
    InMemorySessionService,
    SqlSessionService,
    open_session_service,
)

NAMES = {"app_name": "app", "user_id": "user"}


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/sessions.db"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sessions.db"


def worker_threads():
    return [thread for thread in threading.enumerate() if thread.name == "adk-stream-sqlite"]


def test_one_failure_in_a_group_fails_alone(url):
    async def test():
        async with SqlSessionService(url) as service:
            sessions = [await service.create_session(**NAMES) for _ in range(32)]
            stale = await service.get_session(**NAMES, session_id=sessions[7].id)
            await service.append_event(stale, Event(author="first"))
            twice = Event(id="twice")
            await service.append_event(sessions[8], twice)
            broken = Event(author="x", timestamp=1.0)
            sessions[9].revision = 2**70  # no database holds it: the statement fails, not the check
            events = [Event(author=str(n), actions=EventActions(state_delta={f"app:{n}": n})) for n in range(32)]
            events[8], events[9] = twice, broken
            results = await asyncio.gather(
                *(service.append_event(s, e) for s, e in zip(sessions, events, strict=True)),
                return_exceptions=True,
            )
            assert isinstance(results.pop(9), SessionError)
            assert results.pop(8) == twice
            assert isinstance(results.pop(7), StaleSessionError)
            assert [event.author for event in results] == [str(n) for n in range(32) if n not in (7, 8, 9)]
            for number, session in enumerate(sessions):
                read = await service.get_session(**NAMES, session_id=session.id)
                assert read.revision == len(read.events) == (0 if number == 9 else 1)
            assert set(read.state) == {f"app:{n}" for n in range(32) if n not in (7, 8, 9)}

    asyncio.run(test())


def test_appends_that_wait_together_share_a_commit(url, monkeypatch):
    from adk_stream.sessions import sqlite_worker

    groups = []
    run = sqlite_worker.SqliteWorker._run

    def counted(self, connection, jobs):
        groups.append(len(jobs))
        return run(self, connection, jobs)

    async def test():
        async with SqlSessionService(url) as service:
            sessions = [await service.create_session(**NAMES) for _ in range(32)]
            monkeypatch.setattr(sqlite_worker.SqliteWorker, "_run", counted)
            await asyncio.gather(*(service.append_event(session, Event()) for session in sessions))

    asyncio.run(test())
    assert sum(groups) == 32
    assert len(groups) < 16


def test_a_failed_transaction_acknowledges_nothing(url, path):
    """Another process holds the database for longer than this one is ready to wait."""

    async def test():
        async with SqlSessionService(url, busy_timeout=0.05) as service:
            session = await service.create_session(**NAMES)
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(SessionError, match="locked"):
                await service.append_event(session, Event())
            assert (session.revision, session.events) == (0, [])
            other.execute("ROLLBACK")
            other.close()
            await service.append_event(session, Event())

    asyncio.run(test())


def test_what_fails_after_the_check_is_undone(url, path):
    async def test():
        async with SqlSessionService(url) as service:
            session = await service.create_session(**NAMES)
            other = sqlite3.connect(path)
            other.execute("CREATE TRIGGER full BEFORE INSERT ON session_states BEGIN SELECT RAISE(ABORT, 'full'); END")
            other.commit()
            fine = await service.create_session(**NAMES)
            failed, stored = await asyncio.gather(
                service.append_event(session, Event(actions=EventActions(state_delta={"app:a": 1, "b": 1}))),
                service.append_event(fine, Event(author="fine")),
                return_exceptions=True,
            )
            assert isinstance(failed, SessionError)
            assert stored.author == "fine"
            read = await service.get_session(**NAMES, session_id=session.id)
            assert (read.events, read.state, read.revision) == ([], {}, 0)
            other.execute("DROP TRIGGER full")
            other.commit()
            other.close()

    asyncio.run(test())


def test_close(url):
    async def test():
        service = SqlSessionService(url)
        await service.close()  # never used
        service = SqlSessionService(url)
        session = await service.create_session(**NAMES)
        appends = [asyncio.create_task(service.append_event(session, Event())) for _ in range(1)]
        await asyncio.sleep(0)
        await asyncio.gather(service.close(), service.close())
        assert worker_threads() == []
        await asyncio.gather(*appends)
        await service.close()
        with pytest.raises(SessionError, match="closed"):
            await service.append_event(session, Event())
        with pytest.raises(SessionError, match="closed"):
            await service.get_session(**NAMES, session_id=session.id)
        async with SqlSessionService(url) as again:
            assert (await again.get_session(**NAMES, session_id=session.id)).revision == 1

    before = threading.active_count()
    asyncio.run(test())
    assert threading.active_count() == before


def test_a_forgotten_service_leaves_no_thread(url):
    async def test():
        service = SqlSessionService(url)
        session = await service.create_session(**NAMES)
        await service.append_event(session, Event())
        await service.get_session(**NAMES, session_id=session.id)
        assert len(worker_threads()) == 2

    asyncio.run(test())
    deadline = time.monotonic() + 5
    while worker_threads() and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert worker_threads() == []


def test_exit_without_close_writes_what_was_handed_in_and_does_not_hang(url):
    code = """
        import asyncio, sys
        from adk_stream.sessions import Event, SqlSessionService
        from adk_stream.sessions import operations
        from adk_stream.sessions.stored import prepare

        async def main():
            global service
            service = SqlSessionService(sys.argv[1])
            session = await service.create_session(app_name="app", user_id="user", session_id="s")
            for number in range(50):
                append, _ = prepare(session, Event())
                service._store._writer.submit(operations.append_event(service._store._sql, append))
                session.revision += 1

        asyncio.run(main())
    """
    process = python(code, url)
    assert process.wait(20) == 0
    process.stdout.close()

    async def check():
        async with SqlSessionService(url) as service:
            return (await service.get_session(**NAMES, session_id="s")).revision

    assert asyncio.run(check()) == 50


def test_reading_does_not_wait_for_a_writer(url, path):
    async def test():
        async with SqlSessionService(url) as service:
            session = await service.create_session(**NAMES)
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            start = time.monotonic()
            assert await service.get_session(**NAMES, session_id=session.id) == session
            assert time.monotonic() - start < 10
            other.execute("ROLLBACK")
            other.close()

    asyncio.run(test())


def test_pragmas_and_clustering(url, path):
    async def test(**options):
        async with SqlSessionService(url, **options) as service:
            await service.create_session(**NAMES)

            found = []

            def operation():
                for pragma in ("journal_mode", "synchronous", "foreign_keys"):
                    [(value,)] = yield f"PRAGMA {pragma}", {}
                    found.append(value)
                plan = yield (
                    f"EXPLAIN QUERY PLAN {service._store._sql.newest_events}",
                    {"session_key": 1, "after": 0, "most": 1},
                )
                found.append("SEARCH events USING PRIMARY KEY" in plan[0][-1] and len(plan) == 1)

            await service._store._writer.submit(operation())
            return found

    assert asyncio.run(test()) == ["wal", 2, 1, True]
    assert asyncio.run(test(synchronous="NORMAL")) == ["wal", 1, 1, True]
    with pytest.raises(SessionError, match="synchronous"):
        SqlSessionService(url, synchronous="OFF")


def test_no_statement_hides_a_parameter():
    """Only the parameters named in the operations: SQLAlchemy makes others out of literals."""
    from dataclasses import fields

    from sqlalchemy.dialects import postgresql, sqlite

    from adk_stream.sessions.schema import build_postgres_statements, build_statements

    for dialect, statements in ((sqlite, build_statements(sqlite.insert)), (postgresql, build_postgres_statements())):
        for field in fields(statements):
            compiled = getattr(statements, field.name).compile(dialect=dialect.dialect())
            assert set(compiled.params.values()) == {None}, field.name


def test_a_newer_schema_is_refused(url, path):
    async def use():
        async with SqlSessionService(url) as service:
            await service.create_session(**NAMES)

    asyncio.run(use())
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE schema_version SET version = version + 1")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(SchemaVersionError):
        asyncio.run(use())
    assert path.read_bytes() == before


def test_a_database_of_somebody_else(url, path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE sessions (app_name, user_id, id)")
    connection.close()

    async def use():
        async with SqlSessionService(url) as service:
            await service.list_sessions(app_name="app")

    with pytest.raises(SessionError, match="another program"):
        asyncio.run(use())
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(SessionError, match="not a database"):
        asyncio.run(use())


def test_a_file_that_cannot_be_opened_and_then_can(tmp_path):
    async def test():
        async with SqlSessionService(f"sqlite:///{tmp_path}/missing/sessions.db") as service:
            with pytest.raises(SessionError, match="missing"):
                await service.create_session(**NAMES)
            (tmp_path / "missing").mkdir()
            await service.create_session(**NAMES)

    asyncio.run(test())


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg2://host/db",
        "postgresql://[::1",
        "mysql://host/db",
        "sqlite+pysqlcipher:///x.db",
        "no url",
        "",
        "sqlite://host/x.db",
        "sqlite:///x.db?mode=ro",
    ],
)
def test_urls_without_a_store(url):
    with pytest.raises(SessionError):
        open_session_service(url)


def test_a_wrong_url_does_not_tell_its_password():
    for url in ("mysql://me:secret@host/db", "postgresql://me:secret@[::1/db"):
        with pytest.raises(SessionError) as caught:
            open_session_service(url)
        assert "secret" not in str(caught.value)


def test_open_session_service(url):
    assert isinstance(open_session_service("memory:"), InMemorySessionService)
    assert isinstance(open_session_service(url), SqlSessionService)
    assert isinstance(open_session_service("sqlite+aiosqlite:///x.db"), SqlSessionService)
