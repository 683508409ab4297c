"""How many of something there may be at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .problems import Problem

__all__ = ["Slots"]


class Slots:
    """Counts what is under way. For one event loop.

    Args:
        most: So many at once.
        what: What they are, for the client who gets none.
    """

    def __init__(self, most: int, what: str) -> None:
        self.used = 0
        self._most = most
        self._what = what

    def take(self) -> None:
        """One more; ``give_back`` ends it.

        Raises:
            Problem: 429, there are as many as there may be.
        """
        self.check()
        self.used += 1

    def check(self) -> None:
        """Is there one left?

        Raises:
            Problem: as ``take``.
        """
        if self.used >= self._most:
            raise Problem(429, f"there are {self._most} {self._what} already", headers={"retry-after": "1"})

    def give_back(self) -> None:
        """One less."""
        self.used -= 1

    @contextmanager
    def taken(self) -> Iterator[None]:
        """One more, while this is entered."""
        self.take()
        try:
            yield
        finally:
            self.give_back()
