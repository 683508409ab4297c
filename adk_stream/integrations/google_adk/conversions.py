"""Our responses and events as google-adk's, and back, without loss.

Most fields have the same name and the same google-genai type on both sides. What google-adk has no field for
(status, native finish reason, response id, …) stands in ``custom_metadata["adk_stream"]`` as JSON; what this package
has no field for is kept beside, as JSON, and given back.

google-adk runs every function call of a non-partial event. So calls that must not run (cut, malformed, cancelled, or
run by the provider) are taken out of the content on the way there, kept in ``custom_metadata["adk_stream"]`` with
their places, and put back on the way here.
"""

from __future__ import annotations

import copy
from typing import Any

from google.adk.events.event import Event as AdkEvent
from google.adk.events.event_actions import EventActions as AdkEventActions
from google.adk.models.llm_response import LlmResponse as AdkLlmResponse
from google.genai import types
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from adk_stream.response import LlmResponse
from adk_stream.sessions.event import Event, EventActions

__all__ = [
    "EXTRAS_KEY",
    "adk_fields",
    "from_adk_event",
    "from_adk_response",
    "to_adk_event",
    "to_adk_response",
    "with_extras",
]

#: The one key of google-adk's ``custom_metadata`` that is ours.
EXTRAS_KEY = "adk_stream"

_WITHHELD = "withheld_parts"  # [[place among the parts, the part in wire form], …]
_FOREIGN = "google_adk"  # key of provider_metadata: what google-adk's response holds and ours has no field for
_FOREIGN_ACTIONS = "actions"

#: Markers of ``part_metadata``: calls that have them, and answers to such calls, are not google-adk's to deal with.
_NOT_TO_RUN = frozenset({"raw_arguments", "unfinished", "cancelled", "server_tool"})


def to_adk_response(response: LlmResponse) -> AdkLlmResponse:
    """The response as google-adk's; the two share nothing that can be changed.

    Raises:
        pydantic.ValidationError: a field that was changed by hand holds a value of the wrong type.
    """
    return AdkLlmResponse(**adk_fields(copy.deepcopy(response), AdkLlmResponse))


def from_adk_response(response: AdkLlmResponse) -> LlmResponse:
    """google-adk's response as ours; the two share nothing that can be changed.

    Raises:
        pydantic.ValidationError: what google-adk holds is not of the type that this package knows.
    """
    fields, foreign = _own_fields(response, LlmResponse)
    if foreign:
        fields["provider_metadata"] = {**(fields.get("provider_metadata") or {}), _FOREIGN: foreign}
    return LlmResponse(**fields)


def to_adk_event(event: Event) -> AdkEvent:
    """The event as google-adk's; the two share nothing that can be changed.

    Raises:
        pydantic.ValidationError: a field that google-adk alone knows holds a value of the wrong type.
    """
    event = copy.deepcopy(event)
    fields = adk_fields(event, AdkEvent)
    actions = event.actions.model_dump(mode="json", exclude_none=True)
    unknown = {name: actions.pop(name) for name in list(actions) if name not in AdkEventActions.model_fields}
    if unknown:
        custom = fields.get("custom_metadata") or {}
        fields["custom_metadata"] = {
            **custom,
            EXTRAS_KEY: {**custom.get(EXTRAS_KEY, {}), _FOREIGN_ACTIONS: unknown},
        }
    return AdkEvent(**{**fields, "actions": AdkEventActions.model_validate(actions)})


def from_adk_event(event: AdkEvent) -> Event:
    """google-adk's event as ours; the two share nothing that can be changed.

    State that has no JSON form becomes its ``repr``, as in google-adk's own stores.

    Raises:
        pydantic.ValidationError: what google-adk holds is not of the type that this package knows.
    """
    fields, foreign = _own_fields(event, Event)
    actions = event.actions.model_dump(mode="json", exclude_none=True)
    fields["actions"] = EventActions.model_validate({**actions, **fields.pop(_FOREIGN_ACTIONS, {})})
    return Event(**fields, **foreign)


