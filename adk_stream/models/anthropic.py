"""Models behind Anthropic's Messages API: Anthropic itself, Bedrock, Vertex AI, and servers that speak it too.

Wire facts: the anthropic package's ``types`` and Anthropic's guides to thinking, tool use and structured outputs.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from adk_stream.errors import RequestError
from adk_stream.models.client import Clients, import_extra
from adk_stream.models.content import Media, ToolResult, conversation, encodable_json, tool_result, wire_id, write_part
from adk_stream.models.settings import (
    Fields,
    ToolChoice,
    instruction,
    merged,
    output_format,
    tool_choice,
    tools,
    translate,
)

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic, AsyncAnthropicBedrock, AsyncAnthropicVertex
    from google.genai import types

    from adk_stream.models.history import UserTurn
    from adk_stream.models.request import ModelRequest
    from adk_stream.response import LlmResponse

__all__ = ["AnthropicModel", "request_body"]

_PROVIDER = "anthropic"

#: Bedrock's framing, which its client alone reads.
_AWS_EVENT_STREAM = "application/vnd.amazon.eventstream"

_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")

#: What stands before a conversation that begins with the model: the API wants the user first.
_OPENING = "…"


class AnthropicModel:
    """A model that answers on the Messages API.

    Args:
        name: The provider's name of the model.
        client: ``anthropic.AsyncAnthropic``, ``AsyncAnthropicBedrock`` or ``AsyncAnthropicVertex``. None: an
            ``AsyncAnthropic`` is made from the environment (``ANTHROPIC_API_KEY``, …) on first use.
        max_tokens: The limit where the config sets none, in tokens; the API demands one. A thinking budget is added.
        extra_body: Fields for every request that google-genai's config has no words for (``cache_control``, …).
            Objects are merged with this model's own, lists joined, None takes a field away.
        extra_headers: Headers for every request (``anthropic-beta``, …).

    Attributes:
        name: The provider's name of the model.
        provider: ``"anthropic"``.
    """

    provider = _PROVIDER

    def __init__(
        self,
        name: str,
        *,
        client: AsyncAnthropic | AsyncAnthropicBedrock | AsyncAnthropicVertex | None = None,
        max_tokens: int = 8192,
        extra_body: Mapping[str, Any] | None = None,
        extra_headers: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._clients = Clients(client, "anthropic", "AsyncAnthropic")
        self._max_tokens = max_tokens
        self._extra_body = extra_body or {}
        self._extra_headers = extra_headers

    def without_client_spans(self) -> AnthropicModel:
        """The same model, whose client does not trace its calls by itself: for whoever traces the model."""
        other = copy.copy(self)
        other._clients = self._clients.without_spans()
        return other

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
        """The answer as server-sent events, in bytes; from Bedrock as the client's own events.

        Raises:
            RequestError: the request holds what this wire does not; nothing was sent.
            MissingExtraError: a client is to be made, and ``anthropic`` is not installed.
            anthropic.AnthropicError: the client's own errors, untouched.
        """
        client = self._clients.current()
        body = merged(request_body(request, max_tokens=self._max_tokens), self._extra_body)
        answer = client.messages.with_streaming_response.create(
            model=self.name,
            max_tokens=body.pop("max_tokens"),
            messages=body.pop("messages"),
            stream=True,
            extra_body=body,
            extra_headers=self._extra_headers,
        )
        async with answer as response:
            if response.headers.get("content-type", "").startswith(_AWS_EVENT_STREAM):
                async for event in await response.parse():
                    yield event
                return
            async with aclosing(response.iter_bytes()) as pieces:
                async for piece in pieces:
                    yield piece


def request_body(request: ModelRequest, *, max_tokens: int = 8192) -> Fields:
    """The request in Anthropic's words; without ``model`` and ``stream``.

    Args:
        request: The request.
        max_tokens: The limit where the config sets none; a thinking budget is added.

    Raises:
        RequestError: it holds what this wire does not.
    """
    choice = tool_choice(request.config)
    settings = translate(request.config, _WORDS, _PROVIDER)
    limit = max_tokens + settings.get("thinking", {}).get("budget_tokens", 0)
    body: Fields = {"max_tokens": limit, "messages": _messages(request), **settings}
    told = instruction(request)
    if told is not None:
        body["system"] = told
    declared = tools(request, _PROVIDER, _tool, choice)
    if declared:
        body |= {"tools": declared, **_choice(choice)}
    wanted = output_format(request.config, _PROVIDER)
    if wanted is not None:
        body = merged(body, {"output_config": {"format": _format(wanted.schema)}})
    return body


# ----------------------------------------------------------------- settings


def _thinking(thinking: types.ThinkingConfig) -> Fields:
    """A budget is manual thinking; a level is adaptive thinking with that effort."""
    level = thinking.thinking_level.value if thinking.thinking_level is not None else "THINKING_LEVEL_UNSPECIFIED"
    budget = thinking.thinking_budget
    fields: Fields = {}
    if level in _EFFORTS:
        fields = {"thinking": {"type": "adaptive"}, "output_config": {"effort": _EFFORTS[level]}}
    elif budget == 0:
        return {"thinking": {"type": "disabled"}}
    elif budget is not None and budget > 0:
        fields = {"thinking": {"type": "enabled", "budget_tokens": budget}}
    elif budget is not None or thinking.include_thoughts:
        fields = {"thinking": {"type": "adaptive"}}
    if fields and thinking.include_thoughts is not None:
        fields["thinking"]["display"] = "summarized" if thinking.include_thoughts else "omitted"
    return fields


_EFFORTS = {"MINIMAL": "low", "LOW": "low", "MEDIUM": "medium", "HIGH": "high", "XHIGH": "xhigh"}

_TIERS = {"standard": "standard_only", "priority": "auto"}


def _service_tier(tier: types.ServiceTier) -> Fields:
    if tier.value == "flex":
        raise RequestError("Anthropic has no service tier 'flex'")
    return {"service_tier": _TIERS[tier.value]} if tier.value in _TIERS else {}


_WORDS: Mapping[str, str | Callable[[Any], Fields]] = {
    "max_output_tokens": "max_tokens",
    "service_tier": _service_tier,
    "stop_sequences": "stop_sequences",
    "temperature": "temperature",
    "thinking_config": _thinking,
    "top_k": lambda most: {"top_k": int(most)},
    "top_p": "top_p",
}


def _format(schema: Fields | None) -> Fields:
    """The schema in the subset that the API compiles; the client's own function says what goes into words instead."""
    if schema is None:
        raise RequestError("Anthropic answers in JSON to a schema only: set response_schema too")
    return {"type": "json_schema", "schema": import_extra("anthropic", "anthropic").transform_schema(schema)}


