"""Gemini Live's server messages: frames, dicts or google-genai objects to StreamChunks.

One message may say many things at once, and all of them are given, in this order::

    interrupted         what waits to be played is stale, and so is the audio of this very message
    input transcript    what the user said, before what it led to
    model turn          text, thoughts, code, calls, audio
    output transcript   what the model said
    (interruption)      what had come of the interrupted turn is all of it
    tool calls          to be answered by the client, and then their cancellations
    signals             set-up, voice activity, resumption, go-away, usage, grounding
    turn complete       always last

Wire facts: https://ai.google.dev/api/live (BidiGenerateContentServerMessage and its parts). Transcripts keep no order
with the model's turn, and need not be ended by ``finished``; of an interrupted turn comes ``interrupted``, then
``turnComplete``, and never ``generationComplete``. Usage names its counters differently from generateContent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from adk_stream.checkpoint import Snapshotted
from adk_stream.metadata import as_wire
from adk_stream.parts import (
    AudioDelta,
    LiveSignal,
    StreamChunk,
    StreamFault,
    TranscriptDelta,
    part_delta,
)
from adk_stream.providers import DONE
from adk_stream.providers.gemini import CandidatePlaces, says_nothing, to_native, wire_delta
from adk_stream.providers.gemini_live_tail import TurnTail

if TYPE_CHECKING:
    from google.genai import types

__all__ = ["LiveReader", "to_native"]

_PROVIDER = "gemini-live"

#: Live's names of the usage counters, and what generateContent calls them.
_COUNTERS = {
    "responseTokenCount": "candidatesTokenCount",
    "responseTokensDetails": "candidatesTokensDetails",
}

#: Why a turn was complete, as a finish reason; every other reason is an end that is not natural and OTHER.
_NATURAL = ("TURN_COMPLETE_REASON_UNSPECIFIED", "NEED_MORE_INPUT", 0, "", None)
_FINISH_REASONS = {
    "MALFORMED_FUNCTION_CALL": "MALFORMED_FUNCTION_CALL",
    "RESPONSE_REJECTED": "SAFETY",
    "PROHIBITED_INPUT_CONTENT": "PROHIBITED_CONTENT",
    "IMAGE_PROHIBITED_INPUT_CONTENT": "PROHIBITED_CONTENT",
    "GENERATED_CONTENT_PROHIBITED": "PROHIBITED_CONTENT",
    "BLOCKLIST": "BLOCKLIST",
    "GENERATED_CONTENT_BLOCKLIST": "BLOCKLIST",
    "GENERATED_CONTENT_SAFETY": "SAFETY",
    "GENERATED_IMAGE_SAFETY": "SAFETY",
    "GENERATED_AUDIO_SAFETY": "SAFETY",
    "GENERATED_VIDEO_SAFETY": "SAFETY",
}

#: Fields of the message that have one of their own in LlmResponse.
_SIGNAL_FIELDS = {
    "sessionResumptionUpdate": "live_session_resumption_update",
    "goAway": "go_away",
    "voiceActivity": "voice_activity",
}
#: Candidate metadata, merged over the turn.
_METADATA = {"groundingMetadata": "grounding_metadata", "urlContextMetadata": "url_context_metadata"}
#: What the reader takes from ``serverContent``; everything else in it is told in ``provider_metadata``.
_CONTENT_KEYS = frozenset(
    {
        "modelTurn",
        "turnComplete",
        "interrupted",
        "inputTranscription",
        "outputTranscription",
        "interimInputTranscription",
        "turnCompleteReason",
        "interactionStatus",
        *_METADATA,
    }
)
_MESSAGE_KEYS = frozenset(
    {"serverContent", "toolCall", "toolCallCancellation", "usageMetadata", "setupComplete", "error", *_SIGNAL_FIELDS}
)
#: (field of ``serverContent``, who speaks, a guess that the next one replaces)
_TRANSCRIPTS = (
    ("interimInputTranscription", "input", True),
    ("inputTranscription", "input", False),
    ("outputTranscription", "output", False),
)


class LiveReader(Snapshotted):
    """Reads the messages of one live session, over all its turns; see ``providers.Reader``.

    Attributes:
        accept_tail: Hold the end of a turn back while a transcript of the model is unfinished, until the next turn
            begins or the session ends, since the last words may come after ``turnComplete``. For streams that are
            read as a whole: in a conversation it would keep the end of each turn until the user speaks again.
        places: Where the parts of the turn stand.
        tail: The turn's end and the words after it, while they are held back.
        begun: A message has come.
    """

    accept_tail: bool = False
    places: CandidatePlaces = msgspec.field(default_factory=CandidatePlaces)
    tail: TurnTail = msgspec.field(default_factory=TurnTail)
    begun: bool = False

    @property
    def ended(self) -> bool:
        """Never: after a turn comes the next, until the session is closed."""
        return False

    def read(self, event: Any, name: str | None = None) -> Sequence[StreamChunk]:
        """The chunks of one server message in wire form, or of one frame of a recorded session."""
        if event == DONE:
            return ()
        if "direction" in event:  # both directions were recorded; only what the server said is a stream
            return self.read(event["data"]) if event["direction"] == "received" else ()
        if any("_" in key for key in event):
            return self.read_object(_message(event))
        chunks = self._read(event)
        return self.tail.pass_on(chunks) if self.accept_tail else chunks

    def _read(self, event: Mapping[str, Any]) -> list[StreamChunk]:
        if event.get("error"):
            return [_fault(event["error"])]
        chunks: list[StreamChunk] = [] if self.begun else self._begin()
        content = event.get("serverContent") or {}
        if content.get("interrupted"):
            chunks.append(StreamChunk(live=LiveSignal(interrupted=True)))
        transcripts = self._transcripts(content)
        chunks += [chunk for chunk in transcripts if chunk.transcript and chunk.transcript.who == "input"]
        chunks += self._turn(content.get("modelTurn"))
        chunks += [chunk for chunk in transcripts if chunk.transcript and chunk.transcript.who == "output"]
        if content.get("interrupted"):
            chunks.append(StreamChunk(live=LiveSignal(ends_interrupted=True)))
        if event.keys() != _ONLY_CONTENT or not content.keys() <= _HOT_KEYS:
            chunks += self._rest(event, content)
        return chunks

    def _begin(self) -> list[StreamChunk]:
        self.begun = True
        return [StreamChunk(live=LiveSignal())]

    def _turn(self, content: Any) -> list[StreamChunk]:
        """The model's own content."""
        if content is None:
            return []
        parts = content.get("parts")
        if not parts:
            return [StreamChunk(empty=True)] if "parts" in content else []
        return self._placed(content.get("role"), map(wire_delta, filter(None, parts)))

    def _placed(self, role: str | None, deltas: Any) -> list[StreamChunk]:
        placed = [each for delta in deltas if (each := self.places.place(delta)) is not None]
        return [StreamChunk(placed, role=role)] if placed else []

    def _transcripts(self, content: Mapping[str, Any]) -> list[StreamChunk]:
        chunks = []
        for key, who, interim in _TRANSCRIPTS:
            said = content.get(key)
            if not said:
                continue
            rest = {k: v for k, v in said.items() if k not in ("text", "finished") and v is not None}
            delta = TranscriptDelta(who, said.get("text") or "", bool(said.get("finished")), interim, rest or None)
            chunks.append(StreamChunk(transcript=delta))
        return chunks

    def _rest(self, event: Mapping[str, Any], content: Mapping[str, Any]) -> list[StreamChunk]:
        """Everything that few messages have: calls, signals, usage, the turn's end."""
        chunks = self._calls((event.get("toolCall") or {}).get("functionCalls") or ())
        cancelled = (event.get("toolCallCancellation") or {}).get("ids")
        if cancelled:
            chunks.append(StreamChunk(live=LiveSignal(cancelled=[str(each) for each in cancelled])))
        signals = StreamChunk(live=_signals(event, content))
        _read_usage(signals, event.get("usageMetadata"))
        found = {_METADATA[key]: value for key, value in content.items() if key in _METADATA}
        signals.metadata = {name: value for name, value in found.items() if not says_nothing(value)} or None
        if signals.live or signals.usage_metadata is not None or signals.metadata:
            chunks.append(signals)
        if content.get("turnComplete"):
            chunks.append(_turn_complete(content))
            self.places = CandidatePlaces()
        elif content.get("interactionStatus"):
            chunks.append(StreamChunk(live=LiveSignal(fields={"interaction_status": content["interactionStatus"]})))
        return chunks

    def _calls(self, calls: Sequence[Mapping[str, Any]]) -> list[StreamChunk]:
        return self._placed(None, [wire_delta({"functionCall": call}) for call in calls])

    def grow_bytes(self, data: bytes) -> AudioDelta | None:
        """``read`` of a frame that is one piece of audio and nothing else; None for any other."""
        if not self.begun or self.tail.held:
            return None
        try:
            blob = _decode_audio(data).server_content.model_turn.parts[0].inline_data
        except (msgspec.DecodeError, IndexError):
            return None
        if not blob.mime_type.startswith("audio/") or not blob.data:
            return None
        return AudioDelta(self.places.indexer.run_at(blob.mime_type), blob.mime_type, blob.data, _PROVIDER)

    # ------------------------------------------------------------- google-genai's objects

    def read_object(self, event: Any) -> Sequence[StreamChunk]:
        """The chunks of a google-genai ``LiveServerMessage``."""
        content = event.server_content
        if content is None or event.__pydantic_fields_set__ != _CONTENT_ALONE or not self.begun:
            return self.read(as_wire(event))
        (field, *others) = content.__pydantic_fields_set__ or ("",)
        watched = self.accept_tail and (self.tail.held or field != "model_turn")
        read = None if others or watched else _ALONE.get(field)
        value = getattr(content, field) if read is not None else None
        if read is None or value is None:
            return self.read(as_wire(event))
        return read(self, value)

    def audio_object(self, event: Any) -> tuple[types.Content, str, int] | None:
        """Content, mime type and size of a ``LiveServerMessage`` that is one piece of audio and nothing else."""
        # one field is set on each level, and it is the one we look for
        content = event.server_content
        if content is None or len(event.__pydantic_fields_set__) > 1 or not self.begun or self.tail.held:
            return None
        turn = content.model_turn
        if turn is None or len(content.__pydantic_fields_set__) > 1:
            return None
        parts = turn.parts
        if not parts or len(parts) > 1 or turn.role not in _MODEL or len(parts[0].__pydantic_fields_set__) > 1:
            return None
        blob = parts[0].inline_data
        if blob is None or not blob.data or not blob.mime_type or blob.mime_type[:6] != "audio/":
            return None
        self.places.indexer.run = None  # text that follows is another run
        return turn, blob.mime_type, len(blob.data)

    def close(self) -> Sequence[StreamChunk]:
        """The turn's end that was held back, after the words that came late."""
        return self.tail.release()


