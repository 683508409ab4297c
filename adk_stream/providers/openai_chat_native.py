"""Finished responses back to the assistant message of Chat Completions, ready to be sent as history."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from adk_stream.arguments import dump_arguments
from adk_stream.errors import NativeError

if TYPE_CHECKING:
    from google.genai import types

    from adk_stream.response import LlmResponse

__all__ = ["to_native"]

_PROVIDER = "openai-chat"


def to_native(responses: Sequence[LlmResponse]) -> dict[str, Any]:
    """One assistant message: content, refusal, reasoning as the server spelled it, tool calls, the audio's id.

    Turns of another provider keep text and calls.
    """
    texts: list[str] = []
    items: list[dict[str, Any]] = []  # the content as a list, where the server streamed one
    refusals: list[str] = []
    calls: list[dict[str, Any]] = []
    details: list[dict[str, Any]] = []
    images: list[dict[str, Any]] = []
    tools: list[dict[str, Any]] = []
    reasoning: dict[str, list[str]] = {}
    message: dict[str, Any] = {"role": "assistant"}
    for response in responses:
        if response.partial:
            raise NativeError("a partial response is a hint for display and no part of the history")
        beside = response.provider_metadata or {}
        own = beside.get("provider") in (_PROVIDER, None)
        for part in response.parts:
            metadata = part.part_metadata or {}
            told = metadata.get(_PROVIDER) or {} if own else {}
            if part.function_call is not None:
                if "server_tool" in metadata:
                    continue
                call = _call(part.function_call, metadata, told)
                if told.get("function_call") and "function" in call:
                    message["function_call"] = call["function"]
                else:
                    calls.append(call)
            elif "server_tool" in metadata:
                if own and isinstance(metadata["server_tool"], Mapping):
                    tools.append(dict(metadata["server_tool"]))
            elif metadata.get("refusal"):
                refusals.append(part.text or "")
            elif part.thought:
                _think(part, told, texts, items, details, reasoning)
            elif told.get("content"):
                items.append(dict(told["content"]))
            elif told.get("image"):
                images.append(_image(part, told["image"]))
            elif part.text:
                texts.append(part.text)
                items.append({"type": "text", "text": part.text})
            if told.get("extra_content") and part.function_call is None:
                message["extra_content"] = {**message.get("extra_content", {}), **told["extra_content"]}
        kept = (beside.get(_PROVIDER) or {}) if own else {}
        if (kept.get("audio") or {}).get("id"):
            message["audio"] = {"id": kept["audio"]["id"]}
        if kept.get("annotations"):
            message["annotations"] = kept["annotations"]
    message["content"] = items if any(item.get("type") != "text" for item in items) else "".join(texts)
    if not message["content"] and (calls or refusals or message.keys() & {"audio", "function_call"}):
        message["content"] = None
    if refusals:
        message["refusal"] = "".join(refusals)
    message.update({field: "".join(pieces) for field, pieces in reasoning.items()})
    if details:
        message["reasoning_details"] = details
    lists = {"tool_calls": calls, "images": images, "executed_tools": tools}
    return message | {name: each for name, each in lists.items() if each}


def _call(call: types.FunctionCall, metadata: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    raw = metadata.get("raw_arguments")
    native: dict[str, Any] = {"id": call.id}
    if metadata.get("custom_tool"):
        text = raw if raw is not None else (call.args or {}).get("input", "")
        native |= {"type": "custom", "custom": {"name": call.name, "input": text}}
    else:
        arguments = raw if raw is not None else dump_arguments(call.args)
        native |= {"type": "function", "function": {"name": call.name or "", "arguments": arguments}}
    for name, value in told.items():  # extra_content, and whatever else the entry bore
        if name == "function" and isinstance(value, Mapping):
            native[str(native["type"])].update(value)
        elif name not in ("function_call", *native):
            native[name] = value
    return native


def _image(part: types.Part, image: Mapping[str, Any]) -> dict[str, Any]:
    url = part.file_data.file_uri if part.file_data else None
    if part.inline_data is not None:
        data = base64.b64encode(part.inline_data.data or b"").decode()
        url = f"data:{part.inline_data.mime_type};base64,{data}"
    return {**image, "image_url": {"url": url}}


def _think(
    part: types.Part,
    told: Mapping[str, Any],
    texts: list[str],
    items: list[dict[str, Any]],
    details: list[dict[str, Any]],
    reasoning: dict[str, list[str]],
) -> None:
    """A thought, in the field that it came in; thoughts of another provider stay out."""
    field, text = told.get("field"), part.text or ""
    if field == "think":
        texts.append(f"<think>{text}</think>")
    elif field == "content":
        rest = told.get("detail") or {}
        items.append({"type": "thinking", "thinking": [{"type": "text", "text": text}], **rest})
    elif field == "reasoning_details":
        details.append(_detail(part, told, text))
    elif field:
        reasoning.setdefault(field, []).append(text)


def _detail(part: types.Part, told: Mapping[str, Any], text: str) -> dict[str, Any]:
    native = dict(told.get("detail") or {})
    if text:
        native["summary" if native.get("type") == "reasoning.summary" else "text"] = text
    if part.thought_signature:
        native[str(told.get("sealed") or "signature")] = part.thought_signature.decode("utf-8", "surrogatepass")
    return native
