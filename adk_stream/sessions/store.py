"""What ``SqlSessionService`` needs of one kind of database.

Every call takes what was checked already, starts at once whichever thread or event loop it comes from, and goes
on to its end even when the future that it returns is cancelled.
"""

from __future__ import annotations

from asyncio import Future
from typing import Protocol

from .session import GetSessionConfig, Session
from .stored import Append, ScopedState, SessionKey

__all__ = ["DatabaseStore"]


class DatabaseStore(Protocol):
    """Sessions in one database. Failures are ``SessionError`` and its kin; see ``SessionService``."""

    def create_session(self, key: SessionKey, state: ScopedState, now: float) -> Future[Session]:
        """The new session, stored at ``now`` (seconds since the epoch)."""
        ...

    def get_session(self, key: SessionKey, config: GetSessionConfig) -> Future[Session | None]:
        """The session as it was at one moment."""
        ...

    def list_sessions(self, app_name: str, user_id: str | None) -> Future[list[Session]]:
        """All sessions as they were at one moment, without events."""
        ...

    def delete_session(self, key: SessionKey) -> Future[None]:
        """Nothing happens if there is none."""
        ...

    def append_event(self, append: Append) -> Future[str | None]:
        """None when it is stored; the text of the event of that id, if the session holds one already."""
        ...

    async def close(self) -> None:
        """Finish what was begun and let go of everything; may be called again."""
        ...

    def join(self, timeout: float | None) -> None:
        """The blocking form of ``close``, for at most ``timeout`` seconds."""
        ...
