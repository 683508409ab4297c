"""Where a follower is in a stream, and the text by which it says so when it comes back.

A position has three numbers. The *term* counts owners of the stream, the *number* its responses; the two together
order everything in the log, so that what a former owner writes late is out of order and refused. *Finals* counts
the finals among the responses: it tells which of them a follower lacks, however many partials came between.
"""

from __future__ import annotations

import re
import zlib
from typing import NamedTuple

from adk_stream.errors import CursorError

__all__ = ["START", "Position", "read_cursor", "write_cursor"]


class Position(NamedTuple):
    """Behind which response somebody is."""

    term: int
    number: int
    finals: int

    def up_to(self, other: Position) -> Position:
        """Behind everything that lies behind either."""
        return Position(max(self.term, other.term), max(self.number, other.number), max(self.finals, other.finals))


#: Before everything.
START = Position(0, 0, 0)


def write_cursor(stream_id: str, position: Position) -> str:
    """The position as an opaque text: letters, digits and hyphens only, as ``Last-Event-ID`` can carry them."""
    text = "{}-{}-{}".format(*position)
    return f"{text}-{_check(stream_id, text)}"


def read_cursor(stream_id: str, cursor: str) -> Position:
    """The position that ``write_cursor`` wrote.

    Raises:
        CursorError: it is no cursor, or one of another stream. The check is against mistakes: a position that
            somebody makes up for a stream that he may follow shows him nothing he could not see.
    """
    match = _CURSOR.fullmatch(cursor) if isinstance(cursor, str) and len(cursor) <= _MAX_LENGTH else None
    if match is None or _check(stream_id, match[1]) != match[2]:
        raise CursorError(f"{str(cursor)[:80]!r} is no cursor of stream {stream_id!r}")
    term, number, finals = map(int, match[1].split("-"))
    return Position(term, number, finals)


_MAX_LENGTH = 80
_CURSOR = re.compile(r"([0-9]{1,15}-[0-9]{1,15}-[0-9]{1,15})-([0-9a-f]{8})", re.ASCII)


def _check(stream_id: str, text: str) -> str:
    return f"{zlib.crc32(f'{stream_id} {text}'.encode('utf-8', 'surrogatepass')):08x}"
