"""``AdkSessionService``: google-adk's session service over the stores of this package.

google-adk's own stores take the time of the last update for the revision of a session and for the order of its
events, and so lose updates and reorder events when writers meet. The stores here count appends: a write through a
session object that has missed one is refused with google-adk's ``StaleSessionError``, however short ago the other
write was, and what was refused can be tried again on a session that is read anew::

    while True:
        session = await service.get_session(app_name=..., user_id=..., session_id=...)
        try:
            await service.append_event(session, event_made_from(session.state))
            break
        except StaleSessionError:
            continue

It is never tried again here: the change of state that an event carries was computed from the state that was read.
"""

from __future__ import annotations

from asyncio import Lock
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self
from weakref import WeakValueDictionary

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event as AdkEvent
from google.adk.sessions.base_session_service import (
    BaseSessionService,
    GetSessionConfig,
    ListSessionsResponse,
)
from google.adk.sessions.session import Session as AdkSession
from google.adk.sessions.state import State
from pydantic import PrivateAttr
from pydantic_core import to_jsonable_python

from adk_stream import errors
from adk_stream.sessions.event import Event
from adk_stream.sessions.service import SessionService, open_session_service
from adk_stream.sessions.session import GetSessionConfig as OwnConfig
from adk_stream.sessions.session import Session

from .conversions import from_adk_event, to_adk_event
from .private import StaleSessionError

__all__ = ["AdkSessionService"]


class _StoredSession(AdkSession):
    """google-adk's session, and how many events were ever appended to it when it was read or last written."""

    _revision: int = PrivateAttr(default=0)


class AdkSessionService(BaseSessionService):
    """Sessions of google-adk in a store of this package; both sides may use one store at the same time.

    Partial events are not stored. ``app:``, ``user:`` and ``temp:`` state works as in google-adk. Appending an event
    again changes nothing. State that has no JSON form is stored as its ``repr``, as in google-adk's own stores.

    Args:
        store: A session service of this package, or a URL such as ``sqlite:///sessions.db``.

    Raises:
        adk_stream.errors.SessionError: no store is known for that URL; also from every method, if the store fails.
    """

    def __init__(self, store: SessionService | str) -> None:
        self._store = open_session_service(store) if isinstance(store, str) else store
        self._locks: WeakValueDictionary[tuple[str, str, str], Lock] = WeakValueDictionary()

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> AdkSession:
        """A new session; its id is made when none is given.

        Raises:
            google.adk.errors.already_exists_error.AlreadyExistsError: there is one of that id.
        """
        with _adk_errors():
            session = await self._store.create_session(
                app_name=app_name,
                user_id=user_id,
                state=to_jsonable_python(state or {}, serialize_unknown=True),
                session_id=_stripped(session_id) or None,
            )
        return _to_adk(session)

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> AdkSession | None:
        """The session as it is now; None if there is none."""
        session = await self._read(app_name, user_id, session_id, config)
        return None if session is None else _to_adk(session)

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """The sessions with their state and without their events, the one updated last at the end."""
        with _adk_errors():
            found = await self._store.list_sessions(app_name=app_name, user_id=user_id)
        return ListSessionsResponse(sessions=[_to_adk(session) for session in found.sessions])

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Nothing happens if there is none."""
        with _adk_errors():
            await self._store.delete_session(app_name=app_name, user_id=user_id, session_id=_stripped(session_id) or "")

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """The user's state without its prefix. It is read from the user's sessions: empty if there are none."""
        found = await self.list_sessions(app_name=app_name, user_id=user_id)
        state = found.sessions[-1].state if found.sessions else {}
        prefix = State.USER_PREFIX
        return {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}

    async def append_event(self, session: AdkSession, event: AdkEvent) -> AdkEvent:
        """Store the event at the end of the session, and bring the ``session`` object up to date.

        Raises:
            google.adk.errors.StaleSessionError: somebody else appended since ``session`` was read.
            google.adk.errors.session_not_found_error.SessionNotFoundError: there is no such session.
        """
        if event.partial:
            return event
        key = (session.app_name, session.user_id, session.id)
        async with self._locks.setdefault(key, Lock()):  # branches of one run share the object
            own = Session(
                app_name=session.app_name,
                user_id=session.user_id,
                id=session.id,
                revision=await self._revision_of(session),
            )
            expected = own.revision
            with _adk_errors():
                await self._store.append_event(own, _without_temporary_state(from_adk_event(event)))
            if own.revision == expected:
                return event  # the session holds it already
            stored = await super().append_event(session, event)
            session.last_update_time = event.timestamp
            if isinstance(session, _StoredSession):
                session._revision = own.revision
            return stored

    async def close(self) -> None:
        """Close the store. Closing again does nothing."""
        await self._store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _read(
        self, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None
    ) -> Session | None:
        own = None if config is None else OwnConfig(**config.model_dump(include=set(OwnConfig.model_fields)))
        with _adk_errors():
            return await self._store.get_session(
                app_name=app_name, user_id=user_id, session_id=_stripped(session_id) or "", config=own
            )

    async def _revision_of(self, session: AdkSession) -> int:
        """The revision that the session object stands at. One that was not made here knows only its last update."""
        if isinstance(session, _StoredSession):
            return session._revision
        none = GetSessionConfig(num_recent_events=0)
        now = await self._read(session.app_name, session.user_id, session.id, none)
        if now is None:
            raise SessionNotFoundError(f"there is no session {session.id!r}")
        if now.last_update_time > session.last_update_time:
            raise StaleSessionError(f"session {session.id!r} was updated since it was read")
        return now.revision


def _to_adk(session: Session) -> AdkSession:
    adk = _StoredSession(
        id=session.id,
        app_name=session.app_name,
        user_id=session.user_id,
        state=session.state,
        events=[to_adk_event(event) for event in session.events],
        last_update_time=session.last_update_time,
    )
    adk._revision = session.revision
    return adk


def _without_temporary_state(event: Event) -> Event:
    delta = event.actions.state_delta
    event.actions.state_delta = {key: value for key, value in delta.items() if not key.startswith(State.TEMP_PREFIX)}
    return event


def _stripped(session_id: str | None) -> str | None:
    return session_id.strip() if session_id else session_id


@contextmanager
def _adk_errors() -> Iterator[None]:
    """Our errors as those that google-adk's code looks for."""
    try:
        yield
    except errors.SessionExistsError as problem:
        raise AlreadyExistsError(str(problem)) from problem
    except errors.SessionNotFoundError as problem:
        raise SessionNotFoundError(str(problem)) from problem
    except errors.StaleSessionError as problem:
        raise StaleSessionError(str(problem)) from problem
