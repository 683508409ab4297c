"""``Tail``: the newest entries of one stream in this process, which all its followers here share.

Followers read from it at their own pace and wait on it for more; it waits for none of them. What it no longer holds
must be fetched elsewhere, and it says so.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice

from .entries import Entry, Kind, read_outcome
from .positions import START, Position

__all__ = ["Tail"]


class Tail:
    """Entries in the order of the log, the oldest forgotten beyond a size.

    Args:
        start: What lies before this position, or at it, was never here.
        max_bytes: How much is held; None: all.

    Attributes:
        newest: Behind everything that ever came.
        outcome: How the stream ended (``End``'s fields), once that is known.
        closed: Why nothing comes any more although the stream has not ended.
    """

    def __init__(self, start: Position = START, max_bytes: int | None = None) -> None:
        self._start = start
        self._max_bytes = max_bytes
        self._entries: deque[Entry] = deque()
        self._bytes = 0
        self._changed = asyncio.Event()
        self.newest = start
        self.outcome: Mapping[str, str] | None = None
        self.closed: Exception | None = None

    @property
    def first(self) -> Entry | None:
        """The oldest entry that is held."""
        return self._entries[0] if self._entries else None

    def add(self, entries: Sequence[Entry]) -> None:
        """Take entries in, behind those that are here, and wake who waits."""
        for entry in entries:
            self._entries.append(entry)
            self._bytes += entry.size
            self.newest = self.newest.up_to(entry.position)
            if entry.kind is Kind.END:
                self.outcome = read_outcome(entry.data)
        if self._max_bytes is not None:
            while self._bytes > self._max_bytes and len(self._entries) > 1:
                self.forget_first()
        self.wake()

    def forget_first(self) -> None:
        """Let the oldest entry go."""
        entry = self._entries.popleft()
        self._bytes -= entry.size
        self._start = entry.position

    def after(self, position: Position) -> Sequence[Entry] | None:
        """The entries behind a position, a bounded number of them; None if some before those are not here."""
        place = _order(position)
        if place < _order(self._start):
            return None
        entries = self._entries
        if not entries or place >= _order(entries[-1].position):
            return ()
        first = bisect_right(entries, place, key=_place_of)
        return list(islice(entries, first, first + _AT_ONCE))

    def oldest(self) -> Sequence[Entry]:
        """The first of the entries that are here."""
        return list(islice(self._entries, _AT_ONCE))

    def change(self) -> asyncio.Event:
        """Set at the next change. Ask for it before looking, and nothing is missed."""
        return self._changed

    def wake(self) -> None:
        """Have everybody look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    def end(self, outcome: Mapping[str, str]) -> None:
        """The stream has ended, whether or not an entry tells so."""
        if self.outcome is None:
            self.outcome = outcome
            self.wake()

    def close(self, problem: Exception) -> None:
        """Nothing comes any more, and this is why."""
        self.closed = problem
        self.wake()


_AT_ONCE = 256


def _order(position: Position) -> tuple[int, int]:
    return position[:2]


def _place_of(entry: Entry) -> tuple[int, int]:
    return entry.position[:2]
