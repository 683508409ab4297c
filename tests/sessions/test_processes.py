"""Several processes on one database."""

import asyncio
import signal

from session_processes import APPEND_FOR_EVER, COUNT, python

from adk_stream.sessions import Event, SqlSessionService

NAMES = {"app_name": "app", "user_id": "user"}


def test_four_processes_count_together(database_url):
    # They also make the database together: it does not exist yet.
    with python(COUNT, database_url, *"abcd") as processes:
        assert processes.wait(60) == 0

    async def check():
        async with SqlSessionService(database_url) as service:
            return await service.get_session(**NAMES, session_id="s")

    session = asyncio.run(check())
    assert session.state["count"] == session.revision == 160
    assert [event.actions.state_delta["count"] for event in session.events] == list(range(1, 161))
    for name in "abcd":
        assert [e.id for e in session.events if e.author == name] == [f"{name}-{n}" for n in range(40)]
    assert sum(key.startswith("user:") for key in session.state) == 160


def test_a_killed_process_loses_no_acknowledged_event(database_url):
    wait = [1, 40, 111]
    processes = [python(APPEND_FOR_EVER, database_url, f"round-{number}") for number in range(len(wait))]
    acknowledged = {}
    for process, lines in zip(processes, wait, strict=True):
        heard = [process.stdout.readline() for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
        heard += process.stdout.readlines()
        process.wait()
        process.stdout.close()
        for line in heard:
            if line.endswith("\n") and line.strip():
                session, event = line.split()
                acknowledged.setdefault(session, []).append(event)
    assert sum(map(len, acknowledged.values())) >= sum(wait)

    async def check():
        async with SqlSessionService(database_url) as service:
            for name, ids in acknowledged.items():
                session = await service.get_session(**NAMES, session_id=name)
                stored = [event.id for event in session.events]
                assert stored[: len(ids)] == ids
                assert stored == [f"{name[-1]}:{n}" for n in range(len(stored))], "no gaps, none twice"
                assert session.revision == len(stored)
                await service.append_event(session, Event(author="goes on"))

    asyncio.run(check())
