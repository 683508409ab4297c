"""What a relay is: running streams, published by the task that owns them and followed by whoever wishes.

What every relay here holds, and tests hold them to:

- A stream belongs to a task of the server, not to a request: followers come and go, the stream goes on.
- A follower gets each response once and in order, however late it joins and however often it comes back with the
  cursor of what it got last.
- The relay keeps the newest responses only, for a while. What a follower missed beyond that is told as a ``Gap``:
  its finals come from the session store, once each; its partials are lost, they were hints for display.
- Every stream has a marked ``End``. That of a producer that died comes within the lease, unless another process
  takes the stream over.
- A relay that cannot be reached stops no producer: the session store holds the truth.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias

from adk_stream.sessions.stored import SessionKey

if TYPE_CHECKING:
    from adk_stream.response import LlmResponse, Status
    from adk_stream.sessions import Session

__all__ = ["Delivery", "End", "Gap", "Item", "Producer", "Relay", "RelayOptions", "StreamStatus"]


@dataclass(frozen=True)
class Delivery:
    """One response, as it was published.

    Attributes:
        cursor: Where the follower is now; ``subscribe(after=…)`` goes on behind it. Fit for ``Last-Event-ID``.
        json: The response in camelCase, as it was written once for all followers.
        is_event: Whether it is an ``Event`` of a session, not a plain ``LlmResponse``.
        partial: Whether it is a piece to show.
    """

    cursor: str
    json: bytes
    is_event: bool
    partial: bool

    @cached_property
    def response(self) -> LlmResponse:
        """The response, read from the JSON when it is first asked for: no two followers share an object."""
        from .entries import read_response

        return read_response(self.json, self.is_event)


@dataclass(frozen=True, slots=True)
class Gap:
    """Between what the follower had and what it gets next, responses are no longer in the relay.

    The finals among them follow now, from the session store; the partials never come.

    Attributes:
        cursor: Where the follower still is.
        lost_finals: Finals that no store could give: read the session.
    """

    cursor: str
    lost_finals: int = 0


@dataclass(frozen=True, slots=True)
class End:
    """Nothing comes after this.

    Attributes:
        cursor: Behind everything.
        status: How the stream ended: ``completed``, ``incomplete``, ``failed`` or ``cancelled``.
        error_code: Why it did not end by itself; ``PRODUCER_LOST`` when its producer died, ``STREAM_LOST`` when the
            relay itself forgot it.
        error_message: The same in words.
    """

    cursor: str
    status: Status
    error_code: str | None = None
    error_message: str | None = None


#: What a follower gets: responses, gaps, and at last the end.
Item: TypeAlias = Delivery | Gap | End


@dataclass(frozen=True, slots=True)
class StreamStatus:
    """How a stream stands.

    Attributes:
        stream_id: Its name.
        state: ``in_progress``, or how it ended.
        last: The cursor of the newest thing in it; of its ``End``, once it has ended.
        session: The session that its finals are stored in, if one was named.
        error_code: Why it did not end by itself.
    """

    stream_id: str
    state: Status
    last: str
    session: SessionKey | None = None
    error_code: str | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing comes any more."""
        return self.state != "in_progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayOptions:
    """Bounds of a relay. Times are in seconds, sizes in bytes.

    Attributes:
        max_entries: Responses of one stream that are kept; older ones are dropped.
        max_bytes: Their size, likewise.
        max_age: How long a response is kept while its stream runs.
        retention: How long a stream can be read after its end, or after its producer was last heard of.
        lease: A producer that has not been heard of for so long is dead.
        max_event_bytes: The largest response that is taken.
        max_tail_bytes: Redis: what this process holds of one stream for its followers. Who is slower reads from Redis.
        max_waiting_bytes: Redis: what a producer holds while Redis cannot be reached; the oldest is dropped.
        page: Redis: entries that are read at once for a follower that catches up.
        pause: Redis: what the reader waits between two reads, so that one read brings many entries.
        timeout: Redis: how long one call may take.
    """

    max_entries: int = 10_000
    max_bytes: int = 64 * 1024 * 1024
    max_age: float = 3600.0
    retention: float = 600.0
    lease: float = 15.0
    max_event_bytes: int = 64 * 1024 * 1024
    max_tail_bytes: int = 1024 * 1024
    max_waiting_bytes: int = 8 * 1024 * 1024
    page: int = 200
    pause: float = 0.01
    timeout: float = 5.0


