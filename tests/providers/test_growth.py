"""The short way of text that goes on gives what the long way gives, or leaves the event to it untouched."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adk_stream import StreamingResponseAggregator
from adk_stream.parts import Growth
from adk_stream.providers import open_reader
from adk_stream.providers.line import Line

# Half an emoji, what JSON escapes, nothing, an object, brackets: what a text may be made of.
words = st.sampled_from(
    ["Hi ", "{}", "{}", "", "é", "\U0001f600", "\ud83d", "\ude00", '"', "\\", "{", "}", "]", " ", "\n"]
)


def gemini() -> st.SearchStrategy[list[dict[str, Any]]]:
    text = st.builds(lambda word, thought: {"text": word, **thought}, words, either({}, {"thought": True}))
    call = st.builds(
        lambda word, path, value, more, name: {
            "functionCall": {"partialArgs": [{"jsonPath": path, "stringValue": word, **value}], **more, **name}
        },
        words,
        st.sampled_from(["$.a", "$.b[0]", "$['a']", "?"]),
        either({}, {"willContinue": True}, {"numberValue": 1}),
        either({}, {"willContinue": True}, {"willContinue": True}, {"willContinue": False}),
        either({}, {}, {"name": "f"}, {"name": "g", "id": "1"}),
    )
    other = st.sampled_from([{"inlineData": {"mimeType": "image/png", "data": "aGk="}}, {"text": "s", "x": 1}])
    parts = st.lists(st.one_of(text, text, call, call, other), min_size=1, max_size=2)
    return events(
        lambda parts, candidate, rest: {"candidates": [{"content": {"parts": parts}, **candidate}], **rest},
        parts,
        either({}, {}, {"index": 1}, {"finishReason": "STOP"}),
        either({}, {}, {"responseId": "r"}, {"responseId": "s"}, {"usageMetadata": {"totalTokenCount": 3}}, {"y": 1}),
    )


def chat() -> st.SearchStrategy[list[dict[str, Any]]]:
    text = st.builds(lambda word, role: {"content": word, **role}, words, either({}, {"role": "assistant"}))
    call = st.builds(
        lambda at, word, name, ident: {
            "tool_calls": [{"index": at, "function": {"arguments": word, **name}, **ident}],
        },
        st.sampled_from([0, 0, 1]),
        words,
        either({}, {}, {}, {"name": "f"}),
        either({}, {}, {}, {"id": "1"}, {"id": "2"}, {"type": "function"}, {"extra_content": {"x": 1}}),
    )
    other = st.sampled_from([{}, {"refusal": "no"}, {"reasoning_content": "hm"}, {"content": "a", "refusal": None}])
    return events(
        lambda delta, choice, rest: {
            "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": None, **choice}], **rest,
        },
        st.one_of(text, call, call, other),
        either({}, {}, {}, {"index": 1}, {"finish_reason": "stop"}, {"logprobs": None}),
        either({}, {}, {}, {"usage": None}, {"usage": {"total_tokens": 3}}, {"model": "n"}, {"z": 1}),
    )  # fmt: skip


LOGPROBS = {"logprobs": [{"token": "a", "logprob": 0.0, "top_logprobs": []}]}


def responses() -> st.SearchStrategy[list[dict[str, Any]]]:
    start = st.sampled_from(
        [
            {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "m"}},
            {"type": "response.output_item.added", "output_index": 1, "item": {"type": "reasoning", "id": "r"}},
            {
                "type": "response.output_item.added",
                "output_index": 2,
                "item": {"type": "function_call", "id": "f", "call_id": "c", "name": "f"},
            },
        ]
    )
    delta = st.builds(
        lambda kind, word, at, rest: {"type": f"response.{kind}.delta", "delta": word, "output_index": at, **rest},
        st.sampled_from(["output_text", "output_text", "refusal", "reasoning_summary_text", "function_call_arguments"]),
        words,
        st.sampled_from([0, 0, 1, 2]),
        either({}, {"content_index": 0}, {"summary_index": 1}, {"logprobs": []}, {"obfuscation": "x"}, LOGPROBS),
    )  # fmt: skip
    done = st.builds(
        lambda at: {"type": "response.output_item.done", "output_index": at, "item": {"type": "message"}}, st.just(0)
    )
    numbered = st.lists(
        st.tuples(st.one_of(start, delta, delta, delta, done), st.sampled_from([None, 1, 1, 1, 0, 2])), max_size=12
    )

    def number(pairs: list[tuple[dict[str, Any], int | None]]) -> list[dict[str, Any]]:
        at, found = 0, []
        for event, step in pairs:
            at += step or 0
            found.append(event if step is None else {**event, "sequence_number": at})
        return found

    return numbered.map(number)


def anthropic() -> st.SearchStrategy[list[dict[str, Any]]]:
    blocks = [
        {"type": "text", "text": ""},
        {"type": "thinking", "thinking": ""},
        {"type": "tool_use", "id": "1", "name": "f"},
    ]
    start = st.sampled_from(
        [{"type": "content_block_start", "index": at, "content_block": block} for at, block in enumerate(blocks)]
    )
    delta = st.builds(
        lambda at, kind, word: {"type": "content_block_delta", "index": at, "delta": {"type": kind[0], kind[1]: word}},
        st.sampled_from([0, 1, 2]),
        st.sampled_from([("text_delta", "text"), ("thinking_delta", "thinking"), ("input_json_delta", "partial_json")]),
        words,
    )
    stop = st.builds(lambda at: {"type": "content_block_stop", "index": at}, st.sampled_from([0, 1, 2]))
    return st.lists(st.one_of(start, delta, delta, delta, stop), max_size=12)


def either(*choices: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.sampled_from(choices)


def events(build: Callable[..., Any], *parts: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.builds(build, *parts), max_size=12)


LINES = {"gemini": gemini(), "openai-chat": chat(), "openai-responses": responses(), "anthropic": anthropic()}


def short_way(line: str, pieces: list[Any]) -> Iterator[Any]:
    """What a Line and an aggregator give that know Growths."""
    reader, aggregator = Line(line), StreamingResponseAggregator("close")
    for piece in pieces:
        for chunks in reader.feed_short(piece):
            for chunk in chunks:
                yield from aggregator.take(chunk)
    yield aggregator.close()
    yield json.loads(json.dumps(reader.event_count))


def long_way(line: str, stream: list[Any]) -> Iterator[Any]:
    """The same by ``read`` alone."""
    reader, aggregator = open_reader(line), StreamingResponseAggregator("close")
    for event in stream:
        for chunk in reader.read(event):
            yield from aggregator.take(chunk)
    yield aggregator.close()
    yield len(stream)


def told(responses: Iterator[Any]) -> list[Any]:
    found: list[Any] = []
    try:
        for each in responses:
            found.append(each.model_dump(mode="json", exclude_none=True) if hasattr(each, "model_dump") else each)
    except (TypeError, ValueError, KeyError, AttributeError):
        found.append("unreadable")
    return found


@pytest.mark.parametrize("line", LINES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_short_way_from_bytes_gives_what_reading_gives(line: str, data: st.DataObject) -> None:
    stream = data.draw(LINES[line])
    frames = [b"data: %s\n\n" % json.dumps(event).encode() for event in stream]
    assert unnamed(told(short_way(line, frames))) == unnamed(told(long_way(line, stream)))


def unnamed(found: Any) -> Any:
    """Without the ids that are made here, each its own."""
    if isinstance(found, dict):
        return {k: unnamed(v) for k, v in found.items() if not (k == "id" and str(v).startswith("adk-"))}
    return [unnamed(each) for each in found] if isinstance(found, list) else found


def genai_objects(stream: list[Any]) -> list[Any]:
    from google.genai import types

    return [types.GenerateContentResponse.model_validate(event) for event in stream]


def openai_objects(name: str) -> Callable[[list[Any]], list[Any]]:
    def make(stream: list[Any]) -> list[Any]:
        models = pytest.importorskip("openai._models")
        chunk = pytest.importorskip("openai.types.chat").ChatCompletionChunk
        cls = chunk if name == "chat" else pytest.importorskip("openai.types.responses").ResponseStreamEvent
        return [models.construct_type(type_=cls, value=event) for event in stream]

    return make


def anthropic_objects(stream: list[Any]) -> list[Any]:
    models, kinds = pytest.importorskip("anthropic._models"), pytest.importorskip("anthropic.types")
    return [models.construct_type(type_=kinds.RawMessageStreamEvent, value=event) for event in stream]


MAKERS = {
    "gemini": genai_objects,
    "openai-chat": openai_objects("chat"),
    "openai-responses": openai_objects("responses"),
    "anthropic": anthropic_objects,
}


@pytest.mark.parametrize("line", LINES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_short_way_from_objects_gives_what_reading_gives(line: str, data: st.DataObject) -> None:
    stream = data.draw(LINES[line])
    try:
        objects = MAKERS[line](stream)
    except ValueError:  # google-genai refuses what it does not know
        return
    reader, aggregator = open_reader(line), StreamingResponseAggregator("close")
    expected: list[Any] = []
    for event in objects:
        for chunk in reader.read_object(event):
            expected += aggregator.take(chunk)
    expected += [aggregator.close(), len(objects)]
    assert unnamed(told(short_way(line, objects))) == unnamed(told(iter(expected)))


USUAL: dict[str, tuple[list[dict[str, Any]], Growth]] = {
    "gemini": (
        [{"candidates": [{"content": {"parts": [{"text": "Hi"}], "role": "model"}}], "responseId": "r"}] * 2,
        Growth(0, "Hi"),
    ),
    "openai-chat": (
        [{"id": "c", "created": 1, "model": "m", "choices": [{"index": 0, "delta": {"content": "Hi"}}]}] * 2,
        Growth(0, "Hi"),
    ),
    "anthropic": (
        [
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        ],
        Growth(0, "Hi"),
    ),
}


@pytest.mark.parametrize("line", USUAL)
def test_the_usual_delta_does_take_it(line: str) -> None:
    (first, second), growth = USUAL[line]
    for pieces in (
        [b"data: %s\n\n" % json.dumps(event).encode() for event in (first, second)],
        MAKERS[line]([first, second]),
    ):
        reader = Line(line)
        found = [chunk for piece in pieces for chunks in reader.feed_short(piece) for chunk in chunks]
        assert found[-1] == growth


def test_no_two_partials_share_anything_that_can_be_changed() -> None:
    (event, _), _ = USUAL["gemini"]
    aggregator = StreamingResponseAggregator("close")
    (message,) = genai_objects([event])
    partials = [response for _ in range(3) for response in aggregator.process_response(message)]
    first, second, third = partials
    second.content.parts[0].text, second.content.role = "changed", "user"
    second.model_fields_set.clear()
    assert [part.text for response in (first, third) for part in response.parts] == ["Hi", "Hi"]
    assert message.candidates[0].content.parts[0].text == "Hi"
    assert first.model_fields_set == third.model_fields_set != set()
    assert aggregator.close().text == "HiHiHi"
