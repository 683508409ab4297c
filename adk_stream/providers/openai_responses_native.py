"""The way back on the Responses line: finished responses to the output items that go into ``input``.

What no field of a google-genai part holds stands in ``part_metadata["openai-responses"]``, written by the
reader and read here alone:

``output_index``
    The item's place; the parts of one item share it, and are one item again here.
``content_index``, ``summary_index``
    The part's place in the item's ``content`` or ``summary``; neither: the part stands for the item itself.
``item``
    The item's own fields (``id``, ``type``, ``role``, ``phase``, …), without those that the part holds.
``content``, ``whole``
    Fields of the content part that the part does not hold; or all of it, where it is no text.
``annotations``, ``arguments``, ``outputs``, ``result``
    The wire's own form, where ours does not lead back to it.

Fields that became known after a call was given out stand in the response's ``provider_metadata``, under
``["openai-responses"]["items"]`` by output index.

Wire facts: the OpenAI API reference, "Create a model response", ``input`` and ``output`` items.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from adk_stream.arguments import parse_arguments
from adk_stream.errors import NativeError

if TYPE_CHECKING:
    from google.genai import types

    from adk_stream.response import LlmResponse

__all__ = ["PROVIDER", "dump_arguments", "to_native"]

#: The key of ``part_metadata`` and ``provider_metadata``; the line's name.
PROVIDER = "openai-responses"

#: Items that go back with a status; the parts keep it only where it is another than the usual.
_WITH_STATUS = ("message", "function_call", "code_interpreter_call", "image_generation_call")


def dump_arguments(args: Mapping[str, Any]) -> str:
    """The JSON text that stands for ``args`` where the wire's own was written just so (or is not known)."""
    return json.dumps(args, ensure_ascii=False, separators=(",", ":"))


def to_native(responses: Sequence[LlmResponse]) -> list[dict[str, Any]]:
    """The output items, in order, with every opaque value in its place.

    Of a response that came on another line, text and calls are kept; signatures, server tools and reasoning
    are that provider's own. Server tools that were cut are left out: none may go back still in progress.

    Raises:
        NativeError: a response is partial.
    """
    items: dict[Any, dict[str, Any]] = {}
    late: dict[Any, Mapping[str, Any]] = {}
    for number, response in enumerate(responses):
        if response.partial:
            raise NativeError("a partial response is a hint for display and no part of the history")
        beside = response.provider_metadata or {}
        if beside.get("provider") not in (PROVIDER, None):
            _add_foreign(items, number, response.parts)
            continue
        for place, part in enumerate(response.parts):
            own = (part.part_metadata or {}).get(PROVIDER)
            if isinstance(own, Mapping):
                _add_own(items, (response.response_id, str(own.get("output_index"))), part, own)
            else:
                _add_block(items, (number, place), part)
        for index, fields in ((beside.get(PROVIDER) or {}).get("items") or {}).items():
            late[response.response_id, str(index)] = fields
    for key, fields in late.items():
        if key in items:
            items[key].update(fields)
    return list(items.values())


def _add_block(items: dict[Any, dict[str, Any]], key: Any, part: types.Part) -> None:
    """A server tool's item as it came; or a part that a caller made."""
    metadata = part.part_metadata or {}
    block = metadata.get("server_tool")
    if isinstance(block, Mapping):
        if "unfinished" not in metadata:
            items[key] = deepcopy(dict(block))
        return
    _add_foreign(items, key, [part])


def _add_foreign(items: dict[Any, dict[str, Any]], key: Any, parts: Sequence[types.Part]) -> None:
    """Text and calls alone; neighbouring texts are one message."""
    for place, part in enumerate(parts):
        metadata = part.part_metadata or {}
        if "server_tool" in metadata or part.thought:
            continue
        if part.function_call is not None:
            items["foreign call", key, place] = _call(part.function_call, metadata, {})
        elif part.text:
            said = _content(part.text, bool(metadata.get("refusal")), {})
            newest = next(reversed(items), None)
            if newest is not None and newest[0] == "foreign text":
                items[newest]["content"].append(said)
            else:
                message = {"type": "message", "role": "assistant", "content": [said], "status": "completed"}
                items["foreign text", key, place] = message


def _add_own(items: dict[Any, dict[str, Any]], key: Any, part: types.Part, own: Mapping[str, Any]) -> None:
    """One part of an item; the first opens it, the others add what they hold."""
    metadata = part.part_metadata or {}
    if part.executable_code is not None and "unfinished" in metadata:
        return
    item = items.setdefault(key, {})
    item.update(deepcopy(own.get("item") or {}))
    if part.function_call is not None:
        item.update(_call(part.function_call, metadata, own))
    elif part.executable_code is not None:
        item["code"] = part.executable_code.code
    elif part.code_execution_result is not None:
        outputs = own.get("outputs")
        item["outputs"] = [{"type": "logs", "logs": part.code_execution_result.output}] if outputs is None else outputs
    elif part.inline_data is not None:
        item["result"] = own.get("result") or base64.b64encode(part.inline_data.data or b"").decode()
    else:
        _add_text(item, part, metadata, own)
    if item.get("type") in _WITH_STATUS:
        item.setdefault("status", "incomplete" if "unfinished" in metadata else "completed")


def _add_text(item: dict[str, Any], part: types.Part, metadata: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """A text, refusal, reasoning text or summary; or a content part that has no field of ours."""
    item.setdefault("summary" if item.get("type") == "reasoning" else "content", [])
    if part.thought_signature:
        item["encrypted_content"] = part.thought_signature.decode("utf-8", "surrogatepass")
    extras = deepcopy(own.get("content") or {})
    if "whole" in own:
        item.setdefault("summary" if "summary_index" in own else "content", []).append(deepcopy(own["whole"]))
    elif "summary_index" in own:
        item.setdefault("summary", []).append({"type": "summary_text", "text": part.text or "", **extras})
    elif "content_index" in own and part.thought:
        item.setdefault("content", []).append({"type": "reasoning_text", "text": part.text or "", **extras})
    elif "content_index" in own:
        item["content"].append(_content(part.text or "", bool(metadata.get("refusal")), own))


def _content(text: str, refusal: bool, own: Mapping[str, Any]) -> dict[str, Any]:
    extras = deepcopy(own.get("content") or {})
    if refusal:
        return {"type": "refusal", "refusal": text, **extras}
    annotations = deepcopy(own.get("annotations") or [])
    return {"type": "output_text", "text": text, "annotations": annotations, **extras}


def _call(call: types.FunctionCall, metadata: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """A function or custom tool call; arguments that the wire wrote in its own way are written so again."""
    item: dict[str, Any] = {"call_id": call.id, "name": call.name}
    if metadata.get("custom_tool"):
        said = (call.args or {}).get("input")
        text = said if isinstance(said, str) else metadata.get("raw_arguments") or ""
        return {"type": "custom_tool_call", **item, "input": text}
    if call.args is None:
        text = metadata.get("raw_arguments") or ""
    else:
        written = own.get("arguments")
        same = isinstance(written, str) and parse_arguments(written) == call.args
        text = str(written) if same else dump_arguments(call.args)
    return {"type": "function_call", **item, "arguments": text}
