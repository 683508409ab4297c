"""What SQLite and PostgreSQL show alike: several threads, loops and processes, and appends that are cancelled."""

import asyncio
import os
import threading

import pytest
from session_processes import python

from adk_stream.sessions import Event, SqlSessionService

NAMES = {"app_name": "app", "user_id": "user"}


@pytest.mark.parametrize("moment", [0, 0.0002, 0.0005, 0.001, 0.002])
def test_a_cancelled_append_leaves_session_and_store_agreed(database_url, moment):
    async def test():
        async with SqlSessionService(database_url) as service:
            session = await service.create_session(**NAMES)
            for number in range(10):
                task = asyncio.create_task(service.append_event(session, Event(author=str(number))))
                await asyncio.sleep(moment)
                task.cancel()
                try:
                    await task
                except asyncio.CancelledError:
                    pass
                await service.append_event(session, Event(author="what had come"))
            assert await service.get_session(**NAMES, session_id=session.id) == session
            assert session.revision == len(session.events) >= 10

    asyncio.run(test())


def test_threads_and_loops_share_one_service(database_url):
    service = SqlSessionService(database_url)
    problems = []

    def lane(number):
        async def test():
            session = await service.create_session(**NAMES, session_id=str(number))
            for n in range(20):
                await service.append_event(session, Event(author=str(n)))

        try:
            asyncio.run(test())
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=lane, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    async def check():
        sessions = (await service.list_sessions(app_name="app")).sessions
        await service.close()
        return [session.revision for session in sessions]

    assert problems == []
    assert asyncio.run(check()) == [20] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_service_goes_on_in_a_forked_child(database_url):
    code = """
        import asyncio, os, sys
        from adk_stream.sessions import Event, SqlSessionService

        names = dict(app_name="app", user_id="user", session_id="s")
        service = SqlSessionService(sys.argv[1])

        async def append():
            session = await service.get_session(**names)
            await service.append_event(session, Event(author=str(os.getpid())))

        asyncio.run(service.create_session(**names))
        child = os.fork()
        if child == 0:
            asyncio.run(append())
            asyncio.run(service.close())
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        asyncio.run(append())
        print(len(asyncio.run(service.get_session(**names)).events))
    """
    process = python(code, database_url)
    assert process.communicate(timeout=20)[0].strip() == "2"
