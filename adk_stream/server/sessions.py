"""Sessions over HTTP, in this package's own form: nothing of an event is left out.

::

    GET    /sessions/{app}/{user}         those of a user, without their events
    POST   /sessions/{app}/{user}         201, a new one
    GET    /sessions/{app}/{user}/{id}    one with its events (``?events=20``: the newest alone)
    DELETE /sessions/{app}/{user}/{id}    204
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from adk_stream.encoders.plain import as_json
from adk_stream.sessions import GetSessionConfig, Session

from .answers import json_answer
from .limits import Name, StateKey, read_model
from .problems import Problem
from .service import service_of

__all__ = ["ROUTES", "NewSession"]


class NewSession(BaseModel):
    """What ``POST /sessions/…`` takes.

    Attributes:
        id: Made when it is left out.
        state: To begin with.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")

    id: Name | None = None
    state: dict[StateKey, Any] = Field(default_factory=dict)


async def list_sessions(request: Request) -> Response:
    """``GET /sessions/{app}/{user}``."""
    service = service_of(request)
    app_name, user_id = service.owner(request)
    found = await service.sessions.list_sessions(app_name=app_name, user_id=user_id)
    return json_answer({"sessions": [_told(session) for session in found.sessions]})


async def create(request: Request) -> Response:
    """``POST /sessions/{app}/{user}``."""
    service = service_of(request)
    app_name, user_id = service.owner(request)
    asked = await read_model(request, service.config.limits, NewSession, optional=True)
    made = await service.sessions.create_session(
        app_name=app_name, user_id=user_id, session_id=asked.id, state=asked.state
    )
    return json_answer(_told(made), 201)


async def read(request: Request) -> Response:
    """``GET /sessions/{app}/{user}/{id}``."""
    service = service_of(request)
    session = await service.session(service.key_of(request), _wanted(request.query_params.get("events")))
    return json_answer({**_told(session), "events": [as_json(event) for event in session.events]})


async def delete(request: Request) -> Response:
    """``DELETE /sessions/{app}/{user}/{id}``; there may be none."""
    service = service_of(request)
    app_name, user_id, session_id = service.key_of(request)
    await service.sessions.delete_session(app_name=app_name, user_id=user_id, session_id=session_id)
    return Response(status_code=204)


def _told(session: Session) -> dict[str, Any]:
    return session.model_dump(by_alias=True, exclude={"events"})


def _wanted(events: str | None) -> GetSessionConfig | None:
    if events is None:
        return None
    if not (events.isascii() and events.isdecimal() and len(events) < 10):
        raise Problem(422, "events is a number from 0")
    return GetSessionConfig(num_recent_events=int(events))


_ALL, _ONE = "/sessions/{app}/{user}", "/sessions/{app}/{user}/{session}"

ROUTES = [
    Route(_ALL, list_sessions, methods=["GET"]),
    Route(_ALL, create, methods=["POST"]),
    Route(_ONE, read, methods=["GET"]),
    Route(_ONE, delete, methods=["DELETE"]),
]
