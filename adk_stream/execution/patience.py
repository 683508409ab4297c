"""Patience: which time limit of a stream is hit next.

It runs on a clock of its own that moves only while somebody waits, so that the consumer's time never counts, and
that costs nothing while data flows: taking an event in is one assignment, and no timer is touched.
"""

from __future__ import annotations

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
        self._limits = {
            "first_token": options.first_token_timeout,
            "idle": options.idle_timeout,
            "content": options.content_timeout,
            "total": options.total_timeout,
            "end": options.end_grace,
        }
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
    def left(self) -> float | None:
        """Seconds until the next limit; None if there is none."""
        due = self._next()[1]
        return None if due is None else max(due - self.waited, 0.0)

    def is_over(self) -> bool:
        """Has all that was to be waited for after the terminal sign had its time?

        Raises:
            StreamTimeoutError: a limit is hit before that sign.
        """
        name, due = self._next()
        if due is None or self.waited < due:
            return False
        if self.ending:
            return True
        raise StreamTimeoutError(_TOLD[name].format(f"{self._limits[name]:g}"), name)

    def _next(self) -> tuple[str, float | None]:
        """The limit that is hit next, and when."""
        name, due = "", None
        for each, since in self._running():
            limit = self._limits[each]
            if limit is not None and (due is None or since + limit < due):
                name, due = each, since + limit
        return name, due

    def _running(self) -> tuple[tuple[str, float], ...]:
        """The limits that hold at this stage, and since when."""
        if self.ending:
            return (("end", self._event), ("total", 0.0))
        if self._spoke:
            return (("idle", self._bytes), ("content", self._content), ("total", 0.0))
        return (("first_token", self._began), ("total", 0.0))
