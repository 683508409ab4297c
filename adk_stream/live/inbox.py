"""Responses on their way from the reader to the consumer, in bounded number.

Audio may be given up when the consumer is slow, or when it has become stale; nothing else ever is.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from adk_stream.response import LlmResponse

    from .playback import PlaybackClock

__all__ = ["AudioPolicy", "Entry", "Inbox"]

AudioPolicy = Literal["wait", "drop_oldest"]


class Entry(NamedTuple):
    """A response that waits.

    Attributes:
        response: The response.
        audio_ms: The length of its audio, if it is audio alone; else 0.
        clock: That of its turn.
    """

    response: LlmResponse
    audio_ms: float
    clock: PlaybackClock


class Inbox:
    """For one consumer.

    Args:
        limit: Responses that wait at most; what one message of the server brings comes in as a whole.
        policy: What happens to the reader at the limit: it waits, or the oldest audio that waits is dropped.
    """

    def __init__(self, limit: int, policy: AudioPolicy) -> None:
        self._limit = limit
        self._policy = policy
        self._entries: deque[Entry] = deque()
        self._filled = asyncio.Event()
        self._taken = asyncio.Event()
        self._ended = False
        self._problem: BaseException | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, entry: Entry) -> None:
        """Add a response."""
        if self._policy == "drop_oldest" and len(self._entries) >= self._limit:
            self._drop_oldest_audio()
        self._entries.append(entry)
        self._filled.set()

    async def room(self) -> None:
        """Wait until there is room for more."""
        while len(self._entries) > self._limit and not self._ended:
            self._taken.clear()
            await self._taken.wait()

    def clear_audio(self) -> None:
        """Drop all audio that waits: the user cut in, and it must not be played."""
        self._entries = deque(entry for entry in self._entries if not entry.audio_ms)
        self._taken.set()

    def end(self, problem: BaseException | None = None) -> None:
        """Nothing more comes; ``problem`` is raised once, behind what waits."""
        if not self._ended:
            self._ended, self._problem = True, problem
        self._filled.set()
        self._taken.set()

    def discard(self) -> list[LlmResponse]:
        """End, and give what waits to nobody else."""
        self._problem = None
        self.end()
        left = [entry.response for entry in self._entries]
        self._entries.clear()
        return left

    async def get(self) -> Entry:
        """The next response.

        Raises:
            StopAsyncIteration: the session has ended.
            Exception: what it ended with.
        """
        while not self._entries:
            if self._ended:
                problem, self._problem = self._problem, None
                raise StopAsyncIteration if problem is None else problem
            self._filled.clear()
            await self._filled.wait()
        entry = self._entries.popleft()
        self._taken.set()
        return entry

    def _drop_oldest_audio(self) -> None:
        for place, entry in enumerate(self._entries):
            if entry.audio_ms:
                del self._entries[place]
                entry.clock.pass_over(entry.audio_ms)
                return