class _Exact(msgspec.Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    """A frame that says this and nothing else."""


class _Blob(_Exact):
    mime_type: str
    data: bytes


class _Part(_Exact):
    inline_data: _Blob


class _Turn(_Exact):
    parts: Annotated[list[_Part], msgspec.Meta(max_length=1)]
    role: Literal["model"] | None = None


class _Content(_Exact):
    model_turn: _Turn


class _AudioFrame(_Exact):
    server_content: _Content


_decode_audio = msgspec.json.Decoder(_AudioFrame).decode

_ONLY_CONTENT = frozenset({"serverContent"})
_HOT_KEYS = frozenset(
    {"modelTurn", "inputTranscription", "outputTranscription", "interimInputTranscription", "interrupted"}
)
_CONTENT_ALONE = {"server_content"}
_MODEL = (None, "model")


def _transcript_object(who: str, said: types.Transcription) -> StreamChunk:
    bare = said.__pydantic_fields_set__ <= _TRANSCRIPT_FIELDS
    rest = None if bare else as_wire(said.model_copy(update={"text": None, "finished": None}))
    return StreamChunk(transcript=TranscriptDelta(who, said.text or "", bool(said.finished), rest=rest or None))


_TRANSCRIPT_FIELDS = {"text", "finished"}

#: How a message is read that has this one field: nearly all of them.
_ALONE: dict[str, Callable[[LiveReader, Any], Sequence[StreamChunk]]] = {
    "model_turn": lambda reader, turn: reader._placed(turn.role, map(part_delta, turn.parts or ())),
    "output_transcription": lambda reader, said: (_transcript_object("output", said),),
    "input_transcription": lambda reader, said: (_transcript_object("input", said),),
}


def _signals(event: Mapping[str, Any], content: Mapping[str, Any]) -> LiveSignal | None:
    fields: dict[str, Any] = {
        name: event[key] for key, name in _SIGNAL_FIELDS.items() if event.get(key) not in (None, {})
    }
    told = {key: value for key, value in event.items() if key not in _MESSAGE_KEYS and value is not None}
    told |= {key: value for key, value in content.items() if key not in _CONTENT_KEYS and value not in (None, False)}
    setup = event.get("setupComplete")
    if setup is not None:
        session_id = setup.get("sessionId")
        if session_id:
            fields["live_session_id"] = str(session_id)
        told["setupComplete"] = setup
    return LiveSignal(fields=fields or None, told=told or None) if fields or told else None


def _turn_complete(content: Mapping[str, Any]) -> StreamChunk:
    reason = content.get("turnCompleteReason")
    status = content.get("interactionStatus")
    fields: dict[str, Any] = {"interaction_status": str(status)} if status else {}
    chunk = StreamChunk(live=LiveSignal(turn_complete=True, fields=fields), terminal=True, finish_reason="STOP")
    if reason not in _NATURAL:
        fields["turn_complete_reason"] = str(reason)
        chunk.finish_reason = _FINISH_REASONS.get(str(reason), "OTHER")
        chunk.finish_code = chunk.native_finish_reason = str(reason)
    return chunk


def _read_usage(chunk: StreamChunk, usage: Any) -> None:
    if not usage:
        return
    if not isinstance(usage, Mapping):
        raise TypeError(f"usage is a {type(usage).__name__}")
    chunk.usage_metadata = {_COUNTERS.get(key, key): value for key, value in usage.items()}
    chunk.provider_metadata = {"usage": dict(usage)}


def _fault(error: Any) -> StreamChunk:
    """An ``{"error": …}`` frame, which comes before the server closes."""
    if not isinstance(error, Mapping):
        return StreamChunk(error=StreamFault(None, str(error)))
    code, message = error.get("status") or error.get("code"), error.get("message")
    fault = StreamFault(None if code is None else str(code), None if message is None else str(message))
    return StreamChunk(error=fault, provider_metadata={_PROVIDER: {"error": dict(error)}})


def _message(event: Mapping[str, Any]) -> types.LiveServerMessage:
    """A dump of google-genai's object, with its snake_case names."""
    from google.genai import types

    return types.LiveServerMessage.model_validate(event)
