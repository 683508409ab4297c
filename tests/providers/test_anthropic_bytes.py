"""The short way from the bytes of a delta gives what the long way gives, or leaves the event to it untouched."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adk_stream.providers.anthropic import AnthropicReader
from adk_stream.providers.line import Line
from adk_stream.wire import MAX_DEPTH, decode_json

BLOCKS: list[dict[str, Any]] = [
    {"type": "text", "text": ""},
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
]
STARTS = [{"type": "content_block_start", "index": at, "content_block": block} for at, block in enumerate(BLOCKS)]


def a_reader() -> AnthropicReader:
    reader = AnthropicReader()
    for event in STARTS:
        reader.read(event)
    return reader


def encode(event: Any) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()


PLAIN = [
    (0, {"type": "text_delta", "text": "Hi"}),
    (0, {"type": "text_delta", "text": "caf\u00e9 \U0001f600", "new": {"field": [1, None]}}),
    (1, {"type": "thinking_delta", "thinking": "hm"}),
    (2, {"type": "input_json_delta", "partial_json": '{"q": "a\\n'}),
    (2, {"type": "input_json_delta", "partial_json": " "}),
]


@pytest.mark.parametrize(("index", "delta"), PLAIN)
def test_plain_deltas_are_read_from_their_bytes(index: int, delta: dict[str, Any]) -> None:
    event = {"type": "content_block_delta", "index": index, "delta": delta}
    chunks = a_reader().read_bytes(encode(event))
    assert chunks
    assert chunks == a_reader().read(event)


words = st.sampled_from(["", "a", '"', "\ud83d", " ", "é"])
values = st.one_of(words, st.none(), st.integers(-1, 2), st.booleans(), st.just({}), st.just(["a"]))
kinds = st.sampled_from(
    ["text_delta", "thinking_delta", "input_json_delta", "signature_delta", "citations_delta", "x_delta", None, 1]
)
fields = st.sampled_from(["text", "thinking", "partial_json", "signature", "citation", "other"])
deltas = st.builds(lambda kind, rest: {"type": kind, **rest}, kinds, st.dictionaries(fields, values, max_size=3))
events = st.builds(
    lambda kind, index, delta: {"type": kind, "index": index, "delta": delta},
    st.sampled_from(["content_block_delta", "ping", "content_block_stop", None]),
    st.one_of(st.integers(-1, 5), st.none(), st.just(1.0), st.booleans()),
    st.one_of(deltas, st.none(), st.just([])),
)


def outcome(read: Any, event: Any) -> Any:
    try:
        return list(read(event))
    except (TypeError, ValueError, KeyError, AttributeError) as problem:
        return type(problem)


@settings(max_examples=60, deadline=None)
@given(st.lists(events, max_size=8))
def test_both_ways_give_the_same(stream: list[Any]) -> None:
    short, long = a_reader(), a_reader()
    for event in stream:
        data = encode(event)
        before = short.snapshot()
        chunks = short.read_bytes(data)
        if chunks is None:
            assert short.snapshot() == before
            chunks = outcome(short.read, decode_json(data))
        expected = outcome(long.read, decode_json(data))
        assert chunks == expected if isinstance(expected, type) else list(chunks) == expected
        assert short.snapshot() == long.snapshot()


@pytest.mark.parametrize(
    "data",
    [
        b'{"type":"text_delta"',
        b"[DONE]",
        b"",
        b'{"type":"x","index":0,"delta":{"type":"text_delta","text":"a"},"type":"content_block_delta"}',
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\xff"}}',
    ],
)
def test_other_bytes_are_left(data: bytes) -> None:
    assert a_reader().read_bytes(data) is None


def test_nesting_is_judged_as_in_any_other_event() -> None:
    deep = b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1)
    data = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"},"x":%s}' % deep
    assert a_reader().read_bytes(data) is None


def test_an_event_named_error_is_no_delta() -> None:
    line = Line("anthropic")
    for event in STARTS:
        list(line.feed(event))
    delta = encode({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}})
    chunks = [chunk for each in line.feed(b"event: error\ndata: " + delta + b"\n\n") for chunk in each]
    assert [chunk.error is not None for chunk in chunks if not chunk.parts] == [True]
