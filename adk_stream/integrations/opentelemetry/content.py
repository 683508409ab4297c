"""Content in the conventions' JSON, for those who ask for it. Bytes are left out: their kind and size are told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from adk_stream.response import LlmResponse

from . import names
from .facts import Attributes

if TYPE_CHECKING:
    from google.genai import types

    from adk_stream.models.request import Message, ModelRequest

__all__ = ["as_json", "input_attributes", "output_attributes"]


def input_attributes(request: ModelRequest) -> Attributes:
    """The conversation that is sent, and the instruction."""
    told: Attributes = {names.INPUT_MESSAGES: as_json([_message(message) for message in request.messages])}
    if request.system_instruction is not None:
        told[names.SYSTEM_INSTRUCTIONS] = as_json([{"type": "text", "content": request.system_instruction}])
    return told


def output_attributes(final: LlmResponse, finish_reason: str) -> Attributes:
    """The answer."""
    message = {**_message(final), "role": "assistant", "finish_reason": finish_reason}
    return {names.OUTPUT_MESSAGES: as_json([message])}


def as_json(value: Any) -> str:
    """JSON of anything; what has no JSON form is told in words."""
    return to_json(value, inf_nan_mode="null", bytes_mode="base64", serialize_unknown=True).decode()


def _message(message: Message) -> dict[str, Any]:
    content = message.content if isinstance(message, LlmResponse) else message
    parts: Sequence[types.Part] = (content.parts if content is not None else None) or ()
    role = (content.role if content is not None else None) or "user"
    if any(part.function_response is not None for part in parts):
        role = "tool"
    return {"role": "assistant" if role == "model" else role, "parts": [_part(part) for part in parts]}


def _part(part: types.Part) -> dict[str, Any]:
    if part.function_call is not None:
        call = part.function_call
        return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.args}
    if part.function_response is not None:
        result = part.function_response
        return {"type": "tool_call_response", "id": result.id, "response": result.response}
    if part.inline_data is not None:
        blob = part.inline_data
        return {"type": "inline_data", "mime_type": blob.mime_type, "size": len(blob.data or b"")}
    if part.file_data is not None:
        mime_type = part.file_data.mime_type or ""
        return {
            "type": "uri",
            "mime_type": mime_type or None,
            "modality": mime_type.split("/")[0] or "document",
            "uri": part.file_data.file_uri or "",
        }
    if part.text is not None:
        return {"type": "reasoning" if part.thought else "text", "content": part.text}
    kinds = part.model_dump(exclude_none=True, exclude={"thought_signature", "part_metadata", "thought"})
    return {"type": next(iter(kinds), "empty")}
