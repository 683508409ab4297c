"""The protocol of a session store: google-adk's method names and keyword arguments, with a stricter append.

What every store here holds, and a store of your own should:

- Events are ordered by the number the append gave them, never by timestamp. ``Session.revision`` counts the
  appends; a write through an object that has missed one is refused, not merged.
- Appending an event id that the session already holds changes nothing, so a retry is always safe.
- Partial events are refused.
- State keys that begin with ``app:`` belong to all sessions of the application, ``user:`` to all of the
  user's, ``temp:`` to the session object in hand alone: they are never stored. Concurrent changes of
  different keys, by whichever session, are all kept.
- What was read or appended may be changed freely: the store shares nothing with it.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from .event import Event
from .session import GetSessionConfig, ListSessionsResponse, Session

__all__ = ["SessionService", "open_session_service"]


@runtime_checkable
class SessionService(Protocol):
    """A store of sessions. Also an async context manager, which closes it."""

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """A new session; its id is made when none is given. ``temp:`` keys of ``state`` are dropped.

        Raises:
            SessionExistsError: there is one of that id.
            SessionError: the state has no JSON form.
        """
        ...

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """The session as it is now, with the events that ``config`` asks for; None if there is none."""
        ...

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """The sessions of one user, or of all users, with their state and without their events."""
        ...

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete the session with its events and its own state; nothing happens if there is none."""
        ...

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store ``event`` at the end of ``session``, and bring the ``session`` object up to date.

        Returns:
            The event as it is now in ``session.events``: ``event`` itself, or a copy without ``temp:`` state.
            If the session already holds an event of that id: that event as stored, and nothing has changed.

        Raises:
            PartialEventError: the event is partial.
            StaleSessionError: somebody else appended since ``session`` was read.
            SessionNotFoundError: the session was deleted, or never was.
            SessionError: the event has no JSON form or is too large, or the store failed; nothing was stored.
        """
        ...

    async def close(self) -> None:
        """Finish what is under way and let go of everything. Closing again does nothing."""
        ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def open_session_service(url: str) -> SessionService:
    """The store that ``url`` names: ``memory:``, or the URL of a database: ``sqlite:///sessions.db``, ``postgresql://…``.

    Raises:
        SessionError: no store is known for that URL.
    """
    if url in ("memory:", "memory://"):
        from .memory import InMemorySessionService

        return InMemorySessionService()
    from .sql import SqlSessionService

    return SqlSessionService(url)
