"""Responses and messages as JSON, one a line, whatever a model has put into them.

A model's text may hold half of a surrogate pair, which has no UTF-8 form: such a line is written in ASCII with
escapes (RFC 8259 section 8.2). A number that JSON does not hold becomes null.
"""

from __future__ import annotations

import base64
import json
import sys
from math import isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["json_of", "json_of_model", "write_line"]

_REPLACED = "\ufffd"


def json_of_model(model: BaseModel) -> str:
    """A model in camelCase, without nulls, bytes in standard base64."""
    from pydantic_core import PydanticSerializationError

    try:
        text = model.model_dump_json(by_alias=True, exclude_none=True)
    except (PydanticSerializationError, UnicodeError):
        text = _REPLACED
    # pydantic refuses half a surrogate pair in some places and writes U+FFFD for it in others
    return json_of(model.model_dump(by_alias=True, exclude_none=True)) if _REPLACED in text else text


def json_of(value: Any) -> str:
    """A JSON value on one line."""
    value = _json_value(value)
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"))
    return text


def write_line(text: str) -> None:
    """A line on stdout, at once: whoever reads it may wait for it."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_value(item) for item in value]
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if value is None or isinstance(value, (str, int)):
        return value
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value)
