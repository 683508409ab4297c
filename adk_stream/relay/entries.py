"""``Entry``: one thing in the log of a stream, and how a response is written into it.

Besides responses the log holds two marks: where an owner took the stream up, and its end. Each entry tells how far
the log had come when it was written, so that whoever reads it knows whether something before it is missing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, get_args

from pydantic import ValidationError

from adk_stream.aggregator.ending import fault_of
from adk_stream.errors import RelayError, SessionError
from adk_stream.response import LlmResponse, Status
from adk_stream.sessions.codec import write_quickly
from adk_stream.sessions.event import Event
from adk_stream.sessions.stored import read_event, write_any

from .positions import Position
from .protocol import End

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "PRODUCER_LOST",
    "STREAM_LOST",
    "Entry",
    "Kind",
    "end_of",
    "outcome_of",
    "read_outcome",
    "read_response",
    "said_by",
    "write_outcome",
    "write_response",
]


class Kind(StrEnum):
    """What an entry is. The values are what stands in Redis."""

    EVENT = "e"
    RESPONSE = "r"
    OWNED = "o"
    END = "z"


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing in the log.

    Attributes:
        kind: What it is.
        position: Behind it. An OWNED mark has the position of what was before it.
        partial: Whether it is a response to show only.
        data: The response, or the end, in JSON.
    """

    kind: Kind
    position: Position
    partial: bool = False
    data: bytes = b""

    @property
    def size(self) -> int:
        """Bytes that it takes, about."""
        return len(self.data) + _OVERHEAD

    @property
    def before(self) -> Position:
        """Where somebody must be who misses nothing when this comes."""
        term, number, finals = self.position
        if self.kind is Kind.OWNED:
            return self.position
        is_final = self.kind is not Kind.END and not self.partial
        return Position(term, number - 1, finals - is_final)


#: What an entry takes beside its data.
_OVERHEAD = 200


def write_response(response: LlmResponse) -> tuple[Kind, bytes]:
    """A response in JSON, and which of the two kinds it is.

    Raises:
        RelayError: it has no JSON form.
    """
    if isinstance(response, Event):
        try:
            return Kind.EVENT, (write_quickly(response) or write_any(response)).encode()
        except SessionError as problem:
            raise RelayError(str(problem)) from problem
    try:
        return Kind.RESPONSE, response.model_dump_json(by_alias=True, exclude_none=True).encode()
    except ValueError:  # half of a surrogate pair: pydantic's JSON writer refuses it, the standard library's does not
        pass
    try:
        data = response.model_dump(mode="json", by_alias=True, exclude_none=True)
        return Kind.RESPONSE, json.dumps(data, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as problem:
        raise RelayError(f"a response has no JSON form: {problem}") from problem


def read_response(data: bytes, is_event: bool) -> LlmResponse:
    """The response that ``write_response`` wrote, a new object.

    Raises:
        RelayError: the data is damaged.
    """
    if is_event:
        return read_event(data.decode())
    try:
        return LlmResponse.model_validate_json(data)
    except ValidationError:
        pass
    try:
        return LlmResponse.model_validate(json.loads(data))
    except (ValueError, RecursionError) as problem:
        raise RelayError(f"a response in the relay cannot be read: {data[:120]!r}") from problem


def outcome_of(outcome: Status | BaseException | None, last: Mapping[str, str] | None) -> dict[str, str]:
    """How a stream ended: ``End``'s fields by name, without those that are None.

    Args:
        outcome: What ``Producer.finish`` was told.
        last: What the last final said, as ``said_by`` gives it.

    Raises:
        ValueError: nothing ends with that status.
    """
    if isinstance(outcome, BaseException):
        fault = fault_of(outcome)
        return _texts(status=fault.status, error_code=fault.code, error_message=fault.message)
    if outcome is not None:
        if outcome not in _ENDS:
            raise ValueError(f"a stream ends as one of {', '.join(_ENDS)}, not {outcome!r}")
        return {"status": outcome}
    if last is None or last.get("status") not in _ENDS:
        return {"status": "incomplete", "error_code": "STREAM_CUT"}
    return dict(last)


def said_by(final: LlmResponse) -> dict[str, str]:
    """What a final says of the end of its stream."""
    return _texts(status=final.status, error_code=final.error_code, error_message=final.error_message)


def write_outcome(outcome: Mapping[str, str]) -> bytes:
    """Such fields as the data of an END entry."""
    return json.dumps(outcome, separators=(",", ":")).encode()


def read_outcome(data: bytes) -> dict[str, str]:
    """The fields that ``write_outcome`` wrote; of damaged data, a failure."""
    try:
        fields = json.loads(data)
        return {name: str(fields[name]) for name in ("status", "error_code", "error_message") if name in fields}
    except (TypeError, ValueError):
        return {"status": "failed"}


def end_of(outcome: Mapping[str, str], cursor: str) -> End:
    """The end that such fields tell of."""
    status: Status = next((word for word in _ENDS if word == outcome.get("status")), "failed")
    return End(cursor, status, outcome.get("error_code"), outcome.get("error_message"))


def _texts(**fields: Any) -> dict[str, str]:
    return {name: str(value) for name, value in fields.items() if value is not None}


_ENDS: tuple[Status, ...] = tuple(word for word in get_args(Status) if word != "in_progress")

#: What is said of a stream whose producer is no more.
PRODUCER_LOST = {
    "status": "failed",
    "error_code": "PRODUCER_LOST",
    "error_message": "the process that produced the stream was not heard of any more",
}

#: What is said of a stream that the relay itself has forgotten.
STREAM_LOST = {
    "status": "failed",
    "error_code": "STREAM_LOST",
    "error_message": "the relay no longer knows the stream",
}
