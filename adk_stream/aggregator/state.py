"""Everything the aggregator knows of a stream: plain structs, so that a snapshot is all of it."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from adk_stream.checkpoint import Snapshotted
from adk_stream.metadata import Metadata
from adk_stream.parts import PartAssembler, StreamFault, StreamLimits, Text
from adk_stream.providers.gemini import GeminiReader

__all__ = ["CandidateState", "StreamState"]


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


class StreamState(Snapshotted):
    """Everything that a snapshot holds."""

    flush: str
    wanted: int
    audio: str | None
    limits: StreamLimits
    candidate: CandidateState
    sdk_reader: GeminiReader | None = None
    provider: str | None = None  # the line the stream came on: opaque values go back to no other
    seen: bool = False
    response_id: str | None = None
    model_version: str | None = None
    usage: dict[str, Any] = {}
    provider_metadata: dict[str, Any] = {}
    error: StreamFault | None = None

    @classmethod
    def fresh(cls, flush: str, wanted: int, audio: str | None, limits: StreamLimits) -> Self:
        """The state before anything has come."""
        assembler = PartAssembler(keep_audio=audio != "drop", limits=limits)
        return cls(flush, wanted, audio, limits, CandidateState(assembler))
