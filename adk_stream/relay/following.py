"""What a follower gets: each response once and in order, gaps marked and their finals fetched, then the end.

The same for every relay. Entries tell how far the log had come before them (``Entry.before``), so a gap shows
whatever its cause: entries that were dropped for want of room, or lost with the memory of a Redis server.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Protocol

from adk_stream.sessions.event import Event

from .entries import Entry, Kind, end_of, read_outcome, write_response
from .positions import Position, write_cursor
from .protocol import Delivery, Gap, Item
from .tail import Tail

__all__ = ["Source", "follow"]


class Source(Protocol):
    """Where a follower reads one stream.

    Attributes:
        stream_id: The stream.
        tail: Its newest entries.
    """

    stream_id: str
    tail: Tail

    async def page(self, position: Position) -> Sequence[Entry] | None:
        """Entries behind a position that the tail does not reach back to; None: not now, wait for a change."""
        ...

    async def finals(self, first: int, last: int) -> Mapping[int, Event]:
        """The finals of those numbers from the session store, as far as it has them."""
        ...


async def follow(source: Source, position: Position) -> AsyncGenerator[Item, None]:
    """Everything behind ``position``, up to the end of the stream."""
    stream_id, tail = source.stream_id, source.tail
    while True:
        change = tail.change()
        entries = tail.after(position)
        if entries is None:
            entries = await source.page(position)
        for entry in entries or ():
            before = entry.before
            if before.number > position.number:
                async for item in _across(source, position, before.finals):
                    yield item
            if entry.kind is Kind.END:
                yield end_of(read_outcome(entry.data), write_cursor(stream_id, position.up_to(entry.position)))
                return
            is_new = _is_new(entry, position)
            position = position.up_to(entry.position)
            if is_new:
                cursor = write_cursor(stream_id, position)
                yield Delivery(cursor, entry.data, entry.kind is Kind.EVENT, entry.partial)
        if entries:
            continue
        if entries is not None and tail.outcome is not None:
            yield end_of(tail.outcome, write_cursor(stream_id, position.up_to(tail.newest)))
            return
        if tail.closed is not None:
            raise tail.closed
        await change.wait()


def _is_new(entry: Entry, position: Position) -> bool:
    """Whether the follower has yet to get it: not after a gap that was filled, nor if a new owner repeats it."""
    if entry.kind is Kind.OWNED or entry.position.number <= position.number:
        return False
    return entry.partial or entry.position.finals > position.finals


async def _across(source: Source, position: Position, last: int) -> AsyncGenerator[Item, None]:
    """The mark of a gap, and the finals in it up to that number.

    Their cursors lie before the gap: whoever comes back with one of them is told of it again, and gets the rest.
    """
    stream_id, first = source.stream_id, position.finals + 1
    found = await source.finals(first, last) if first <= last else {}
    yield Gap(write_cursor(stream_id, position), lost_finals=max(0, last - first + 1) - len(found))
    for number in sorted(found):
        kind, data = write_response(found[number])
        cursor = write_cursor(stream_id, position._replace(finals=number))
        yield Delivery(cursor, data, kind is Kind.EVENT, partial=False)
