"""The live path: ``WS /run_live``, as google-adk's api_server has it.

The query names ``app_name``, ``user_id``, ``session_id`` and ``modalities`` (``AUDIO``, which may be left out, or
``TEXT``). The client sends requests as JSON texts: ``content``, ``blob``, ``activityStart``, ``activityEnd``,
``close``. It gets google-adk's events. The connection is the conversation: when the client leaves, it is over, and
what had come is stored. Codes it may be closed with: 1000 it is over, 1002 no such session, 1007 a request that is
none, 1008 it may not be had, 1011 the model failed, 1013 later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from google.genai import types
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from adk_stream.encoders import AdkEncoder
from adk_stream.encoders.protocol import dumps
from adk_stream.errors import AdkStreamError
from adk_stream.runner import LiveRequestQueue

from .messages import UserContent
from .problems import Problem, problem_of
from .service import Service, service_of

if TYPE_CHECKING:
    from adk_stream.runner import LiveRun
    from adk_stream.sessions.stored import SessionKey

__all__ = ["ROUTES", "LiveRequest"]

_log = logging.getLogger("adk_stream.server")

_OVER, _NO_SESSION, _NO_REQUEST, _REFUSED, _FAILED, _LATER = 1000, 1002, 1007, 1008, 1011, 1013

#: Close codes of what is refused before the conversation begins; others are ``_REFUSED``.
_CODES: Mapping[int, int] = {404: _NO_SESSION, 429: _LATER, 503: _LATER}

#: Bytes of a reason (RFC 6455 section 5.5).
_MAX_REASON = 123


class LiveRequest(BaseModel):
    """One request of the client."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")

    content: UserContent | None = None
    blob: types.Blob | None = None
    activity_start: dict[str, Any] | None = None
    activity_end: dict[str, Any] | None = None
    close: bool = False


async def run_live(websocket: WebSocket) -> None:
    """``WS /run_live``."""
    await websocket.accept()
    try:
        code, reason = await _converse(websocket, service_of(websocket))
    except WebSocketDisconnect:
        return
    except Exception as error:
        code, reason = _code_of(error), _reason_of(error)
    await _close(websocket, code, reason)


async def _converse(websocket: WebSocket, service: Service) -> tuple[int, str]:
    """The conversation, and how it ended."""
    key = _key(websocket, service)
    await service.session(key, service.NO_EVENTS)
    requests = LiveRequestQueue()
    modality = websocket.query_params.get("modalities", "AUDIO")
    run = service.agents.runner(key.app_name).run_live(
        user_id=key.user_id,
        session_id=key.session_id,
        live_requests=requests,
        config={"response_modalities": [modality]},
        playback=False,
    )
    with service.runs.live(key, run):
        telling = asyncio.create_task(_tell(websocket, run, service))
        listening = asyncio.create_task(_listen(websocket, requests))
        try:
            await asyncio.wait([telling, listening], return_when=asyncio.FIRST_COMPLETED)
        finally:
            listening.cancel()
            await run.cancel()
            outcomes = await asyncio.gather(listening, telling, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
    return _OVER, ""


def _key(websocket: WebSocket, service: Service) -> SessionKey:
    query = websocket.query_params
    if query.get("modalities", "AUDIO") not in ("AUDIO", "TEXT"):
        raise Problem(422, "modalities is AUDIO or TEXT")
    return service.key(
        service.agents.name(query.get("app_name")), query.get("user_id", ""), query.get("session_id", "")
    )


async def _tell(websocket: WebSocket, run: LiveRun, service: Service) -> None:
    """Send the events. A client that takes none for too long is left."""
    encoder = AdkEncoder()
    async with aclosing(run) as events:
        async for event in events:
            for each in encoder.encode(event):
                async with asyncio.timeout(service.config.limits.send_timeout):
                    await websocket.send_text(dumps(each))


async def _listen(websocket: WebSocket, requests: LiveRequestQueue) -> None:
    """Take the client's requests until it leaves.

    Raises:
        WebSocketDisconnect: it has left.
        ValueError: a request is none.
    """
    while True:
        request = LiveRequest.model_validate_json(await websocket.receive_text())
        if request.content is not None:
            requests.send_content(request.content)
        if request.blob is not None:
            requests.send_realtime(request.blob)
        if request.activity_start is not None:
            requests.send_activity_start()
        if request.activity_end is not None:
            requests.send_activity_end()
        if request.close:
            requests.close()


def _code_of(error: Exception) -> int:
    if isinstance(error, (ValidationError, KeyError)):  # a frame of bytes has no text
        return _NO_REQUEST
    problem = problem_of(error)
    return _FAILED if problem is None else _CODES.get(problem.status, _REFUSED)


def _reason_of(error: Exception) -> str:
    if isinstance(error, (ValidationError, KeyError)):
        return "a request cannot be read"
    if isinstance(error, (AdkStreamError, Problem)):
        return str(error)
    _log.error("a live conversation failed", exc_info=error)
    return "the service failed"


async def _close(websocket: WebSocket, code: int, reason: str) -> None:
    try:
        await websocket.close(code, reason.encode()[:_MAX_REASON].decode(errors="ignore"))
    except (RuntimeError, WebSocketDisconnect):  # the client was quicker
        pass


ROUTES = [WebSocketRoute("/run_live", run_live)]
