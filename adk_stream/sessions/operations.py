"""What each call does inside one transaction, without a driver: generators that yield statements, get rows.

So the same operations run on any connection, blocking or not. Expected failures are found before anything is
written; after any other the driver undoes what the operation did.
"""

from __future__ import annotations

from collections.abc import Generator
from math import inf
from typing import Any, TypeVar

from adk_stream.errors import SessionExistsError, SessionNotFoundError, StaleSessionError

from .schema import Statements
from .session import GetSessionConfig, Session
from .stored import Append, ScopedState, SessionKey, read_event, read_state

__all__ = [
    "EVERYTHING",
    "Operation",
    "append_event",
    "create_session",
    "delete_session",
    "get_session",
    "list_sessions",
    "wanted_events",
    "why_not",
]

_T = TypeVar("_T")

Operation = Generator[tuple[Any, dict[str, Any]], list[Any], _T]

#: As many events as no session has.
EVERYTHING = 2**62


def create_session(sql: Statements, key: SessionKey, state: ScopedState, now: float) -> Operation[Session]:
    """Raises ``SessionExistsError``."""
    rows = yield sql.create_session, {**key._asdict(), "revision": 0, "last_update_time": now}
    if not rows:
        raise SessionExistsError(f"session {key.session_id!r} exists already")
    yield from _put_state(sql, key, rows[0][0], state)
    return (yield from _read_session(sql, key, rows[0][0], now, 0))


def append_event(sql: Statements, append: Append) -> Operation[str | None]:
    """Store it; or give the text of the event of that id that is there already.

    Raises ``SessionNotFoundError`` and ``StaleSessionError``.
    """
    advance = {
        **append.key._asdict(),
        "expected": append.revision,
        "event_id": append.event_id,
        "timestamp": append.timestamp,
    }
    rows = yield sql.advance_session, advance
    if not rows:
        return (yield from why_not(sql, append))
    session_key = rows[0][0]
    event = {
        "session_key": session_key,
        "seq": append.revision + 1,
        "event_id": append.event_id,
        "timestamp": append.timestamp,
        "data": append.text,
    }
    yield sql.insert_event, event
    yield from _put_state(sql, append.key, session_key, append.state)
    return None


def get_session(sql: Statements, key: SessionKey, config: GetSessionConfig) -> Operation[Session | None]:
    """The session with the events that ``config`` asks for."""
    rows = yield sql.find_session, key._asdict()
    if not rows:
        return None
    session = yield from _read_session(sql, key, *rows[0])
    newest = yield sql.newest_events, {"session_key": rows[0][0], **wanted_events(config)}
    session.events = [read_event(data) for (data,) in reversed(newest)]
    return session


def wanted_events(config: GetSessionConfig) -> dict[str, Any]:
    """The parameters ``after`` and ``most``."""
    after, most = config.after_timestamp, config.num_recent_events
    return {
        "after": -inf if after is None else after,
        "most": EVERYTHING if most is None else min(most, EVERYTHING),
    }


def list_sessions(sql: Statements, app_name: str, user_id: str | None) -> Operation[list[Session]]:
    """The sessions with their state, without their events."""
    names = {"app_name": app_name}
    app_state = dict((yield sql.app_state, names))
    user_states: dict[str, dict[str, str]] = {}
    if user_id is None:
        rows = yield sql.sessions_of_app, names
        states = yield sql.session_states_of_app, names
        for user, name, value in (yield sql.user_states_of_app, names):
            user_states.setdefault(user, {})[name] = value
    else:
        names["user_id"] = user_id
        rows = yield sql.sessions_of_user, names
        states = yield sql.session_states_of_user, names
        user_states[user_id] = dict((yield sql.user_state, names))
    session_states: dict[int, dict[str, str]] = {}
    for session_key, name, value in states:
        session_states.setdefault(session_key, {})[name] = value
    return [
        Session(
            id=session_id,
            app_name=app_name,
            user_id=user,
            state=read_state(ScopedState(app_state, user_states.get(user, {}), session_states.get(key, {}))),
            last_update_time=last_update_time,
            revision=revision,
        )
        for key, user, session_id, last_update_time, revision in rows
    ]


def delete_session(sql: Statements, key: SessionKey) -> Operation[None]:
    """Events and the session's own state go with it, by the foreign keys."""
    yield sql.delete_session, key._asdict()


def why_not(sql: Statements, append: Append) -> Operation[str]:
    """After a refusal: the text of the event of that id if there is one; raises what else was the reason."""
    rows = yield sql.find_session, append.key._asdict()
    if not rows:
        raise SessionNotFoundError(f"there is no session {append.key.session_id!r}")
    session_key, _, revision = rows[0]
    held = yield sql.find_event, {"session_key": session_key, "event_id": append.event_id}
    if held:
        text: str = held[0][0]
        return text
    raise StaleSessionError(f"session {append.key.session_id!r} is at {revision}, not {append.revision}")


def _put_state(sql: Statements, key: SessionKey, session_key: int, state: ScopedState) -> Operation[None]:
    app = {"app_name": key.app_name}
    user = {"app_name": key.app_name, "user_id": key.user_id}
    session = {"session_key": session_key}
    for statement, owner, texts in (
        (sql.put_app_state, app, state.app),
        (sql.put_user_state, user, state.user),
        (sql.put_session_state, session, state.session),
    ):
        # Every writer takes the rows of shared state in the same order, so no two wait for each other.
        for name in sorted(texts):
            yield statement, {**owner, "name": name, "value": texts[name]}


def _read_session(
    sql: Statements, key: SessionKey, session_key: int, last_update_time: float, revision: int
) -> Operation[Session]:
    app_state = yield sql.app_state, {"app_name": key.app_name}
    user_state = yield sql.user_state, {"app_name": key.app_name, "user_id": key.user_id}
    session_state = yield sql.session_state, {"session_key": session_key}
    return Session(
        id=key.session_id,
        app_name=key.app_name,
        user_id=key.user_id,
        state=read_state(ScopedState(dict(app_state), dict(user_state), dict(session_state))),
        last_update_time=last_update_time,
        revision=revision,
    )
