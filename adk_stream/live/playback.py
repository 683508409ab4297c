"""How much of a turn's audio the user has heard.

A model speaks faster than real time, and the loudspeaker plays behind. What is played when the user cuts in decides
which words of the transcript were heard.
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["PlaybackClock"]


class PlaybackClock:
    """The position of the loudspeaker in one turn, in milliseconds of its audio.

    It is taken to play what it was handed at once and in real time, and to wait where it runs out. A client that
    knows better reports its own position.

    Args:
        now: The time in seconds, from any beginning.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._handed_ms = 0.0  # handed out, or passed over, so far
        self._silent_at = 0.0  # when all of that will have been played
        self._reported_ms: float | None = None

    def hand_out(self, ms: float) -> None:
        """So much more audio went to whoever plays it."""
        self._silent_at = max(self._silent_at, self._now()) + ms / 1000
        self._handed_ms += ms

    def pass_over(self, ms: float) -> None:
        """So much of the audio will never be played; the position goes on behind it."""
        self._handed_ms += ms

    def report(self, ms: float) -> None:
        """The client's own position; it stands until the next report.

        Raises:
            ValueError: it is negative or not a number.
        """
        if not ms >= 0:
            raise ValueError(f"a position is a number of milliseconds from 0, not {ms!r}")
        self._reported_ms = float(ms)

    @property
    def reported(self) -> bool:
        """Whether the client has told its position."""
        return self._reported_ms is not None

    @property
    def position(self) -> float:
        """Milliseconds of the turn's audio that were played; never more than were handed out."""
        if self._reported_ms is not None:
            return self._reported_ms
        left_ms = max(self._silent_at - self._now(), 0.0) * 1000
        return max(self._handed_ms - left_ms, 0.0)
