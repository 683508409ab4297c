"""The conversation, read once for all models: its turns, the parts of the user, files, the results of tools."""

from __future__ import annotations

import base64
import json
import mimetypes
import re
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from adk_stream.errors import RequestError
from adk_stream.parts import encodable

if TYPE_CHECKING:
    from google.genai import types

    from adk_stream.models.history import Turn
    from adk_stream.models.request import ModelRequest

__all__ = ["Media", "ToolResult", "conversation", "encodable_json", "media_of", "tool_result", "wire_id", "write_part"]

_UNKNOWN_TYPE = "application/octet-stream"


class Media(NamedTuple):
    """A file, with its bytes or by reference.

    Attributes:
        mime_type: Its type, without parameters (``audio/L16;rate=16000`` is ``audio/l16``).
        data: Its bytes; None for a reference.
        uri: Where it is: a URL, or the provider's own id of an uploaded file.
        name: Its name; None if it has none.
    """

    mime_type: str
    data: bytes | None = None
    uri: str = ""
    name: str | None = None

    @property
    def kind(self) -> str:
        """``image``, ``audio``, ``video``, ``text``, ``application``."""
        return self.mime_type.partition("/")[0]

    @property
    def base64(self) -> str:
        """The bytes in base64 (RFC 4648 section 4)."""
        return base64.b64encode(self.data or b"").decode()

    @property
    def data_url(self) -> str:
        """The bytes as a ``data:`` URL."""
        return f"data:{self.mime_type};base64,{self.base64}"

    @property
    def is_on_the_web(self) -> bool:
        """Whether the provider can fetch it by itself."""
        return self.data is None and self.uri.startswith(("https://", "http://"))

    @property
    def text(self) -> str:
        """The bytes as text.

        Raises:
            RequestError: they are no UTF-8.
        """
        try:
            return (self.data or b"").decode()
        except UnicodeDecodeError as problem:
            raise RequestError(f"a file of type {self.mime_type} is no UTF-8: {problem}") from problem

    @property
    def filename(self) -> str:
        """Its name, or one made of its type, for wires that want one."""
        return self.name or f"file{mimetypes.guess_extension(self.mime_type) or ''}"

    def refused(self, provider: str) -> RequestError:
        """The error that says that the provider takes no such file."""
        where = "" if self.data is not None else f" at {self.uri[:200]}"
        return RequestError(f"{provider} takes no file of type {self.mime_type}{where}")


def media_of(part: types.Part | types.FunctionResponsePart) -> Media | None:
    """The part's file; None if it has none."""
    if part.inline_data is not None:
        blob = part.inline_data
        return Media(_plain(blob.mime_type), blob.data or b"", name=blob.display_name)
    if part.file_data is not None:
        told = part.file_data
        uri = told.file_uri or ""
        return Media(_plain(told.mime_type or mimetypes.guess_type(uri)[0]), None, uri, told.display_name)
    return None


def _plain(mime_type: str | None) -> str:
    return (mime_type or _UNKNOWN_TYPE).partition(";")[0].strip().lower()


def conversation(request: ModelRequest) -> list[Turn]:
    """The request's messages in turns.

    Raises:
        RequestError: no message holds anything that can be sent.
    """
    from adk_stream.models.history import turns

    found = turns(request.messages)
    if not found:
        raise RequestError("there is nothing to ask: no message holds anything that can be sent")
    return found


def write_part(
    part: types.Part, provider: str, text_type: str, write_media: Callable[[Media], dict[str, Any]]
) -> dict[str, Any]:
    """A part of the user on the wire.

    Args:
        part: Text, or a file.
        provider: The line, for errors.
        text_type: What the wire calls text.
        write_media: A file in the provider's words.

    Raises:
        RequestError: it is something that the wire has no form for.
    """
    media = media_of(part)
    if media is not None:
        return write_media(media)
    if part.text is not None:
        return {"type": text_type, "text": encodable(part.text)}
    held = ", ".join(part.model_dump(exclude_none=True)) or "nothing"
    raise RequestError(f"{provider} has no form for a part of the user that holds {held}")


class ToolResult(NamedTuple):
    """What a tool answered.

    Attributes:
        call_id: The call that it answers.
        name: The tool.
        text: The answer as text, JSON where it is no string.
        failed: Whether it is an error.
        media: The files that came with it.
    """

    call_id: str
    name: str
    text: str
    failed: bool
    media: list[Media]


def tool_result(response: types.FunctionResponse) -> ToolResult:
    """The result in google-genai's words: ``output`` (google-adk: ``result``) or ``error``, else the whole object."""
    told: Mapping[str, Any] = response.response or {}
    failed = bool(told.get("error")) and not ({"output", "result"} & told.keys())
    answer: Any = told
    if len(told) == 1:
        answer = told.get("output", told.get("result", told))
    media = [each for each in map(media_of, response.parts or ()) if each is not None]
    return ToolResult(response.id or "", response.name or "", _as_text(answer), failed, media)


def _as_text(answer: Any) -> str:
    if isinstance(answer, str):
        return encodable(answer)
    from pydantic_core import to_jsonable_python

    return encodable(json.dumps(to_jsonable_python(answer, fallback=str), ensure_ascii=False))


def encodable_json(value: Any) -> Any:
    """The JSON value without halves of surrogate pairs, which no request can hold: ``encodable`` at every depth."""
    text = json.dumps(value, ensure_ascii=False)
    clean = encodable(text)
    return value if clean == text else json.loads(clean)


def wire_id(id: str | None, longest: int, characters: str = r"\S") -> str:
    """The id of a call, as it is where the provider takes it; else one that is made of it, always the same.

    A conversation may hold calls of another provider, whose ids are longer or of other characters.
    """
    told = id or ""
    if re.fullmatch(f"[{characters}]{{1,{longest}}}", told):
        return told
    mark = f"_{zlib.crc32(told.encode(errors='replace')):08x}"
    return re.sub(f"[^{characters}]", "_", told)[: longest - len(mark)] + mark
