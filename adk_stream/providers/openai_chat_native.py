"""Finished responses back to the assistant message of Chat Completions, ready to be sent as history."""

from __future__ import annotations

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
                if "server_tool" not in metadata:
                    calls.append(_call(part.function_call, metadata, told))
            elif metadata.get("refusal"):
                refusals.append(part.text or "")
            elif part.thought:
                _think(part, told, texts, items, details, reasoning)
            elif part.text and "server_tool" not in metadata:
                texts.append(part.text)
                items.append({"type": "text", "text": part.text})
        audio = (beside.get(_PROVIDER) or {}).get("audio") or {}
        if own and audio.get("id"):
            message["audio"] = {"id": audio["id"]}
    message["content"] = items if any(item["type"] == "thinking" for item in items) else "".join(texts)
    if not message["content"] and (calls or refusals or "audio" in message):
        message["content"] = None
    if refusals:
        message["refusal"] = "".join(refusals)
    message.update({field: "".join(pieces) for field, pieces in reasoning.items()})
    if details:
        message["reasoning_details"] = details
    if calls:
        message["tool_calls"] = calls
    return message


def _call(call: types.FunctionCall, metadata: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    raw = metadata.get("raw_arguments")
    native: dict[str, Any] = {"id": call.id}
    if metadata.get("custom_tool"):
        text = raw if raw is not None else (call.args or {}).get("input", "")
        native |= {"type": "custom", "custom": {"name": call.name, "input": text}}
    else:
        arguments = raw if raw is not None else dump_arguments(call.args)
        native |= {"type": "function", "function": {"name": call.name or "", "arguments": arguments}}
    if told.get("extra_content"):
        native["extra_content"] = told["extra_content"]
    return native


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
        items.append({"type": "thinking", "thinking": [{"type": "text", "text": text}]})
    elif field == "reasoning_details":
        details.append(_detail(part, told.get("detail") or {}, text))
    elif field:
        reasoning.setdefault(field, []).append(text)


def _detail(part: types.Part, detail: Mapping[str, Any], text: str) -> dict[str, Any]:
    native = dict(detail)
    kind = native.get("type")
    if text:
        native["summary" if kind == "reasoning.summary" else "text"] = text
    if part.thought_signature:
        opaque = part.thought_signature.decode("utf-8", "surrogatepass")
        native["data" if kind == "reasoning.encrypted" else "signature"] = opaque
    return native