def _tool(function: types.FunctionDeclaration) -> Fields:
    from adk_stream.models.declarations import json_schema

    told = {"name": function.name, "input_schema": json_schema(function)}
    return told if function.description is None else {**told, "description": function.description}


def _choice(choice: ToolChoice) -> Fields:
    if choice.mode == "any" and len(choice.names) == 1:
        return {"tool_choice": {"type": "tool", "name": choice.names[0]}}
    return {"tool_choice": {"type": choice.mode}} if choice.mode != "auto" else {}


# ----------------------------------------------------------------- messages


def _messages(request: ModelRequest) -> list[Fields]:
    from adk_stream.models.history import UserTurn
    from adk_stream.providers import to_native

    messages: list[Fields] = []
    for turn in conversation(request):
        if isinstance(turn, UserTurn):
            content = _of_user(turn)
            role = "user"
        else:
            content = _sendable(to_native(turn.responses, _PROVIDER)["content"], turn.responses)
            role = "assistant"
        if content:
            messages.append({"role": role, "content": content})
    if messages and messages[0]["role"] == "assistant":
        messages.insert(0, {"role": "user", "content": _OPENING})
    return messages


def _sendable(blocks: list[Fields], responses: Sequence[LlmResponse]) -> list[Fields]:
    """The model's blocks as the API takes them back.

    What a cut left behind is refused: thinking without its signature, thinking that led to nothing, and in a turn
    that did not come to its end a server's tool without result.
    """
    answered = {block["tool_use_id"] for block in blocks if "tool_use_id" in block}
    ended = responses[-1].native_finish_reason is not None
    kept = [
        _call(block) if block["type"] == "tool_use" else block
        for block in blocks
        if not (block["type"] == "thinking" and block.get("signature") == "")
        and (ended or block["type"] == "tool_use" or not _is_open(block, answered))
    ]
    while kept and kept[-1]["type"] in ("thinking", "redacted_thinking"):
        kept.pop()
    return kept


def _is_open(block: Fields, answered: set[str]) -> bool:
    return block["type"].endswith("_tool_use") and block.get("id") not in answered


def _call(block: Fields) -> Fields:
    """A call of any provider, such that the request can hold it."""
    return {**block, "id": _id(block["id"]), "input": encodable_json(block["input"])}


def _id(id: str | None) -> str:
    return wire_id(id, 64, "a-zA-Z0-9_-")


def _of_user(turn: UserTurn) -> list[Fields]:
    """All results of one turn in one message, before anything else."""
    results = [_result(tool_result(response)) for response in turn.results]
    return results + [write_part(part, _PROVIDER, "text", _media) for part in turn.said]


def _result(result: ToolResult) -> Fields:
    content: Any = result.text
    if result.media:
        content = [{"type": "text", "text": result.text}, *map(_media, result.media)]
    block = {"type": "tool_result", "tool_use_id": _id(result.call_id), "content": content}
    return {**block, "is_error": True} if result.failed else block


def _media(media: Media) -> Fields:
    inline = media.data is not None
    if media.mime_type in _IMAGES or (media.kind == "image" and not inline):
        return {"type": "image", "source": _source(media)}
    if media.mime_type == "application/pdf":
        return {"type": "document", "source": _source(media)}
    if media.kind == "text" and inline:
        return {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": media.text}}
    if media.uri.startswith("file_"):
        return {"type": "document", "source": _source(media)}
    raise media.refused(_PROVIDER)


def _source(media: Media) -> Fields:
    if media.data is not None:
        return {"type": "base64", "media_type": media.mime_type, "data": media.base64}
    if media.is_on_the_web:
        return {"type": "url", "url": media.uri}
    if media.uri.startswith("file_"):
        return {"type": "file", "file_id": media.uri}
    raise media.refused(_PROVIDER)
