"""What only PostgreSQL, its connections and their thread can show."""

import asyncio
import gc
import os
import random
import sys
import threading
import time

import pytest

from adk_stream.errors import SchemaVersionError, SessionError, StaleSessionError
from adk_stream.sessions import (
    Event,
    EventActions,
    GetSessionConfig,
    SqlSessionService,
    open_session_service,
)
from adk_stream.sessions.schema import compile_for_postgres

NAMES = {"app_name": "app", "user_id": "user"}


def changing(**delta):
    return Event(author="model", actions=EventActions(state_delta=delta))


def engine_threads():
    return [thread for thread in threading.enumerate() if thread.name == "adk-stream-postgres"]


def named(url, name):
    """The URL whose connections the server lists under ``name``, of this process."""
    return f"{url}&application_name={name}-{os.getpid()}"


def connections(postgres, name):
    found = postgres.execute("SELECT pid FROM pg_stat_activity WHERE application_name = %s", f"{name}-{os.getpid()}")
    return [pid for (pid,) in found]


def end_connections(postgres, name):
    """End them at the server, as a restart or an administrator does."""
    for pid in connections(postgres, name):
        postgres.execute("SELECT pg_terminate_backend(%s, 5000)", pid)


async def reread(service, session, config=None):
    return await service.get_session(**NAMES, session_id=session.id, config=config)


def test_goes_on_when_the_server_has_ended_the_connections(postgres, postgres_url):
    async def test():
        async with SqlSessionService(named(postgres_url, "ended")) as service:
            sessions = [await service.create_session(**NAMES) for _ in range(4)]
            for _ in range(3):
                await asyncio.gather(*(service.append_event(session, Event()) for session in sessions))
                assert connections(postgres, "ended")
                end_connections(postgres, "ended")
            assert [(await reread(service, session)).revision for session in sessions] == [3] * 4

    asyncio.run(test())


def test_a_connection_that_ends_during_an_append(postgres, postgres_url, common_schema):
    """It is not known whether it was stored: the caller is told, and may append the same event again."""

    async def test():
        async with SqlSessionService(named(postgres_url, "during")) as service:
            session = await service.create_session(**NAMES)
            event = Event(author="model")
            with postgres.connection.transaction():
                postgres.execute(f"LOCK TABLE {common_schema}.events")
                append = asyncio.create_task(service.append_event(session, event))
                waiting = "SELECT 1 FROM pg_locks WHERE NOT granted AND pid = ANY(%s)"
                while not postgres.execute(waiting, connections(postgres, "during")):
                    await asyncio.sleep(0.01)
                end_connections(postgres, "during")
            with pytest.raises(SessionError, match="terminating connection"):
                await append
            assert (session.revision, session.events) == (0, [])
            await service.append_event(session, event)
            assert await reread(service, session) == session

    asyncio.run(test())


def test_a_lock_is_not_waited_for_longer_than_allowed(postgres, postgres_url, common_schema):
    async def test():
        async with SqlSessionService(postgres_url, busy_timeout=0.05) as service:
            session = await service.create_session(**NAMES)
            with postgres.connection.transaction():
                postgres.execute(f"SELECT FROM {common_schema}.sessions FOR UPDATE")
                with pytest.raises(SessionError, match="lock timeout"):
                    await service.append_event(session, Event())
            assert (session.revision, session.events) == (0, [])
            await service.append_event(session, Event())

    asyncio.run(test())


def test_an_append_is_one_statement_and_so_is_reading(postgres_url):
    from sqlalchemy import event

    async def test():
        async with SqlSessionService(postgres_url) as service:
            session = await service.create_session(**NAMES)
            seen = []

            def note(connection, cursor, statement, parameters, context, executemany):
                assert context.root_connection.connection.driver_connection.autocommit
                seen.append(statement)

            engine = service._store._thread._engine.result().sync_engine
            event.listen(engine, "before_cursor_execute", note)
            delta = {"app:a": 1, "app:b": 2, "user:a": 3, "own": 4}
            await service.append_event(session, changing(**delta))
            assert len(seen) == 1
            read = await reread(service, session)
            assert len(seen) == 2
            assert read == session
            assert read.state == delta

    asyncio.run(test())


def test_shared_state_has_no_lost_updates_and_no_deadlocks(postgres_url):
    """Sessions of two services change the same rows at once, each delta in another order."""
    keys = [f"{scope}:{n}" for scope in ("app", "user") for n in range(6)]

    async def work(service, lane):
        chance = random.Random(lane)
        session = await service.create_session(**NAMES, state={f"user:{lane}": "made"})
        for number in range(15):
            order = chance.sample(keys, len(keys))
            await service.append_event(session, changing(**dict.fromkeys(order, f"{lane}-{number}")))
            await service.append_event(session, changing(**{f"app:{lane}-{number}": number}))

    async def test():
        async with SqlSessionService(postgres_url) as one, SqlSessionService(postgres_url) as two:
            await asyncio.gather(
                *(work(service, f"{lane}{n}") for n in range(4) for lane, service in (("one", one), ("two", two)))
            )
            state = (await one.create_session(**NAMES)).state
            assert sum("-" in key for key in state) == 8 * 15
            # An append is whole: of the last to touch the shared keys, every one is there.
            assert len({state[key] for key in keys}) == 1

    asyncio.run(test())


