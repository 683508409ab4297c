"""``LlmResponse``: what the aggregator gives, partial while a stream runs and complete when it ends.

Field names are google-adk's, so that its users read it without a table; the fields below ``status`` are
ours. In JSON the names are camelCase (``by_alias=True``) and bytes are standard base64, as on Google's wire
(RFC 4648 section 4; pydantic alone would write the URL-safe alphabet, which ``atob()`` in a browser refuses).

Importing this module imports ``google.genai.types``, which takes seconds; nothing imports it before a
response is really built.
"""

from __future__ import annotations

import base64
import warnings
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, Generic, Literal, TypeVar, cast

from google.genai import types
from pydantic import (
    BaseModel,
    ConfigDict,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_serializer,
)
from pydantic.alias_generators import to_camel

__all__ = ["LlmResponse", "Status", "Template", "read_lenient"]

Status = Literal["in_progress", "completed", "incomplete", "failed", "cancelled"]

_Model = TypeVar("_Model", bound=BaseModel)

_ADK_EXTRAS = "adk_stream"  # where to_adk_dict() keeps what google-adk has no field for


class LlmResponse(BaseModel):
    """One response of a model: a piece to show (``partial=True``), or something to keep.

    Partial responses are hints for display: never stored, never run. Non-partial responses of one stream are
    disjoint, in order, and together hold the whole stream exactly once.

    Attributes:
        model_version: The model that answered, in the provider's words.
        content: Role and parts; None when the response holds none.
        partial: True for a piece to show; False or None for something to keep.
        finish_reason: How the model ended, in Gemini's words; OTHER for a word nobody knows.
        error_code: Why it is not a natural end: the finish reason's name, the provider's own code, or ours:
            ``STREAM_CUT``, ``STREAM_TIMEOUT``, ``STREAM_CANCELLED``, ``MALFORMED_STREAM``.
        error_message: The provider's sentence about it, or the exception's.
        usage_metadata: Token counts; the prompt includes cache reads and writes, the candidates exclude thoughts.
        custom_metadata: For the caller's own use; this package reads and writes only the key ``adk_stream`` there.
        status: Judged by the stream's own terminal sign; see ``Status``. None on responses no stream made.
        native_finish_reason: The provider's own word for the finish reason.
        response_id: The provider's id of the response.
        provider_metadata: What the provider sent and no field holds; ``["usage"]`` is its own usage object.
    """

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", protected_namespaces=())

    model_version: str | None = None
    content: types.Content | None = None
    grounding_metadata: types.GroundingMetadata | None = None
    partial: bool | None = None
    turn_complete: bool | None = None
    turn_complete_reason: types.TurnCompleteReason | None = None
    interaction_status: str | None = None
    finish_reason: types.FinishReason | None = None
    error_code: str | None = None
    error_message: str | None = None
    interrupted: bool | None = None
    custom_metadata: dict[str, Any] | None = None
    usage_metadata: types.GenerateContentResponseUsageMetadata | None = None
    live_session_resumption_update: types.LiveServerSessionResumptionUpdate | None = None
    live_session_id: str | None = None
    go_away: types.LiveServerGoAway | None = None
    voice_activity: types.VoiceActivity | None = None
    input_transcription: types.Transcription | None = None
    output_transcription: types.Transcription | None = None
    avg_logprobs: float | None = None
    logprobs_result: types.LogprobsResult | None = None
    cache_metadata: dict[str, Any] | None = None
    citation_metadata: types.CitationMetadata | None = None
    interaction_id: str | None = None
    environment_id: str | None = None

    status: Status | None = None
    native_finish_reason: str | None = None
    response_id: str | None = None
    safety_ratings: list[types.SafetyRating] | None = None
    url_context_metadata: types.UrlContextMetadata | None = None
    provider_metadata: dict[str, Any] | None = None

    @field_serializer("content", mode="wrap")
    def _content_with_standard_base64(
        self, content: types.Content | None, handler: SerializerFunctionWrapHandler, info: SerializationInfo
    ) -> Any:
        data = handler(content)
        if info.mode == "json" and isinstance(data, dict):
            _standard_base64(content, data)
        return data

    @property
    def parts(self) -> list[types.Part]:
        """The content's parts; an empty list when there are none."""
        return (self.content.parts or []) if self.content else []

    @property
    def text(self) -> str:
        """Everything said to the user, refusals included, without thoughts."""
        return "".join(part.text for part in self.parts if part.text and not part.thought)

    @property
    def thought_text(self) -> str:
        """Everything the model thought aloud."""
        return "".join(part.text for part in self.parts if part.text and part.thought)

    def executable_function_calls(self) -> list[types.FunctionCall]:
        """The calls that may run: complete, well-formed, to be run by the client.

        Calls of partial responses, calls that were cut, whose arguments do not parse, that were cancelled, or that
        the provider runs itself are not among them.
        """
        if self.partial:
            return []
        return [
            part.function_call
            for part in self.parts
            if part.function_call is not None and _is_executable(part.function_call, part.part_metadata or {})
        ]

    def to_adk_dict(self) -> dict[str, Any]:
        """The fields of google-adk's ``LlmResponse`` (snake_case, JSON values, no nulls).

        Our own fields go into ``custom_metadata["adk_stream"]``, so that ``from_adk_dict`` gives this response back.
        """
        data = self.model_dump(mode="json", exclude_none=True, by_alias=False)
        extras = {name: data.pop(name) for name in _OWN_FIELDS if name in data}
        if extras:
            data["custom_metadata"] = {**data.get("custom_metadata", {}), _ADK_EXTRAS: extras}
        return data

    @classmethod
    def from_adk_dict(cls, data: Mapping[str, Any]) -> LlmResponse:
        """The response that ``to_adk_dict`` wrote, or a dump of google-adk's own ``LlmResponse``.

        Fields of google-adk that are not in this class go into ``provider_metadata["google_adk"]``.

        Raises:
            pydantic.ValidationError: a field holds a value of the wrong type.
        """
        fields = dict(data)
        custom = dict(fields.pop("custom_metadata", None) or fields.pop("customMetadata", None) or {})
        fields.update(custom.pop(_ADK_EXTRAS, None) or {})
        if custom:
            fields["custom_metadata"] = custom
        known = set(cls.model_fields) | {field.alias for field in cls.model_fields.values()}
        foreign = {name: fields.pop(name) for name in list(fields) if name not in known}
        if foreign:
            fields["provider_metadata"] = {**(fields.get("provider_metadata") or {}), "google_adk": foreign}
        return cls.model_validate(fields)


