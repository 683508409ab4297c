"""Programs that the tests run in processes of their own, against any database."""

import os
import subprocess
import sys
import textwrap

# A process for each name, forked from one that has loaded what all need.
COUNT = """
    import asyncio, os, sys
    from adk_stream.errors import SessionExistsError, StaleSessionError
    from adk_stream.sessions import Event, EventActions, SqlSessionService

    async def main(url, me):
        names = dict(app_name="app", user_id="user", session_id="s")
        async with SqlSessionService(url) as service:
            try:
                await service.create_session(**names)
            except SessionExistsError:
                pass
            for number in range(40):
                while True:
                    session = await service.get_session(**names)
                    count = session.state.get("count", 0) + 1
                    actions = EventActions(state_delta={"count": count, f"user:{me}-{number}": count})
                    event = Event(id=f"{me}-{number}", author=me, timestamp=0.0, actions=actions)
                    try:
                        await service.append_event(session, event)
                        break
                    except StaleSessionError:
                        pass

    url, *names = sys.argv[1:]
    children = []
    for name in names:
        children.append(os.fork())
        if children[-1] == 0:
            asyncio.run(main(url, name))
            sys.exit()
    sys.exit(any([os.waitpid(child, 0)[1] for child in children]))
"""

APPEND_FOR_EVER = """
    import asyncio, sys
    from adk_stream.sessions import Event, SqlSessionService

    async def main(url, name):
        async with SqlSessionService(url) as service:
            async def work(lane):
                mine = f"{name}-{lane}"
                own = await service.create_session(app_name="app", user_id="user", session_id=mine)
                for number in range(100_000):
                    await service.append_event(own, Event(id=f"{lane}:{number}", author="x" * 500))
                    print(own.id, f"{lane}:{number}", flush=True)
            await asyncio.gather(*(work(lane) for lane in range(4)))

    asyncio.run(main(*sys.argv[1:]))
"""


def python(code, *args, **options):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        **options,
    )
