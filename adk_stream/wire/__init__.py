"""Bytes to events, without I/O: one decoder a wire format, the choice among them, and which line it is."""

from __future__ import annotations

from adk_stream.wire.detect import detect_line
from adk_stream.wire.events import DEFAULT_MAX_EVENT_BYTES, Decoder, WireEvent
from adk_stream.wire.json_values import JsonArrayDecoder, JsonLinesDecoder
from adk_stream.wire.payload import MAX_DEPTH, decode_json, is_too_deep
from adk_stream.wire.sniff import BytesDecoder
from adk_stream.wire.sse import SseDecoder

__all__ = [
    "DEFAULT_MAX_EVENT_BYTES",
    "MAX_DEPTH",
    "BytesDecoder",
    "Decoder",
    "JsonArrayDecoder",
    "JsonLinesDecoder",
    "SseDecoder",
    "WireEvent",
    "decode_json",
    "detect_line",
    "is_too_deep",
]
