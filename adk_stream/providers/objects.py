"""Objects of the official SDKs (pydantic models) as the plain events they were made of."""

from __future__ import annotations

from typing import Any

__all__ = ["as_event"]


def as_event(value: Any) -> Any:
    """A pydantic model, read as it is: set fields and extras as a dict, at every depth; anything else unchanged.

    The OpenAI and Anthropic SDKs build their objects without validation, so a field may hold anything; reading the
    instance's own dict neither validates nor warns, and costs a tenth of ``model_dump``.
    """
    if isinstance(value, list):
        return [as_event(item) for item in value]
    if isinstance(value, dict):
        return {key: as_event(item) for key, item in value.items()}
    fields_set = getattr(value, "model_fields_set", None)
    if fields_set is None:
        return value
    set_fields = {name: item for name, item in value.__dict__.items() if name in fields_set}
    event = {_wire_name(value, name): as_event(item) for name, item in set_fields.items()}
    extra = getattr(value, "model_extra", None)
    if extra:
        event.update((name, as_event(item)) for name, item in extra.items())
    return event


def _wire_name(value: Any, name: str) -> str:
    """Fields whose name is a Python keyword (``from_``) go by their alias on the wire."""
    return type(value).model_fields[name].alias or name if name.endswith("_") else name
