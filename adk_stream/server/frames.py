"""This package's own events as bytes, straight from the relay: the JSON was written once for all followers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from adk_stream.encoders.protocol import dumps
from adk_stream.relay import Delivery, End, Gap, Item

__all__ = ["numbered_frames"]


async def numbered_frames(items: AsyncGenerator[Item, None]) -> AsyncGenerator[bytes, None]:
    """What a relay gives a follower, as server-sent events with the cursors for ids."""
    async with aclosing(items):
        async for item in items:
            yield _frame(item)


def _frame(item: Item) -> bytes:
    if isinstance(item, Delivery):
        name = b"partial" if item.partial else b"final"
        return b"id: %b\nevent: %b\ndata: %b\n\n" % (item.cursor.encode(), name, item.json)
    if isinstance(item, Gap):
        return _told(item.cursor, "gap", {"lostFinals": item.lost_finals})
    return _told(item.cursor, "done", _of_end(item))


def _of_end(end: End) -> dict[str, Any]:
    fields = {"status": end.status, "errorCode": end.error_code, "errorMessage": end.error_message}
    return {name: value for name, value in fields.items() if value is not None}


def _told(cursor: str, name: str, data: dict[str, Any]) -> bytes:
    return f"id: {cursor}\nevent: {name}\ndata: {dumps(data)}\n\n".encode()
