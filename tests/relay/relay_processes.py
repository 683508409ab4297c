"""Programs that the tests run in processes of their own, on one Redis and one database."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

_IMPORTS = """
    import asyncio, json, sys
    from relay_material import collect, collect_in_pieces, final, said, texts
    from adk_stream.relay import RedisRelay, RelayOptions
    from adk_stream.sessions import SqlSessionService

    redis, prefix, database = sys.argv[1:4]
    relay_of = lambda store, **bounds: RedisRelay(redis, prefix=prefix, reload=store, options=RelayOptions(**bounds))
"""

#: Followers of one stream: one that stays, one that leaves after every seven; what they got, as JSON.
FOLLOW = (
    _IMPORTS
    + """
    async def main():
        async with SqlSessionService(database) as store, relay_of(store) as relay:
            got = await asyncio.gather(collect(relay), collect_in_pieces(relay, 7))
            print(json.dumps([texts(items) for items in got]))

    print("ready", flush=True)
    sys.stdin.readline()
    asyncio.run(main())
"""
)

#: A producer that stores every tenth response and tells of it once it is stored. It goes on for ever.
PRODUCE = (
    _IMPORTS
    + """
    async def main():
        async with SqlSessionService(database) as store, relay_of(store, lease=float(sys.argv[4])) as relay:
            session = await store.create_session(app_name="a", user_id="u", session_id="s")
            producer = await relay.open("s", session=session)
            for number in range(100_000):
                response = said(str(number), partial=number % 10 != 9)
                if not response.partial:
                    await store.append_event(session, response)
                    print(number, flush=True)
                await producer.publish(response)
                await asyncio.sleep(0.002)

    asyncio.run(main())
"""
)


def python(code, *args):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
    )
