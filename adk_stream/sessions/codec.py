"""Events to JSON text and back by a short way, several times cheaper than pydantic's.

The fields that nearly every event consists of stand in a table. An event that has another one, or a value that is not
exactly of its field's type, is nothing for this module: pydantic takes it, the long way. So this way can afford to be
simple, and both must give the same text's worth and the same object wherever both can go; a test compares them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from enum import Enum
from math import isfinite
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar, get_args

import msgspec
from google.genai import types
from pydantic import BaseModel

from adk_stream.response import Status, Template

from .event import Event, EventActions

__all__ = ["read_quickly", "write_quickly"]

_Model = TypeVar("_Model", bound=BaseModel)


def write_quickly(event: Event) -> str | None:
    """The event as JSON, as ``sessions.stored`` describes it; None if it has to go the long way."""
    try:
        return msgspec.json.encode(_EVENT.write(event)).decode()
    except _LONG_WAY:
        return None


def read_quickly(text: str) -> Event | None:
    """The event that ``text`` holds, a new object; None if it has to go the long way."""
    try:
        return _EVENT.read(msgspec.json.decode(text))
    except _LONG_WAY:
        return None


class _Unusual(Exception):
    """A value that is not exactly of its field's type."""


# KeyError: a field or a word that is not in a table; TypeError: what cannot be in one; ValueError: half of a
# surrogate pair, and integers of thousands of digits.
_LONG_WAY = (_Unusual, KeyError, TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)


def _refuse(value: Any) -> NoReturn:
    raise _Unusual


class _Kind(NamedTuple):
    """How values of one type are written and read: as they are if they are exactly of a type, else by a function."""

    write: Callable[[Any], Any] = _refuse
    read: Callable[[Any], Any] = _refuse
    written_as_is: type | None = None
    read_as_is: type | None = None


def _exactly(kind: type) -> _Kind:
    return _Kind(written_as_is=kind, read_as_is=kind)


def _one_of(*values: str) -> _Kind:
    same = {value: value for value in values}
    return _Kind(same.__getitem__, same.__getitem__)


def _member_of(enum: type[Enum]) -> _Kind:
    members: dict[Any, Enum] = {member.value: member for member in enum}
    values = {member: value for value, member in members.items()}
    return _Kind(values.__getitem__, members.__getitem__)


