"""The messages of a Live server, one small function each, and the sound they carry.

Each returns a new dict in the wire's own words (https://ai.google.dev/api/live); ``together`` makes one message
of several, as servers do. What a message lacks, write as a dict: any dict is a message.
"""

from __future__ import annotations

import base64
import math
import struct
import uuid
from collections.abc import Mapping
from typing import Any, Literal

from adk_stream.testing.dialects import DIALECTS

__all__ = [
    "Message",
    "audio",
    "error",
    "generation_complete",
    "go_away",
    "input_transcript",
    "interrupted",
    "output_transcript",
    "resumption",
    "setup_complete",
    "silence",
    "spoken",
    "text",
    "together",
    "tone",
    "tool_call",
    "tool_call_cancellation",
    "turn_complete",
    "usage",
]

Message = dict[str, Any]

#: Samples in a second of what the model says; it hears 16,000.
OUTPUT_RATE = 24_000

_LOUDNESS = 8_000


def setup_complete(session_id: str | None = None) -> Message:
    """The answer to ``setup``; without an id, one of its own."""
    return {"setupComplete": {"sessionId": session_id or str(uuid.uuid4())}}


def text(words: str, *, thought: bool = False) -> Message:
    """Written words of the model."""
    return _model_turn({"text": words, **({"thought": True} if thought else {})})


def audio(pcm: bytes, *, rate: int = OUTPUT_RATE) -> Message:
    """A chunk of the model's voice.

    Args:
        pcm: 16-bit samples, little endian, one channel.
        rate: Samples in a second.
    """
    return _model_turn({"inlineData": {"mimeType": f"audio/pcm;rate={rate}", "data": base64.b64encode(pcm).decode()}})


def input_transcript(words: str | None = None, *, finished: bool | None = None) -> Message:
    """A fragment of what the user was heard to say."""
    return {"serverContent": {"inputTranscription": _given(text=words, finished=finished)}}


def output_transcript(words: str | None = None, *, finished: bool | None = None) -> Message:
    """A fragment of what the model says, in writing."""
    return {"serverContent": {"outputTranscription": _given(text=words, finished=finished)}}


def generation_complete() -> Message:
    """All of the turn has been generated; some of it may still be on its way."""
    return {"serverContent": {"generationComplete": True}}


def interrupted() -> Message:
    """The user cut in. A ``turn_complete`` follows, without ``generation_complete``."""
    return {"serverContent": {"interrupted": True}}


def turn_complete(*, counts: Message | None = None, reason: str | None = None, status: str | None = None) -> Message:
    """The end of a turn.

    Args:
        counts: A ``usage`` message that comes in the same one, as it mostly does.
        reason: ``turnCompleteReason``, where the turn ended for another reason than its end.
        status: ``interactionStatus``: ``IN_PROGRESS`` where one prompt leads to further turns, else ``IDLE``.
    """
    content = {"turnComplete": True, **_given(turnCompleteReason=reason, interactionStatus=status)}
    return together({"serverContent": content}, counts or {})


def usage(prompt: int, response: int, *, thoughts: int | None = None) -> Message:
    """The tokens so far, under the names that the Gemini API gives them in Live."""
    counts = {"promptTokenCount": prompt, "responseTokenCount": response}
    total = prompt + response + (thoughts or 0)
    return {"usageMetadata": {**counts, **_given(thoughtsTokenCount=thoughts), "totalTokenCount": total}}


def tool_call(name: str, args: Mapping[str, Any] | None = None, *, id: str) -> Message:
    """A call of one function. Put several ``together`` for one message with several calls."""
    return {"toolCall": {"functionCalls": [{"name": name, "args": dict(args or {}), "id": id}]}}


def tool_call_cancellation(*ids: str) -> Message:
    """These calls are not wanted any more."""
    return {"toolCallCancellation": {"ids": list(ids)}}


def resumption(handle: str, *, resumable: bool = True) -> Message:
    """A handle that a later connection resumes with; none is given while the session cannot be resumed."""
    return {"sessionResumptionUpdate": {**({"newHandle": handle} if resumable else {}), "resumable": resumable}}


def go_away(seconds: float) -> Message:
    """The server is about to close the connection, in that time."""
    return {"goAway": {"timeLeft": f"{seconds:g}s"}}


def error(status: int = 503, message: str = "the server failed while it streamed") -> Message:
    """An error as a message. google-genai 3.6 fails on it with a TypeError of its own."""
    return DIALECTS["gemini"].error(status, message)


def together(*messages: Mapping[str, Any]) -> Message:
    """One message that says all of it: objects are joined, lists appended, of other values the last one stands."""
    joined: Message = {}
    for message in messages:
        for key, value in message.items():
            before = joined.get(key)
            if isinstance(value, Mapping):
                joined[key] = together(before if isinstance(before, Mapping) else {}, value)
            elif isinstance(value, list):
                joined[key] = [*(before if isinstance(before, list) else ()), *value]
            else:
                joined[key] = value
    return joined


def spoken(
    words: str,
    *,
    lag: Literal["generation_complete", "turn_complete"] | None = None,
    seconds: float = 0.1,
    counts: Message | None = None,
) -> list[Message]:
    """A whole turn of the model's voice: for each word its transcript and its sound, then the turn's end.

    Args:
        words: What is said. The transcripts' texts, joined, are exactly this.
        lag: After which message the second half of the transcript comes. It is no part of the turn on the
            wire and does come late.
        seconds: How long each word sounds.
        counts: A ``usage`` message, sent with ``turn_complete``.
    """
    fragments = _fragments(words)
    late = len(fragments) // 2 if lag else len(fragments)
    messages: list[Message] = []
    for place, fragment in enumerate(fragments):
        if place < late:
            messages.append(output_transcript(fragment))
        messages.append(audio(tone(seconds, hertz=220.0 + 20.0 * place)))
    rest = [output_transcript(fragment) for fragment in fragments[late:]]
    messages.append(generation_complete())
    messages += rest if lag == "generation_complete" else []
    messages.append(turn_complete(counts=counts))
    messages += rest if lag == "turn_complete" else []
    return messages


def tone(seconds: float, *, hertz: float = 440.0, rate: int = OUTPUT_RATE) -> bytes:
    """A sine tone as 16-bit samples: sound that is no silence."""
    step = 2 * math.pi * hertz / rate
    samples = [round(_LOUDNESS * math.sin(step * place)) for place in range(round(seconds * rate))]
    return struct.pack(f"<{len(samples)}h", *samples)


def silence(seconds: float, *, rate: int = OUTPUT_RATE) -> bytes:
    """Silence as 16-bit samples, as an open microphone in a quiet room sends it."""
    return bytes(2 * round(seconds * rate))


def _model_turn(part: Message) -> Message:
    return {"serverContent": {"modelTurn": {"parts": [part]}}}


def _given(**fields: Any) -> Message:
    return {name: value for name, value in fields.items() if value is not None}


def _fragments(words: str) -> list[str]:
    """The words, each with the spaces before it."""
    fragments: list[str] = []
    start = 0
    for place in range(1, len(words)):
        if words[place].isspace() and not words[place - 1].isspace():
            fragments.append(words[start:place])
            start = place
    return [*fragments, words[start:]]
