"""Which events of a Responses stream have come, by ``sequence_number``: repeats and gaps.

A stream may be resumed (``starting_after``) from before the place where it broke, so events come again; or
from behind it, so some are missing. A repeated number is the same event again, unless the server does not
count at all (some send 0 with every event): two different events in a row with one number show that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from adk_stream.providers.objects import as_event

__all__ = ["EventNumbers"]


class EventNumbers(msgspec.Struct):
    """The numbers seen.

    Attributes:
        first, following: The numbers seen lie from ``first`` to before ``following``, but for those missing.
        missing: Ranges (first, last) of numbers that were passed over.
        changed: ``missing`` has changed since this was last set to False.
        newest: The last event, without what differs between two copies.
    """

    first: int | None = None
    following: int = 0
    missing: list[tuple[int, int]] = []
    changed: bool = False
    counting: bool = True
    newest: Any = None

    def take(self, number: int, event: Mapping[str, Any]) -> bool:
        """Is this event news?"""
        if number == self.following and self.first is not None:
            self.following = number + 1
            self.newest = event
            return True
        return self._take_odd(number, event)

    def continues(self, number: int | None) -> bool:
        """Is it the number that follows, or is there none?"""
        return number is None or (number == self.following and self.first is not None)

    def go_on(self, event: Any) -> None:
        """``take`` of an event whose number follows, and that has its fields as attributes."""
        if event.sequence_number is not None:
            self.following += 1
            self.newest = event

    def _take_odd(self, number: int, event: Mapping[str, Any]) -> bool:
        if not self.counting:
            return True
        if self.first is None:
            self.first, self.following = number, number + 1
        elif number > self.following:
            self.missing.append((self.following, number - 1))
            self.changed, self.following = True, number + 1
        elif number < self.first:
            if number + 1 < self.first:
                self.missing.insert(0, (number + 1, self.first - 1))
                self.changed = True
            self.first = number
        elif not self._fill(number):
            if number != self.following - 1 or _same(event, self.newest):
                return False
            self.counting, self.missing = False, []
        self.newest = event
        return True

    def _fill(self, number: int) -> bool:
        """Take a number out of those that are missing; False when it is none of them."""
        for place, (start, end) in enumerate(self.missing):
            if start <= number <= end:
                self.missing[place : place + 1] = [
                    part for part in ((start, number - 1), (number + 1, end)) if part[0] <= part[1]
                ]
                self.changed = True
                return True
        return False

    def gaps(self) -> list[list[int]]:
        """The missing ranges, first and last number each."""
        return [[start, end] for start, end in self.missing]


def _same(event: Mapping[str, Any], other: Any) -> bool:
    other = msgspec.to_builtins(other) if isinstance(other, msgspec.Struct) else as_event(other)
    return isinstance(other, Mapping) and _plain(event) == _plain(other)


def _plain(event: Mapping[str, Any]) -> dict[str, Any]:
    # obfuscation is random padding, made anew with each sending
    return {key: value for key, value in event.items() if key != "obfuscation" and value is not None}
