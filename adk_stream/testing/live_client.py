"""What a Live client sends, read as a server has to: under either spelling of its keys.

google-genai writes ``client_content`` beside ``setup`` and ``turnComplete``; other clients write camelCase
throughout (https://ai.google.dev/api/live#send-messages).
"""

from __future__ import annotations

import array
import base64
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from adk_stream.wire import decode_json

__all__ = ["ClientMessage", "Kind"]

#: What a client message can be. One message may be several of these.
#:
#: ``text``           the client asks for an answer in writing: content that completes its turn, or realtime text
#: ``context``        content that completes no turn, or an update of the instructions
#: ``audio``          a chunk of sound; ``speech`` too, if it is louder than silence
#: ``audio_end``      the microphone is off
#: ``video``          an image or a frame
#: ``activity_start`` ``activity_end``  where the client itself tells when the user speaks
#: ``tool_response``  answers to calls
#: ``input``          any of text, audio, audio_end, activity_end and tool_response
Kind = Literal[
    "setup",
    "text",
    "context",
    "audio",
    "speech",
    "audio_end",
    "video",
    "activity_start",
    "activity_end",
    "tool_response",
    "input",
]

_INPUT: frozenset[Kind] = frozenset({"text", "audio", "audio_end", "activity_end", "tool_response"})
# One percent of what 16 bits hold: above the noise of a microphone, below a soft voice.
_SPEECH_LEVEL = 327
_CAMEL = re.compile(r"_([a-z])")
_STANDARD_ALPHABET = str.maketrans("-_", "+/")


@dataclass(frozen=True)
class ClientMessage:
    """One message of a client.

    Attributes:
        body: The decoded JSON object, as it came.
        connection: The number of the connection it came on, from 0.
    """

    body: Mapping[str, Any]
    connection: int = 0

    @classmethod
    def decode(cls, frame: str | bytes, connection: int = 0) -> ClientMessage:
        """The message of one frame, text or binary.

        Raises:
            ValueError: it is no JSON object.
        """
        body = decode_json(frame.encode() if isinstance(frame, str) else frame)
        if not isinstance(body, dict):
            raise ValueError(f"a client message is a JSON object, not {type(body).__name__}")
        return cls(body, connection)

    @property
    def setup(self) -> Mapping[str, Any] | None:
        """The setup, if this is one."""
        return _mapping(self.body, "setup")

    @property
    def model(self) -> str:
        """The model that a setup asks for, without the path before it."""
        model = (self.setup or {}).get("model")
        return model.rsplit("/", 1)[-1] if isinstance(model, str) else ""

    @property
    def handle(self) -> str | None:
        """The handle of the session that a setup resumes."""
        handle = (_mapping(self.setup, "sessionResumption") or {}).get("handle")
        return handle if isinstance(handle, str) and handle else None

    @property
    def text(self) -> str:
        """What the client wrote, the parts joined."""
        written = (_mapping(self.body, "realtimeInput") or {}).get("text")
        if isinstance(written, str):
            return written
        turns = _list(_mapping(self.body, "clientContent"), "turns")
        parts = [part for turn in turns for part in _list(turn, "parts")]
        return "".join(part["text"] for part in parts if isinstance(part.get("text"), str))

    @property
    def audio(self) -> bytes:
        """The sound it brings."""
        return b"".join(_decoded(blob) for blob in self._blobs() if _is_audio(blob))

    @property
    def function_responses(self) -> list[Mapping[str, Any]]:
        """The answers it brings to calls."""
        return _list(_mapping(self.body, "toolResponse"), "functionResponses")

    @cached_property
    def kinds(self) -> frozenset[Kind]:
        """What it is."""
        kinds = frozenset(self._kinds())
        return kinds | {"input"} if kinds & _INPUT else kinds

    def _kinds(self) -> Iterator[Kind]:
        if self.setup is not None:
            yield "setup"
        content = _mapping(self.body, "clientContent")
        if content is not None:
            yield "text" if _get(content, "turnComplete") else "context"
        if _get(self.body, "contextUpdate") is not None:
            yield "context"
        if _get(self.body, "toolResponse") is not None:
            yield "tool_response"
        realtime = _mapping(self.body, "realtimeInput")
        if realtime is None:
            return
        if isinstance(realtime.get("text"), str):
            yield "text"
        if _get(realtime, "activityStart") is not None:
            yield "activity_start"
        if _get(realtime, "activityEnd") is not None:
            yield "activity_end"
        if _get(realtime, "audioStreamEnd"):
            yield "audio_end"
        blobs = list(self._blobs())
        if any(not _is_audio(blob) for blob in blobs):
            yield "video"
        if any(_is_audio(blob) for blob in blobs):
            yield "audio"
            if _is_loud(self.audio):
                yield "speech"

    def _blobs(self) -> Iterator[Mapping[str, Any]]:
        realtime = _mapping(self.body, "realtimeInput")
        for name in ("audio", "video"):
            blob = _mapping(realtime, name)
            if blob is not None:
                yield blob
        yield from _list(realtime, "mediaChunks")


def _get(value: Mapping[str, Any] | None, name: str) -> Any:
    """The field of that camelCase name, under either spelling."""
    for key, held in (value or {}).items():
        if _CAMEL.sub(lambda letter: letter[1].upper(), key) == name:
            return held
    return None


def _mapping(value: Mapping[str, Any] | None, name: str) -> Mapping[str, Any] | None:
    held = _get(value, name)
    return held if isinstance(held, Mapping) else None


def _list(value: Mapping[str, Any] | None, name: str) -> list[Mapping[str, Any]]:
    held = _get(value, name)
    if not isinstance(held, Sequence) or isinstance(held, str):
        held = [held]  # protobuf's JSON takes a single value for a list of one
    return [item for item in held if isinstance(item, Mapping)]


def _is_audio(blob: Mapping[str, Any]) -> bool:
    return str(_get(blob, "mimeType") or "audio/").startswith("audio/")


def _decoded(blob: Mapping[str, Any]) -> bytes:
    data = blob.get("data")
    if not isinstance(data, str):
        return b""
    try:
        return base64.b64decode(data.translate(_STANDARD_ALPHABET) + "==")
    except ValueError:
        return b""


def _is_loud(pcm: bytes) -> bool:
    samples = array.array("h", pcm[: len(pcm) // 2 * 2])
    if sys.byteorder == "big":
        samples.byteswap()
    return bool(samples) and max(max(samples), -min(samples)) > _SPEECH_LEVEL