def test_a_refused_append_writes_no_state(postgres_url):
    async def test():
        async with SqlSessionService(postgres_url) as service:
            session = await service.create_session(**NAMES)
            late = await reread(service, session)
            await service.append_event(session, Event())
            with pytest.raises(StaleSessionError):
                await service.append_event(late, changing(**{"app:a": 1, "user:a": 1, "a": 1}))
            assert (await reread(service, session)).state == {}

    asyncio.run(test())


def fill(postgres, schema, key, count):
    postgres.execute(f"""
        INSERT INTO {schema}.events
        SELECT {key}, n, n::text, n, '{{"id": "' || n || '"}}' FROM generate_series(1, {count}) n;
        UPDATE {schema}.sessions SET revision = {count} WHERE key = {key}""")


def test_ten_thousand_events_cost_no_more_than_fifty(postgres, postgres_url, common_schema):
    newest = GetSessionConfig(num_recent_events=50)

    async def test():
        async with SqlSessionService(postgres_url, synchronous="NORMAL") as service:
            short, long = [await service.create_session(**NAMES, session_id=name) for name in ("short", "long")]
            keys = dict(postgres.execute(f"SELECT session_id, key FROM {common_schema}.sessions"))
            fill(postgres, common_schema, keys["short"], 50)
            fill(postgres, common_schema, keys["long"], 10_000)

            async def cost(session):
                reads, appends = [], []
                held = await reread(service, session, newest)
                for _ in range(40):
                    start = time.perf_counter()
                    assert len((await reread(service, session, newest)).events) == 50
                    middle = time.perf_counter()
                    await service.append_event(held, changing(n=1))
                    reads.append(middle - start)
                    appends.append(time.perf_counter() - middle)
                return sorted(reads)[10], sorted(appends)[10]

            await cost(short)
            of_short, of_long = await cost(short), await cost(long)
            assert of_long[0] < 3 * of_short[0] + 0.001
            assert of_long[1] < 3 * of_short[1] + 0.001

    asyncio.run(test())


def test_no_plan_reads_the_whole_session(postgres, postgres_url, common_schema):
    import psycopg

    async def make():
        async with SqlSessionService(postgres_url) as service:
            await service.create_session(**NAMES, session_id="s")

    asyncio.run(make())
    [(key,)] = postgres.execute(f"SELECT key FROM {common_schema}.sessions")
    fill(postgres, common_schema, key, 10_000)
    sql = compile_for_postgres()
    states = {f"{scope}_{column}": ["a"] for scope in ("app", "user", "session") for column in ("names", "values")}
    parameters = {
        sql.read: {**NAMES, "session_id": "s", "after": float("-inf"), "most": 50, "last": 50},
        sql.append: {
            **NAMES,
            "session_id": "s",
            "expected": 10_000,
            "seq": 10_001,
            "event_id": "new",
            "timestamp": 1.0,
            "data": "{}",
            **states,
        },
    }

    def most_rows(plan):
        return max([plan["Actual Rows"] * plan["Actual Loops"], *map(most_rows, plan.get("Plans", []))])

    with psycopg.connect(postgres_url) as connection:
        for statement, values in parameters.items():
            [(found,)] = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", values).fetchall()
            assert most_rows(found[0]["Plan"]) <= 60


def test_the_pool_is_bounded(postgres, postgres_url):
    async def test():
        async with SqlSessionService(named(postgres_url, "bounded"), pool_size=2) as service:
            sessions = [await service.create_session(**NAMES) for _ in range(20)]
            appends = [asyncio.create_task(service.append_event(session, Event())) for session in sessions]
            seen = 0
            while not all(append.done() for append in appends):
                seen = max(seen, len(connections(postgres, "bounded")))
                await asyncio.sleep(0)
            await asyncio.gather(*appends)
            assert 1 <= max(seen, len(connections(postgres, "bounded"))) <= 2

    asyncio.run(test())


def test_close(postgres, postgres_url):
    url = named(postgres_url, "closing")

    async def test():
        service = SqlSessionService(url)
        await service.close()  # never used
        service = SqlSessionService(url)
        session = await service.create_session(**NAMES)
        append = asyncio.create_task(service.append_event(session, Event()))
        await asyncio.sleep(0)
        await asyncio.gather(service.close(), service.close())
        assert engine_threads() == []
        await append
        await service.close()
        with pytest.raises(SessionError, match="closed"):
            await service.append_event(session, Event())
        async with SqlSessionService(url) as again:
            assert (await reread(again, session)).revision == 1

    asyncio.run(test())
    deadline = time.monotonic() + 5
    while connections(postgres, "closing") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert connections(postgres, "closing") == []


def test_a_forgotten_service_leaves_no_thread(postgres_url):
    async def test():
        service = SqlSessionService(postgres_url)
        session = await service.create_session(**NAMES)
        await service.append_event(session, Event())
        assert len(engine_threads()) == 1

    asyncio.run(test())
    deadline = time.monotonic() + 5
    while engine_threads() and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert engine_threads() == []


