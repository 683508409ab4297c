"""AG-UI: ``POST /ag-ui/{app}`` takes a ``RunAgentInput`` and answers with the run's events.

The thread is the session's id, the user is the query's ``user_id``. The tools that the front end brings are declared
to the model for this run; a call to one of them ends the run, and its result comes with the next.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from google.genai import types
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .limits import checked_name, read_model
from .messages import file_part, result_part
from .problems import Problem
from .service import service_of
from .threads import new_message

try:
    from ag_ui.core import ContentPart, RunAgentInput, ToolMessage, UserMessage

    from adk_stream.encoders import AgUiEncoder
except ImportError as missing:
    raise ImportError("AG-UI needs ag-ui-protocol: pip install 'adk-stream[server]'") from missing

__all__ = ["ROUTES", "RunAgentInput"]


async def run(request: Request) -> Response:
    """``POST /ag-ui/{app}``."""
    service = service_of(request)
    asked = await read_model(request, service.config.limits, RunAgentInput)
    user_id = request.query_params.get("user_id", "user")
    key = service.key(request.path_params["app"], user_id, asked.thread_id)
    checked_name("a run's id", asked.run_id)
    results, said = _new(asked)
    message = new_message(await service.session_or_new(key), results, said)
    tools = [
        {"name": tool.name, "description": tool.description, "parameters_json_schema": tool.parameters or _NO_ARGUMENTS}
        for tool in asked.tools or ()
    ]
    return await service.answer(key, message, lambda _: AgUiEncoder(asked.thread_id, asked.run_id), client_tools=tools)


_NO_ARGUMENTS = {"type": "object", "properties": {}}


def _new(asked: RunAgentInput) -> tuple[list[types.Part], list[types.Part]]:
    """The results of tools, and what the user said, after the last message of the assistant."""
    results: list[types.Part] = []
    said: list[types.Part] = []
    for message in reversed(asked.messages):
        if message.role == "assistant":
            break
        if isinstance(message, ToolMessage):
            told = message.content if isinstance(message.content, str) else _text(message.content)
            output = {"error": message.error} if message.error else told
            results.insert(0, result_part(message.tool_call_id, None, output))
        elif isinstance(message, UserMessage):
            content = message.content
            said[:0] = [types.Part(text=content)] if isinstance(content, str) else [_part(each) for each in content]
    return results, said


def _text(parts: list[ContentPart]) -> str:
    return "".join(part.text for part in parts if part.type == "text")


def _part(part: Any) -> types.Part:
    if part.type == "text":
        return types.Part(text=part.text)
    source = part.source
    if source.type == "url":
        return file_part(source.value, source.mime_type)
    if source.type != "data":
        raise Problem(422, f"a file of the source {source.type!r} cannot be read here")
    try:
        data = base64.b64decode(source.value, validate=True)
    except binascii.Error:
        raise Problem(422, "the data of a file is not base64") from None
    return types.Part(inline_data=types.Blob(mime_type=source.mime_type, data=data))


ROUTES = [Route("/ag-ui/{app}", run, methods=["POST"])]
