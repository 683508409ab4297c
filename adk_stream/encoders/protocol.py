"""What every encoder offers, and the framing that all of them share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from adk_stream.response import LlmResponse

__all__ = ["DONE", "EVENT_STREAM", "Encoder", "dumps", "frame_data"]

_Event = TypeVar("_Event")

#: What a browser, and a proxy on the way, should know of a stream of events.
EVENT_STREAM: Mapping[str, str] = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}

#: The last event of the formats that have this mark; it is no JSON.
DONE = "[DONE]"


class Encoder(Protocol[_Event]):
    """Turns the responses of one stream into events. Not thread-safe, and of no use after ``finish``.

    Attributes:
        headers: Of the HTTP response, names in lower case.
    """

    headers: Mapping[str, str]

    def encode(self, response: LlmResponse) -> list[_Event]:
        """The events that tell of ``response``, in order; often none.

        Raises:
            ValueError: the stream is finished.
        """
        ...

    def finish(self, error: BaseException | None = None) -> list[_Event]:
        """The events that end the stream: everything that is open is closed. A second call gives none.

        Args:
            error: What ended it, if it did not end by itself; a cancellation is told as one. Its text is sent:
                wrap an error whose words are not for the client.
        """
        ...

    def frame(self, event: _Event) -> bytes:
        """The event as a server-sent event, lines ended by LF."""
        ...


def dumps(value: Any) -> str:
    """``value`` as JSON text without line breaks; half a surrogate pair is written as an escape."""
    try:
        return _encode(value).decode()
    except (TypeError, ValueError, OverflowError):  # integers beyond 64 bits, lone surrogates, objects of all kinds
        from pydantic_core import to_jsonable_python

        return json.dumps(value, separators=(",", ":"), default=to_jsonable_python)


_encode = msgspec.json.Encoder().encode


def frame_data(event: Any) -> bytes:
    """An event that is only ``data``."""
    return f"data: {event if event == DONE else dumps(event)}\n\n".encode()
