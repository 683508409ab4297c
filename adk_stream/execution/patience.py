"""Patience: which time limit of a stream is hit next.

It runs on a clock of its own that moves only while somebody waits, so that the consumer's time never counts, and
that costs nothing while data flows: taking an event in is one assignment, and no timer is touched.
"""

from __future__ import annotations

import math

from adk_stream.errors import StreamTimeoutError
from adk_stream.execution.options import StreamExecutionOptions

__all__ = ["Patience"]

_TOLD = {
    "first_token": "no event for {} s",
    "idle": "no bytes for {} s",
    "content": "nothing to show for {} s",
    "total": "the stream kept us waiting for more than {} s in all",
}


class Patience:
    """The limits of one execution.

    Attributes:
        waited: Seconds waited so far, over all attempts.
        ending: The terminal sign came: only what trails it is waited for.
    """

    def __init__(self, options: StreamExecutionOptions) -> None:
        self.waited = 0.0
        self._first = _or_never(options.first_token_timeout)
        self._idle = _or_never(options.idle_timeout)
        self._unseen = _or_never(options.content_timeout)
        self._total = _or_never(options.total_timeout)
        self._grace = options.end_grace
        self.begin()

    def begin(self) -> None:
        """Another attempt begins: every limit but the total one starts anew."""
        self._began = self._bytes = self._content = self._event = self.waited
        self._spoke = self.ending = False

    def bytes_came(self) -> None:
        """Something came over the connection."""
        self._bytes = self.waited

    def event_came(self) -> None:
        """It was an event that says something."""
        if not self._spoke:
            self._spoke, self._content = True, self.waited
        self._event = self.waited

    def content_came(self) -> None:
        """There was something to show."""
        self._content = self.waited

    @property
    def left(self) -> float:
        """Seconds until the next limit, infinite if there is none."""
        if self.ending:
            due = self._event + self._grace
        elif self._spoke:
            due = min(self._bytes + self._idle, self._content + self._unseen)
        else:
            due = self._began + self._first
        return min(due, self._total) - self.waited

    def is_over(self) -> bool:
        """Has all that was to be waited for after the terminal sign had its time?

        Raises:
            StreamTimeoutError: a limit is hit before that sign.
        """
        if self.left > 0:
            return False
        if self.ending:
            return True
        if self._spoke:
            running = {"idle": (self._bytes, self._idle), "content": (self._content, self._unseen)}
        else:
            running = {"first_token": (self._began, self._first)}
        running["total"] = (0.0, self._total)
        name = min(running, key=lambda each: sum(running[each]))
        raise StreamTimeoutError(_TOLD[name].format(f"{running[name][1]:g}"), name)


def _or_never(seconds: float | None) -> float:
    return math.inf if seconds is None else seconds
