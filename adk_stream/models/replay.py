"""A model that plays recordings: for tests of what stands above a model, and for trying things out without a key."""

from __future__ import annotations

import math
import os
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeAlias

from adk_stream.errors import RecordingError
from adk_stream.recording import Recording, load_recording, play_async

if TYPE_CHECKING:
    from adk_stream.models.request import ModelRequest

__all__ = ["ReplayModel", "Round"]

#: What the model answers once: a recording, or the path or the bytes of one; or the items of a stream themselves
#: (events, bytes, SDK objects), where an exception among them is raised in its place.
Round: TypeAlias = "Recording | str | os.PathLike[str] | bytes | Sequence[Any]"


class ReplayModel:
    """Answers each request with the next recording, whatever is asked.

    ::

        model = ReplayModel(["calls_a_tool.sse", "then_answers.sse"])

    Args:
        recordings: One for each request, in order; a single path or recording stands for itself.
        name: What the model is called.
        provider: The line of the recordings; None: what they say, ``"auto"`` where they differ or do not say.
        pace: What the recorded times are multiplied by: 0 at once, 1 as recorded.
        repeat: Begin again after the last round.

    Attributes:
        name: What the model is called.
        provider: The line, as ``aggregate`` takes it.
        requests: What it was asked so far, oldest first.

    Raises:
        RecordingError: there is no round, or a recording cannot be read.
        ValueError: ``pace`` is negative or no number.
    """

    def __init__(
        self,
        recordings: Iterable[Round] | Round,
        *,
        name: str = "replay",
        provider: str | None = None,
        pace: float = 0.0,
        repeat: bool = False,
    ) -> None:
        if not (math.isfinite(pace) and pace >= 0):
            raise ValueError(f"pace is a factor from 0, not {pace!r}")
        given: Any = recordings
        if isinstance(recordings, (str, os.PathLike, bytes, Recording)):
            given = [recordings]
        self._rounds = [_loaded(each, provider or "auto", f"round {n}") for n, each in enumerate(given, 1)]
        if not self._rounds:
            raise RecordingError(f"model {name!r} has no recording to play")
        told = {each.provider if isinstance(each, Recording) else None for each in self._rounds}
        self.name = name
        self.provider = provider or (told.pop() if len(told) == 1 else None) or "auto"
        self.requests: list[ModelRequest] = []
        self._pace = pace
        self._repeat = repeat

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
        """The next round; ``Model`` tells the rest.

        Raises:
            RecordingError: all rounds have been played.
            Exception: one that stands among the items of the round.
        """
        turn = len(self.requests)
        if turn >= len(self._rounds) and not self._repeat:
            raise RecordingError(
                f"model {self.name!r} was asked {turn + 1} times and has {len(self._rounds)} recordings"
            )
        self.requests.append(request)
        round = self._rounds[turn % len(self._rounds)]
        if isinstance(round, Recording):
            async with aclosing(play_async(round, self._pace)) as pieces:
                async for piece in pieces:
                    yield piece
            return
        for item in round:
            if isinstance(item, BaseException):
                raise item
            yield item


def _loaded(round: Round, provider: str, name: str) -> Recording | Sequence[Any]:
    if isinstance(round, (str, os.PathLike)):
        return load_recording(round, provider)
    return Recording.from_bytes(round, provider, name=name) if isinstance(round, bytes) else round