def _list_of(item: _Kind) -> _Kind:
    def all_by(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda value: [convert(item) for item in value] if type(value) is list else _refuse(value)

    return _Kind(all_by(item.write), all_by(item.read))


def _write_number(value: Any) -> float:
    return value if type(value) is float and isfinite(value) else _refuse(value)


def _write_bytes(value: Any) -> str:
    return base64.b64encode(value).decode() if type(value) is bytes else _refuse(value)


def _read_bytes(value: Any) -> bytes:
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except (TypeError, ValueError):
        _refuse(value)


def _write_names(value: Any) -> list[str]:
    return sorted(value) if type(value) is set and {str}.issuperset(map(type, value)) else _refuse(value)


def _read_names(value: Any) -> set[str]:
    return set(value) if type(value) is list and {str}.issuperset(map(type, value)) else _refuse(value)


def _write_values(value: Any) -> Any:
    if type(value) is not dict:
        _refuse(value)
    _must_be_plain(value)
    return value


def _must_be_plain(value: Any) -> None:
    """Nothing in it but what JSON has, so that msgspec's notion of other types does not matter."""
    kind = type(value)
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                _refuse(key)
            if type(item) not in _PLAIN:
                _must_be_plain(item)
    elif kind is list:
        for item in value:
            if type(item) not in _PLAIN:
                _must_be_plain(item)
    else:
        _write_number(value)


def _empty(value: Any) -> Any:
    return value if type(value) is dict and not value else _refuse(value)


_PLAIN = frozenset({str, int, bool, type(None)})

_STR, _INT, _BOOL = _exactly(str), _exactly(int), _exactly(bool)
_NAME = _Kind(read=lambda value: value if type(value) is str and value else _refuse(value), written_as_is=str)
_NUMBER = _Kind(_write_number, read_as_is=float)
_BYTES = _Kind(_write_bytes, _read_bytes)
_NAMES = _Kind(_write_names, _read_names)
_VALUES = _Kind(_write_values, read_as_is=dict)
_EMPTY = _Kind(_empty, _empty)


class _Shape(Generic[_Model]):
    """A model by its usual fields.

    Args:
        usual: A model of that class.
        fields: The kind of each usual field.
    """

    def __init__(self, usual: _Model, **fields: _Kind) -> None:
        self._cls = type(usual)
        self._template = Template(usual)
        known = self._cls.model_fields
        keys = {name: known[name].alias or name for name in fields}
        self._to_write = {name: (keys[name], kind.written_as_is, kind.write) for name, kind in fields.items()}
        self._to_read = {keys[name]: (name, kind.read_as_is, kind.read) for name, kind in fields.items()}
        # A value that is made anew for each model must be in the JSON: the template's own may not be shared.
        self._needed = {name for name, field in known.items() if field.default_factory is not None}

    @property
    def kind(self) -> _Kind:
        """Models of this shape as values of a field."""
        return _Kind(self.write, self.read)

    def write(self, model: Any) -> dict[str, Any]:
        if type(model) is not self._cls or model.__pydantic_extra__:
            _refuse(model)
        data: dict[str, Any] = {}
        to_write = self._to_write
        for name, value in model.__dict__.items():
            if value is not None:
                key, as_is, write = to_write[name]
                data[key] = value if type(value) is as_is else write(value)
        return data

    def read(self, data: Any) -> _Model:
        if type(data) is not dict:
            _refuse(data)
        given: dict[str, Any] = {}
        to_read = self._to_read
        for key, value in data.items():
            name, as_is, read = to_read[key]
            given[name] = value if type(value) is as_is else read(value)
        if self._needed and not given.keys() >= self._needed:
            _refuse(data)
        return self._template.given(given)


_CALL = _Shape(types.FunctionCall(), id=_STR, name=_STR, args=_VALUES).kind
_ANSWER = _Shape(types.FunctionResponse(), id=_STR, name=_STR, response=_VALUES).kind
_BLOB = _Shape(types.Blob(), data=_BYTES, mime_type=_STR, display_name=_STR).kind
_FILE = _Shape(types.FileData(), file_uri=_STR, mime_type=_STR, display_name=_STR).kind
_PART = _Shape(
    types.Part(),
    text=_STR,
    thought=_BOOL,
    thought_signature=_BYTES,
    function_call=_CALL,
    function_response=_ANSWER,
    inline_data=_BLOB,
    file_data=_FILE,
    part_metadata=_VALUES,
).kind
_CONTENT = _Shape(types.Content(), role=_STR, parts=_list_of(_PART)).kind
_DETAILS = _list_of(_Shape(types.ModalityTokenCount(), modality=_member_of(types.MediaModality), token_count=_INT).kind)
_USAGE = _Shape(
    types.GenerateContentResponseUsageMetadata(),
    prompt_token_count=_INT,
    candidates_token_count=_INT,
    thoughts_token_count=_INT,
    cached_content_token_count=_INT,
    tool_use_prompt_token_count=_INT,
    total_token_count=_INT,
    prompt_tokens_details=_DETAILS,
    candidates_tokens_details=_DETAILS,
    cache_tokens_details=_DETAILS,
).kind
_TRANSCRIPTION = _Shape(types.Transcription(), text=_STR, finished=_BOOL).kind
_ACTIONS = _Shape(
    EventActions(),
    state_delta=_VALUES,
    artifact_delta=_EMPTY,
    requested_auth_configs=_EMPTY,
    requested_tool_confirmations=_EMPTY,
    transfer_to_agent=_STR,
    escalate=_BOOL,
    skip_summarization=_BOOL,
).kind
_EVENT = _Shape(
    Event(),
    id=_NAME,
    invocation_id=_STR,
    author=_STR,
    timestamp=_NUMBER,
    actions=_ACTIONS,
    branch=_STR,
    long_running_tool_ids=_NAMES,
    content=_CONTENT,
    model_version=_STR,
    partial=_BOOL,
    turn_complete=_BOOL,
    interrupted=_BOOL,
    finish_reason=_member_of(types.FinishReason),
    native_finish_reason=_STR,
    status=_one_of(*get_args(Status)),
    error_code=_STR,
    error_message=_STR,
    usage_metadata=_USAGE,
    response_id=_STR,
    custom_metadata=_VALUES,
    provider_metadata=_VALUES,
    input_transcription=_TRANSCRIPTION,
    output_transcription=_TRANSCRIPTION,
)
