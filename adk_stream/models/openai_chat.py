"""Models behind Chat Completions: OpenAI, Azure, and the many servers that speak it too.

Wire facts: the openai package's ``types/chat``. OpenAI itself and compatible servers part ways in few settings, so
there are two tables. In part the wire is narrower than a conversation: results of tools are text, so files that came
with them follow in a message of the user; and most servers know no list of allowed tools, so the others are not sent.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from adk_stream.errors import RequestError
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

if TYPE_CHECKING:
    from google.genai import types
    from openai import AsyncOpenAI

    from adk_stream.models.history import UserTurn
    from adk_stream.models.request import ModelRequest

__all__ = ["OpenAIChatModel", "request_body"]

_PROVIDER = "openai-chat"

#: Where OpenAI's own service is, Azure's included.
_OPENAI_HOSTS = (".openai.com", ".azure.com", ".azure-api.net")

#: The longest id of a call that OpenAI takes; other servers have no such limit.
_LONGEST_ID = 40

_AUDIO_FORMATS = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}


class OpenAIChatModel:
    """A model that answers on Chat Completions.

    Args:
        name: The provider's name of the model.
        client: ``openai.AsyncOpenAI``, ``AsyncAzureOpenAI``, or one with the base URL of a compatible server. None:
            one is made from the environment (``OPENAI_API_KEY``, ``OPENAI_BASE_URL``) on first use.
        compatible: Whether the server is another's: it gets ``max_tokens`` and not ``max_completion_tokens``, and
            ``top_k``. None: judged by the client's base URL.
        extra_body: Fields for every request that google-genai's config has no words for. Objects are merged with
            this model's own, lists joined, None takes a field away.
        extra_headers: Headers for every request.

    Attributes:
        name: The provider's name of the model.
        provider: ``"openai-chat"``.
    """

    provider = _PROVIDER

    def __init__(
        self,
        name: str,
        *,
        client: AsyncOpenAI | None = None,
        compatible: bool | None = None,
        extra_body: Mapping[str, Any] | None = None,
        extra_headers: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._clients = Clients(client, "openai", "AsyncOpenAI")
        self._compatible = compatible
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
        compatible = self._compatible if self._compatible is not None else not _is_openai(str(client.base_url))
        body = merged(request_body(request, compatible=compatible), self._extra_body)
        answer = client.chat.completions.with_streaming_response.create(
            model=self.name, messages=[], stream=True, extra_body=body, extra_headers=self._extra_headers
        )
        async with answer as response, aclosing(response.iter_bytes()) as pieces:
            async for piece in pieces:
                yield piece


def _is_openai(base_url: str) -> bool:
    return f".{urlsplit(base_url).hostname or ''}".endswith(_OPENAI_HOSTS)


def request_body(request: ModelRequest, *, compatible: bool = False) -> Fields:
    """The request in OpenAI's words, or in those of a compatible server; without ``model`` and ``stream``.

    Raises:
        RequestError: it holds what this wire does not.
    """
    choice = tool_choice(request.config)
    body: Fields = {
        "messages": _messages(request, compatible),
        "stream_options": {"include_usage": True},
        **translate(request.config, _COMPATIBLE_WORDS if compatible else _OPENAI_WORDS, _PROVIDER),
    }
    declared = tools(request, _PROVIDER, _tool, choice)
    if declared:
        body |= {"tools": declared, **_choice(choice)}
    wanted = output_format(request.config, _PROVIDER)
    if wanted is not None:
        body["response_format"] = (
            {"type": "json_object"}
            if wanted.schema is None
            else {"type": "json_schema", "json_schema": schema_format(wanted)}
        )
    return body


# ----------------------------------------------------------------- settings


def _thinking(thinking: types.ThinkingConfig) -> Fields:
    told = effort(thinking)
    return {"reasoning_effort": told} if told is not None else {}


def _modalities(wanted: Sequence[str]) -> Fields:
    names = [name.lower() for name in wanted]
    return {"modalities": names if "text" in names else ["text", *names]}  # there is no answer without text


def _speech(speech: Any) -> Fields:
    """A voice; streamed audio comes in one format only."""
    config = getattr(speech, "voice_config", None)
    prebuilt = config.prebuilt_voice_config if config is not None else None
    voice = speech if isinstance(speech, str) else prebuilt and prebuilt.voice_name
    if not voice:
        raise RequestError(f"{_PROVIDER} takes of speech_config the name of a voice alone")
    return {"audio": {"voice": voice, "format": "pcm16"}}


_WORDS: Mapping[str, str | Callable[[Any], Fields]] = {
    "candidate_count": "n",
    "frequency_penalty": "frequency_penalty",
    "logprobs": lambda most: {"logprobs": True, "top_logprobs": most},
    "presence_penalty": "presence_penalty",
    "response_logprobs": "logprobs",
    "response_modalities": _modalities,
    "seed": "seed",
    "service_tier": service_tier,
    "speech_config": _speech,
    "stop_sequences": "stop",
    "store": "store",
    "temperature": "temperature",
    "thinking_config": _thinking,
    "top_p": "top_p",
}

_OPENAI_WORDS = {**_WORDS, "max_output_tokens": "max_completion_tokens"}

_COMPATIBLE_WORDS = {**_WORDS, "max_output_tokens": "max_tokens", "top_k": lambda most: {"top_k": int(most)}}


def _tool(function: types.FunctionDeclaration) -> Fields:
    from adk_stream.models.declarations import json_schema

    told = {"name": function.name, "description": function.description, "parameters": json_schema(function)}
    return {"type": "function", "function": {key: value for key, value in told.items() if value is not None}}


def _choice(choice: ToolChoice) -> Fields:
    if choice.mode == "any" and len(choice.names) == 1:
        return {"tool_choice": {"type": "function", "function": {"name": choice.names[0]}}}
    word = {"auto": None, "any": "required", "none": "none"}[choice.mode]
    return {"tool_choice": word} if word is not None else {}


# ----------------------------------------------------------------- messages


def _messages(request: ModelRequest, compatible: bool) -> list[Fields]:
    from adk_stream.models.history import UserTurn
    from adk_stream.providers import to_native

    told = instruction(request)
    messages: list[Fields] = [{"role": "system", "content": told}] if told is not None else []
    for turn in conversation(request):
        if isinstance(turn, UserTurn):
            messages += _of_user(turn, messages[-1] if messages else {}, compatible)
            continue
        message = to_native(turn.responses, _PROVIDER)
        if any(value for key, value in message.items() if key != "role"):
            for call in message.get("tool_calls", ()):
                call["id"] = _id(call["id"], compatible)
            messages.append(message)
    return messages


def _id(id: str | None, compatible: bool) -> str:
    return id or "" if compatible else wire_id(id, _LONGEST_ID)


def _of_user(turn: UserTurn, before: Fields, compatible: bool) -> list[Fields]:
    """One message for each result, directly after the calls; then one of the user, if anything is left to say."""
    results = [tool_result(response) for response in turn.results]
    messages = [_result(result, before, compatible) for result in results]
    content = [part for result in results for part in _files(result)] + [
        write_part(part, _PROVIDER, "text", _media) for part in turn.said
    ]
    if len(content) == 1 and content[0]["type"] == "text":
        messages.append({"role": "user", "content": content[0]["text"]})
    elif content:
        messages.append({"role": "user", "content": content})
    return messages


def _result(result: ToolResult, before: Fields, compatible: bool) -> Fields:
    if "function_call" in before:  # the form before tools, which some servers still have
        return {"role": "function", "name": result.name, "content": result.text}
    return {"role": "tool", "tool_call_id": _id(result.call_id, compatible), "content": result.text}


def _files(result: ToolResult) -> list[Fields]:
    if not result.media:
        return []
    return [{"type": "text", "text": f"Files from {result.name}:"}, *map(_media, result.media)]


def _media(media: Media) -> Fields:
    inline = media.data is not None
    if media.kind == "image" and (inline or media.is_on_the_web):
        return {"type": "image_url", "image_url": {"url": media.data_url if inline else media.uri}}
    if media.mime_type in _AUDIO_FORMATS and inline:
        audio = {"data": media.base64, "format": _AUDIO_FORMATS[media.mime_type]}
        return {"type": "input_audio", "input_audio": audio}
    if media.kind == "text" and inline:
        return {"type": "text", "text": media.text}
    if media.kind == "application" and inline:
        return {"type": "file", "file": {"filename": media.filename, "file_data": media.data_url}}
    if media.uri.startswith("file-"):
        return {"type": "file", "file": {"file_id": media.uri}}
    raise media.refused(_PROVIDER)
