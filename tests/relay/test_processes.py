"""Two processes and more, with a real Redis and a real database between them."""

import asyncio
import json
import os
import signal
import time
import uuid

import pytest
from relay_material import REDIS, collect, collect_in_pieces, final, said, texts
from relay_processes import FOLLOW, PRODUCE, python

from adk_stream.relay import RedisRelay, RelayOptions
from adk_stream.sessions import SqlSessionService

POSTGRES = os.environ.get("ADK_STREAM_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")


@pytest.fixture
def database(request, tmp_path):
    """A database without tables of ours."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/sessions.db"
        return
    psycopg = pytest.importorskip("psycopg", reason="psycopg, for PostgreSQL, is not installed")
    try:
        connection = psycopg.connect(POSTGRES, autocommit=True, connect_timeout=3)
    except psycopg.OperationalError as problem:
        pytest.skip(f"no PostgreSQL at $ADK_STREAM_POSTGRES: {problem}")
    schema = f"adk_stream_test_{uuid.uuid4().hex[:12]}"
    connection.execute(f"CREATE SCHEMA {schema}")
    yield f"{POSTGRES}?options=-csearch_path%3D{schema}"
    connection.execute(f"DROP SCHEMA {schema} CASCADE")
    connection.close()


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_followers_in_two_processes_get_everything_once(prefix, database):
    others = [python(FOLLOW, REDIS, prefix, database) for _ in range(2)]
    for process in others:
        assert process.stdout.readline() == "ready\n"
    words = [str(number) for number in range(200)]

    async def produce():
        async with SqlSessionService(database) as store, RedisRelay(REDIS, prefix=prefix, reload=store) as relay:
            session = await store.create_session(app_name="a", user_id="u")
            producer = await relay.open("s", session=session)
            here = asyncio.create_task(collect_in_pieces(relay, 7))
            for number, word in enumerate(words):
                if number in (20, 100):  # one joins early, one late
                    process = others[number // 100]
                    process.stdin.write("go\n")
                    process.stdin.flush()
                response = said(word, partial=number % 10 != 9)
                if not response.partial:
                    await store.append_event(session, response)
                await producer.publish(response)
                await asyncio.sleep(0.004)
            await producer.finish("completed")
            return await here

    assert texts(asyncio.run(produce())) == [*words, "completed"]
    for process in others:
        told, _ = process.communicate(timeout=20)
        assert json.loads(told) == [[*words, "completed"]] * 2


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_a_producing_process_is_killed(prefix, database):
    lease = 2.0
    producing = python(PRODUCE, REDIS, prefix, database, lease)
    acknowledged = [int(producing.stdout.readline()) for _ in range(5)]

    async def follow():
        async with (
            SqlSessionService(database) as store,
            RedisRelay(REDIS, prefix=prefix, reload=store, options=RelayOptions(lease=lease)) as relay,
        ):
            followers = [asyncio.create_task(collect(relay)), asyncio.create_task(collect_in_pieces(relay, 7))]
            await asyncio.sleep(0.3)
            producing.send_signal(signal.SIGKILL)
            killed = time.monotonic()
            got = await asyncio.gather(*followers)
            took = time.monotonic() - killed
            session = await store.get_session(app_name="a", user_id="u", session_id="s")
            return got, took, [int(event.content.parts[0].text) for event in session.events]

    got, took, stored = asyncio.run(follow())
    acknowledged += [int(line) for line in producing.stdout.readlines() if line.endswith("\n")]
    producing.wait()
    producing.stdout.close()
    producing.stdin.close()
    assert took <= lease
    for items in got:
        *numbers, end = texts(items)
        assert (end, items[-1].error_code) == ("failed", "PRODUCER_LOST")
        assert numbers == [str(number) for number in range(len(numbers))], "nothing missing, nothing twice"
    assert stored[: len(acknowledged)] == acknowledged
    assert stored == [number for number in range(len(stored) * 10) if number % 10 == 9]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_killed_process_is_followed_by_another_that_goes_on(prefix, database):
    """The heir goes on from the snapshot; those that follow notice nothing."""
    code = PRODUCE.replace('relay.open("s", session=session)', 'relay.open("s", session=session, takeover=30)').replace(
        "await producer.publish(response)",
        "await producer.publish(response)\n                if number % 7 == 0:\n"
        "                    await producer.save(str(number).encode())",
    )
    producing = python(code, REDIS, prefix, database, 1.0)
    for _ in range(5):
        producing.stdout.readline()

    async def follow():
        from adk_stream.errors import StreamOwnedError

        async with RedisRelay(REDIS, prefix=prefix, options=RelayOptions(lease=1.0)) as relay:
            follower = asyncio.create_task(collect(relay))
            await asyncio.sleep(0.2)
            producing.kill()
            while True:
                try:
                    heir = await relay.take_over("s")
                    break
                except StreamOwnedError:
                    await asyncio.sleep(0.05)
            first = int(heir.snapshot) + 1
            repeats = heir.repeats
            assert 0 <= repeats < 100
            for number in range(first, first + repeats + 20):
                await heir.publish(said(str(number), partial=number % 10 != 9))
            await heir.publish(final("all", status="completed"))
            await heir.finish()
            return first + repeats + 20, texts(await follower)

    count, got = asyncio.run(follow())
    producing.communicate()
    assert got == [*map(str, range(count)), "all", "completed"]
