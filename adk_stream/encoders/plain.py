"""A response as a JSON object; partial responses of text, which are most, without pydantic."""

from __future__ import annotations

from typing import Any

from google.genai import types

from adk_stream.response import LlmResponse

__all__ = ["as_json", "text_parts"]

#: What a partial response of text has besides its content.
_NAMES = {"model_version": "modelVersion", "partial": "partial", "status": "status", "response_id": "responseId"}

#: What the parts may have that are written here.
_TEXT_FIELDS = frozenset({"text", "thought"})


def as_json(response: LlmResponse) -> dict[str, Any]:
    """As ``model_dump(mode="json", by_alias=True, exclude_none=True)`` gives it, with standard base64."""
    if response.partial and response.model_fields_set <= _PLAIN_FIELDS:
        parts = text_parts(response)
        if parts is not None:
            values = response.__dict__
            plain = {alias: values[name] for name, alias in _NAMES.items() if values[name] is not None}
            return {**plain, "content": parts}
    return response.model_dump(mode="json", by_alias=True, exclude_none=True)


_PLAIN_FIELDS = frozenset({*_NAMES, "content"})


def text_parts(response: LlmResponse) -> dict[str, Any] | None:
    """The content, if it holds text and thought only."""
    content = response.content
    if content is None or not content.parts or content.role is None:
        return None
    parts = []
    for part in content.parts:
        if type(part) is not types.Part or not part.model_fields_set <= _TEXT_FIELDS or part.text is None:
            return None
        parts.append({"text": part.text} if part.thought is None else {"text": part.text, "thought": part.thought})
    return {"parts": parts, "role": content.role}
