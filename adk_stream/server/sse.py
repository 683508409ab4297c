"""A stream of server-sent events as an answer: kept alive, counted, and left when its client no longer reads.

A client that reads slowly costs the buffer of its connection and no more: the next event is asked for when the last
one was accepted, and what has been published stays with the relay.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping

from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse, SendTimeoutError
from starlette.types import Receive, Scope, Send

from adk_stream.errors import RelayError, SessionError

from .limits import Limits
from .slots import Slots

__all__ = ["EventStream"]

_log = logging.getLogger("adk_stream.server")


class EventStream(EventSourceResponse):
    """Sends frames until they end, the client leaves, or it takes nothing for too long.

    Args:
        frames: The events, framed. Closed in every case.
        headers: Of the response.
        limits: Bounds of the service.
        slots: Of the streams that there may be at once.
    """

    def __init__(
        self, frames: AsyncIterator[bytes], *, headers: Mapping[str, str], limits: Limits, slots: Slots
    ) -> None:
        super().__init__(
            frames,
            headers=headers,
            sep="\n",
            ping=limits.keep_alive,
            ping_message_factory=_ping,
            send_timeout=limits.send_timeout,
            # The library would cut every stream at once when the server is asked to stop; ours end with their runs.
            shutdown_grace_period=limits.drain_seconds + _LAST_WORDS,
        )
        self._slots = slots

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        with self._slots.taken():
            try:
                await super().__call__(scope, receive, send)
            except (RelayError, SessionError) as problem:
                # The connection breaks off, without the mark of an end: the client comes again where it was.
                _log.warning("%s: a stream of events broke off: %r", scope["path"], problem)
            except SendTimeoutError:
                _log.warning("%s: a client took no event for %g s and was left", scope["path"], self.send_timeout)


#: Seconds that a run has, once it is cancelled, to store and show its end.
_LAST_WORDS = 5.0


def _ping() -> ServerSentEvent:
    return ServerSentEvent(comment="", sep="\n")
