"""The service's own way to run: start one, follow it from anywhere and as often as wished, cancel it.

::

    POST /runs                 202 with the run's id
    GET  /runs/{id}            how it stands
    GET  /runs/{id}/events     its responses as server-sent events, from the beginning or after ``Last-Event-ID``
    POST /runs/{id}/cancel     202

The events are those of ``NativeEncoder``, with the relay's cursors for ids, and one more: ``gap`` stands where partial
responses are kept no longer; the finals among what was lost follow, but for ``lostFinals`` of them, which the session
holds. ``done`` also tells ``errorCode`` and ``errorMessage``. A browser's ``EventSource`` asks again with the last id
it saw until it gets 204: the run is over, and it has seen all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from adk_stream.encoders.protocol import EVENT_STREAM
from adk_stream.relay.positions import read_cursor

from .answers import json_answer
from .frames import numbered_frames
from .limits import Name, StateKey, checked_name, read_model
from .messages import UserContent
from .runs import run_as_json
from .service import RUN_ID, service_of

if TYPE_CHECKING:
    from adk_stream.relay import StreamStatus

__all__ = ["ROUTES", "StartRun"]


class StartRun(BaseModel):
    """What ``POST /runs`` takes.

    Attributes:
        app_name: The model, by its name in this service; may be left out where there is one alone.
        user_id: Whose session it is.
        session_id: The session; a new one is made when this is left out.
        message: What the user says: text, or a Content.
        state_delta: Changes of the session's state before the run.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")

    app_name: Name | None = None
    user_id: Name = "user"
    session_id: Name | None = None
    message: Annotated[str, Field(min_length=1)] | UserContent
    state_delta: dict[StateKey, Any] | None = None


async def start(request: Request) -> Response:
    """``POST /runs``."""
    service = service_of(request)
    asked = await read_model(request, service.config.limits, StartRun)
    app_name = service.agents.name(asked.app_name)
    session_id = asked.session_id
    if session_id is None:
        service.runs.slots.check()  # a client that tries again leaves no empty sessions behind
        session_id = (await service.sessions.create_session(app_name=app_name, user_id=asked.user_id)).id
    key = service.key(app_name, asked.user_id, session_id)
    run = await service.start(key, asked.message, state_delta=asked.state_delta)
    path = f"/runs/{run.id}"
    told = {**run.as_json(), "events": f"{path}/events"}
    return json_answer(told, 202, {"location": path, RUN_ID: run.id})


async def tell(request: Request) -> Response:
    """``GET /runs/{id}``."""
    return json_answer(_told(await service_of(request).status(_id(request))))


async def events(request: Request) -> Response:
    """``GET /runs/{id}/events``."""
    service = service_of(request)
    status = await service.status(_id(request))
    after = request.headers.get("last-event-id") or request.query_params.get("after") or None
    if status.ended and after == status.last:
        return Response(status_code=204)
    if after is not None:
        read_cursor(status.stream_id, after)  # a bad one is an answer of its own, not a stream that breaks off
    frames = numbered_frames(service.relay.subscribe(status.stream_id, after))
    return service.stream(frames, {**EVENT_STREAM, RUN_ID: status.stream_id})


async def cancel(request: Request) -> Response:
    """``POST /runs/{id}/cancel``."""
    service = service_of(request)
    run_id = (await service.status(_id(request))).stream_id
    await service.runs.cancel(run_id)
    return json_answer(_told(await service.status(run_id)), 202)


def _told(status: StreamStatus) -> dict[str, Any]:
    return run_as_json(status.stream_id, status.session, status.state, status.error_code)


def _id(request: Request) -> str:
    return checked_name("a run's id", request.path_params["run"])


ROUTES = [
    Route("/runs", start, methods=["POST"]),
    Route("/runs/{run}", tell, methods=["GET"]),
    Route("/runs/{run}/events", events, methods=["GET"]),
    Route("/runs/{run}/cancel", cancel, methods=["POST"]),
]
