"""Everything the aggregator knows of a stream: plain structs, so that a snapshot is all of it."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from adk_stream.aggregator.heard import duration_ms
from adk_stream.checkpoint import Snapshotted
from adk_stream.metadata import Metadata
from adk_stream.parts import PartAssembler, StreamFault, StreamLimits, Text, TranscriptDelta
from adk_stream.providers.gemini import GeminiReader
from adk_stream.providers.gemini_live import LiveReader

__all__ = ["CandidateState", "StreamState", "Transcript", "TurnState"]


class CandidateState(msgspec.Struct):
    """What has come of the candidate that is aggregated."""

    assembler: PartAssembler
    index: int | None = None  # None: nothing of any candidate has come
    role: str | None = None
    metadata: Metadata = msgspec.field(default_factory=Metadata)
    finish_reason: str | None = None
    native_finish_reason: str | None = None
    finish_code: str | None = None
    finish_message: str | None = None
    terminal: bool = False
    refused: bool = False
    transcript: Text = msgspec.field(default_factory=Text)


class Transcript(msgspec.Struct):
    """What one side has said in this turn, in words.

    Attributes:
        text: The words so far.
        rest: Language and speaker as last told, in wire form.
        words: Word by word, where the provider tells.
        anchors: Where in the audio the words are: before each fragment (milliseconds of audio, characters of text).
        length: Characters so far.
    """

    text: Text = msgspec.field(default_factory=Text)
    rest: dict[str, Any] = {}
    words: list[Any] = []
    anchors: list[tuple[float, int]] = []
    length: int = 0

    def append(self, delta: TranscriptDelta, audio_ms: float) -> None:
        """Take a fragment in, which came when so much audio had come."""
        if delta.rest:
            self.rest.update((key, value) for key, value in delta.rest.items() if key not in _OF_ONE_FRAGMENT)
            self.words += delta.rest.get("words") or ()
        if delta.text:
            self.anchors.append((audio_ms, self.length))
            self.length += len(delta.text)
            self.text.append(delta.text)


#: Fields of a transcription that speak of its own words only.
_OF_ONE_FRAGMENT = ("words", "startOffset", "endOffset")


class TurnState(msgspec.Struct):
    """What has come of the turn of a live session that is running.

    Attributes:
        open: Something came since the last turn's end.
        interrupted: The user spoke over the model in this turn.
        said: The transcripts, by who speaks.
        cancelled: Ids of calls that were cancelled.
        audio_passes: Audio is shown as it comes and kept nowhere: there is no more to do for it.
        audio_type: Of the audio that comes now.
        audio_bytes: Of this type that came.
        earlier_ms: Length of the audio of other types before it.
        played_ms: How much of it the user has heard, as last told; None: nobody told.
        complete: Turns that were completed before this one.
    """

    open: bool = False
    interrupted: bool = False
    said: dict[str, Transcript] = {}
    cancelled: list[str] = []
    audio_passes: bool = False
    audio_type: str = ""
    audio_bytes: int = 0
    earlier_ms: float = 0.0
    played_ms: float | None = None
    complete: int = 0

    @property
    def audio_ms(self) -> float:
        """Length of the model's audio that came, in milliseconds."""
        return self.earlier_ms + (duration_ms(self.audio_type, self.audio_bytes) if self.audio_bytes else 0.0)

    def add_audio(self, mime_type: str, size: int) -> None:
        """Take note of so many bytes of audio."""
        self.open = True
        if mime_type != self.audio_type:
            self.earlier_ms, self.audio_type, self.audio_bytes = self.audio_ms, mime_type, 0
        self.audio_bytes += size


class StreamState(Snapshotted):
    """Everything that a snapshot holds."""

    flush: str
    wanted: int
    audio: str | None
    limits: StreamLimits
    candidate: CandidateState
    sdk_reader: GeminiReader | None = None
    live_reader: LiveReader | None = None
    provider: str | None = None  # the line the stream came on: opaque values go back to no other
    seen: bool = False
    response_id: str | None = None
    model_version: str | None = None
    usage: dict[str, Any] = {}
    provider_metadata: dict[str, Any] = {}
    error: StreamFault | None = None
    turn: TurnState | None = None  # a live session's

    @classmethod
    def fresh(cls, flush: str, wanted: int, audio: str | None, limits: StreamLimits) -> Self:
        """The state before anything has come."""
        assembler = PartAssembler(keep_audio=audio != "drop", limits=limits)
        return cls(flush, wanted, audio, limits, CandidateState(assembler))
