"""How a stream lies in Redis. Needs Redis 6.2 or later, one server or a primary with replicas; not a cluster.

::

    {prefix}log:{stream}    a Redis stream, one entry for each of ours; its ids are ``term-number``
    {prefix}info:{stream}   a hash: owner, term, lease, session, ids of the finals, snapshot, outcome
    {prefix}running         a sorted set: streams that have not ended, by the time at which they are given up
    {prefix}inbox:{relay}   a Redis stream: what one process is to hear besides: who wishes a stream to end

The ids are our own and must grow, as Redis demands: so an entry that is sent twice is written once, and a former
owner, whose term is smaller, is refused. An entry has one field; its name says what it is, its value holds the data.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from .entries import Entry, Kind
from .positions import Position

__all__ = ["Keys", "entry_id", "field_of", "final_field", "read_entries"]


class Keys(NamedTuple):
    """Names of keys, all beginning with a prefix."""

    prefix: str

    def log(self, stream_id: str) -> str:
        """The stream's entries."""
        return f"{self.prefix}log:{stream_id}"

    def info(self, stream_id: str) -> str:
        """What is known of the stream."""
        return f"{self.prefix}info:{stream_id}"

    @property
    def running(self) -> str:
        """Streams that have not ended."""
        return f"{self.prefix}running"

    def inbox(self, relay_id: str) -> str:
        """Messages to one process."""
        return f"{self.prefix}inbox:{relay_id}"

    def of(self, stream_id: str) -> list[str]:
        """What the scripts are given."""
        return [self.info(stream_id), self.log(stream_id), self.running]


def entry_id(position: Position) -> str:
    """The id of what lies at that position."""
    return f"{position.term}-{position.number}"


def field_of(entry: Entry) -> str:
    """The name of an entry's field: kind, ``~`` if partial, number of finals."""
    return f"{entry.kind.value}{'~' if entry.partial else ''}{entry.position.finals}"


def final_field(number: int) -> str:
    """The field of the info that holds the id of a final."""
    return f"final:{number}"


def _read_entry(id: bytes, fields: dict[bytes, bytes]) -> Entry | None:
    """The entry as Redis gives it; None if it is none of ours."""
    for name, data in fields.items():
        match = _FIELD.fullmatch(name)
        if match is not None:
            term, _, number = id.partition(b"-")
            position = Position(int(term), int(number), int(match[3]))
            return Entry(_KINDS[match[1]], position, match[2] is not None, data)
    return None


def read_entries(found: Any) -> list[Entry]:
    """The entries of a reply, in order."""
    return [entry for id, fields in found if (entry := _read_entry(id, fields)) is not None]


_KINDS = {kind.value.encode(): kind for kind in Kind}
_FIELD = re.compile(rb"([eroz])(~)?([0-9]+)")