_OWN_FIELDS = (
    "status",
    "native_finish_reason",
    "response_id",
    "safety_ratings",
    "url_context_metadata",
    "provider_metadata",
)

#: Keys of ``part_metadata`` that say why a call is not for the client to run.
_NOT_EXECUTABLE = ("raw_arguments", "unfinished", "cancelled", "server_tool")


def _is_executable(call: types.FunctionCall, metadata: Mapping[str, Any]) -> bool:
    return bool(call.name) and call.args is not None and not any(key in metadata for key in _NOT_EXECUTABLE)


def _standard_base64(model: BaseModel | None, data: dict[str, Any]) -> None:
    """Rewrite in ``data`` (a JSON dump of ``model``) each bytes field from URL-safe to standard base64."""
    if model is None:
        return
    for name, field in type(model).model_fields.items():
        key = name if name in data else field.alias
        if key is None or key not in data:
            continue
        value, dumped = getattr(model, name), data[key]
        if isinstance(value, bytes):
            data[key] = base64.b64encode(value).decode()
        elif isinstance(value, BaseModel) and isinstance(dumped, dict):
            _standard_base64(value, dumped)
        elif isinstance(value, list) and isinstance(dumped, list) and len(value) == len(dumped):
            for inner, inner_dumped in zip(value, dumped, strict=True):
                if isinstance(inner, BaseModel) and isinstance(inner_dumped, dict):
                    _standard_base64(inner, inner_dumped)


