"""The callbacks of one Messages stream: each once, in order, and in agreement with the final."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adk_stream import StreamingResponseAggregator
from adk_stream.errors import MalformedStreamError, ProviderError, StreamError
from adk_stream.providers.anthropic_handler import MessagesStream, MessagesStreamHandler

NAMES = [name for name in vars(MessagesStreamHandler) if name.startswith("on_")]


class Notes(MessagesStreamHandler):
    """Writes every callback down."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattribute__(self, name: str) -> Any:
        if name not in NAMES:
            return super().__getattribute__(name)
        return lambda *args: self.calls.append((name.removeprefix("on_"), *args))

    def names(self) -> list[str]:
        return [call[0] for call in self.calls]


def delta(index: int, kind: str, **fields: Any) -> dict:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def opened(index: int, **block: Any) -> dict:
    return {"type": "content_block_start", "index": index, "content_block": block}


EVENTS = [
    {
        "type": "message_start",
        "message": {"id": "msg_1", "model": "claude-test", "usage": {"input_tokens": 3}},
    },
    {"type": "ping"},
    opened(0, type="thinking", thinking="", signature=""),
    delta(0, "thinking_delta", thinking="hm"),
    delta(0, "signature_delta", signature="SIG"),
    {"type": "content_block_stop", "index": 0},
    opened(1, type="text", text=""),
    delta(1, "text_delta", text="Hel"),
    delta(1, "text_delta", text="lo"),
    {"type": "content_block_stop", "index": 1},
    opened(2, type="tool_use", id="toolu_1", name="f", input={}),
    delta(2, "input_json_delta", partial_json='{"a":'),
    delta(2, "input_json_delta", partial_json=" 1}"),
    {"type": "content_block_stop", "index": 2},
    opened(3, type="tool_use", id="toolu_2", name="g", input={}),
    {"type": "content_block_stop", "index": 3},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
]
BODY = b"".join(b"event: %s\ndata: %s\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in EVENTS)


EXPECTED = [
    ("start", "msg_1", "claude-test"),
    ("usage", {"input_tokens": 3}),
    ("thinking_delta", "hm"),
    ("delta_text", "Hel"),
    ("delta_text", "lo"),
    ("tool_use_start", "toolu_1", "f"),
    ("tool_use_delta", "toolu_1", '{"a":'),
    ("tool_use_delta", "toolu_1", " 1}"),
    ("tool_use_complete", "toolu_1", "f", {"a": 1}, None),
    ("tool_use_start", "toolu_2", "g"),
    ("usage", {"input_tokens": 3, "output_tokens": 9}),
    ("tool_use_complete", "toolu_2", "g", {}, None),
    ("stop_reason", "tool_use"),
]


@pytest.mark.parametrize("size", [1, 7, len(BODY), None])
def test_everything_is_told_once_and_in_order(size):
    notes, aggregator = Notes(), StreamingResponseAggregator("close")
    stream = MessagesStream(notes, aggregator.process_response)
    for piece in EVENTS if size is None else [BODY[at : at + size] for at in range(0, len(BODY), size)]:
        stream.feed(piece)
    assert stream.ended
    assert notes.calls == EXPECTED
    stream.close()
    stream.close()
    assert notes.calls == [*EXPECTED, ("complete",)]
    final = aggregator.close()
    assert (final.status, final.text, final.thought_text) == ("completed", "Hello", "hm")


def test_the_default_does_nothing():
    stream = MessagesStream(MessagesStreamHandler())
    stream.feed(BODY)
    stream.close()
    assert stream.ended


def test_arguments_that_are_no_object_come_raw():
    notes = Notes()
    stream = MessagesStream(notes)
    stream.feed(opened(0, type="tool_use", id="t", name="f", input={}))
    stream.feed(delta(0, "input_json_delta", partial_json="oops"))
    stream.feed({"type": "content_block_stop", "index": 0})
    assert notes.calls[-1] == ("tool_use_complete", "t", "f", None, "oops")


def test_a_call_without_an_id_is_told_of_once():
    notes = Notes()
    stream = MessagesStream(notes)
    stream.feed(opened(0, type="tool_use", name="f", input={"a": 1}))
    stream.feed({"type": "content_block_stop", "index": 0})
    assert notes.calls == [("tool_use_start", None, "f"), ("tool_use_complete", None, "f", {"a": 1}, None)]


def test_a_cut_stream_is_an_error():
    notes = Notes()
    stream = MessagesStream(notes)
    for event in EVENTS[:8]:
        stream.feed(event)
    assert not stream.ended
    stream.close()
    name, error = notes.calls[-1]
    assert (name, type(error), error.code) == ("error", StreamError, "STREAM_CUT")
    assert "complete" not in notes.names()


def test_an_error_inside_the_stream_ends_it():
    notes = Notes()
    stream = MessagesStream(notes)
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    for event in [*EVENTS[:8], error, *EVENTS[8:]]:
        stream.feed(event)
    name, told = notes.calls[-1]
    assert (name, type(told), told.code, told.message) == ("error", ProviderError, "overloaded_error", "busy")
    assert stream.ended
    stream.close()
    assert notes.calls[-1] == (name, told)
    assert notes.names().count("delta_text") == 1


@pytest.mark.parametrize("tail", [b"data: {oops\n\n", b"data: {oops"])
def test_what_cannot_be_read_is_told_and_raised(tail):
    notes = Notes()
    stream = MessagesStream(notes)
    for event in EVENTS[:4]:
        stream.feed(event)
    if not tail.endswith(b"\n"):
        stream.feed(tail)
    with pytest.raises(MalformedStreamError) as caught:
        stream.feed(tail) if tail.endswith(b"\n") else stream.close()
    assert notes.calls[-2:] == [("thinking_delta", "hm"), ("error", caught.value)]
    stream.close()
    assert notes.calls[-1] == ("error", caught.value)


def test_the_exception_of_the_transport_is_told():
    notes = Notes()
    stream = MessagesStream(notes)
    stream.feed(EVENTS[0])
    problem = ConnectionError("reset")
    stream.close(problem)
    assert notes.calls[-1] == ("error", problem)


def test_nothing_came_and_nothing_is_told():
    notes = Notes()
    MessagesStream(notes).close()
    assert notes.calls == []
