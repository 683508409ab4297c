"""What a client says, as the Content that a runner takes: text, files, and answers to calls that were left to it."""

from __future__ import annotations

import base64
import binascii
import json
import mimetypes
from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

from google.genai import types
from pydantic import AfterValidator

from .problems import Problem

__all__ = ["UserContent", "file_part", "result_part", "user_content"]

#: What a part of the user's may hold.
_ALLOWED = frozenset({"text", "inline_data", "file_data", "function_response", "video_metadata", "media_resolution"})


def _checked(content: types.Content) -> types.Content:
    parts = content.parts or []
    if not parts:
        raise ValueError("a message needs parts")
    for part in parts:
        held = {name for name in part.model_fields_set if getattr(part, name) is not None}
        if not held or held - _ALLOWED:
            raise ValueError(f"a part of the user cannot hold {', '.join(sorted(held - _ALLOWED)) or 'nothing'}")
    return types.Content(role="user", parts=parts)


#: A message of the user in google-genai's form.
UserContent = Annotated[types.Content, AfterValidator(_checked)]


def user_content(parts: Sequence[types.Part]) -> types.Content:
    """A message of these parts.

    Raises:
        Problem: 422, there are none.
    """
    if not parts:
        raise Problem(422, "there is nothing new to answer: the last message must be the user's, or results of tools")
    return types.Content(role="user", parts=list(parts))


def file_part(url: str, mime_type: str | None = None, name: str | None = None) -> types.Part:
    """A file by its URL; of a ``data:`` URL (RFC 2397) the bytes.

    Raises:
        Problem: 422, it is neither a ``data:`` URL nor one of the web.
    """
    if url.startswith("data:"):
        head, comma, body = url[5:].partition(",")
        kind, *attributes = head.split(";")
        try:
            data = base64.b64decode(body, validate=True) if "base64" in attributes else unquote_to_bytes(body)
        except (binascii.Error, ValueError):
            raise Problem(422, "a data: URL cannot be read") from None
        if not comma:
            raise Problem(422, "a data: URL cannot be read")
        blob = types.Blob(mime_type=mime_type or kind or "text/plain", data=data, display_name=name)
        return types.Part(inline_data=blob)
    if not url.startswith(("https://", "http://", "gs://")):
        raise Problem(422, "a file is given by a data:, https:, http: or gs: URL")
    kind = mime_type or mimetypes.guess_type(url.partition("?")[0])[0] or "application/octet-stream"
    return types.Part(file_data=types.FileData(file_uri=url, mime_type=kind, display_name=name))


def result_part(call_id: str, name: str | None, output: Any) -> types.Part:
    """The answer to a call: JSON text of an object is that object, anything else is its ``output``."""
    if isinstance(output, str):
        try:
            read = json.loads(output)
        except (ValueError, RecursionError):
            read = None
        output = read if isinstance(read, dict) else output
    response = output if isinstance(output, dict) else {"output": output}
    return types.Part(function_response=types.FunctionResponse(id=call_id, name=name, response=response))
