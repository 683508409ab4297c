"""Every relay behind one fixture: what holds for one must hold for the other."""

import asyncio
import shutil
import socket
import subprocess
import sys
import time
import uuid
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from adk_stream.relay import MemoryRelay, RedisRelay, RelayOptions

sys.path.insert(0, str(Path(__file__).parent))

from relay_material import REDIS


@pytest.fixture(scope="session")
def redis_server():
    redis = pytest.importorskip("redis", reason="redis-py, for Redis, is not installed")
    client = redis.Redis.from_url(REDIS)
    try:
        client.ping()
    except redis.RedisError as problem:
        pytest.skip(f"no Redis at $ADK_STREAM_REDIS: {problem}")
    yield client
    client.close()


@pytest.fixture
def prefix(redis_server):
    """Names of keys that no other test uses."""
    name = f"adk_stream_test_{uuid.uuid4().hex[:12]}:"
    yield name
    for key in redis_server.scan_iter(f"{name}*", count=1000):
        redis_server.delete(key)


class Relays:
    """Relays that see each other's streams: over Redis as many as are asked for, in memory always the same one."""

    def __init__(self, kind, prefix):
        self.kind = kind
        self.prefix = prefix
        self._stack = None
        self._memory = None

    async def open(self, **options):
        reload = options.pop("reload", None)
        options = RelayOptions(**options)
        if self.kind == "redis":
            relay = RedisRelay(REDIS, prefix=self.prefix, reload=reload, options=options)
        elif self._memory is None:
            relay = self._memory = MemoryRelay(reload=reload, options=options)
        else:
            return self._memory
        return await self._stack.enter_async_context(relay)

    def run(self, test):
        """Runs a coroutine function that is given these relays; closes them afterwards."""

        async def main():
            async with AsyncExitStack() as self._stack:
                self._memory = None
                return await asyncio.wait_for(test(self), 30)

        return asyncio.run(main())


@pytest.fixture(params=["memory", "redis"])
def relays(request):
    return Relays(request.param, request.getfixturevalue("prefix") if request.param == "redis" else None)


class OwnRedis:
    """A server that a test may stop and start."""

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        self._folder = folder
        self._process = None

    def start(self, *, keeps=False):
        durable = ("--appendonly", "yes", "--appendfsync", "always") if keeps else ("--save", "")
        self._process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder), *durable],
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    probe.sendall(b"PING\r\n")
                    if probe.recv(100).startswith(b"+PONG"):
                        return
            time.sleep(0.02)
        raise AssertionError("redis-server does not start")

    def kill(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@pytest.fixture
def own_redis(tmp_path):
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server, of Redis, is not installed")
    server = OwnRedis(tmp_path)
    yield server
    server.kill()
