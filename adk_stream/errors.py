"""Every error this package raises, one family.

::

    AdkStreamError
     ├── StreamError                  a stream could not be read to its end
     │    ├── MalformedStreamError    the bytes or events are not what the provider's format allows
     │    │    ├── StreamLimitError   a line, an event or a response is larger than the limit that was set
     │    │    └── UnknownLineError   ``provider="auto"`` and no event told which provider it was
     │    ├── StreamCutError          the answer ended before it had shown anything
     │    ├── ConnectionLostError     the connection failed, or broke off
     │    ├── ProviderError           the provider itself reported an error, over HTTP or inside the stream
     │    │    └── RateLimitError     it refuses for now: too many requests, too many tokens
     │    └── StreamTimeoutError      a time limit was hit (also a ``TimeoutError``)
     ├── EmptyResponseError           an object without candidates, prompt feedback or usage
     ├── SnapshotError                a snapshot of another kind, of a newer version, or damaged
     ├── NativeError                  a response that the provider's own format cannot hold
     ├── RequestError                 a part, a tool or a setting that the model's provider has no form for
     ├── MissingExtraError            a package of an extra is not installed (also an ``ImportError``)
     ├── RecordingError               a recording that cannot be read or written
     ├── AudioFormatError             audio that the file it goes to cannot hold (also a ``ValueError``)
     ├── RelayError                   a response that the relay does not take
     │    ├── RelayUnavailableError   the relay cannot be reached, or was closed
     │    ├── UnknownStreamError      there is no such stream in the relay, or no longer
     │    ├── StreamOwnedError        the stream belongs to another producer
     │    ├── StreamEndedError        the stream has ended: nothing can be added
     │    └── CursorError             no cursor of that stream (also a ``ValueError``)
     └── SessionError
          ├── SessionNotFoundError
          ├── SessionExistsError
          ├── SessionBusyError        another run of this process did not let go of the session in time
          ├── StaleSessionError       somebody else appended since this session object was read
          ├── PartialEventError       partial events are hints for display and are never stored
          └── SchemaVersionError      the database was written by a newer version of this package

Errors about input name the provider, the number of the event (counted from 1) and a short excerpt.
"""

from __future__ import annotations

__all__ = [
    "AdkStreamError",
    "AudioFormatError",
    "ConnectionLostError",
    "CursorError",
    "EmptyResponseError",
    "MalformedStreamError",
    "MissingExtraError",
    "NativeError",
    "PartialEventError",
    "ProviderError",
    "RateLimitError",
    "RecordingError",
    "RelayError",
    "RelayUnavailableError",
    "RequestError",
    "SchemaVersionError",
    "SessionBusyError",
    "SessionError",
    "SessionExistsError",
    "SessionNotFoundError",
    "SnapshotError",
    "StaleSessionError",
    "StreamCutError",
    "StreamEndedError",
    "StreamError",
    "StreamLimitError",
    "StreamOwnedError",
    "StreamTimeoutError",
    "UnknownLineError",
    "UnknownStreamError",
]

_EXCERPT_LENGTH = 120


class AdkStreamError(Exception):
    """Base of all errors of this package.

    Attributes:
        code: The ``error_code`` of the response that tells of this error; None where the class name serves.
    """

    code: str | None = None


class StreamError(AdkStreamError):
    """A stream could not be read to its end."""


class MalformedStreamError(StreamError):
    """Bytes or events that the provider's wire format does not allow.

    Attributes:
        provider: The line (``"gemini"``, ``"anthropic"``, …), or None before it is known.
        event_number: Which event of the stream it was, counted from 1; None if it belongs to no event.
        excerpt: The first characters of the offending data.
    """

    code = "MALFORMED_STREAM"

    def __init__(
        self,
        reason: str,
        *,
        provider: str | None = None,
        event_number: int | None = None,
        excerpt: bytes | str = "",
    ) -> None:
        self.reason = reason
        self.provider = provider
        self.event_number = event_number
        text = excerpt[: _EXCERPT_LENGTH * 4].decode("utf-8", "replace") if isinstance(excerpt, bytes) else excerpt
        self.excerpt = text if len(text) <= _EXCERPT_LENGTH else text[:_EXCERPT_LENGTH] + "…"
        super().__init__(reason)

    def __str__(self) -> str:
        where = self.provider or "stream"
        if self.event_number is not None:
            where += f", event {self.event_number}"
        return f"{where}: {self.reason}" + (f": {self.excerpt!r}" if self.excerpt else "")


