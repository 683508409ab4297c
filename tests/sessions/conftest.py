"""Both stores behind one fixture: what holds for one must hold for the other."""

import asyncio

import pytest

from adk_stream.sessions import InMemorySessionService, SqlSessionService


class Store:
    """Runs a test's coroutine against a fresh service, and closes it on the same loop."""

    def __init__(self, kind, url):
        self.kind = kind
        self.url = url

    def open(self, **options):
        return InMemorySessionService(**options) if self.kind == "memory" else SqlSessionService(self.url, **options)

    def run(self, test, **options):
        async def main():
            async with self.open(**options) as service:
                return await test(service)

        return asyncio.run(main())


@pytest.fixture(params=["memory", "sqlite", "sqlite-in-memory"])
def store(request, tmp_path):
    url = "sqlite://" if request.param == "sqlite-in-memory" else f"sqlite:///{tmp_path}/sessions.db"
    return Store(request.param, url)
