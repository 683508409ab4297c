"""What a client may send: sizes, depths and names, judged while it is read and before it is used."""

from __future__ import annotations

import asyncio
import json
import math
import re
from dataclasses import dataclass, fields
from typing import Annotated, Any, NoReturn, TypeVar

import msgspec
from pydantic import BaseModel, Field, ValidationError
from starlette.requests import ClientDisconnect, Request

from .problems import Problem, invalid

__all__ = ["Limits", "Name", "StateKey", "checked_name", "fitted", "read_json", "read_model"]

_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the service.

    Attributes:
        max_body_bytes: Of a request.
        body_timeout: Seconds that a client may take to send it.
        max_depth: How deep a body's JSON may be nested.
        max_runs: Runs and completions at once in this process.
        max_followers: Streams of events at once in this process.
        max_session_events: A session that holds so many takes no further run.
        keep_alive: Seconds of silence on a stream of events until a comment is sent; 0: none.
        send_timeout: Seconds that a client may take to accept one write before it is left.
        drain_seconds: How long runs may go on once the service is asked to stop; then they are cancelled.

    Raises:
        ValueError: a limit is negative, or 0 where that makes no sense.
    """

    max_body_bytes: int = 16 * 1024 * 1024
    body_timeout: float = 30.0
    max_depth: int = 64
    max_runs: int = 200
    max_followers: int = 2000
    max_session_events: int = 10_000
    keep_alive: float = 15.0
    send_timeout: float = 30.0
    drain_seconds: float = 20.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (value >= 0 if field.name in ("keep_alive", "drain_seconds") else value > 0):
                raise ValueError(f"{field.name} is out of range: {value!r}")


async def read_json(request: Request, limits: Limits, *, optional: bool = False) -> Any:
    """The body. ``optional``: None where there is none.

    A body must say that it is JSON: a page of another site can then send none without the browser asking first.

    Raises:
        Problem: 408, it takes too long; 413, 415; 400: it is no JSON, too deep, or holds text that has no UTF-8 form.
    """
    try:
        async with asyncio.timeout(limits.body_timeout):
            data = await _read_body(request, limits.max_body_bytes)
    except TimeoutError:
        raise Problem(408, "the body takes too long", headers=_CLOSE) from None
    except ClientDisconnect:
        raise Problem(400, "the body broke off") from None
    if optional and not data:
        return None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise Problem(415, "the body must be application/json")
    try:
        value = _decode(data)
    except (ValueError, RecursionError) as error:
        raise Problem(400, f"the body is not JSON: {error}") from None
    if data.count(b"[") + data.count(b"{") > limits.max_depth and _depth(value, limits.max_depth) > limits.max_depth:
        raise Problem(400, f"the body is nested deeper than {limits.max_depth}")
    if _HALF_PAIR.search(data) and not _is_utf8(value):
        raise Problem(400, "the body holds half of a surrogate pair, which is no text")
    return value


async def read_model(request: Request, limits: Limits, model: type[_Model], *, optional: bool = False) -> _Model:
    """The body as ``model``; with ``optional`` no body is an empty one.

    Raises:
        Problem: as ``read_json``, and 422 where it does not fit the model.
    """
    value = await read_json(request, limits, optional=optional)
    return fitted(model, {} if value is None else value)


def fitted(model: type[_Model], value: Any) -> _Model:
    """``value`` as ``model``.

    Raises:
        Problem: 422, it does not fit.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise invalid(error) from None
    except (AttributeError, TypeError, ValueError) as error:  # google-genai's enums break on what is no text
        raise Problem(422, f"the body does not fit: {error}") from None


#: What is left of a body is not read.
_CLOSE = {"connection": "close"}


async def _read_body(request: Request, most: int) -> bytes:
    too_large = Problem(413, f"the body is larger than {most} bytes", headers=_CLOSE)
    told = request.headers.get("content-length", "")
    if told.isdecimal() and int(told[:20]) > most:
        raise too_large
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > most:
            raise too_large
        pieces.append(piece)
    return b"".join(pieces)


def _decode(data: bytes) -> Any:
    try:
        return _decode_strictly(data)
    except msgspec.DecodeError:  # it refuses integers and halves of surrogate pairs that the standard library takes
        return json.loads(data.decode(), parse_constant=_no_number, parse_float=_finite)


_decode_strictly = msgspec.json.Decoder().decode


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word[:40]} is no number")


def _finite(word: str) -> float:
    value = float(word)
    return value if math.isfinite(value) else _no_number(word)


def _depth(value: Any, most: int) -> int:
    """How deep ``value`` is nested, counted to one more than ``most``."""
    level, depth = [value], 0
    while level and depth <= most:
        level = [inner for each in level for inner in _inside(each) if isinstance(inner, (dict, list))]
        depth += 1
    return depth


def _inside(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


#: An escape of JSON that may be half of a pair.
_HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")


def _is_utf8(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


_NAME = r"^[^\x00-\x1f\x7f/]{1,256}$"

#: The name of an application, a user or a session: no slash, no control characters.
Name = Annotated[str, Field(pattern=_NAME)]

#: A key of a session's state.
StateKey = Annotated[str, Field(pattern=r"^[^\x00]{1,256}$")]

_is_name = re.compile(_NAME).fullmatch


def checked_name(what: str, name: str) -> str:
    """A name from a path.

    Raises:
        Problem: 422, it is none.
    """
    if _is_name(name) is None:
        raise Problem(422, f"{what} is 1 to 256 characters, without slashes and control characters")
    return name
