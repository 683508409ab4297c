"""One service in a process of its own, for tests that kill it: arguments are Redis' URL and the store's.

Its model says 200 numbered words, 100 a second. Prints its port, and then nothing.
"""

import asyncio
import sys

from adk_stream.relay import RelayOptions
from adk_stream.server import Limits, ServerConfig, ServiceServer, listen, make_app

WORDS = 200
LEASE = 1.0


class Counting:
    name, provider = "counting", "openai-chat"

    async def stream(self, request):
        for number in range(WORDS):
            await asyncio.sleep(0.01)
            yield _chunk({"content": f"{number} "})
        yield _chunk({}, "stop")


def _chunk(delta, finish=None):
    return {"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def main(redis_url, sessions):
    config = ServerConfig(
        models={"m": Counting()},
        sessions=sessions,
        redis_url=redis_url,
        relay=RelayOptions(lease=LEASE),
        limits=Limits(drain_seconds=0.5),
    )
    with listen("127.0.0.1", 0, client_patience=5) as listener:
        print(listener.getsockname()[1], flush=True)
        ServiceServer(make_app(config), log_level="error").run(sockets=[listener])


if __name__ == "__main__":
    main(*sys.argv[1:])
