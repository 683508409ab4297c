"""Sessions in memory: for tests, and for programs whose conversations may end with them.

Events are held as the same JSON text that a database would hold. So an append costs one serialisation however
long the session is, nothing a caller does to an object reaches the store, and what works here works there.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from adk_stream.errors import SessionExistsError, SessionNotFoundError, StaleSessionError

from .event import Event, new_id
from .service import SessionService
from .session import GetSessionConfig, ListSessionsResponse, Session
from .stored import (
    MAX_EVENT_SIZE,
    Append,
    ScopedState,
    SessionKey,
    apply,
    check_key,
    prepare,
    read_event,
    read_state,
    split_state,
)

__all__ = ["InMemorySessionService"]


class _StoredEvent(NamedTuple):
    timestamp: float
    text: str


@dataclass(slots=True)
class _StoredSession:
    last_update_time: float
    state: dict[str, str]
    events: list[_StoredEvent] = field(default_factory=list)  # its length is the session's revision
    places: dict[str, int] = field(default_factory=dict)  # of each event id in ``events``


class InMemorySessionService(SessionService):
    """Sessions that live as long as this object. May be shared by threads and event loops.

    Args:
        max_event_size: The largest event that is taken, in characters of its JSON.
    """

    def __init__(self, *, max_event_size: int = MAX_EVENT_SIZE) -> None:
        self._max_event_size = max_event_size
        self._lock = threading.Lock()
        self._sessions: dict[SessionKey, _StoredSession] = {}
        self._app_states: dict[str, dict[str, str]] = {}
        self._user_states: dict[tuple[str, str], dict[str, str]] = {}

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """A new session; see ``SessionService``."""
        key = check_key(app_name, user_id, session_id or new_id())
        texts = split_state(state or {})
        with self._lock:
            if key in self._sessions:
                raise SessionExistsError(f"session {key.session_id!r} exists already")
            stored = self._sessions[key] = _StoredSession(time.time(), dict(texts.session))
            self._update_shared_state(key, texts)
            return self._read(key, stored)

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """The session as it is now; see ``SessionService``."""
        key = check_key(app_name, user_id, session_id)
        with self._lock:
            stored = self._sessions.get(key)
            if stored is None:
                return None
            session = self._read(key, stored)
            events = _wanted(stored.events, config or GetSessionConfig())
        session.events = [read_event(event.text) for event in events]
        return session

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """The sessions without their events; see ``SessionService``."""
        with self._lock:
            sessions = [
                self._read(key, stored)
                for key, stored in self._sessions.items()
                if key.app_name == app_name and user_id in (None, key.user_id)
            ]
        sessions.sort(key=lambda session: (session.last_update_time, session.user_id, session.id))
        return ListSessionsResponse(sessions=sessions)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete it, if it is there."""
        with self._lock:
            self._sessions.pop(check_key(app_name, user_id, session_id), None)

    async def append_event(self, session: Session, event: Event) -> Event:
        """Store ``event`` and bring ``session`` up to date; see ``SessionService``."""
        append, kept = prepare(session, event, max_event_size=self._max_event_size)
        with self._lock:
            earlier = self._write(append)
        if earlier is not None:
            return read_event(earlier)
        apply(session, append, kept, event)
        return kept

    async def close(self) -> None:
        """Nothing to let go of; the sessions stay readable."""

    def _write(self, append: Append) -> str | None:
        """Write it, or give the text of the event of that id that is there already."""
        stored = self._sessions.get(append.key)
        if stored is None:
            raise SessionNotFoundError(f"there is no session {append.key.session_id!r}")
        place = stored.places.get(append.event_id)
        if place is not None:
            return stored.events[place].text
        if append.revision != len(stored.events):
            raise StaleSessionError(
                f"session {append.key.session_id!r} is at {len(stored.events)}, not {append.revision}"
            )
        stored.places[append.event_id] = len(stored.events)
        stored.events.append(_StoredEvent(append.timestamp, append.text))
        stored.last_update_time = append.timestamp
        stored.state.update(append.state.session)
        self._update_shared_state(append.key, append.state)
        return None

    def _update_shared_state(self, key: SessionKey, state: ScopedState) -> None:
        self._app_states.setdefault(key.app_name, {}).update(state.app)
        self._user_states.setdefault((key.app_name, key.user_id), {}).update(state.user)

    def _read(self, key: SessionKey, stored: _StoredSession) -> Session:
        state = ScopedState(
            app=self._app_states.get(key.app_name, {}),
            user=self._user_states.get((key.app_name, key.user_id), {}),
            session=stored.state,
        )
        return Session(
            id=key.session_id,
            app_name=key.app_name,
            user_id=key.user_id,
            state=read_state(state),
            last_update_time=stored.last_update_time,
            revision=len(stored.events),
        )


def _wanted(events: list[_StoredEvent], config: GetSessionConfig) -> list[_StoredEvent]:
    if config.after_timestamp is not None:
        after = config.after_timestamp
        events = [event for event in events if event.timestamp >= after]
    if config.num_recent_events is None:
        return list(events)
    return events[max(0, len(events) - config.num_recent_events) :]
