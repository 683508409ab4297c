"""Sessions: where the non-partial responses of a stream are kept, in order and exactly once.

Every name is loaded on first use, so that the store in memory does not pay for SQLAlchemy, nor the protocol
for either.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .event import Event, EventActions
    from .memory import InMemorySessionService
    from .service import SessionService, open_session_service
    from .session import GetSessionConfig, ListSessionsResponse, Session
    from .sql import SqlSessionService
    from .storing import store_events

__all__ = [
    "Event",
    "EventActions",
    "GetSessionConfig",
    "InMemorySessionService",
    "ListSessionsResponse",
    "Session",
    "SessionService",
    "SqlSessionService",
    "open_session_service",
    "store_events",
]

_MODULES = {
    "Event": "event",
    "EventActions": "event",
    "GetSessionConfig": "session",
    "InMemorySessionService": "memory",
    "ListSessionsResponse": "session",
    "Session": "session",
    "SessionService": "service",
    "SqlSessionService": "sql",
    "open_session_service": "service",
    "store_events": "storing",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
