"""Which responses of a stream are kept: the newest, bounded in number, size and age."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from .protocol import RelayOptions

__all__ = ["Window"]


class _Mark(NamedTuple):
    """That far the stream had come."""

    time: float
    number: int
    bytes: int


class Window:
    """Tells the number of the first response to keep.

    Size and age are known at marks only, some hundred of them over a full window, so that a long stream costs no
    more than a short one. What is kept exceeds the bounds by the distance of two marks at most.
    """

    def __init__(self, options: RelayOptions) -> None:
        self._options = options
        self._marks: deque[_Mark] = deque()
        self._bytes = 0
        self.first = 1

    def add(self, number: int, size: int, now: float) -> int:
        """Count a response in, and return the number of the first one to keep.

        Args:
            number: The response's.
            size: In bytes.
            now: The time, in seconds of any clock that does not go back.
        """
        options, marks = self._options, self._marks
        self._bytes += size
        here = _Mark(now, number, self._bytes)
        if not marks or self._is_far(marks[-1], here):
            marks.append(here)
        self.first = max(self.first, number - options.max_entries + 1)
        while marks and (now - marks[0].time > options.max_age or self._bytes - marks[0].bytes > options.max_bytes):
            self.first = max(self.first, marks.popleft().number + 1)
        self.first = min(self.first, number)
        return self.first

    def _is_far(self, last: _Mark, here: _Mark) -> bool:
        options = self._options
        return (
            here.time - last.time >= options.max_age / _MARKS
            or here.bytes - last.bytes >= options.max_bytes / _MARKS
            or here.number - last.number >= options.max_entries
        )


_MARKS = 100