class Producer(Protocol):
    """The owner's end of one stream. Not for use by several tasks at once.

    As an async context manager it finishes the stream: as the last final said, or as failed or cancelled by what
    came out of the block.

    Attributes:
        stream_id: The stream.
        snapshot: After a take-over, what the previous owner saved last; else None.
    """

    stream_id: str
    snapshot: bytes | None

    @property
    def repeats(self) -> int:
        """How many of the next responses followers have got already, from the previous owner, after its snapshot.

        What is published is counted against them first, and not delivered again.
        """
        ...

    async def publish(self, response: LlmResponse) -> str:
        """Give a response to all followers. It is serialised before this returns and may be changed afterwards.

        A stream that was given up meanwhile, because its producer was not heard of for the lease, has ended for its
        followers: what is published then reaches nobody, which is logged. The session store still takes it.

        Returns:
            Its cursor.

        Raises:
            StreamOwnedError: another process has taken the stream over. This one should stop.
            StreamEndedError: the stream was finished through this object.
            RelayError: the response has no JSON form, or is larger than ``max_event_bytes``.
        """
        ...

    async def save(self, snapshot: bytes) -> None:
        """Keep the state from which another process could go on: that behind the last response published."""
        ...

    async def finish(self, outcome: Status | BaseException | None = None) -> None:
        """End the stream. Finishing again does nothing.

        Args:
            outcome: How it ended, or what ended it; None: as the last final said, ``incomplete`` if there was none.
        """
        ...

    @property
    def cancel_requested(self) -> bool:
        """Whether somebody wants the stream to end."""
        ...

    async def wait_cancelled(self) -> None:
        """Return when somebody wants the stream to end (``Relay.cancel``), in whichever process."""
        ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.finish(error)


class Relay(Protocol):
    """Running streams by name. Belongs to one event loop. An async context manager, which closes it."""

    async def open(
        self, stream_id: str, *, session: Session | SessionKey | None = None, takeover: float = 0.0
    ) -> Producer:
        """Begin a stream, as its owner.

        Args:
            stream_id: Its name: up to 200 printable characters, new.
            session: Where its finals are stored, for followers that missed some.
            takeover: How long, in seconds, the stream of a producer that died waits for another to take it over.

        Raises:
            StreamOwnedError: there is a stream of that name.
            RelayError: the name is none.
        """
        ...

    async def take_over(self, stream_id: str) -> Producer:
        """Become the owner of a stream whose producer died, to go on from its last snapshot.

        Of several that try, one succeeds. The source must give the same responses again from the snapshot on.

        Raises:
            UnknownStreamError: there is no such stream.
            StreamOwnedError: its producer lives, or another has taken it over.
            StreamEndedError: it has ended.
            RelayUnavailableError: the relay cannot be reached.
        """
        ...

    def subscribe(self, stream_id: str, after: str | None = None) -> AsyncGenerator[Item, None]:
        """Follow a stream to its ``End``, from its beginning or from behind a cursor. Leave with ``aclose``.

        A follower that waits for nothing costs nothing; one that is slow is never waited for, it meets a ``Gap``.

        Raises:
            UnknownStreamError: there is no such stream, or it is kept no longer.
            CursorError: ``after`` is no cursor of that stream.
            RelayUnavailableError: the relay cannot be reached as the follower joins.
            SessionError: the session store failed when it was asked for what fell into a gap.
        """
        ...

    async def status(self, stream_id: str) -> StreamStatus | None:
        """How a stream stands; None if there is none, or it is kept no longer.

        Raises:
            RelayUnavailableError: the relay cannot be reached.
        """
        ...

    async def running(self) -> list[str]:
        """The streams that have not ended, oldest first.

        Raises:
            RelayUnavailableError: the relay cannot be reached.
        """
        ...

    async def cancel(self, stream_id: str) -> bool:
        """Ask the owner of a stream, wherever it runs, to end it.

        Returns:
            Whether there was a stream to be asked for.

        Raises:
            RelayUnavailableError: the relay cannot be reached.
        """
        ...

    async def close(self) -> None:
        """Let go of everything; followers get a RelayUnavailableError. Closing again does nothing."""
        ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
