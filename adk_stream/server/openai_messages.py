"""A chat completion's request, as OpenAI's clients send it, in this package's words.

Wire facts: the openai package's ``types/chat/completion_create_params``. Fields that are not named here are passed
over, as compatible servers do; settings that say what holds anyway do not reach a model that would refuse them.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from google.genai import types
from pydantic import BaseModel, ConfigDict, Field

from adk_stream.models.request import ModelRequest

from .messages import file_part, result_part
from .problems import Problem

__all__ = ["ChatCompletion", "model_request"]


class _Sent(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Function(_Sent):
    name: Annotated[str, Field(min_length=1, max_length=256)]
    arguments: str = ""


class _ToolCall(_Sent):
    id: str
    function: _Function


class _Message(_Sent):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[_ToolCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None


class _Declared(_Sent):
    name: Annotated[str, Field(min_length=1, max_length=256)]
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Tool(_Sent):
    type: Literal["function"]
    function: _Declared


class _StreamOptions(_Sent):
    include_usage: bool | None = None


class ChatCompletion(_Sent):
    """What ``POST /v1/chat/completions`` takes."""

    model: str
    messages: Annotated[list[_Message], Field(min_length=1)]
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    tools: list[_Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    reasoning_effort: str | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1, lt=2**31)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    seed: Annotated[int, Field(ge=-(2**31), lt=2**31)] | None = None
    stop: str | list[str] | None = None
    n: Literal[1] | None = None


def model_request(asked: ChatCompletion) -> ModelRequest:
    """The request that the model gets.

    Raises:
        Problem: 422, it holds what has no form here.
    """
    system = [_text(message.content) for message in asked.messages if message.role in ("system", "developer")]
    names: dict[str, str] = {}
    contents: list[types.Content] = []
    for message in asked.messages:
        if message.role in ("system", "developer"):
            continue
        role = "model" if message.role == "assistant" else "user"
        parts = _READERS[message.role](message, names)
        if parts and contents and contents[-1].role == role:
            contents[-1] = types.Content(role=role, parts=[*(contents[-1].parts or ()), *parts])
        elif parts:
            contents.append(types.Content(role=role, parts=parts))
    if not contents:
        raise Problem(422, "messages: there is nothing to answer")
    tools = [_declaration(tool) for tool in asked.tools or ()]
    return ModelRequest(contents, "\n\n".join(filter(None, system)) or None, tools, _config(asked))


# ----------------------------------------------------------------- messages


def _text(content: str | list[dict[str, Any]] | None) -> str:
    if isinstance(content, str) or content is None:
        return content or ""
    return "".join(told for part in content if isinstance(told := part.get("text", part.get("refusal")), str))


def _of_user(message: _Message, names: Mapping[str, str]) -> list[types.Part]:
    content = message.content
    if not isinstance(content, list):
        return [types.Part(text=content)] if content else []
    return [_user_part(part) for part in content]


def _user_part(part: Mapping[str, Any]) -> types.Part:
    kind = part.get("type")
    inner = part.get(str(kind))
    if kind == "text" and isinstance(inner, str):
        return types.Part(text=inner)
    if isinstance(inner, Mapping):
        if kind == "image_url" and isinstance(inner.get("url"), str):
            return file_part(inner["url"])
        if kind == "input_audio" and isinstance(inner.get("data"), str):
            return _bytes_part(inner["data"], f"audio/{inner.get('format', 'wav')}")
        if kind == "file" and isinstance(inner.get("file_data"), str):
            return file_part(inner["file_data"], name=_string(inner.get("filename")))
    raise Problem(422, f"messages: a part of the type {str(kind)[:40]!r} cannot be read here")


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _bytes_part(data: str, mime_type: str) -> types.Part:
    try:
        return types.Part(inline_data=types.Blob(mime_type=mime_type, data=base64.b64decode(data, validate=True)))
    except (binascii.Error, ValueError):
        raise Problem(422, "messages: the data of a part is not base64") from None


def _of_assistant(message: _Message, names: dict[str, str]) -> list[types.Part]:
    parts: list[types.Part] = []
    if message.reasoning_content:
        parts.append(types.Part(text=message.reasoning_content, thought=True))
    if text := _text(message.content):
        parts.append(types.Part(text=text))
    for call in message.tool_calls or ():
        names[call.id] = call.function.name
        arguments = _arguments(call.function.arguments)
        parts.append(types.Part(function_call=types.FunctionCall(id=call.id, name=call.function.name, args=arguments)))
    return parts


def _arguments(text: str) -> dict[str, Any]:
    try:
        read = json.loads(text or "{}")
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        raise Problem(422, "messages: the arguments of a call are not a JSON object")
    return read


def _of_tool(message: _Message, names: Mapping[str, str]) -> list[types.Part]:
    id = message.tool_call_id or ""
    if id not in names:
        raise Problem(422, f"messages: no call before it has the id {id[:80]!r}")
    return [result_part(id, names[id], _text(message.content))]


_READERS: Mapping[str, Any] = {"user": _of_user, "assistant": _of_assistant, "tool": _of_tool}


# ----------------------------------------------------------------- settings


def _declaration(tool: _Tool) -> dict[str, Any]:
    told = tool.function
    return {"type": "function", "function": told.model_dump(exclude_none=True)}


def _config(asked: ChatCompletion) -> types.GenerateContentConfig | None:
    stop = [asked.stop] if isinstance(asked.stop, str) else asked.stop
    settings: dict[str, Any] = {
        "temperature": asked.temperature,
        "top_p": asked.top_p,
        "max_output_tokens": asked.max_completion_tokens or asked.max_tokens,
        "presence_penalty": asked.presence_penalty or None,
        "frequency_penalty": asked.frequency_penalty or None,
        "seed": asked.seed,
        "stop_sequences": stop or None,
        **_response_format(asked.response_format or {}),
        **_tool_choice(asked.tool_choice),
        **_effort(asked.reasoning_effort),
    }
    told = {name: value for name, value in settings.items() if value is not None}
    return types.GenerateContentConfig(**told) if told else None


def _response_format(wanted: Mapping[str, Any]) -> dict[str, Any]:
    if wanted.get("type") == "json_object":
        return {"response_mime_type": "application/json"}
    inner = wanted.get("json_schema")
    if wanted.get("type") != "json_schema" or not isinstance(inner, Mapping):
        return {}
    return {"response_mime_type": "application/json", "response_json_schema": inner.get("schema")}


def _tool_choice(choice: str | Mapping[str, Any] | None) -> dict[str, Any]:
    if choice in (None, "auto"):
        return {}
    names: list[str] | None = None
    mode = types.FunctionCallingConfigMode.NONE if choice == "none" else types.FunctionCallingConfigMode.ANY
    if isinstance(choice, Mapping):
        function = choice.get("function")
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(name, str):
            raise Problem(422, "tool_choice: name a function")
        names = [name]
    calling = types.FunctionCallingConfig(mode=mode, allowed_function_names=names)
    return {"tool_config": types.ToolConfig(function_calling_config=calling)}


#: ``reasoning_effort`` as google-genai's levels.
_LEVELS = {"minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH"}


def _effort(effort: str | None) -> dict[str, Any]:
    if effort == "none":
        return {"thinking_config": types.ThinkingConfig(thinking_budget=0)}
    if effort not in _LEVELS:
        return {}
    return {"thinking_config": types.ThinkingConfig(thinking_level=types.ThinkingLevel(_LEVELS[effort]))}