class Template(Generic[_Model]):
    """Makes models that differ from one validated model in few fields, without validating again.

    Validating a part, a content and a response costs ten times more than the rest of the work on one text delta.
    A clone is equal to the model that the constructor would have made, also in ``model_fields_set``, in dumps,
    in copies and when pickled; a test compares them, and fails when pydantic lays its models out anew.

    The template's own values must be immutable: clones share them.
    """

    def __init__(self, model: _Model) -> None:
        self._cls = type(model)
        self._values = dict(model.__dict__)
        self._fields_set = set(model.model_fields_set)
        self._takes_extra = model.__pydantic_extra__ is not None
        self._private = model.__pydantic_private__

    def given(self, fields: Mapping[str, Any]) -> _Model:
        """A new model of which exactly ``fields`` were given; the values must be of the right types already."""
        values = self._values.copy()
        values.update(fields)
        model: _Model = _new(self._cls)
        _set_values(model, values)
        _set_fields_set(model, set(fields))
        _set_extra(model, {} if self._takes_extra else None)
        _set_private(model, self._private and self._private.copy())
        return model

    def clone(self, changes: Mapping[str, Any]) -> _Model:
        """A new model with ``changes`` put in; the values must be of the right types already."""
        values = self._values.copy()
        values.update(changes)
        return _assemble(self._cls, values, self._fields_set.copy())

    def maker(self, name: str) -> Callable[[Any], _Model]:
        """``clone`` of one change, as the cheapest function of its value there can be."""
        cls, copy_values, copy_fields_set = self._cls, self._values.copy, self._fields_set.copy
        # ``_assemble`` written out, with local names: three of these models are made for each delta of a stream
        new, set_values, set_fields_set = _new, _set_values, _set_fields_set
        set_extra, set_private = _set_extra, _set_private

        def make(value: Any) -> _Model:
            values = copy_values()
            values[name] = value
            model: _Model = new(cls)
            set_values(model, values)
            set_fields_set(model, copy_fields_set())
            set_extra(model, None)
            set_private(model, None)
            return model

        return make

    def copiers(self) -> tuple[Callable[[], dict[str, Any]], Callable[[], set[str]], type[_Model]]:
        """What makes a clone's values and its set of fields, and its class."""
        return self._values.copy, self._fields_set.copy, self._cls

    def pair_maker(self, first: str, second: str) -> Callable[[Any, Any], _Model]:
        """``clone`` of two changes, in the same way."""
        cls, copy_values, copy_fields_set = self._cls, self._values.copy, self._fields_set.copy
        new, set_values, set_fields_set = _new, _set_values, _set_fields_set
        set_extra, set_private = _set_extra, _set_private

        def make(first_value: Any, second_value: Any) -> _Model:
            values = copy_values()
            values[first], values[second] = first_value, second_value
            model: _Model = new(cls)
            set_values(model, values)
            set_fields_set(model, copy_fields_set())
            set_extra(model, None)
            set_private(model, None)
            return model

        return make


def nested_maker(
    response: Template[Any], content: Template[Any], part: Template[Any], name: str
) -> Callable[[Any], Any]:
    """A function that makes a response of one part, which is ``part`` with its field ``name`` changed.

    It does what three ``maker`` functions would do one after another, for less: nearly every partial is made by it.
    """
    copy_response, copy_response_set, response_cls = response.copiers()
    copy_content, copy_content_set, content_cls = content.copiers()
    copy_part, copy_part_set, part_cls = part.copiers()
    new, set_values, set_fields_set = _new, _set_values, _set_fields_set
    set_extra, set_private = _set_extra, _set_private

    def make(value: Any) -> Any:
        values = copy_part()
        values[name] = value
        made = new(part_cls)
        set_values(made, values)
        set_fields_set(made, copy_part_set())
        set_extra(made, None)
        set_private(made, None)

        values = copy_content()
        values["parts"] = [made]
        made = new(content_cls)
        set_values(made, values)
        set_fields_set(made, copy_content_set())
        set_extra(made, None)
        set_private(made, None)

        values = copy_response()
        values["content"] = made
        made = new(response_cls)
        set_values(made, values)
        set_fields_set(made, copy_response_set())
        set_extra(made, None)
        set_private(made, None)
        return made

    return make


