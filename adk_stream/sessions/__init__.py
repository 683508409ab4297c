"""Sessions: where the non-partial responses of a stream are kept, in order and exactly once.

Every name is loaded on first use, so that the store in memory does not pay for SQLAlchemy, nor the protocol
for either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_stream.lazily import lazy_names

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

_HOMES = {
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

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
