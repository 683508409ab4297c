"""A finished response back to Anthropic's own assistant message, to be sent as history.

Built from the responses alone, so that a session may stand in between. Turns that came from Anthropic go
back complete: signatures, redacted thinking, citations with their encrypted indexes, server tools and their
results, in the order of the wire. Of another provider's turn only what Anthropic could understand goes: text
and calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from adk_stream.errors import NativeError

if TYPE_CHECKING:
    from google.genai import types

    from adk_stream.response import LlmResponse

__all__ = ["PROVIDER", "is_server_tool", "to_native"]

PROVIDER = "anthropic"


def is_server_tool(kind: str) -> bool:
    """Is a block of this ``type`` a tool that the provider runs, or the result of one?"""
    return kind.endswith(("_tool_use", "_tool_result"))


def to_native(responses: Sequence[LlmResponse]) -> dict[str, Any]:
    """``{"role": "assistant", "content": [block, …]}`` in the Messages API's form.

    Texts that are empty are left out, since the API refuses them.

    Raises:
        NativeError: a response is partial.
    """
    blocks: list[dict[str, Any]] = []
    for response in responses:
        if response.partial:
            raise NativeError("a partial response is a hint for display and no part of the history")
        own = (response.provider_metadata or {}).get("provider") == PROVIDER
        for part in response.parts:
            blocks += _blocks(part, own)
    return {"role": "assistant", "content": blocks}


def _blocks(part: types.Part, own: bool) -> Iterator[dict[str, Any]]:
    metadata = part.part_metadata or {}
    extras = deepcopy(metadata.get(PROVIDER) or {}) if own else {}
    if part.function_call is not None:
        yield _tool_use(part.function_call, metadata, extras)
    elif "server_tool" in metadata or "block" in extras:
        if own:
            block = deepcopy(metadata["server_tool"]) if "server_tool" in metadata else extras["block"]
            yield {**block, "input": _raw(metadata)} if "raw_arguments" in metadata else block
    elif part.thought:
        if own:
            yield _thinking(part, extras)
    elif part.text:
        yield {"type": "text", "text": part.text, **extras}


def _tool_use(call: types.FunctionCall, metadata: dict[str, Any], extras: dict[str, Any]) -> dict[str, Any]:
    given = deepcopy(call.args) if call.args is not None else _raw(metadata)
    return {"type": "tool_use", "id": call.id or "", "name": call.name or "", "input": given, **extras}


def _raw(metadata: dict[str, Any]) -> dict[str, Any]:
    """Arguments that do not parse, where the API wants an object."""
    raw = metadata.get("raw_arguments") or ""
    return {"raw_arguments": raw} if raw.strip() else {}


def _thinking(part: types.Part, extras: dict[str, Any]) -> dict[str, Any]:
    opaque = (part.thought_signature or b"").decode("utf-8", "surrogatepass")
    if extras.get("type") == "redacted_thinking":
        return {**extras, "data": opaque}
    unsigned = extras.pop("unsigned", False) and not opaque
    block = {"type": "thinking", "thinking": part.text or "", **extras}
    return block if unsigned else {**block, "signature": opaque}
