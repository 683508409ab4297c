"""Models behind OpenAI's Responses API.

Wire facts: the openai package's ``types/responses``. Conversations are sent whole each time and nothing is kept at
the provider, unless that is asked for; so reasoning comes encrypted, and goes back as it came.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from adk_stream.models.client import Clients
from adk_stream.models.content import Media, ToolResult, conversation, tool_result, wire_id, write_part
from adk_stream.models.openai_words import effort, schema_format, service_tier
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
from adk_stream.parts import encodable

if TYPE_CHECKING:
    from google.genai import types
    from openai import AsyncOpenAI

    from adk_stream.models.history import UserTurn
    from adk_stream.models.request import ModelRequest

__all__ = ["OpenAIResponsesModel", "request_body"]

_PROVIDER = "openai-responses"

_LONGEST_ID = 64

#: The models without reasoning, which refuse to be asked for it encrypted. All newer ones reason.
_WITHOUT_REASONING = ("gpt-3", "gpt-4", "chatgpt-4", "gpt-5-chat")


class OpenAIResponsesModel:
    """A model that answers on the Responses API.

    Args:
        name: The provider's name of the model.
        client: ``openai.AsyncOpenAI`` or ``AsyncAzureOpenAI``. None: one is made from the environment
            (``OPENAI_API_KEY``, ``OPENAI_BASE_URL``) on first use.
        store: Whether the provider keeps the responses; the config's ``store`` goes before.
        encrypted_reasoning: Whether to ask for reasoning in encrypted form, so that it can be sent back. None: if
            the provider keeps nothing and the model reasons.
        extra_body: Fields for every request that google-genai's config has no words for. Objects are merged with
            this model's own, lists joined, None takes a field away.
        extra_headers: Headers for every request.

    Attributes:
        name: The provider's name of the model.
        provider: ``"openai-responses"``.
    """

    provider = _PROVIDER

    def __init__(
        self,
        name: str,
        *,
        client: AsyncOpenAI | None = None,
        store: bool = False,
        encrypted_reasoning: bool | None = None,
        extra_body: Mapping[str, Any] | None = None,
        extra_headers: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._clients = Clients(client, "openai", "AsyncOpenAI")
        self._store = store
        self._encrypted = encrypted_reasoning
        self._extra_body = extra_body or {}
        self._extra_headers = extra_headers

    async def stream(self, request: ModelRequest) -> AsyncGenerator[bytes, None]:
        """The answer as server-sent events, in bytes.

        Raises:
            RequestError: the request holds what this wire does not; nothing was sent.
            MissingExtraError: a client is to be made, and ``openai`` is not installed.
            openai.OpenAIError: the client's own errors, untouched.
        """
        client = self._clients.current()
        stored = request.config.store if request.config is not None else None
        stored = self._store if stored is None else stored
        encrypted = self._encrypted
        if encrypted is None:
            encrypted = not stored and not self.name.startswith(_WITHOUT_REASONING)
        body = merged(request_body(request, stored=stored, encrypted=encrypted), self._extra_body)
        answer = client.responses.with_streaming_response.create(
            model=self.name, input=[], stream=True, extra_body=body, extra_headers=self._extra_headers
        )
        async with answer as response, aclosing(response.iter_bytes()) as pieces:
            async for piece in pieces:
                yield piece


def request_body(request: ModelRequest, *, stored: bool = False, encrypted: bool = True) -> Fields:
    """The request in OpenAI's words; without ``model`` and ``stream``.

    Args:
        request: The request.
        stored: Whether the provider keeps the responses.
        encrypted: Whether to ask for reasoning in encrypted form.

    Raises:
        RequestError: it holds what this wire does not.
    """
    told = instruction(request)
    body: Fields = {"input": _input(request, stored), "store": stored}
    if told is not None:
        body["instructions"] = told
    if encrypted:
        body["include"] = ["reasoning.encrypted_content"]
    body = merged(body, translate(request.config, _WORDS, _PROVIDER))
    declared = tools(request, _PROVIDER, _tool)
    if declared:
        body |= {"tools": declared, **_choice(tool_choice(request.config))}
    wanted = output_format(request.config, _PROVIDER)
    if wanted is not None:
        form = {"type": "json_object"} if wanted.schema is None else {"type": "json_schema", **schema_format(wanted)}
        body["text"] = {"format": form}
    return body


# ----------------------------------------------------------------- settings


def _thinking(thinking: types.ThinkingConfig) -> Fields:
    told = effort(thinking)
    reasoning = {"effort": told} if told is not None else {}
    if thinking.include_thoughts:
        reasoning["summary"] = "auto"
    return {"reasoning": reasoning} if reasoning else {}


_WORDS: Mapping[str, str | Callable[[Any], Fields]] = {
    "labels": "metadata",
    "logprobs": lambda most: {"top_logprobs": most},
    "max_output_tokens": "max_output_tokens",
    "response_logprobs": lambda wanted: {"include": ["message.output_text.logprobs"]} if wanted else {},
    "service_tier": service_tier,
    "store": "store",
    "temperature": "temperature",
    "thinking_config": _thinking,
    "top_p": "top_p",
}


def _tool(function: types.FunctionDeclaration) -> Fields:
    from adk_stream.models.declarations import json_schema

    # without "strict" the API makes every parameter required
    told = {"type": "function", "name": function.name, "parameters": json_schema(function), "strict": False}
    return told if function.description is None else {**told, "description": function.description}


def _choice(choice: ToolChoice) -> Fields:
    if choice.mode == "none":
        return {"tool_choice": "none"}
    allowed = [{"type": "function", "name": name} for name in choice.names]
    word = "required" if choice.mode == "any" else "auto"
    if not allowed:
        return {"tool_choice": word} if choice.mode == "any" else {}
    if len(allowed) == 1 and choice.mode == "any":
        return {"tool_choice": allowed[0]}
    return {"tool_choice": {"type": "allowed_tools", "mode": word, "tools": allowed}}


# ----------------------------------------------------------------- input items


def _input(request: ModelRequest, stored: bool) -> list[Fields]:
    from adk_stream.models.history import UserTurn
    from adk_stream.providers import to_native

    items: list[Fields] = []
    custom: set[str] = set()
    for turn in conversation(request):
        if isinstance(turn, UserTurn):
            items += _of_user(turn, custom)
            continue
        said = _sendable(to_native(turn.responses, _PROVIDER), stored)
        custom = {item["call_id"] for item in said if item.get("type") == "custom_tool_call"}
        items += said
    return items


def _sendable(items: list[Fields], stored: bool) -> list[Fields]:
    """The model's items as the API takes them back.

    Reasoning without its encrypted content is a mere reference to what the provider keeps; where it keeps nothing
    that cannot be followed, nor can ids of items that were made along with it. Reasoning that led to nothing is
    refused.
    """
    kept = [item for item in items if stored or item.get("type") != "reasoning" or item.get("encrypted_content")]
    if len(kept) < len(items):
        kept = [{key: value for key, value in item.items() if key != "id"} for item in kept]
    while kept and kept[-1].get("type") == "reasoning":
        kept.pop()
    return [_call(item) if "call_id" in item else item for item in kept]


def _call(item: Fields) -> Fields:
    """A call of any provider, such that the request can hold it."""
    call = {**item, "call_id": wire_id(item["call_id"], _LONGEST_ID)}
    return {**call, "arguments": encodable(item["arguments"])} if "arguments" in item else call


def _of_user(turn: UserTurn, custom: set[str]) -> list[Fields]:
    """One item for each result, then one message, if anything is left to say."""
    items = [_result(tool_result(response), custom) for response in turn.results]
    content = [write_part(part, _PROVIDER, "input_text", _media) for part in turn.said]
    return [*items, {"type": "message", "role": "user", "content": content}] if content else items


def _result(result: ToolResult, custom: set[str]) -> Fields:
    call_id = wire_id(result.call_id, _LONGEST_ID)
    output: Any = result.text
    if result.media:
        output = [{"type": "input_text", "text": result.text}, *map(_media, result.media)]
    kind = "custom_tool_call_output" if call_id in custom else "function_call_output"
    return {"type": kind, "call_id": call_id, "output": output}


def _media(media: Media) -> Fields:
    inline = media.data is not None
    uploaded = media.uri.startswith("file-")
    if media.kind == "image" and (inline or media.is_on_the_web):
        return {"type": "input_image", "detail": "auto", "image_url": media.data_url if inline else media.uri}
    if media.kind == "image" and uploaded:
        return {"type": "input_image", "detail": "auto", "file_id": media.uri}
    if media.kind == "text" and inline:
        return {"type": "input_text", "text": media.text}
    if media.kind == "application" and inline:
        return {"type": "input_file", "filename": media.filename, "file_data": media.data_url}
    if uploaded:
        return {"type": "input_file", "file_id": media.uri}
    if media.kind in ("application", "text") and media.is_on_the_web:
        return {"type": "input_file", "file_url": media.uri}
    raise media.refused(_PROVIDER)
