"""Responses and events against what a case expects of them."""

from __future__ import annotations

import base64
from typing import Any


def plain(value: Any) -> Any:
    """As JSON with snake_case keys and without nulls, bytes in standard base64."""
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="python")
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return getattr(value, "value", value)  # enums


def matches(have: Any, wanted: Any) -> bool:
    """An object is a subset, a list has the same length, ``$absent``, ``$any`` and ``$in`` are what they say."""
    if isinstance(wanted, dict):
        if wanted == {"$absent": True}:
            return have in (None, False, {"parts": [], "role": "model"})
        if wanted == {"$any": True}:
            return have is not None
        if "$in" in wanted:
            return have in wanted["$in"]
        return isinstance(have, dict) and all(matches(have.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(have, list) and len(have) == len(wanted) and all(map(matches, have, wanted))
    return have == wanted


def parts_of(events: list[Any]) -> list[Any]:
    return [part for event in events if event.content for part in event.content.parts or ()]


def text_of(events: list[Any]) -> str:
    return "".join(part.text for part in parts_of(events) if part.text and not part.thought)


def total(events: list[Any]) -> int:
    return sum(event.usage_metadata.total_token_count or 0 for event in events if event.usage_metadata)
