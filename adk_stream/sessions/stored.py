"""What a store writes: an event and its changes of state as JSON text, made once, the same for every store.

The text is JSON in camelCase, fields that are None left out, bytes in standard base64. A model's text may
hold half of a surrogate pair (an emoji that the provider cut); that has no UTF-8 form, so such an event is
written in ASCII with escapes (RFC 8259 section 8.2 foresees it). What JSON cannot hold is refused before
anything is written; a float of a model's that is no number becomes null.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any, NamedTuple

from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from adk_stream.errors import PartialEventError, SessionError

from .codec import read_quickly, write_quickly
from .event import Event
from .session import Session

__all__ = [
    "MAX_EVENT_SIZE",
    "Append",
    "ScopedState",
    "SessionKey",
    "apply",
    "check_key",
    "prepare",
    "read_any",
    "read_event",
    "read_state",
    "split_state",
    "write_any",
]

APP, USER, TEMP = "app:", "user:", "temp:"

#: Characters of one event's JSON, changes of state included.
MAX_EVENT_SIZE = 64 * 1024 * 1024


class SessionKey(NamedTuple):
    """What names a session."""

    app_name: str
    user_id: str
    session_id: str


class ScopedState(NamedTuple):
    """JSON texts by key, the prefix taken off: the application's, the user's, the session's own."""

    app: dict[str, str]
    user: dict[str, str]
    session: dict[str, str]


class Append(NamedTuple):
    """One append, ready to be written."""

    key: SessionKey
    revision: int
    event_id: str
    timestamp: float
    text: str
    state: ScopedState


def check_key(app_name: str, user_id: str, session_id: str) -> SessionKey:
    """The three names as a key.

    Raises:
        SessionError: one of them is not text that a database can hold.
    """
    key = SessionKey(app_name, user_id, session_id)
    for name, value in zip(key._fields, key, strict=True):
        _check_name(name, value)
    return key


def prepare(session: Session, event: Event, *, max_event_size: int = MAX_EVENT_SIZE) -> tuple[Append, Event]:
    """What to write for ``event``, and the event without its ``temp:`` state (itself, if it has none).

    Raises:
        PartialEventError: the event is partial.
        SessionError: the event or its state has no JSON form, or is too large.
    """
    if event.partial:
        raise PartialEventError(f"event {event.id!r} is partial: it is for display and is never stored")
    delta = event.actions.state_delta
    if any(key.startswith(TEMP) for key in delta):
        kept = {key: value for key, value in delta.items() if not key.startswith(TEMP)}
        actions = event.actions.model_copy(update={"state_delta": kept})
        event = event.model_copy(update={"actions": actions})
    _check_name("event id", event.id)
    key = check_key(session.app_name, session.user_id, session.id)
    state = split_state(event.actions.state_delta)
    text = write_quickly(event) or write_any(event)
    if len(text) > max_event_size:
        raise SessionError(f"event {event.id!r} is too large: {len(text)} characters, over {max_event_size}")
    return Append(key, session.revision, event.id, event.timestamp, text, state), event


def apply(session: Session, append: Append, stored: Event, given: Event) -> None:
    """Bring the caller's ``session`` to what the store now holds; only here does ``temp:`` state go."""
    session.state.update(read_state(append.state))
    session.state.update({k: v for k, v in given.actions.state_delta.items() if k.startswith(TEMP)})
    session.events.append(stored)
    session.last_update_time = append.timestamp
    session.revision = append.revision + 1


def split_state(delta: Mapping[str, Any]) -> ScopedState:
    """The changes of each scope, as JSON texts; ``temp:`` is left out.

    Raises:
        SessionError: a value has no JSON form.
    """
    state = ScopedState({}, {}, {})
    for key, value in delta.items():
        _check_name("state key", key)
        if key.startswith(APP):
            state.app[key.removeprefix(APP)] = _write_value(key, value)
        elif key.startswith(USER):
            state.user[key.removeprefix(USER)] = _write_value(key, value)
        elif not key.startswith(TEMP):
            state.session[key] = _write_value(key, value)
    return state


def read_state(state: ScopedState) -> dict[str, Any]:
    """The merged state, new objects throughout."""
    scopes: Iterable[tuple[str, dict[str, str]]] = (("", state.session), (APP, state.app), (USER, state.user))
    return {prefix + key: json.loads(text) for prefix, scope in scopes for key, text in scope.items()}


def read_event(text: str) -> Event:
    """The event that was written as ``text``, a new object.

    Raises:
        SessionError: the text is damaged.
    """
    return read_quickly(text) or read_any(text)


def read_any(text: str) -> Event:
    """What ``read_event`` does with what its short way leaves."""
    try:
        return Event.model_validate_json(text)
    except ValidationError:
        pass  # pydantic's JSON parser refuses lone surrogates; the standard library's does not
    try:
        return Event.model_validate(json.loads(text))
    except (ValueError, RecursionError) as problem:
        raise SessionError(f"a stored event cannot be read: {text[:120]!r}") from problem


def write_any(event: Event) -> str:
    """The text of an event that has no short way.

    Raises:
        SessionError: it has no JSON form.
    """
    try:
        # Not mode="json": that writes U+FFFD for half a surrogate pair in a key, and leaves some NaN alone.
        return _dumps(_as_json(event.model_dump(by_alias=True, exclude_none=True)))
    except (TypeError, ValueError, RecursionError) as problem:
        raise SessionError(f"event {event.id!r} has no JSON form: {problem}") from problem


def _as_json(value: Any) -> Any:
    kind = type(value)
    if kind in _JSON_ATOMS:
        return value
    if kind is dict:
        return {key: _as_json(item) for key, item in value.items()}
    if kind is list or kind is tuple:
        return [_as_json(item) for item in value]
    if kind is float:
        return value if isfinite(value) else None
    if kind is bytes:
        return base64.b64encode(value).decode()
    return to_jsonable_python(value)  # enums, times, models, and an error for what has no JSON form


_JSON_ATOMS = frozenset({str, int, bool, type(None)})


def _write_value(key: str, value: Any) -> str:
    try:
        return _dumps(value)
    except (TypeError, ValueError, RecursionError) as problem:
        raise SessionError(f"the value of state key {key!r} has no JSON form: {problem}") from problem


def _dumps(value: Any) -> str:
    text = _write_plain(value)
    return text if _is_utf8(text) else _write_escaped(value)


# Made once: json.dumps() builds a new one for each call with arguments that are not its defaults
_write_plain = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_write_escaped = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode


def _check_name(what: str, value: str) -> None:
    """Names are compared by the database, so it must be able to hold them: no NUL, no half surrogate pair."""
    if not isinstance(value, str):
        raise SessionError(f"{what} must be a string, not {value!r}")
    if "\0" in value or not _is_utf8(value):
        raise SessionError(f"{what} {value!r} holds characters that a database cannot store")


def _is_utf8(value: str) -> bool:
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