def adk_fields(response: LlmResponse, cls: type[BaseModel]) -> dict[str, Any]:
    """The fields of google-adk's ``cls``, with the values of ``response`` themselves."""
    known = cls.model_fields
    fields: dict[str, Any] = {}
    extras: dict[str, Any] = {}
    for name, value in {**response.__dict__, **(response.model_extra or {})}.items():
        if value is None:
            continue
        if name in known:
            fields[name] = value  # the same type on both sides, or JSON of which google-adk makes its own
        else:
            extras[name] = _as_json(value)
    metadata = extras.get("provider_metadata")
    if metadata and _FOREIGN in metadata:
        foreign = metadata.pop(_FOREIGN)
        fields.update((name, value) for name, value in foreign.items() if name in known)
        if not metadata:
            del extras["provider_metadata"]
    if response.content is not None and response.content.parts:
        kept, withheld = _withhold(response.content.parts)
        if withheld:
            extras[_WITHHELD] = withheld
            content = response.content.model_copy(update={"parts": kept})
            fields["content"] = content if kept else None
    if extras:
        fields["custom_metadata"] = {**(response.custom_metadata or {}), EXTRAS_KEY: extras}
    return fields


def _own_fields(response: AdkLlmResponse, cls: type[LlmResponse]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(fields of our ``cls``, what it has no field for as JSON), copies of what google-adk's response holds."""
    fields: dict[str, Any] = {}
    foreign: dict[str, Any] = {}
    for name, value in response.__dict__.items():
        if value is None or name == "actions":
            continue
        if name not in cls.model_fields:
            if value != _default(type(response), name):
                foreign[name] = _as_json(value)
        elif isinstance(value, BaseModel) and type(value).__module__ not in _SHARED_MODULES:
            fields[name] = _as_json(value)
        else:
            fields[name] = copy.deepcopy(value)
    custom = fields.pop("custom_metadata", None) or {}
    extras = custom.pop(EXTRAS_KEY, None) or {}
    if custom:
        fields["custom_metadata"] = custom
    _add_extras(fields, extras)
    return fields, foreign


def with_extras(cls: type[LlmResponse], fields: dict[str, Any], extras: dict[str, Any]) -> LlmResponse:
    """A response of these fields and of what ``adk_fields`` had put under ``EXTRAS_KEY``."""
    _add_extras(fields, extras)
    return cls(**fields)


def _add_extras(fields: dict[str, Any], extras: dict[str, Any]) -> None:
    withheld = extras.pop(_WITHHELD, None)
    fields.update(extras)
    if withheld:
        fields["content"] = _put_back(fields.get("content"), withheld)


#: Models of these modules are the same on both sides.
_SHARED_MODULES = frozenset({types.Content.__module__})


def _default(cls: type[BaseModel], name: str) -> Any:
    field = cls.model_fields[name]
    return field.get_default(call_default_factory=True) if name != "timestamp" else None


def _as_json(value: Any) -> Any:
    return to_jsonable_python(value, by_alias=False, exclude_none=True, serialize_unknown=True)


def _withhold(parts: list[types.Part]) -> tuple[list[types.Part], list[list[Any]]]:
    kept: list[types.Part] = []
    withheld: list[list[Any]] = []
    for place, part in enumerate(parts):
        if _is_for_adk(part):
            kept.append(part)
        else:
            withheld.append([place, part.model_dump(mode="json", by_alias=True, exclude_none=True)])
    return kept, withheld


def _is_for_adk(part: types.Part) -> bool:
    if part.function_call is None and part.function_response is None:
        return True
    return not part.part_metadata or _NOT_TO_RUN.isdisjoint(part.part_metadata)


def _put_back(content: types.Content | None, withheld: list[list[Any]]) -> types.Content:
    content = content or types.Content(role="model")
    parts = list(content.parts or [])
    for place, part in withheld:
        parts.insert(place, types.Part.model_validate(part))
    content.parts = parts
    return content
