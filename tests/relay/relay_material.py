"""What the tests publish, and how they write down what followers got."""

import asyncio
import os
from contextlib import aclosing

from google.genai import types

from adk_stream.relay import Delivery, End, Gap
from adk_stream.sessions import Event

#: A server that these tests may use; each test has a prefix of its own, and deletes its keys.
REDIS = os.environ.get("ADK_STREAM_REDIS", "redis://127.0.0.1:6379")


def said(text, *, partial=True, **fields):
    content = types.Content(role="model", parts=[types.Part(text=text)])
    return Event(author="model", invocation_id="i", partial=partial or None, content=content, **fields)


def final(text, **fields):
    return said(text, partial=False, **fields)


def texts(items):
    """Texts of responses; a gap is ``…``, an end its status."""
    return [
        item.response.text if isinstance(item, Delivery) else "…" if isinstance(item, Gap) else item.status
        for item in items
    ]


async def collect(relay, stream_id="s", after=None, limit=None):
    """All items, or the first so many."""
    items = []
    async with aclosing(relay.subscribe(stream_id, after)) as source:
        async for item in source:
            items.append(item)
            if len(items) == limit:
                break
    return items


async def collect_in_pieces(relay, size, stream_id="s", after=None):
    """What a follower gets that leaves after every ``size`` items and comes back with its cursor."""
    items = []
    while not items or not isinstance(items[-1], End):
        got = await collect(relay, stream_id, after, size)
        items += got
        after = got[-1].cursor
    return items


async def until(condition, seconds=10):
    """Wait until it holds."""
    async with asyncio.timeout(seconds):
        while True:
            held = condition()
            if asyncio.iscoroutine(held):
                held = await held
            if held:
                return
            await asyncio.sleep(0.01)
