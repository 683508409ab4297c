"""What all producers share: numbering, serialising once, what has been told already, and the end."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

from adk_stream.errors import RelayError, StreamEndedError
from adk_stream.response import LlmResponse, Status
from adk_stream.sessions import Session
from adk_stream.sessions.event import Event
from adk_stream.sessions.stored import SessionKey

from .entries import Entry, Kind, outcome_of, said_by, write_outcome, write_response
from .positions import Position, write_cursor
from .protocol import Producer, RelayOptions

__all__ = ["NumberingProducer", "checked_id", "session_key"]


class NumberingProducer(Producer):
    """A producer that knows the number of everything it writes.

    Args:
        stream_id: The stream.
        options: The relay's.
        position: Where it goes on: the term is its own; after a take-over, the number that of the last snapshot.
        written: The number of the last response that is in the log.
        snapshot: What the previous owner saved.
    """

    def __init__(
        self,
        stream_id: str,
        options: RelayOptions,
        position: Position,
        written: int = 0,
        snapshot: bytes | None = None,
    ) -> None:
        self.stream_id = stream_id
        self.snapshot = snapshot
        self._options = options
        self._position = position
        self._written = written
        self._said: Mapping[str, str] | None = None
        self._finished = False

    @property
    def repeats(self) -> int:
        """See ``Producer``."""
        return max(0, self._written - self._position.number)

    async def publish(self, response: LlmResponse) -> str:
        """See ``Producer``."""
        if self._finished:
            raise StreamEndedError(f"stream {self.stream_id!r} is finished")
        kind, data = write_response(response)
        if len(data) > self._options.max_event_bytes:
            raise RelayError(f"a response is too large: {len(data)} bytes, over {self._options.max_event_bytes}")
        partial = bool(response.partial)
        term, number, finals = self._position
        self._position = position = Position(term, number + 1, finals + (not partial))
        if not partial:
            self._said = said_by(response)
        if position.number > self._written:
            final_id = response.id if isinstance(response, Event) and not partial else None
            await self._append(Entry(kind, position, partial, data), final_id)
        return write_cursor(self.stream_id, position)

    async def finish(self, outcome: Status | BaseException | None = None) -> None:
        """See ``Producer``."""
        if self._finished:
            return
        told = outcome_of(outcome, self._said)
        self._finished = True
        term, number, finals = self._position
        position = Position(term, max(number, self._written) + 1, finals)
        await self._end(Entry(Kind.END, position, data=write_outcome(told)), told)

    @abstractmethod
    async def _append(self, entry: Entry, final_id: str | None) -> None:
        """Put it into the log; ``final_id`` is the id by which the session store has it."""

    @abstractmethod
    async def _end(self, entry: Entry, outcome: Mapping[str, str]) -> None:
        """Put the end into the log."""


def checked_id(stream_id: str) -> str:
    """The name of a stream, if it is one.

    Raises:
        RelayError: it is not.
    """
    if not isinstance(stream_id, str) or not 0 < len(stream_id) <= _MAX_ID or not stream_id.isprintable():
        raise RelayError(f"a stream's name is 1 to {_MAX_ID} printable characters, not {stream_id!r:.80}")
    return stream_id


_MAX_ID = 200


def session_key(session: Session | SessionKey | None) -> SessionKey | None:
    """What names the session."""
    if isinstance(session, Session):
        return SessionKey(session.app_name, session.user_id, session.id)
    return None if session is None else SessionKey(*session)
