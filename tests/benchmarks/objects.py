"""The same streams as the objects that the official SDKs make of them, and what accumulates those objects.

An accumulator is a function from objects to (text, thought, list of JSON arguments), as a peer is from frames.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from peers import Result, adk_receiver, installed, read_adk_parts

Accumulator = Callable[[list[Any]], Result]


def objects_of(line: str, frames: list[bytes]) -> list[Any]:
    """The objects that the line's SDK gives for these frames."""
    events = [json.loads(data) for data in map(_payload, frames) if data and data != b"[DONE]"]
    return _MAKERS[line](events)


def _payload(frame: bytes) -> bytes:
    """What stands after ``data:``; a websocket's frame is its own payload."""
    return frame if frame[:1] == b"{" else frame.partition(b"data: ")[2].strip()


def _gemini(events: list[Any]) -> list[Any]:
    from google.genai import types

    return [types.GenerateContentResponse.model_validate(event) for event in events]


def _live(events: list[Any]) -> list[Any]:
    from google.genai import types

    return [types.LiveServerMessage.model_validate(event) for event in events]


def _chat(events: list[Any]) -> list[Any]:
    from openai._models import construct_type  # what the client calls for each event
    from openai.types.chat import ChatCompletionChunk

    return [construct_type(type_=ChatCompletionChunk, value=event) for event in events]


def _responses(events: list[Any]) -> list[Any]:
    from openai._models import construct_type
    from openai.types.responses import ResponseStreamEvent

    return [construct_type(type_=ResponseStreamEvent, value=event) for event in events]


def _messages(events: list[Any]) -> list[Any]:
    from anthropic._models import construct_type
    from anthropic.types import RawMessageStreamEvent

    return [construct_type(type_=RawMessageStreamEvent, value=event) for event in events]


_MAKERS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "gemini": _gemini,
    "gemini-live": _live,
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic": _messages,
}


def adk_aggregator(objects: list[Any]) -> Result:
    """google-adk's aggregator over google-genai's responses."""
    from google.adk.utils.streaming_utils import StreamingResponseAggregator

    async def run() -> Any:
        aggregator = StreamingResponseAggregator()
        for each in objects:
            async for _ in aggregator.process_response(each):
                pass
        return aggregator.close()

    return read_adk_parts(asyncio.run(run()).content.parts)


def chat_state(objects: list[Any]) -> Result:
    """openai's ``ChatCompletionStreamState``."""
    from openai.lib.streaming.chat import ChatCompletionStreamState

    state = ChatCompletionStreamState()
    for each in objects:
        for _ in state.handle_chunk(each):
            pass
    message = state.get_final_completion().choices[0].message
    return message.content or "", "", [call.function.arguments for call in message.tool_calls or ()]


def responses_state(objects: list[Any]) -> Result:
    """openai's ``ResponseStreamState``, which its ``responses.stream()`` is made of."""
    from openai import omit
    from openai.lib.streaming.responses._responses import ResponseStreamState

    state: Any = ResponseStreamState(input_tools=omit, text_format=omit)
    for each in objects:
        for _ in state.handle_event(each):
            pass
    response = state._completed_response
    return response.output_text, "", [item.arguments for item in response.output if item.type == "function_call"]


def messages_state(objects: list[Any]) -> Result:
    """What anthropic's ``messages.stream()`` is made of: the accumulation, and the events that it fires."""
    from anthropic.lib.streaming._messages import accumulate_event, build_events

    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for each in objects:
        snapshot = accumulate_event(event=each, current_snapshot=snapshot, json_bufs=buffers)
        for _ in build_events(event=each, message_snapshot=snapshot):
            pass
    text = "".join(block.text for block in snapshot.content if block.type == "text")
    thought = "".join(block.thinking for block in snapshot.content if block.type == "thinking")
    return text, thought, [json.dumps(block.input) for block in snapshot.content if block.type == "tool_use"]


_ACCUMULATORS: dict[str, tuple[str, str, Accumulator]] = {
    "gemini": ("google-adk", "google.adk", adk_aggregator),
    "gemini-live": ("google-adk", "google.adk", adk_receiver),
    "openai-chat": ("openai", "openai", chat_state),
    "openai-responses": ("openai", "openai", responses_state),
    "anthropic": ("anthropic", "anthropic", messages_state),
}


def accumulators_of(line: str) -> dict[str, Accumulator]:
    """The official accumulator of a line, by the name of its package, if that is installed."""
    name, package, accumulator = _ACCUMULATORS[line]
    return {name: accumulator} if installed(package) else {}


def installed_sdk(line: str) -> bool:
    """Is the package here whose objects these are?"""
    return installed(
        {"openai-chat": "openai", "openai-responses": "openai", "anthropic": "anthropic"}.get(line, "google.genai")
    )