class StreamLimitError(MalformedStreamError):
    """A line, an event or a response is larger than the limit that was set."""


class StreamCutError(StreamError):
    """The answer ended before it had shown anything, and without its terminal sign."""

    code = "STREAM_CUT"


class ConnectionLostError(StreamError):
    """The connection could not be made, or broke off."""


class ProviderError(StreamError):
    """The provider reported an error; ``code`` and ``message`` are its own words.

    Attributes:
        status: The HTTP status of the answer; None where the error came inside a stream.
        retry_after: Seconds after which the provider asks to be tried again; None if it names none.
    """

    def __init__(
        self,
        code: str | None,
        message: str | None,
        *,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.code = code
        self.message = message
        self.status = status
        self.retry_after = retry_after
        super().__init__(": ".join(filter(None, (code, message))) or "the provider reported an error")


class RateLimitError(ProviderError):
    """The provider refuses for now: too many requests or tokens for this account and time."""


class StreamTimeoutError(StreamError, TimeoutError):
    """A time limit was hit.

    Attributes:
        limit: Which: ``"first_token"``, ``"idle"``, ``"content"`` or ``"total"``; ``"client"`` for one that the
            provider's client kept by itself; None if nobody told.
    """

    code = "STREAM_TIMEOUT"

    def __init__(self, message: str, limit: str | None = None) -> None:
        self.limit = limit
        super().__init__(message)


class EmptyResponseError(AdkStreamError):
    """A response object with no candidates, no prompt feedback and no usage: there is nothing to aggregate.

    The aggregator that raises it stays usable; ``close()`` still gives what had come.
    """


class UnknownLineError(MalformedStreamError):
    """``provider="auto"``, and no event told which of the five lines the stream speaks."""


class SnapshotError(AdkStreamError):
    """A snapshot that is damaged, of another kind, or of a version this package does not know."""


class NativeError(AdkStreamError):
    """A response cannot be turned into the provider's own message."""


class RequestError(AdkStreamError):
    """What the model is asked holds a part, a tool or a setting that its provider has no form for. Nothing was sent."""


class MissingExtraError(AdkStreamError, ImportError):
    """A package that an extra brings is not installed; the message names the extra."""


class RecordingError(AdkStreamError):
    """A recording cannot be read or written."""


class AudioFormatError(AdkStreamError, ValueError):
    """Audio of a kind or a rate that the file it goes to cannot hold."""


class RelayError(AdkStreamError):
    """Base of the relay's errors; by itself: a name or a response that it does not take."""


class RelayUnavailableError(RelayError):
    """The relay cannot be reached, or was closed."""


class UnknownStreamError(RelayError):
    """There is no stream of that name in the relay, or it is kept no longer."""


class StreamOwnedError(RelayError):
    """The stream belongs to another producer, which is alive or has taken it over."""


class StreamEndedError(RelayError):
    """The stream has ended: nothing can be added to it."""


class CursorError(RelayError, ValueError):
    """The text is no cursor of that stream."""


class SessionError(AdkStreamError):
    """Base of the session store's errors."""


class SessionNotFoundError(SessionError):
    """There is no session of that application, user and id."""


class SessionExistsError(SessionError):
    """A session of that application, user and id exists already."""


class SessionBusyError(SessionError):
    """Another run of this process held the session for longer than the caller wanted to wait."""


class StaleSessionError(SessionError):
    """Somebody else appended to the session since this object was read: read it again, then try again."""


class PartialEventError(SessionError):
    """Partial events are hints for display; a session never stores them."""


class SchemaVersionError(SessionError):
    """The database was written by a newer version of this package."""
