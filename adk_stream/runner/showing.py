"""Responses as events for display.

``Event.from_response`` validates and copies: right for what is stored, too dear for each of a thousand partials a
second. Here the event takes over the values of a response that nobody else holds.
"""

from __future__ import annotations

import time
from functools import cache
from typing import Any

from adk_stream.response import LlmResponse
from adk_stream.sessions import Event, EventActions

__all__ = ["EventMaker", "stored_form"]


class EventMaker:
    """Makes the events of one round: they share id, author and invocation id."""

    def __init__(self, *, id: str, author: str, invocation_id: str) -> None:
        self.id = id
        self._own = {"id": id, "author": author, "invocation_id": invocation_id}

    def show(self, response: LlmResponse) -> Event:
        """The event that tells of ``response``, which must not be used by anybody afterwards.

        It equals what ``Event.from_response`` gives; a test compares the two.
        """
        if type(response) is not LlmResponse:  # a callback's own class: whatever its fields are, they are copied
            return Event.from_response(response, **self._own)
        event: Event = object.__new__(Event)
        values = _defaults().copy()
        values.update(response.__dict__)
        values.update(self._own)
        values["actions"] = EventActions()
        values["timestamp"] = time.time()
        _set(event, "__dict__", values)
        _set(event, "__pydantic_fields_set__", response.model_fields_set | self._own.keys())
        _set(event, "__pydantic_extra__", {})
        _set(event, "__pydantic_private__", None)
        return event


def stored_form(shown: Event) -> Event:
    """A copy for the session, which shares nothing with the event that the caller gets."""
    event = Event.from_response(shown, author=shown.author, invocation_id=shown.invocation_id, id=shown.id)
    event.timestamp = shown.timestamp
    event.actions = shown.actions.model_copy(deep=True)
    event.long_running_tool_ids = None if shown.long_running_tool_ids is None else set(shown.long_running_tool_ids)
    return event


_set: Any = object.__setattr__


@cache
def _defaults() -> dict[str, Any]:
    """Every field of an event in order, with its default; those that can be changed are always replaced."""
    return {name: field.default for name, field in Event.model_fields.items()}
