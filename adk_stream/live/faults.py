"""What goes wrong with a Live connection, as errors of this package, and what of it a new connection may mend.

Wire facts: RFC 6455 section 7.4.1 and IANA's registry of close codes; google-genai gives a close frame as an
``APIError`` with the close code, a connection that was lost as one with 1006, and fails on a frame ``{"error": …}``
with a ``TypeError`` (``errors.APIError.raise_error`` compares a code that is None).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adk_stream.errors import ConnectionLostError, MalformedStreamError, ProviderError, StreamError
from adk_stream.execution.faults import as_stream_error, may_pass, provider_error

__all__ = ["NORMAL_CLOSURE", "close_code", "live_error", "may_resume", "unreadable"]

NORMAL_CLOSURE = 1000

#: Closed for reasons that are not the conversation's: another connection may go on with it.
_GONE = {
    NORMAL_CLOSURE: "normal closure",
    1001: "going away",
    1005: "no status",
    1006: "connection lost",
    1011: "internal error",
    1012: "service restart",
    1013: "try again later",
    1014: "bad gateway",
    1015: "TLS failure",
}


def live_error(problem: BaseException) -> BaseException:
    """The error of this package that an exception of the Live client means, with that as its cause.

    What is none of the client's comes back as it is.
    """
    error = _reading(problem)
    if error is None:
        return as_stream_error(problem)
    error.__cause__ = problem
    return error


def may_resume(error: BaseException) -> bool:
    """Whether a new connection can go on where this one broke off, if the session can be resumed.

    Not where the server said within the session what is wrong: that is an answer.
    """
    if not isinstance(error, StreamError) or (isinstance(error, ProviderError) and error.status is None):
        return False
    return may_pass(error)


def close_code(problem: BaseException | None) -> int | None:
    """The code of the close frame that an exception tells of; 1006 where none came."""
    if problem is None or isinstance(problem, StreamError):
        return close_code(problem.__cause__) if problem is not None and problem.__cause__ is not None else None
    received = getattr(problem, "rcvd", _ABSENT)
    if received is not _ABSENT:  # websockets' ConnectionClosed
        return 1006 if received is None else int(getattr(received, "code", 1006))
    code = getattr(problem, "code", None)
    return code if isinstance(code, int) and 1000 <= code < 5000 else None


_ABSENT = object()


def _reading(problem: BaseException) -> StreamError | None:
    if isinstance(problem, StreamError):
        return None
    code = close_code(problem)
    if code is not None:
        return _closed(code, problem)
    told = _error_frame(problem)
    if told is not None:
        return _told(told)
    if type(problem) is ValueError and str(problem).startswith("Failed to parse response"):
        return unreadable(problem)
    return None


def unreadable(problem: ValueError) -> MalformedStreamError:
    """The error of a frame that google-genai could not read; it raises a ``ValueError`` of one kind or another."""
    return MalformedStreamError(str(problem).partition("\n")[0], provider="gemini-live")


def _closed(code: int, problem: BaseException) -> StreamError:
    received = getattr(problem, "rcvd", None)
    reason = str(getattr(problem, "details", None) or getattr(received, "reason", None) or "")
    if "quota" in reason.lower() or "RESOURCE_EXHAUSTED" in reason:
        return provider_error("RESOURCE_EXHAUSTED", reason)
    if code in _GONE:
        told = f"the server closed the connection: {code} ({_GONE[code]})"
        return ConnectionLostError(f"{told}: {reason}" if reason and code != 1006 else told)
    return provider_error(str(code), reason or "the server closed the connection")


def _error_frame(problem: BaseException) -> Mapping[str, Any] | None:
    """The ``error`` object of the frame that google-genai failed on, if it did.

    Where that is a ``TypeError``, the frame is in the traceback alone.
    """
    details = getattr(problem, "details", None)
    found = [details] if type(problem).__module__ == "google.genai.errors" else []
    trace = problem.__traceback__ if isinstance(problem, TypeError) else None
    while trace is not None:
        found += [trace.tb_frame.f_locals.get(name) for name in ("response_json", "response")]
        trace = trace.tb_next
    errors = (frame.get("error") for frame in found if isinstance(frame, Mapping))
    told = next(filter(None, errors), None)
    return told if told is None or isinstance(told, Mapping) else {"message": str(told)}


def _told(error: Mapping[str, Any]) -> StreamError:
    code = error.get("status") or error.get("code")
    message = error.get("message")
    return provider_error(None if code is None else str(code), None if message is None else str(message))