# pydantic guards attribute assignment; its slot descriptors are the public way round that costs least.
_set_values = cast(Any, BaseModel.__dict__["__dict__"]).__set__
_set_fields_set = cast(Any, BaseModel.__dict__["__pydantic_fields_set__"]).__set__
_set_extra = cast(Any, BaseModel.__dict__["__pydantic_extra__"]).__set__
_set_private = cast(Any, BaseModel.__dict__["__pydantic_private__"]).__set__
_new: Any = object.__new__


def _assemble(cls: type[_Model], values: dict[str, Any], fields_set: set[str]) -> _Model:
    """A model of exactly these values, as pydantic lays its models out; it keeps the dict and the set."""
    model: _Model = _new(cls)
    _set_values(model, values)
    _set_fields_set(model, fields_set)
    _set_extra(model, None)
    _set_private(model, None)
    return model


def read_lenient(cls: type[_Model], raw: Any) -> tuple[_Model | None, Any]:
    """``raw`` (wire JSON) as ``cls``, and what of it no field could hold (None when everything fits).

    Google's types forbid unknown fields, and today's traffic has them (``usageMetadata.serviceTier``); they are
    given back, not dropped. Where a known field holds a value of the wrong type, that field is given back too.
    """
    if not isinstance(raw, dict):
        return None, raw
    known, leftover = _split(cls, raw)
    while True:
        try:
            return cls.model_validate(known), leftover or None
        except ValidationError as problem:
            bad = {str(error["loc"][0]) for error in problem.errors() if error["loc"]} & known.keys()
        except (AttributeError, TypeError, ValueError):  # google-genai's enums break on what is no text
            bad = {name for name, value in known.items() if not _fits(cls, {name: value})}
        if not bad:
            return None, raw
        for name in bad:
            leftover[name] = raw[name]
            del known[name]


def _fits(cls: type[BaseModel], known: dict[str, Any]) -> bool:
    try:
        cls.model_validate(known)
    except (AttributeError, TypeError, ValueError):
        return False
    return True


def _split(cls: type[BaseModel], raw: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(what the fields of ``cls`` take, what they do not), both in the wire's own keys."""
    fields = _fields_by_key(cls)
    known: dict[str, Any] = {}
    leftover: dict[str, Any] = {}
    for key, value in raw.items():
        if key not in fields:
            leftover[key] = value
            continue
        inner = fields[key]
        if inner is None or value is None:
            known[key] = value
        elif issubclass(inner, Enum):
            if isinstance(value, (str, inner)):
                known[key] = _member(inner, value)
            elif isinstance(value, list):
                known[key] = value
            else:
                leftover[key] = value  # a number that the reader's tables do not know
        elif isinstance(value, dict):
            known[key], rest = _split(inner, value)
            if rest:
                leftover[key] = rest
        elif isinstance(value, list) and all(isinstance(item, dict) for item in value):
            pairs = [_split(inner, item) for item in value]
            known[key] = [pair[0] for pair in pairs]
            if any(pair[1] for pair in pairs):
                leftover[key] = [pair[1] for pair in pairs]
        else:
            known[key] = value
    return known, leftover


_FIELDS: dict[type[BaseModel], dict[str, Any]] = {}


def _fields_by_key(cls: type[BaseModel]) -> dict[str, Any]:
    """Each key that ``cls`` reads, with the model or enum of its value (or of the list's items), or None."""
    if cls not in _FIELDS:
        table: dict[str, Any] = {}
        for name, field in cls.model_fields.items():
            inner = next(filter(None, map(_kind, _types_in(field.annotation))), None)
            for key in (name, field.alias):
                if key is not None:
                    table[key] = inner
        _FIELDS[cls] = table
    return _FIELDS[cls]


def _kind(annotation: Any) -> Any:
    return annotation if isinstance(annotation, type) and issubclass(annotation, (BaseModel, Enum)) else None


@cache
def _member(cls: type[Enum], value: Any) -> Any:
    """The member of that name; google-genai makes one for a name it does not know, and would warn each time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cls(value)


def _types_in(annotation: Any) -> list[Any]:
    """The plain types an annotation is made of, dict values aside (their keys are data, not fields)."""
    if getattr(annotation, "__origin__", None) is dict:
        return []
    inner = getattr(annotation, "__args__", None)
    return [t for part in inner for t in _types_in(part)] if inner else [annotation]
