"""The way back to the truth: finals that the relay no longer holds, read from where they are stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from adk_stream.sessions.event import Event
from adk_stream.sessions.service import SessionService
from adk_stream.sessions.stored import SessionKey

__all__ = ["Reload", "reload_by"]

#: Gives events by id: ``await reload(session, ids)``. Those that are not stored are left out.
Reload: TypeAlias = Callable[[SessionKey | None, Sequence[str]], Awaitable[Mapping[str, Event]]]


def reload_by(store: SessionService | Reload | None) -> Reload:
    """The function that reads from a session store, or ``store`` itself if it is one. Without any, nothing is found."""
    if store is None:
        return _nothing
    if not isinstance(store, SessionService):
        return store
    service = store

    async def from_session(key: SessionKey | None, ids: Sequence[str]) -> Mapping[str, Event]:
        session = None if key is None else await service.get_session(**key._asdict())
        wanted = set(ids)
        return {} if session is None else {event.id: event for event in session.events if event.id in wanted}

    return from_session


async def _nothing(key: SessionKey | None, ids: Sequence[str]) -> Mapping[str, Event]:
    return {}
