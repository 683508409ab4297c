"""The routes of google-adk's ``api_server``, for the front ends that were made for it.

An application is a model of this service. Left out are the routes for evaluations, artifacts, memory and traces, and
``invocationId``, which would take up a run in its middle. Errors have a ``detail``, as its own have.
"""

from __future__ import annotations

import platform
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, WithJsonSchema
from pydantic.alias_generators import to_camel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from adk_stream import __version__
from adk_stream.encoders import AdkEncoder
from adk_stream.response import LlmResponse
from adk_stream.sessions import Event, Session
from adk_stream.sessions.stored import SessionKey

from .answers import json_answer
from .limits import Name, StateKey, fitted, read_json, read_model
from .messages import UserContent
from .service import RUN_ID, Service, service_of

__all__ = ["ROUTES", "CreateSession", "RunAgent", "UpdateSession"]


def _storable(event: Event) -> Event:
    """An event that a store takes.

    Raises:
        ValueError: it is partial, or its names cannot be stored.
    """
    if event.partial:
        raise ValueError("a partial event is not stored")
    if any("\0" in name for name in (event.id, *event.actions.state_delta)):
        raise ValueError("names of an event hold no control characters")
    return event


#: In the description an object of google-adk's: its schema is that of all that a model can say.
_StoredEvent = Annotated[Event, AfterValidator(_storable), WithJsonSchema({"title": "Event", "type": "object"})]


class _Asked(BaseModel):
    """google-adk takes both spellings, and passes over what it does not know."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")


class RunAgent(_Asked):
    """What ``/run`` and ``/run_sse`` take."""

    app_name: Name | None = None
    user_id: Name
    session_id: Name
    new_message: UserContent
    streaming: bool = False
    state_delta: dict[StateKey, Any] | None = None


class CreateSession(_Asked):
    """What creates a session."""

    session_id: Name | None = None
    state: dict[StateKey, Any] | None = None
    events: list[_StoredEvent] | None = None


class UpdateSession(_Asked):
    """What changes a session's state."""

    state_delta: dict[StateKey, Any]


class FinalsOnly(AdkEncoder):
    """The encoder of a run that was not asked to stream."""

    def encode(self, response: LlmResponse) -> list[dict[str, Any]]:
        """No partial events."""
        return [] if response.partial else super().encode(response)


# ------------------------------------------------------------- what there is


async def list_apps(request: Request) -> Response:
    """``GET /list-apps``."""
    names = service_of(request).agents.names
    if request.query_params.get("detailed", "").lower() not in ("true", "1"):
        return json_answer(names)
    told = {"description": "", "language": "python", "isComputerUse": False}
    return json_answer({"apps": [{"name": name, "rootAgentName": name, **told} for name in names]})


async def version(request: Request) -> Response:
    """``GET /version``."""
    told = {"version": __version__, "language": "python", "language_version": platform.python_version()}
    return json_answer(told)


# ------------------------------------------------------------- sessions


async def list_sessions(request: Request) -> Response:
    """``GET /apps/{app}/users/{user}/sessions``."""
    service = service_of(request)
    app_name, user_id = service.owner(request)
    found = await service.sessions.list_sessions(app_name=app_name, user_id=user_id)
    return json_answer([_told(session) for session in found.sessions])


async def create(request: Request) -> Response:
    """``POST /apps/{app}/users/{user}/sessions``."""
    service = service_of(request)
    asked = await read_model(request, service.config.limits, CreateSession, optional=True)
    return await _create(service, service.owner(request), asked)


async def create_with_id(request: Request) -> Response:
    """``POST /apps/{app}/users/{user}/sessions/{session}``; the body is the state itself."""
    service = service_of(request)
    app_name, user_id, session_id = service.key_of(request)
    state = await read_json(request, service.config.limits, optional=True)
    asked = fitted(CreateSession, {"session_id": session_id, "state": state})
    return await _create(service, (app_name, user_id), asked)


async def _create(service: Service, owner: tuple[str, str], asked: CreateSession) -> Response:
    app_name, user_id = owner
    made = await service.sessions.create_session(
        app_name=app_name, user_id=user_id, session_id=asked.session_id, state=asked.state
    )
    for event in asked.events or ():
        await service.sessions.append_event(made, event)
    return json_answer(_told(made))


async def read(request: Request) -> Response:
    """``GET /apps/{app}/users/{user}/sessions/{session}``."""
    service = service_of(request)
    return json_answer(_told(await service.session(service.key_of(request))))


async def update(request: Request) -> Response:
    """``PATCH /apps/{app}/users/{user}/sessions/{session}``."""
    service = service_of(request)
    asked = await read_model(request, service.config.limits, UpdateSession)
    return json_answer(_told(await service.change_state(service.key_of(request), asked.state_delta)))


async def delete(request: Request) -> Response:
    """``DELETE /apps/{app}/users/{user}/sessions/{session}``."""
    service = service_of(request)
    app_name, user_id, session_id = service.key_of(request)
    await service.sessions.delete_session(app_name=app_name, user_id=user_id, session_id=session_id)
    return json_answer(None)


def _told(session: Session) -> dict[str, Any]:
    told = session.model_dump(by_alias=True, exclude={"events", "revision"})
    encoder = AdkEncoder()
    return {**told, "events": [each for event in session.events for each in encoder.encode(event)]}


# ------------------------------------------------------------- runs


async def run(request: Request) -> Response:
    """``POST /run``: all events of the run, once it is over."""
    service = service_of(request)
    asked = await read_model(request, service.config.limits, RunAgent)
    begun = await service.start(_key(service, asked), asked.new_message, state_delta=asked.state_delta)
    events = await service.collected(begun, FinalsOnly())
    return json_answer(events, headers={RUN_ID: begun.id})


async def run_sse(request: Request) -> Response:
    """``POST /run_sse``: the events as they come."""
    service = service_of(request)
    asked = await read_model(request, service.config.limits, RunAgent)
    encoder = AdkEncoder if asked.streaming else FinalsOnly
    return await service.answer(
        _key(service, asked), asked.new_message, lambda _: encoder(), state_delta=asked.state_delta
    )


def _key(service: Service, asked: RunAgent) -> SessionKey:
    return service.key(service.agents.name(asked.app_name), asked.user_id, asked.session_id)


_ALL, _ONE = "/apps/{app}/users/{user}/sessions", "/apps/{app}/users/{user}/sessions/{session}"

ROUTES = [
    Route("/list-apps", list_apps, methods=["GET"]),
    Route("/version", version, methods=["GET"]),
    Route(_ALL, list_sessions, methods=["GET"]),
    Route(_ALL, create, methods=["POST"]),
    Route(_ONE, read, methods=["GET"]),
    Route(_ONE, create_with_id, methods=["POST"]),
    Route(_ONE, update, methods=["PATCH"]),
    Route(_ONE, delete, methods=["DELETE"]),
    Route("/run", run, methods=["POST"]),
    Route("/run_sse", run_sse, methods=["POST"]),
]
