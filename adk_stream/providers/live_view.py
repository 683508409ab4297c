"""What the live views of the lines share: a reader that is watched, fed piece by piece.

A view is fed by the same reader as the aggregator, so no wire format is read twice, and what it shows agrees with
the final response. It needs no google-genai.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from adk_stream.parts import PartAssembler, Slot, StreamChunk, StreamLimits, TextSlot
from adk_stream.providers import Reader, open_reader
from adk_stream.providers.line import Line

__all__ = ["LiveView"]


class _WatchedReader:
    """A reader whose newest event can be looked at."""

    def __init__(self, reader: Reader, keep_events: bool) -> None:
        self.reader = reader
        self.event: Any = None
        self.events: list[Any] | None = [] if keep_events else None
        self.close = reader.close
        self.snapshot = reader.snapshot

    @property
    def ended(self) -> bool:
        return self.reader.ended

    def read(self, event: Any, name: str | None = None) -> Sequence[StreamChunk]:
        self._note(event)
        return self.reader.read(event, name)

    def read_object(self, event: Any) -> Sequence[StreamChunk]:
        self._note(event)
        return self.reader.read_object(event)

    def _note(self, event: Any) -> None:
        self.event = event
        if self.events is not None:
            self.events.append(event)


class _WatchedLine(Line):
    """A line that keeps its reader watched."""

    def __init__(self, provider: str, keep_events: bool, on_malformed: str, limits: StreamLimits) -> None:
        self._keep_events = keep_events
        super().__init__(provider, on_malformed=on_malformed, limits=limits)

    def _open(self, provider: str) -> Any:
        self.watched = _WatchedReader(open_reader(provider), self._keep_events)
        return self.watched


class LiveView:
    """What one stream has come to so far; joined when it is asked for. Not thread-safe.

    Args:
        provider: The line.
        keep_events: Keep every event (as decoded) in ``events``; off, since that holds the stream in memory.
        on_malformed: ``"raise"``, or ``"skip"`` to pass over events that cannot be read.
        limits: Bounds on what is held.

    Attributes:
        ended: ``close`` was called, or the terminal event came.

    Raises:
        ValueError: ``on_malformed`` is neither.
    """

    def __init__(
        self,
        provider: str,
        *,
        keep_events: bool = False,
        on_malformed: str = "raise",
        limits: StreamLimits | None = None,
    ) -> None:
        self.ended = False
        limits = limits or StreamLimits()
        self._line = _WatchedLine(provider, keep_events, on_malformed, limits)
        self._assembler = PartAssembler(limits=limits)

    def feed(self, piece: Any) -> None:
        """Take the next piece in: bytes or str cut anywhere, a decoded event, or an object of the SDK.

        Raises:
            MalformedStreamError: an event cannot be read; what came before it is there.
        """
        for chunks in self._line.feed(piece):
            self._take(chunks)

    def read(self, stream: Iterable[Any]) -> Self:
        """Feed all pieces of a stream, and close.

        Raises:
            MalformedStreamError: an event cannot be read; what came before it is there.
        """
        for piece in (stream,) if isinstance(stream, (bytes, bytearray, str, Mapping)) else stream:
            self.feed(piece)
        self.close()
        return self

    def close(self) -> None:
        """The stream has ended; without a terminal event it counts as cut.

        Raises:
            MalformedStreamError: the stream ends inside an event.
        """
        for chunks in self._line.close():
            self._take(chunks)
        self.ended = True

    @property
    def event(self) -> Any:
        """The current event, as decoded; None before the first."""
        return self._line.watched.event

    @property
    def events(self) -> list[Any]:
        """Every event so far, if they are kept; else an empty list."""
        return list(self._line.watched.events or ())

    def _take(self, chunks: Sequence[StreamChunk]) -> None:
        """Take in what an event became."""
        raise NotImplementedError

    def _slots(self) -> list[Slot]:
        return [slot for group in self._assembler.groups for _, slot in group.ordered()]

    def _texts(self, thought: bool) -> list[TextSlot]:
        return [slot for slot in self._slots() if isinstance(slot, TextSlot) and slot.thought is thought]

    def _said(self, thought: bool = False, refusal: bool = False) -> str:
        texts = self._texts(thought)
        return "".join(slot.text.join() for slot in texts if ("refusal" in (slot.metadata or {})) is refusal)
