"""ChatStreamState: the live view of one Chat Completions stream."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adk_stream import ChatStreamState
from adk_stream.errors import MalformedStreamError


def chunk(finish: str | None = None, index: int = 0, **delta: Any) -> dict[str, Any]:
    return {"id": "c", "model": "m", "choices": [{"index": index, "delta": delta, "finish_reason": finish}]}


def call(text: str, **fields: Any) -> list[dict[str, Any]]:
    function = {"arguments": text, **({"name": fields.pop("name")} if "name" in fields else {})}
    return [{"index": 0, "function": function, **fields}]


STREAM = [
    chunk(role="assistant", content=""),
    chunk(reasoning_content="hm"),
    chunk(content="Hel"),
    chunk(content="lo"),
    chunk(tool_calls=call('{"a":', id="call_1", name="look")),
    chunk(tool_calls=call("1}")),
    chunk(finish="tool_calls"),
    {"id": "c", "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}},
    "[DONE]",
]
CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"a":1}'}}


def test_step_by_step() -> None:
    state = ChatStreamState()
    seen = []
    for event in STREAM:
        state.feed(event)
        seen.append((state.text, state.is_reasoning, state.tool_name))
    assert seen[1:6] == [
        ("hm", True, None),
        ("Hel", False, None),
        ("lo", False, None),
        ("", False, "look"),
        ("", False, "look"),
    ]
    state.close()
    assert (state.output, state.reasoning_output, state.refusal) == ("Hello", "hm", "")
    assert state.tool_calls == [CALL]
    assert state.tool_call == CALL
    assert state.usage == {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    assert (state.finish_reason, state.status, state.ended) == ("tool_calls", "completed", True)


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_bytes_cut_anywhere(size: int) -> None:
    frames = [event if isinstance(event, str) else json.dumps(event) for event in STREAM]
    body = "".join(f"data: {frame}\n\n" for frame in frames).encode()
    state = ChatStreamState().read(body[at : at + size] for at in range(0, len(body), size))
    assert (state.output, state.tool_calls, state.status) == ("Hello", [CALL], "completed")


def test_the_current_chunk_and_all_of_them_when_asked() -> None:
    state = ChatStreamState(keep_events=True)
    state.feed(STREAM[1])
    assert state.data == STREAM[1]
    state.data["id"] = "changed"
    assert state.data == STREAM[1]
    state.feed(STREAM[2])
    assert state.events == STREAM[1:3]
    assert ChatStreamState().read(STREAM).events == []


def test_one_choice_is_watched() -> None:
    events = [chunk(content="a"), chunk(index=1, content="b"), chunk(finish="stop"), chunk("length", 1)]
    assert ChatStreamState().read(events).output == "a"
    second = ChatStreamState(choice=1).read(events)
    assert (second.output, second.finish_reason, second.status) == ("b", "length", "incomplete")


def test_a_cut_stream_and_an_error_in_it() -> None:
    assert ChatStreamState().read(STREAM[:4]).status == "incomplete"
    state = ChatStreamState().read([*STREAM[:3], {"error": {"message": "busy", "code": 503}}])
    assert state.status == "failed"
    assert state.error is not None
    assert (state.error.code, state.error.message) == ("503", "busy")
    assert state.output == "Hel"


def test_a_refusal_is_no_natural_end() -> None:
    state = ChatStreamState().read([chunk(refusal="no"), chunk(finish="stop")])
    assert (state.refusal, state.output, state.status) == ("no", "", "incomplete")


def test_what_cannot_be_read() -> None:
    state = ChatStreamState()
    state.feed(STREAM[2])
    with pytest.raises(MalformedStreamError):
        state.feed(b"data: {oops\n\n")
    assert state.output == "Hel"
    assert ChatStreamState(on_malformed="skip").read([b"data: {oops\n\n"]).output == ""


def test_objects_of_the_official_sdk() -> None:
    chat = pytest.importorskip("openai.types.chat")
    objects = [chat.ChatCompletionChunk.construct(**event) for event in STREAM[:-1] if isinstance(event, dict)]
    state = ChatStreamState().read(objects)
    assert (state.output, state.tool_calls, state.status) == ("Hello", [CALL], "completed")