def test_a_caller_that_leaves_at_once_is_no_trouble(postgres_url, caplog):
    service = SqlSessionService(postgres_url)

    async def leave():
        calls = [service.create_session(**NAMES, session_id=str(number)) for number in range(5)]
        tasks = [asyncio.ensure_future(call) for call in calls]
        await asyncio.sleep(0)
        assert not any(task.done() for task in tasks)

    async def check():
        async with service:
            return len((await service.list_sessions(app_name="app")).sessions)

    asyncio.run(leave())
    assert asyncio.run(check()) in range(6)
    assert caplog.records == []


def test_settings_hold_for_every_transaction(postgres_url):
    def settings():
        names = "lock_timeout", "synchronous_commit", "TimeZone"
        found = []
        for name in names:
            [(value,)] = yield f"SHOW {name}", {}
            found.append(value)
        return found

    async def test():
        url = postgres_url.replace("options=", "options=-cTimeZone%3DIndian/Maldives%20")
        async with SqlSessionService(url, synchronous="NORMAL", busy_timeout=1.5) as service:
            with pytest.raises(SessionError):  # rolls back
                await service._store._thread.submit((x for x in [("SELECT 1/0", {})]), "READ COMMITTED")
            return [
                await service._store._thread.submit(settings(), isolation)
                for isolation in ("AUTOCOMMIT", "REPEATABLE READ")
            ]

    assert asyncio.run(test()) == [["1500ms", "off", "Indian/Maldives"]] * 2


def test_a_newer_schema_is_refused(postgres, postgres_schema_url):
    url = postgres_schema_url()
    schema = postgres.schemas[-1]

    async def use():
        async with SqlSessionService(url) as service:
            await service.create_session(**NAMES)

    asyncio.run(use())
    postgres.execute(f"UPDATE {schema}.schema_version SET version = version + 1")
    with pytest.raises(SchemaVersionError):
        asyncio.run(use())
    assert postgres.execute(f"SELECT count(*) FROM {schema}.sessions") == [(1,)]


def test_a_database_of_somebody_else_and_then_ours(postgres, postgres_schema_url):
    url = postgres_schema_url()
    schema = postgres.schemas[-1]
    postgres.execute(f"CREATE TABLE {schema}.sessions (id text)")

    async def test():
        async with SqlSessionService(url) as service:
            with pytest.raises(SessionError, match="another program"):
                await service.list_sessions(app_name="app")
            postgres.execute(f"DROP TABLE {schema}.sessions")
            await service.create_session(**NAMES)

    asyncio.run(test())


def test_a_server_that_is_not_there():
    async def test():
        async with SqlSessionService("postgresql://me:secret@127.0.0.1:1/test") as service:
            start = time.monotonic()
            for _ in range(2):
                with pytest.raises(SessionError, match="refused") as caught:
                    await service.create_session(**NAMES)
                assert "secret" not in str(caught.value)
            assert time.monotonic() - start < 5

    asyncio.run(test())


def test_a_failure_does_not_tell_what_was_to_be_stored(postgres, postgres_url, common_schema):
    async def test():
        async with SqlSessionService(postgres_url) as service:
            session = await service.create_session(**NAMES)
            postgres.execute(f"ALTER TABLE {common_schema}.events ADD CONSTRAINT never CHECK (length(data) < 3)")
            try:
                with pytest.raises(SessionError, match="never") as caught:
                    await service.append_event(session, Event(author="hush", content={"parts": [{"text": "hush"}]}))
            finally:
                postgres.execute(f"ALTER TABLE {common_schema}.events DROP CONSTRAINT never")
            return caught.value

    problem = asyncio.run(test())
    assert "INSERT" not in str(problem)


def test_the_url_may_be_written_in_either_way(postgres_url):
    bare = postgres_url.removeprefix("postgresql")

    async def test():
        for scheme in ("postgresql", "postgresql+psycopg", "postgres"):
            async with open_session_service(scheme + bare) as service:
                await service.create_session(**NAMES, session_id=scheme)
        async with open_session_service(postgres_url) as service:
            return len((await service.list_sessions(app_name="app")).sessions)

    assert asyncio.run(test()) == 3


def test_the_command_line_takes_the_url(postgres_url, capfd, monkeypatch):
    from adk_stream.cli import main

    def sessions(*command):
        monkeypatch.setattr("sys.argv", ["adk-stream", "sessions", *command, "--session-db", postgres_url])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code in (0, None)
        return capfd.readouterr().out

    async def make():
        async with SqlSessionService(postgres_url) as service:
            session = await service.create_session(app_name="adk-stream", user_id="local", session_id="kept")
            await service.append_event(session, Event(author="model"))

    asyncio.run(make())
    assert "kept" in sessions("list")
    assert '"author"' in sessions("export", "kept")
    sessions("delete", "kept")
    assert "kept" not in sessions("list")


def test_without_psycopg_the_extra_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "adk_stream.sessions.postgres", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(SessionError, match=r"adk-stream\[postgres\]"):
        SqlSessionService("postgresql://host/db")
