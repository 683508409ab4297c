"""This package's own events: every response as it is, with a cursor to resume after.

::

    id: 7
    event: partial | final | error | done
    data: {…}

``partial`` and ``final`` hold a response in camelCase with standard base64; a front end shows partial ones and
replaces them by the final that follows. ``error`` holds ``code`` and ``message``; ``done``, the last event of every
stream, ``status``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from adk_stream.aggregator.ending import fault_of
from adk_stream.response import LlmResponse

from .plain import as_json
from .protocol import EVENT_STREAM, dumps

__all__ = ["NativeEncoder", "NativeEvent"]


@dataclass(frozen=True, slots=True)
class NativeEvent:
    """One event.

    Attributes:
        id: The cursor: a client that comes again names the last one it saw in ``Last-Event-ID``.
        name: What it is.
        data: In JSON.
    """

    id: str
    name: Literal["partial", "final", "error", "done"]
    data: Mapping[str, Any]


class NativeEncoder:
    """Every response as one event, numbered.

    Args:
        first: The number of the first event. A store of events that numbers them itself puts its own ids in place.
    """

    headers: Mapping[str, str] = EVENT_STREAM

    def __init__(self, first: int = 1) -> None:
        self._next = first
        self._status = "incomplete"
        self._finished = False

    def encode(self, response: LlmResponse) -> list[NativeEvent]:
        """See ``Encoder``."""
        if self._finished:
            raise ValueError("the stream is finished")
        if response.status is not None and response.status != "in_progress":
            self._status = response.status
        elif response.partial:
            self._status = "incomplete"
        return [self._event("partial" if response.partial else "final", as_json(response))]

    def finish(self, error: BaseException | None = None) -> list[NativeEvent]:
        """See ``Encoder``."""
        if self._finished:
            return []
        self._finished = True
        if error is None:
            return [self._event("done", {"status": self._status})]
        fault = fault_of(error)
        problem = {"code": fault.code, "message": fault.message}
        return [self._event("error", problem), self._event("done", {"status": fault.status})]

    def frame(self, event: NativeEvent) -> bytes:
        """See ``Encoder``."""
        return f"id: {event.id}\nevent: {event.name}\ndata: {dumps(event.data)}\n\n".encode()

    def _event(self, name: Literal["partial", "final", "error", "done"], data: Mapping[str, Any]) -> NativeEvent:
        number, self._next = self._next, self._next + 1
        return NativeEvent(str(number), name, data)
