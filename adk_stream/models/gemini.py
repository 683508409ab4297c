"""Gemini, by Google's official client, with an API key or on Vertex AI.

The conversation goes in as the wire's own JSON and the answer comes out as the bytes that came. google-genai's types
are strict on both ways: they refuse fields of a part that they do not know yet, and validating an answer costs ten
times what this package's reader does. The way in is public (``extra_body``). The way out is not, see ``_RawAnswer``;
where it is not to be had, the client's own typed stream is what comes.

Wire facts: Gemini API reference, ``models.streamGenerateContent``; function calling, "thought signatures".
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from adk_stream.errors import RequestError
from adk_stream.models.declarations import sort_tools
from adk_stream.models.history import ModelTurn, turns
from adk_stream.parts import MADE_ID_PREFIX
from adk_stream.providers import to_native

if TYPE_CHECKING:
    from google import genai
    from google.genai import types

    from adk_stream.models.history import Turn
    from adk_stream.models.request import ModelRequest

__all__ = ["GeminiModel"]


class GeminiModel:
    """A model of Google's.

    Settings go to the client as they are; its automatic function calling, retries and continuations are off, since
    what runs, and what is tried again, is decided above the models. A client's own ``extra_body`` gives way: put it
    into ``config.http_options``.

    Args:
        name: The model, as the client takes it: ``gemini-…``, ``models/…``, ``publishers/…``, ``projects/…``.
        client: A google-genai client; it stays the caller's to close. As many streams as it may have connections run at
            once, a hundred unless it was told otherwise; further ones wait. None: one is made from the environment
            (``GOOGLE_API_KEY`` or ``GEMINI_API_KEY``, or Vertex AI's variables) on first use, and kept, one for each
            event loop, since open connections belong to the loop that they were made in.

    Attributes:
        name: The model.
        provider: ``"gemini"``.
    """

    provider = "gemini"

    def __init__(self, name: str, *, client: genai.Client | None = None) -> None:
        self.name = name
        self._given = client
        self._made: WeakKeyDictionary[asyncio.AbstractEventLoop, genai.Client] = WeakKeyDictionary()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
        """Ask once; ``Model`` tells the rest.

        Raises:
            RequestError: a tool that is another provider's own.
            ValueError: two tools have one name, or one cannot be described; the client's own, where it finds no key.
            google.genai.errors.APIError: the answer is an error.
        """
        # the local name keeps the client alive: one that is collected closes its connections, this stream's too
        client = self._client()
        models, raw = _raw_models(client)
        chunks = await models.generate_content_stream(
            model=self.name, contents=_PLACEHOLDER, config=_config(request, _contents(request))
        )
        async with aclosing(chunks):
            async for chunk in chunks:
                yield chunk
        if raw is not None:
            async with aclosing(raw.pieces()) as pieces:
                async for piece in pieces:
                    yield piece

    def connect_live(self, config: types.LiveConnectConfig) -> AbstractAsyncContextManager[Any]:
        """Google's own session on the Live API; ``adk_stream.live`` reads it.

        Raises (when entered):
            google.genai.errors.APIError: the server closes the connection at once; and whatever a connection raises.
        """
        return self._client().aio.live.connect(model=self.name, config=config)

    def _client(self) -> genai.Client:
        if self._given is not None:
            return self._given
        from google import genai

        loop = asyncio.get_running_loop()
        if loop not in self._made:
            self._made[loop] = genai.Client(http_options=_any_number_of_streams())
        return self._made[loop]


def _any_number_of_streams() -> types.HttpOptions:
    """Google's client keeps the HTTP library's limit of 100 connections: further streams would wait, and nobody tell.

    Only httpx and httpx2 read this, by its attributes; a limit of either one's own class would choose that library.
    """
    from google.genai import types

    limits = SimpleNamespace(max_connections=None, max_keepalive_connections=100, keepalive_expiry=5.0)
    return types.HttpOptions(async_client_args={"limits": limits})


# ----------------------------------------------------------------- the question

#: What the client validates in the place of the conversation.
_PLACEHOLDER = "-"


def _contents(request: ModelRequest) -> list[dict[str, Any]]:
    """The conversation on Gemini's wire. A turn of another provider that comes to nothing here is left out."""
    contents = [content for turn in turns(request.messages) if (content := _content(turn))["parts"]]
    if not contents:
        raise RequestError("there is nothing to ask: no message holds anything that can be sent")
    return contents


def _content(turn: Turn) -> dict[str, Any]:
    if isinstance(turn, ModelTurn):
        content: dict[str, Any] = to_native(turn.responses, GeminiModel.provider)
        return content
    from google.genai import types

    from adk_stream.response import LlmResponse

    parts = types.Content(role="user", parts=turn.parts)
    content = to_native(LlmResponse(content=parts), GeminiModel.provider)
    return {"role": "user", "parts": [_without_made_id(part) for part in content["parts"]]}


def _without_made_id(part: dict[str, Any]) -> dict[str, Any]:
    """A result of a call that came without an id goes back without one too."""
    result = part.get("functionResponse")
    if result is None or not str(result.get("id", "")).startswith(MADE_ID_PREFIX):
        return part
    return {**part, "functionResponse": {key: value for key, value in result.items() if key != "id"}}


def _config(request: ModelRequest, contents: list[dict[str, Any]]) -> types.GenerateContentConfig:
    """The request's own config, with what this package decides put in."""
    from google.genai import types

    given = request.config or types.GenerateContentConfig()
    options = given.http_options or types.HttpOptions()
    changes: dict[str, Any] = {
        "tools": _tools([*(given.tools or ()), *request.tools]) or None,
        "automatic_function_calling": types.AutomaticFunctionCallingConfig(disable=True),
        "http_options": options.model_copy(
            update={
                "extra_body": {**(options.extra_body or {}), "contents": contents},
                "retry_options": types.HttpRetryOptions(attempts=1),
            }
        ),
    }
    if request.system_instruction is not None:
        changes["system_instruction"] = request.system_instruction
    if "automatic_continuation" in types.GenerateContentConfig.model_fields:  # since google-genai 3
        changes["automatic_continuation"] = False
    return given.model_copy(update=changes)


def _tools(tools: list[Any]) -> list[types.Tool]:
    """All functions in one Tool, then what Google runs itself.

    Raises:
        RequestError: a tool in another provider's words.
    """
    from google.genai import types

    functions, native = sort_tools(tools)
    own = [tool for tool in native if isinstance(tool, types.Tool)]
    if len(own) != len(native):
        strange = next(tool for tool in native if not isinstance(tool, types.Tool))
        raise RequestError(f"gemini has no such tool: {strange!r:.200}")
    return [types.Tool(function_declarations=functions), *own] if functions else own


# ----------------------------------------------------------------- the answer


def _raw_models(client: Any) -> tuple[Any, _RawAnswer | None]:
    """The client's async models, such that a stream's answer is kept aside unparsed; as they are where that fails."""
    from google.genai import models

    api = getattr(client, "_api_client", None)
    streams = getattr(type(api), "async_request_streamed", None)
    # a subclass that answers by other means (google-genai's own replays) is left to do so
    known = getattr(streams, "__module__", None) == "google.genai._api_client"
    if not (known and hasattr(api, "_build_request") and hasattr(api, "_async_request")):
        return client.aio.models, None
    raw = _RawAnswer(api)
    return models.AsyncModels(raw), raw  # type: ignore[arg-type]  # in the place of the API client


class _RawAnswer:
    """Stands in for the client's API client during one stream, and keeps the HTTP answer for itself.

    Everything else is the API client's own: URL, headers, credentials, connections, and errors of HTTP. This is
    private to google-genai (``_build_request``, ``_async_request``, ``HttpResponse.response_stream``); a test notices
    when it moves.
    """

    def __init__(self, api: Any) -> None:
        self._api = api
        self._answer: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    async def async_request_streamed(self, method: str, path: str, body: dict[str, Any], options: Any = None) -> Any:
        """Send the request; the events that the client then sees are none."""
        request = self._api._build_request(method, path, body, options)
        answer = await self._api._async_request(http_request=request, http_options=options, stream=True)
        self._answer = answer.response_stream
        return _nothing()

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """The answer's bytes as they come, unpacked where they were packed; closing this closes the connection."""
        answer = self._answer
        if answer is None:  # the client went another way: its chunks have come already
            return
        if hasattr(answer, "aiter_bytes"):  # httpx, httpx2
            reads, close = answer.aiter_bytes(), answer.aclose
        else:  # aiohttp
            reads, close = answer.content.iter_any(), _closer(answer)
        try:
            async for piece in reads:
                yield piece
        finally:
            await close()


def _closer(answer: Any) -> Any:
    async def close() -> None:
        answer.close()

    return close


async def _nothing() -> AsyncIterator[Any]:
    return
    yield
