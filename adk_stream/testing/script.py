"""Script: what a server sends in answer to one request, and when; made of a recording, changed by faults.

A script is a value. It knows no sockets and no clocks: its times are seconds from the request.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from adk_stream.recording import Piece, Recording
from adk_stream.testing.dialects import Dialect
from adk_stream.wire import SseDecoder, WireEvent

__all__ = ["Script", "Step", "as_json", "error_script", "replay_script"]


class Step(NamedTuple):
    """One event to send, or one read of a recording that is sent as it was.

    Attributes:
        at: Seconds from the request.
        data: The bytes on the wire.
        event: The event they hold; None if they hold none, or for a read.
    """

    at: float
    data: bytes
    event: WireEvent | None = None


_AT_ONCE = Piece(0.0, b"")


@dataclass(frozen=True)
class Script:
    """One answer.

    Attributes:
        steps: The body.
        end: When the body ends, and what it ends with.
        begin: When the head of the answer goes out.
        dropped: Whether the connection breaks off in place of the end.
        as_array: Whether the events are the elements of a JSON array, else server-sent events.
    """

    dialect: Dialect
    steps: tuple[Step, ...] = ()
    end: Piece = _AT_ONCE
    begin: float = 0.0
    dropped: bool = False
    status: int = 200
    content_type: str = "text/event-stream"
    headers: dict[str, str] = field(default_factory=dict)
    as_array: bool = False

    def framed(self, place: int, payload: bytes, name: str | None = None) -> bytes:
        """A payload as the event at that place of the body."""
        if self.as_array:
            return (b",\n" if place else b"[") + payload
        return self.dialect.frame(payload, name)

    def cut(self, after: int) -> Script:
        """The script that stops after so many events, without an end mark."""
        kept = self.steps[:after]
        return replace(self, steps=kept, end=Piece(kept[-1].at if kept else self.begin, b""))


def replay_script(
    recording: Recording,
    dialect: Dialect,
    *,
    as_array: bool = False,
    pace: float = 0.0,
    by_event: bool = False,
) -> Script:
    """The script that answers with a recording.

    Args:
        recording: A recording of the dialect's line.
        dialect: How the line speaks.
        as_array: Whether a JSON array is asked for, else server-sent events.
        pace: What the recorded times are multiplied by.
        by_event: Whether each step must be one event, else the recorded reads are sent as they were where
            the bytes need no change.
    """
    script = Script(dialect, as_array=as_array)
    if as_array:
        script = replace(script, content_type="application/json; charset=UTF-8")
    wire_format = recording.wire_format
    as_it_is = wire_format == "json-array" if as_array else wire_format == "sse" and not dialect.strict
    status = int(recording.metadata.get("status", 200))
    if status != 200:  # an error has a body of its own, which is no stream
        script = replace(script, status=status, content_type="application/json")
        as_it_is, by_event = True, False
    if as_it_is and not (by_event and as_array):  # a recorded array closes in its last event: nothing could follow
        played = recording.by_event() if by_event else recording
        steps = [Step(at * pace, data, _only_event(data) if by_event else None) for at, data in played.pieces]
        content_type = recording.metadata.get("content_type", script.content_type)
        end = Piece(steps[-1].at if steps else 0.0, b"")
        return replace(script, steps=tuple(steps), end=end, content_type=content_type)
    events = recording.events()
    steps = [
        Step(at * pace, script.framed(place, event.data, event.name), event) for place, (at, event) in enumerate(events)
    ]
    tail = (b"]" if steps else b"[]") if as_array else dialect.end([event for _, event in events])
    return replace(script, steps=tuple(steps), end=Piece(steps[-1].at if steps else 0.0, tail))


def error_script(dialect: Dialect, status: int, message: str, headers: Mapping[str, str] | None = None) -> Script:
    """The script of an HTTP error in the line's own words."""
    body = as_json(dialect.error(status, message))
    return Script(
        dialect,
        (Step(0.0, body),),
        status=status,
        content_type="application/json",
        headers=dict(headers or {}),
    )


def as_json(value: Any) -> bytes:
    """JSON on one line, as the wire has it."""
    return json.dumps(value, ensure_ascii=False).encode()


def _only_event(data: bytes) -> WireEvent | None:
    decoder = SseDecoder(max_event_bytes=len(data) + 1)
    return next(iter([*decoder.feed(data), *decoder.close()]), None)
