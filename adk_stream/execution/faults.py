"""Faults: what each client raises, as errors of this package, and which of them may pass by themselves.

A broken connection alone comes as four families of exceptions, and which client is in use is the user's choice. So
exceptions are judged by the names of their classes and the libraries that define them, and what they carry is read
defensively: no client is imported here.

Sources: the exception hierarchies of httpx, httpx2, httpcore, aiohttp, requests, urllib3, websockets, openai,
anthropic and google-genai, and what these were seen to raise; RFC 9110 on Retry-After; google.rpc.RetryInfo.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from adk_stream.errors import (
    ConnectionLostError,
    MalformedStreamError,
    ProviderError,
    RateLimitError,
    StreamCutError,
    StreamError,
    StreamTimeoutError,
)

__all__ = ["as_stream_error", "may_pass", "provider_error"]

_Reading = Callable[[BaseException], StreamError]


def as_stream_error(problem: BaseException) -> BaseException:
    """The error of this package that an exception means, with the exception as its cause.

    What no client raises (an error of the caller's own code, a cancellation) comes back as it is.
    """
    reading = None if isinstance(problem, StreamError) else _reading_of(problem)
    if reading is None:
        return problem
    error = reading(problem)
    error.__cause__ = problem
    return error


def provider_error(
    code: str | None, message: str | None, *, status: int | None = None, retry_after: float | None = None
) -> ProviderError:
    """An error in the provider's words, of the class that it belongs to."""
    limited = status == 429 or (code or "").lower() in _RATE_LIMITS
    kind = RateLimitError if limited else ProviderError
    return kind(code, message, status=status, retry_after=retry_after)


def may_pass(error: BaseException) -> bool:
    """Is it worth trying again, if nothing was shown yet?"""
    if isinstance(error, StreamTimeoutError):
        return error.limit != "total"
    if not isinstance(error, ProviderError):
        return isinstance(error, (ConnectionLostError, StreamCutError))
    code = (error.code or "").lower()
    if code in _LASTING:
        return False
    status = error.status or (int(code) if code.isdecimal() and len(code) == 3 else None)
    if status is not None:
        return status in _PASSING or (status >= 500 and status not in _NEVER)
    return code in _PASSING_CODES or isinstance(error, RateLimitError)


# ----------------------------------------------------------------- tables

_RATE_LIMITS = frozenset({"429", "rate_limit_error", "rate_limit_exceeded", "resource_exhausted", "too_many_requests"})

#: Codes of errors inside a stream, where no HTTP status tells, that may pass.
_PASSING_CODES = _RATE_LIMITS | {
    "api_error",
    "overloaded",
    "overloaded_error",
    "server_error",
    "timeout_error",
    "internal",
    "internal_error",
    "internal_server_error",
    "service_unavailable",
    "unavailable",
    "aborted",
    "deadline_exceeded",
}

#: Codes that do not pass by themselves, whatever the status: an account that is not paid stays so.
_LASTING = frozenset({"insufficient_quota", "billing_not_active", "billing_hard_limit_reached"})

#: A request that took too long, a conflict of locks (both official SDKs try these again), too early, too many.
_PASSING = frozenset({408, 409, 425, 429})

#: Not implemented, and an HTTP version that is not spoken.
_NEVER = frozenset({501, 505})


def _lost(problem: BaseException) -> StreamError:
    return ConnectionLostError(_told(problem))


def _timed_out(problem: BaseException) -> StreamError:
    return StreamTimeoutError(_told(problem), "client")


def _unreadable(problem: BaseException) -> StreamError:
    return MalformedStreamError(_told(problem), excerpt=str(getattr(problem, "doc", "") or ""))


def _refused(problem: BaseException) -> StreamError:
    error = _error_of(problem)
    status = _status_of(problem)
    code = _code_of(error) or _word(getattr(problem, "code", None)) or (str(status) if status else None)
    message = error.get("message") if isinstance(error, Mapping) else error
    return provider_error(
        code or type(problem).__name__,
        str(message or "") or _told(problem),
        status=status,
        retry_after=_retry_after(problem, error),
    )


_HTTPX: dict[str, _Reading] = {
    "TimeoutException": _timed_out,
    "TransportError": _lost,
    "StreamError": _lost,  # read or closed by somebody else
    "DecodingError": _unreadable,
    "SSEError": _unreadable,
    "HTTPStatusError": _refused,
}
_HTTPCORE: dict[str, _Reading] = {
    "TimeoutException": _timed_out,
    "NetworkError": _lost,
    "ProtocolError": _lost,
    "ProxyError": _lost,
    "ConnectionNotAvailable": _lost,
}
_SDK: dict[str, _Reading] = {
    "APITimeoutError": _timed_out,
    "APIConnectionError": _lost,
    "APIResponseValidationError": _unreadable,
    "APIError": _refused,
}

#: By library and class; of an exception's classes the most special one that stands here decides.
_READINGS: dict[str, dict[str, _Reading]] = {
    "httpx": _HTTPX,
    "httpx2": _HTTPX,
    "httpcore": _HTTPCORE,
    "httpcore2": _HTTPCORE,
    "aiohttp": {
        "ServerTimeoutError": _timed_out,
        "ContentTypeError": _unreadable,
        "ClientResponseError": _refused,
        "ClientError": _lost,
    },
    "requests": {
        "Timeout": _timed_out,
        "JSONDecodeError": _unreadable,
        "ContentDecodingError": _unreadable,
        "HTTPError": _refused,
        "RequestException": _lost,
    },
    "urllib3": {
        "TimeoutError": _timed_out,
        "DecodeError": _unreadable,
        "HTTPError": _lost,
    },
    "urllib": {"HTTPError": _refused, "URLError": _lost},
    "http": {"HTTPException": _lost},
    "websockets": {"InvalidStatus": _refused, "WebSocketException": _lost},
    "openai": _SDK,
    "anthropic": _SDK,
    "google.genai": {"UnknownApiResponseError": _unreadable, "APIError": _refused},
    "json": {"JSONDecodeError": _unreadable},
    "builtins": {
        "TimeoutError": _timed_out,
        "EOFError": _lost,
        "ConnectionError": _lost,
        "UnicodeDecodeError": _unreadable,
    },
    "ssl": {"SSLError": _lost},
    "socket": {"gaierror": _lost, "herror": _lost},
    "anyio": {
        "BrokenResourceError": _lost,
        "ClosedResourceError": _lost,
        "EndOfStream": _lost,
        "IncompleteRead": _lost,
    },
}

#: Errors of the operating system that speak of a connection and have no class of their own.
_NETWORK_ERRNOS = frozenset({"ENETDOWN", "ENETUNREACH", "ENETRESET", "EHOSTDOWN", "EHOSTUNREACH", "ENOTCONN"})


def _reading_of(problem: BaseException) -> _Reading | None:
    for cls in type(problem).__mro__:
        reading = _READINGS.get(_library(cls), {}).get(cls.__name__)
        if reading is not None:
            return reading
    if isinstance(problem, OSError):
        import errno

        return _lost if errno.errorcode.get(problem.errno or 0) in _NETWORK_ERRNOS else None
    return _refused if isinstance(problem, Exception) and _status_of(problem) is not None else None


def _library(cls: type) -> str:
    module = cls.__module__
    return "google.genai" if module.startswith("google.genai") else module.partition(".")[0]


# ----------------------------------------------------------------- what an exception carries


def _told(problem: BaseException) -> str:
    return str(problem) or type(problem).__name__


def _status_of(problem: BaseException) -> int | None:
    """The HTTP status of a refusal, wherever a client keeps it."""
    response = getattr(problem, "response", None)
    holders = ((problem, ("status_code", "code", "status")), (response, ("status_code", "status")))
    for holder, names in holders:
        for name in names:
            value = getattr(holder, name, None)
            if isinstance(value, int) and 400 <= value <= 599:
                return value
    return None


def _error_of(problem: BaseException) -> Any:
    """The provider's error object in the body: itself, under ``error``, or in a list (Gemini's JSON array)."""
    body = getattr(problem, "body", None) or getattr(problem, "details", None)
    if isinstance(body, list) and body:
        body = body[0]
    inner = body.get("error") if isinstance(body, Mapping) else None
    return inner or (body if isinstance(body, (Mapping, str)) else {})


def _code_of(error: Any) -> str | None:
    """As the readers of the lines choose it: Google's ``status``, OpenAI's ``code``, else the type."""
    if not isinstance(error, Mapping):
        return None
    return next(filter(None, (_word(error.get(name)) for name in ("status", "code", "type"))), None)


def _word(value: Any) -> str | None:
    return str(value) if isinstance(value, (str, int)) and value else None


def _retry_after(problem: BaseException, error: Any) -> float | None:
    """Seconds after which to try again, as the answer's headers or Google's RetryInfo say."""
    for headers in _headers_of(problem):
        ms = _number(headers.get("retry-after-ms"))
        if ms is not None:
            return ms / 1000
        told = headers.get("retry-after") or headers.get("Retry-After")
        if told is not None:
            seconds = _number(told)
            return _until(str(told)) if seconds is None else seconds
    details = error.get("details") if isinstance(error, Mapping) else None
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, Mapping) else None
        if isinstance(delay, str):
            return _number(delay.removesuffix("s"))
    return None


def _headers_of(problem: BaseException) -> Iterator[Mapping[str, Any]]:
    for holder in (getattr(problem, "response", None), problem):
        headers = getattr(holder, "headers", None)
        if headers is not None and callable(getattr(headers, "get", None)):
            yield headers


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if 0 <= number < float("inf") else None


def _until(date: str) -> float | None:
    """Seconds until an HTTP date; 0 if it is past."""
    try:
        return max(parsedate_to_datetime(date).timestamp() - time.time(), 0.0)
    except (TypeError, ValueError):
        return None
