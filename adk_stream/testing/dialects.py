"""How each line speaks over HTTP: its paths, the frame of an event, its errors.

Sources: ai.google.dev/api/generate-content and cloud.google.com/apis/design/errors (google.rpc.Code);
platform.openai.com/docs/api-reference (chat streaming, responses streaming, error codes);
docs.anthropic.com/en/api (messages streaming, errors).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from adk_stream.wire import WireEvent, decode_json

__all__ = ["DIALECTS", "Dialect"]

_DONE = b"[DONE]"

# Line ends in JSON stand between tokens only. What Unicode calls line ends may stand in strings; readers that
# split text with str.splitlines() break there, so these go as the escapes that JSON has for them.
_ONE_LINE = (
    (b"\r", b" "),
    (b"\n", b" "),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
    ("\u0085".encode(), b"\\u0085"),
)


@dataclass(frozen=True)
class Dialect:
    """One line's manner of speech.

    Attributes:
        path: Finds the line's requests by the end of their URL path, whatever stands before it; a group
            ``model`` where the path names the model.
        named: Whether its server-sent events bear a name, the payload's ``type``.
        strict: Whether the official client reads no frame but ``data: …``: then a recording is framed anew.
        error: The body of an HTTP error, of a status and a message.
        error_event: The payload of an error inside the stream, of that body and the event's number from 0.
        error_status: What an error inside the stream tells of, unless asked otherwise.
        end_mark: What ends its streams, if a recording of payloads alone has lost it.
    """

    path: re.Pattern[str]
    error: Callable[[int, str], dict[str, Any]]
    error_event: Callable[[dict[str, Any], int], dict[str, Any]]
    named: bool = False
    strict: bool = False
    error_status: int = 503
    end_mark: bytes = b""

    def frame(self, payload: bytes, name: str | None = None) -> bytes:
        """A payload as a server-sent event, on one line."""
        for line_end, harmless in _ONE_LINE:
            payload = payload.replace(line_end, harmless)
        name = (name or _type_of(payload)) if self.named else None
        return (f"event: {name}\n".encode() if name else b"") + b"data: " + payload + b"\n\n"

    def end(self, events: Sequence[WireEvent]) -> bytes:
        """The end mark, if these events lack it and came to their end: a cut stream stays cut."""
        if self.end_mark and not any(event.data == self.end_mark for event in events) and _finished(events):
            return self.frame(self.end_mark)
        return b""


def _type_of(payload: bytes) -> str | None:
    kind = _get(_decoded(payload), "type")
    return kind if isinstance(kind, str) and kind.isprintable() else None


def _finished(events: Sequence[WireEvent]) -> bool:
    """Whether a Chat stream said why it ended."""
    for event in events:
        choices = _get(_decoded(event.data), "choices")
        if isinstance(choices, list) and any(_get(choice, "finish_reason") for choice in choices):
            return True
    return False


def _decoded(payload: bytes) -> Any:
    try:
        return decode_json(payload)
    except ValueError:
        return None


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else None


_GOOGLE_CODES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_OPENAI_TYPES = {
    401: ("invalid_request_error", "invalid_api_key"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}
_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def _gemini_error(status: int, message: str) -> dict[str, Any]:
    return {"error": {"code": status, "message": message, "status": _GOOGLE_CODES.get(status, "UNKNOWN")}}


def _openai_error(status: int, message: str) -> dict[str, Any]:
    usual = ("server_error", "server_error") if status >= 500 else ("invalid_request_error", None)
    kind, code = _OPENAI_TYPES.get(status, usual)
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _as_it_is(error: dict[str, Any], number: int) -> dict[str, Any]:
    return error


def _responses_error_event(error: dict[str, Any], number: int) -> dict[str, Any]:
    fields = {key: error["error"][key] for key in ("code", "message", "param")}
    return {"type": "error", **fields, "sequence_number": number}


def _anthropic_error(status: int, message: str) -> dict[str, Any]:
    kind = _ANTHROPIC_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


#: By line. Gemini's client is strict: some releases fail on comments, on event and id lines, on ``data:``
#: without a space after it, and on U+2028 in a text.
DIALECTS: dict[str, Dialect] = {
    "gemini": Dialect(
        path=re.compile(r"/(?P<model>[^/]+):(?P<method>streamGenerateContent|generateContent)$"),
        error=_gemini_error,
        error_event=_as_it_is,
        strict=True,
    ),
    "openai-chat": Dialect(
        path=re.compile(r"/chat/completions$"),
        error=_openai_error,
        error_event=_as_it_is,
        end_mark=_DONE,
    ),
    "openai-responses": Dialect(
        path=re.compile(r"/responses$"),
        error=_openai_error,
        error_event=_responses_error_event,
        named=True,
    ),
    "anthropic": Dialect(
        path=re.compile(r"/v1/messages$"),
        error=_anthropic_error,
        error_event=_as_it_is,
        named=True,
        error_status=529,
    ),
}
