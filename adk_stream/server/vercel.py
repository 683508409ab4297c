"""Vercel's AI SDK: the ``api`` of a ``DefaultChatTransport`` is ``/vercel/{app}``.

::

    POST /vercel/{app}                 {id, messages, trigger}: the run's UI message stream
    GET  /vercel/{app}/{chat}/stream   the run of that chat that goes on, from its beginning; 204: there is none

The chat is the session's id, the user is the query's ``user_id``. A client that leaves does not end the run; to end
it, cancel the run that the header ``x-run-id`` names.
"""

from __future__ import annotations

from typing import Any, Literal

from google.genai import types
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from adk_stream.encoders import VercelEncoder
from adk_stream.sessions.stored import SessionKey

from .limits import Name, read_model
from .messages import file_part, result_part
from .problems import Problem
from .service import RUN_ID, Service, service_of
from .threads import new_message

__all__ = ["ROUTES", "Chat"]


class _Sent(BaseModel):
    """The SDK adds fields from version to version, and applications add their own."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")


class _Part(_Sent):
    """A part of a message: of the many kinds those fields that are read here."""

    type: str
    text: str = ""
    url: str = ""
    media_type: str | None = None
    filename: str | None = None
    tool_call_id: str = ""
    tool_name: str | None = None
    state: str = ""
    output: Any = None
    error_text: str = ""


class _Message(_Sent):
    role: Literal["system", "user", "assistant"]
    parts: list[_Part]


class Chat(_Sent):
    """What the SDK sends."""

    id: Name
    messages: list[_Message] = Field(min_length=1)
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"


async def run(request: Request) -> Response:
    """``POST /vercel/{app}``."""
    service = service_of(request)
    asked = await read_model(request, service.config.limits, Chat)
    if asked.trigger != "submit-message":
        raise Problem(422, "a session keeps what was said: an answer cannot be made anew")
    key = _key(service, request, asked.id)
    last = asked.messages[-1]
    said = [part for each in last.parts for part in _said(each)] if last.role == "user" else []
    results = [part for message in asked.messages[-2:] for each in message.parts for part in _results(each)]
    message = new_message(await service.session_or_new(key), results, said)
    return await service.answer(key, message, VercelEncoder)


async def resume(request: Request) -> Response:
    """``GET /vercel/{app}/{chat}/stream``."""
    service = service_of(request)
    run_id = await service.runs.of_session(_key(service, request, request.path_params["chat"]))
    if run_id is None:
        return Response(status_code=204)
    encoder = VercelEncoder(run_id)
    return service.stream(service.frames(run_id, encoder), {**encoder.headers, RUN_ID: run_id})


def _key(service: Service, request: Request, chat: str) -> SessionKey:
    return service.key(request.path_params["app"], request.query_params.get("user_id", "user"), chat)


def _said(part: _Part) -> list[types.Part]:
    if part.type == "text" and part.text:
        return [types.Part(text=part.text)]
    if part.type == "file":
        return [file_part(part.url, part.media_type, part.filename)]
    return []


def _results(part: _Part) -> list[types.Part]:
    """The result of a call that the front end ran."""
    if part.state not in ("output-available", "output-error") or not part.tool_call_id:
        return []
    output = part.output if part.state == "output-available" else {"error": part.error_text}
    return [result_part(part.tool_call_id, part.tool_name, output)]


ROUTES = [
    Route("/vercel/{app}", run, methods=["POST"]),
    Route("/vercel/{app}/{chat}/stream", resume, methods=["GET"]),
]
