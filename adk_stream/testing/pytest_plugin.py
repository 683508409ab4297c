"""Fixtures for pytest, found by it through the entry point ``pytest11``. Costs nothing until one is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from adk_stream.testing.live_server import LiveServer
    from adk_stream.testing.replay import ReplayServer

__all__ = ["adk_stream_live", "adk_stream_replay"]


@pytest.fixture
def adk_stream_replay() -> Iterator[Callable[..., ReplayServer]]:
    """Starts replay servers: call it with ``ReplayServer``'s arguments. They stop with the test."""
    from adk_stream.testing.replay import ReplayServer

    with ExitStack() as servers:

        def start(recordings: Any, **options: Any) -> ReplayServer:
            return servers.enter_context(ReplayServer(recordings, **options))

        yield start


@pytest.fixture
def adk_stream_live() -> Iterator[Callable[..., LiveServer]]:
    """Starts Live servers: call it with ``LiveServer``'s arguments. They stop with the test."""
    from adk_stream.testing.live_server import LiveServer

    with ExitStack() as servers:

        def start(conversations: Any, **options: Any) -> LiveServer:
            return servers.enter_context(LiveServer(conversations, **options))

        yield start
