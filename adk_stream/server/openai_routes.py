"""OpenAI's Chat Completions in front of any model: ``POST /v1/chat/completions``, ``GET /v1/models``.

The client holds the conversation and runs its own tools; there is no session. When it leaves, the model's connection
is closed. An error that comes before anything was shown is an HTTP error, so that the client's own retries work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from adk_stream.encoders import OpenAIChatEncoder
from adk_stream.encoders.protocol import DONE
from adk_stream.errors import AdkStreamError, ProviderError, RequestError, StreamTimeoutError
from adk_stream.execution import execute

from .answers import json_answer
from .limits import read_model
from .openai_messages import ChatCompletion, model_request
from .problems import Problem
from .service import Service, service_of

if TYPE_CHECKING:
    from adk_stream.response import LlmResponse

__all__ = ["ROUTES"]

_T = TypeVar("_T")

_log = logging.getLogger("adk_stream.server")


async def models(request: Request) -> Response:
    """``GET /v1/models``."""
    told = {"object": "model", "created": 0, "owned_by": "adk-stream"}
    data = [{"id": name, **told} for name in service_of(request).agents.names]
    return json_answer({"object": "list", "data": data})


async def complete(request: Request) -> Response:
    """``POST /v1/chat/completions``."""
    service = service_of(request)
    asked = await read_model(request, service.config.limits, ChatCompletion)
    wants_usage = bool(asked.stream_options and asked.stream_options.include_usage)
    encoder = OpenAIChatEncoder(asked.model, include_usage=wants_usage or not asked.stream)
    answer = _answer(service, asked)
    if not asked.stream:
        chunks = await _unless_left(request, _all(answer, encoder))
        return json_answer(_completion(chunks))
    try:
        first = await _unless_left(request, anext(answer))
    except BaseException:
        await answer.aclose()
        raise
    return service.stream(_frames(first, answer, encoder), encoder.headers)


async def _answer(service: Service, asked: ChatCompletion) -> AsyncGenerator[LlmResponse, None]:
    """The model's responses.

    Raises:
        Problem: the model failed before it said anything.
    """
    model = service.agents.model(asked.model)
    question = model_request(asked)
    with service.runs.slots.taken():
        responses = execute(lambda: model.stream(question), service.config.execution, provider=model.provider)
        async with aclosing(responses):
            shown = False
            try:
                async for response in responses:
                    if not shown and response.status == "failed":
                        async for _ in responses:  # raises what the model's client raised
                            pass
                        raise ProviderError(response.error_code, response.error_message)
                    shown = True
                    yield response
            except AdkStreamError as error:
                if shown:
                    raise
                raise _problem(error) from error


def _problem(error: AdkStreamError) -> Problem:
    """The HTTP error of a model that failed: the provider's own status where the client can do something about it."""
    if isinstance(error, ProviderError):
        status = error.status if error.status is not None and 400 <= error.status < 500 else 502
        headers = {} if error.retry_after is None else {"retry-after": f"{error.retry_after:.0f}"}
        status = 502 if status in (401, 403) else status  # the service's key, not the client's
        return Problem(status, str(error), headers=headers)
    status = 504 if isinstance(error, StreamTimeoutError) else 400 if isinstance(error, RequestError) else 502
    return Problem(status, str(error))


async def _frames(
    first: LlmResponse, rest: AsyncGenerator[LlmResponse, None], encoder: OpenAIChatEncoder
) -> AsyncGenerator[bytes, None]:
    """The chunks of a stream whose first response is there already."""
    error: Exception | None = None
    async with aclosing(rest):
        yield _framed(encoder, encoder.encode(first))
        try:
            async for response in rest:
                if frame := _framed(encoder, encoder.encode(response)):
                    yield frame
        except AdkStreamError as problem:
            error = problem
        except Exception:
            _log.exception("a model failed in mid-stream")
            error = AdkStreamError("the model failed")
    yield _framed(encoder, encoder.finish(error))


def _framed(encoder: OpenAIChatEncoder, events: list[Any]) -> bytes:
    return b"".join(map(encoder.frame, events))


# ------------------------------------------------------------- an answer that is not streamed


async def _all(answer: AsyncGenerator[LlmResponse, None], encoder: OpenAIChatEncoder) -> list[Any]:
    async with aclosing(answer):
        try:
            events = [event async for response in answer for event in encoder.encode(response)]
        except AdkStreamError as error:
            raise _problem(error) from error
    return events + encoder.finish()


def _completion(chunks: list[Any]) -> dict[str, Any]:
    """The chunks of a whole answer as one ``chat.completion``.

    Raises:
        Problem: 502, the answer ended in an error.
    """
    texts: dict[str, list[str]] = {"content": [], "reasoning_content": []}
    calls: list[tuple[dict[str, Any], list[str]]] = []
    told: dict[str, Any] = {}
    reason: str | None = None
    for chunk in chunks:
        if chunk == DONE:
            continue
        if "error" in chunk:
            raise Problem(502, chunk["error"]["message"], members={"error": chunk["error"]})
        told |= {name: chunk[name] for name in ("id", "created", "model", "usage") if name in chunk}
        for choice in chunk["choices"]:
            reason = choice["finish_reason"] or reason
            _add(choice["delta"], texts, calls)
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts.pop("content")) or None}
    message |= {name: "".join(pieces) for name, pieces in texts.items() if pieces}
    if calls:
        message["tool_calls"] = [
            {"id": call["id"], "type": "function", "function": {**call["function"], "arguments": "".join(pieces)}}
            for call, pieces in calls
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
    return {**told, "object": "chat.completion", "choices": [choice]}


def _add(delta: dict[str, Any], texts: dict[str, list[str]], calls: list[tuple[dict[str, Any], list[str]]]) -> None:
    for name, pieces in texts.items():
        if delta.get(name):
            pieces.append(delta[name])
    for piece in delta.get("tool_calls", ()):
        if "id" in piece:
            calls.append((piece, []))
        else:
            calls[piece["index"]][1].append(piece["function"]["arguments"])


# ------------------------------------------------------------- a client that leaves


async def _unless_left(request: Request, work: Coroutine[Any, Any, _T]) -> _T:
    """What ``work`` gives; it is cancelled when the client leaves.

    Raises:
        Problem: 408, the client has left; nobody reads it.
    """
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait([task, watch], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Problem(408, "the client has left")
        return task.result()
    finally:
        watch.cancel()
        task.cancel()
        await asyncio.wait([task, watch])


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


ROUTES = [
    Route("/v1/models", models, methods=["GET"]),
    Route("/v1/chat/completions", complete, methods=["POST"]),
]
