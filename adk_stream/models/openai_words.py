"""What OpenAI's two wires have in common: how hard to think, service tiers, and schemas that are kept to strictly.

Wire facts: the openai package's ``types/shared_params`` and OpenAI's guide to structured outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from adk_stream.errors import RequestError

if TYPE_CHECKING:
    from google.genai import types

    from adk_stream.models.settings import Fields, OutputFormat

__all__ = ["effort", "schema_format", "service_tier"]

_TIERS = {"standard": "default", "flex": "flex", "priority": "priority"}

#: What a schema may hold that OpenAI keeps to strictly.
_STRICT_WORDS = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "const", "$ref", "$defs"}
    | {"title", "description", "pattern", "format", "minItems", "maxItems"}
    | {"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
)


def effort(thinking: types.ThinkingConfig) -> str | None:
    """``reasoning_effort``; None: the model's own default.

    Raises:
        RequestError: a number of tokens, which OpenAI does not take.
    """
    level = thinking.thinking_level.value if thinking.thinking_level is not None else "THINKING_LEVEL_UNSPECIFIED"
    if level != "THINKING_LEVEL_UNSPECIFIED":
        return level.lower()
    if thinking.thinking_budget == 0:
        return "none"
    if thinking.thinking_budget in (None, -1):
        return None
    raise RequestError("OpenAI takes no thinking_budget other than 0 (none) and -1 (automatic): set thinking_level")


def service_tier(tier: types.ServiceTier) -> Fields:
    """``service_tier``, where the tier says anything."""
    return {"service_tier": _TIERS[tier.value]} if tier.value in _TIERS else {}


def schema_format(wanted: OutputFormat) -> Fields:
    """The fields of a ``json_schema`` format: strict where the schema allows it, else as a hint."""
    schema = wanted.schema or {}
    closed = _closed(schema)
    if closed.get("type") == "object" and _is_strict(closed):
        return {"name": wanted.name, "schema": closed, "strict": True}
    return {"name": wanted.name, "schema": schema}


def _closed(schema: Any) -> Any:
    """The schema with objects that take no other properties than their own, where they leave that open."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    closed = {
        key: {name: _closed(each) for name, each in value.items()}
        if key in ("properties", "$defs")
        else _closed(value)
        if key in ("items", "anyOf")
        else value
        for key, value in schema.items()
    }
    return (
        {**closed, "additionalProperties": closed.get("additionalProperties", False)}
        if "properties" in closed
        else closed
    )


def _is_strict(schema: Any) -> bool:
    """Whether every object is closed and every property required, and nothing is said that OpenAI cannot keep to."""
    if not isinstance(schema, Mapping) or not schema.keys() <= _STRICT_WORDS:
        return False
    properties = schema.get("properties", {})
    if schema.get("type") == "object" and (
        schema.get("additionalProperties") is not False or set(properties) != set(schema.get("required", ()))
    ):
        return False
    inner = [*properties.values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", ())]
    return all(map(_is_strict, [*inner, schema["items"]] if "items" in schema else inner))
