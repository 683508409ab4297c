"""``Session``: what a caller holds of a conversation, and what it asks for when reading one."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from .event import Event

__all__ = ["GetSessionConfig", "ListSessionsResponse", "Session"]


class Session(BaseModel):
    """A conversation as it was when it was read, plus what was appended through this very object.

    Attributes:
        id: Unique among the sessions of one user of one application.
        app_name: The application.
        user_id: The user.
        state: The session's own, with the application's (``app:…``) and the user's (``user:…``) merged in.
        events: Oldest first, in the order of appending.
        last_update_time: The newest event's timestamp, or the time of creation; in seconds since the epoch.
        revision: How many events were ever appended. An append through an object whose revision is not the
            store's is refused (``StaleSessionError``).
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")

    id: str
    app_name: str
    user_id: str
    state: dict[str, Any] = Field(default_factory=dict)
    events: list[Event] = Field(default_factory=list)
    last_update_time: float = 0.0
    revision: int = 0


class GetSessionConfig(BaseModel):
    """Which events to read with a session; without it, all of them.

    Attributes:
        num_recent_events: At most so many, the newest; 0 reads none.
        after_timestamp: Only those stamped at that time (seconds since the epoch) or later.
    """

    num_recent_events: int | None = Field(default=None, ge=0)
    after_timestamp: float | None = None


class ListSessionsResponse(BaseModel):
    """Sessions without their events, the one updated last at the end."""

    sessions: list[Session] = Field(default_factory=list)
