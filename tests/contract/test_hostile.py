"""Hostile shapes: whatever stands in an event, a stream ends in a final and in an error of our own family, or in none.

A valid event is changed at a random place to a random JSON value. The stream must be passed over or refused with
``MalformedStreamError`` (after its final), never break at the end, and give nothing that cannot be written as JSON.
"""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from gemini_streams import described, event, final_of, parts_of, responses_of, sse
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adk_stream import LlmResponse, aggregate, to_native
from adk_stream.errors import MalformedStreamError

# ----------------------------------------------------------------- true-to-life streams

GEMINI = [
    event([{"text": "Let me think", "thought": True, "thoughtSignature": "c2ln"}], createTime="2025-01-01T00:00:00Z"),
    event([{"text": "Hello "}], usageMetadata={"promptTokenCount": 3, "promptTokensDetails": [{"modality": "TEXT"}]}),
    event([{"functionCall": {"name": "f", "args": {"a": [1, {"b": None}]}, "id": "1"}, "thoughtSignature": "c2ln"}]),
    event([{"functionCall": {"name": "g", "willContinue": True}}]),
    event([{"functionCall": {"partialArgs": [{"jsonPath": "$.x.y[0]", "stringValue": "a"}], "willContinue": True}}]),
    event([{"functionCall": {"partialArgs": [{"jsonPath": "$.n", "numberValue": 5}], "willContinue": False}}]),
    event(
        [{"executableCode": {"language": "PYTHON", "code": "1"}}, {"codeExecutionResult": {"outcome": "OUTCOME_OK"}}]
    ),
    event([{"inlineData": {"mimeType": "audio/pcm", "data": "AAAA"}}, {"inlineData": {"mimeType": "image/png"}}]),
    event([{"fileData": {"fileUri": "u", "mimeType": "m"}, "partMetadata": {"k": {"v": 1}}}]),
    {
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"text": "world"}]},
                "finishReason": "STOP",
                "finishMessage": "done",
                "index": 0,
                "avgLogprobs": -0.5,
                "tokenCount": 4,
                "safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "LOW", "blocked": False}],
                "citationMetadata": {"citations": [{"startIndex": 1, "uri": "u"}]},
                "groundingMetadata": {
                    "webSearchQueries": ["q"],
                    "groundingChunks": [{"web": {"uri": "u", "title": "t"}}],
                    "groundingSupports": [{"segment": {"endIndex": 3}, "groundingChunkIndices": [0]}],
                    "searchEntryPoint": {"renderedContent": "<b>"},
                },
                "urlContextMetadata": {"urlMetadata": [{"retrievedUrl": "u"}]},
                "logprobsResult": {"chosenCandidates": [{"token": "a", "logProbability": -1.0}]},
            },
            {"content": {"parts": [{"text": "other"}]}, "index": 1, "finishReason": "STOP"},
        ],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5},
        "promptFeedback": {"safetyRatings": [], "blockReason": None},
        "modelVersion": "gemini-test",
        "responseId": "r-1",
    },
    {"usageMetadata": {"trafficType": "ON_DEMAND"}},
    {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE", "details": [{}]}},
]


def chat(delta: dict, **choice: Any) -> dict:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-test",
        "choices": [{"index": 0, "delta": delta, "finish_reason": None, "logprobs": None, **choice}],
    }


CHAT = [
    chat({"role": "assistant", "content": ""}),
    chat({"reasoning_content": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm", "index": 0}]}),
    chat(
        {"content": "Hi"}, logprobs={"content": [{"token": "Hi", "logprob": -0.1, "bytes": [72], "top_logprobs": []}]}
    ),
    chat({"content": [{"type": "text", "text": "!"}], "annotations": [{"type": "url_citation", "url_citation": {}}]}),
    chat({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}]}),
    chat({"tool_calls": [{"index": 0, "function": {"arguments": '{"a": '}, "extra_content": {"google": {"x": 1}}}]}),
    chat({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}),
    chat({"tool_calls": [{"index": 1, "id": "c2", "type": "custom", "custom": {"name": "g", "input": "x"}}]}),
    chat({"function_call": {"name": "old", "arguments": "{}"}}),
    chat({"refusal": "no"}),
    chat({"audio": {"id": "a1", "data": "AAAA", "transcript": "hey", "expires_at": 5}}),
    chat({}, finish_reason="tool_calls", content_filter_results={"hate": {"filtered": False}}),
    {
        "id": "chatcmpl-1",
        "choices": [],
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": 2,
            "total_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 1},
            "completion_tokens_details": {"reasoning_tokens": 1},
        },
    },
    {"error": {"message": "bad", "type": "server_error", "code": "oops", "param": None}},
]

_RESPONSE = {"id": "resp_1", "object": "response", "model": "gpt-test", "status": "in_progress", "output": []}
_REASONING = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "abc"}
_CALL = {"id": "fc_1", "type": "function_call", "call_id": "c1", "name": "f", "arguments": "", "status": "in_progress"}
_CITATION = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 2}
_TEXT = {"type": "output_text", "text": "Hi", "annotations": [_CITATION], "logprobs": []}
_MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [_TEXT]}
_SEARCH = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "q"}}
_USAGE = {
    "input_tokens": 3,
    "input_tokens_details": {"cached_tokens": 1},
    "output_tokens": 2,
    "total_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 1},
}


def told(kind: str, **fields: Any) -> dict:
    return {"type": f"response.{kind}", "sequence_number": 1, **fields}


RESPONSES = [
    told("created", response=_RESPONSE),
    told("output_item.added", output_index=0, item={**_REASONING, "encrypted_content": None}),
    told(
        "reasoning_summary_part.added",
        item_id="rs_1",
        output_index=0,
        summary_index=0,
        part={"type": "summary_text", "text": ""},
    ),
    told("reasoning_summary_text.delta", item_id="rs_1", output_index=0, summary_index=0, delta="hm"),
    told("reasoning_summary_text.done", item_id="rs_1", output_index=0, summary_index=0, text="hm"),
    told("output_item.done", output_index=0, item={**_REASONING, "summary": [{"type": "summary_text", "text": "hm"}]}),
    told("output_item.added", output_index=1, item={**_MESSAGE, "content": [], "status": "in_progress"}),
    told(
        "content_part.added",
        item_id="msg_1",
        output_index=1,
        content_index=0,
        part={"type": "output_text", "text": "", "annotations": []},
    ),
    told("output_text.delta", item_id="msg_1", output_index=1, content_index=0, delta="Hi", logprobs=[]),
    told(
        "output_text.annotation.added",
        item_id="msg_1",
        output_index=1,
        content_index=0,
        annotation_index=0,
        annotation=_CITATION,
    ),
    told("output_text.done", item_id="msg_1", output_index=1, content_index=0, text="Hi"),
    told("content_part.done", item_id="msg_1", output_index=1, content_index=0, part=_TEXT),
    told("output_item.done", output_index=1, item=_MESSAGE),
    told("output_item.added", output_index=2, item=_CALL),
    told("function_call_arguments.delta", item_id="fc_1", output_index=2, delta='{"a": 1}'),
    told("function_call_arguments.done", item_id="fc_1", output_index=2, arguments='{"a": 1}', name="f"),
    told("output_item.done", output_index=2, item={**_CALL, "arguments": '{"a": 1}', "status": "completed"}),
    told("output_item.added", output_index=3, item={**_SEARCH, "status": "in_progress"}),
    told("web_search_call.searching", item_id="ws_1", output_index=3),
    told("output_item.done", output_index=3, item=_SEARCH),
    told("refusal.delta", item_id="msg_2", output_index=4, content_index=0, delta="no"),
    told(
        "completed",
        response={
            **_RESPONSE,
            "status": "completed",
            "usage": _USAGE,
            "incomplete_details": None,
            "output": [_REASONING, _MESSAGE, {**_CALL, "arguments": '{"a": 1}'}, _SEARCH],
            "error": None,
        },
    ),
    told("failed", response={**_RESPONSE, "status": "failed", "error": {"code": "server_error", "message": "bad"}}),
    {"type": "error", "code": "oops", "message": "bad", "param": None, "sequence_number": 9},
]


def block(index: int, content: dict, *deltas: dict) -> list[dict]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


ANTHROPIC = [
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "content": [],
            "model": "claude-test",
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {
                "input_tokens": 3,
                "cache_read_input_tokens": 1,
                "cache_creation_input_tokens": 0,
                "output_tokens": 1,
                "cache_creation": {"ephemeral_5m_input_tokens": 0},
                "service_tier": "standard",
            },
        },
    },
    *block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": "c2ln"},
    ),
    *block(1, {"type": "redacted_thinking", "data": "abc"}),
    *block(
        2,
        {"type": "text", "text": "", "citations": []},
        {"type": "text_delta", "text": "Hi"},
        {"type": "citations_delta", "citation": {"type": "char_location", "cited_text": "x", "start_char_index": 0}},
    ),
    *block(
        3,
        {"type": "tool_use", "id": "t1", "name": "f", "input": {}},
        {"type": "input_json_delta", "partial_json": '{"a": '},
        {"type": "input_json_delta", "partial_json": "1}"},
    ),
    *block(
        4,
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
        {"type": "input_json_delta", "partial_json": '{"query": "q"}'},
    ),
    *block(5, {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"url": "u", "title": "t"}]}),
    {"type": "ping"},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None, "container": {"id": "c"}},
        "usage": {"output_tokens": 9, "server_tool_use": {"web_search_requests": 1}},
    },
    {"type": "message_stop"},
    {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
]

STREAMS = {"gemini": GEMINI, "openai-chat": CHAT, "openai-responses": RESPONSES, "anthropic": ANTHROPIC}

# ----------------------------------------------------------------- the law

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([2**70, -(2**63), 1.5, 1e300])
    | st.text(max_size=4)
    | st.sampled_from(["0", "STOP", "AAAA", "{", "$.a", "audio/pcm", "text", "\ud800"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


def places_in(value: Any, at: tuple = ()) -> list[tuple]:
    """The path of every value inside."""
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, item in items for place in places_in(item, (*at, key)))]


def changed(events: list, place: tuple, value: Any) -> list:
    """The events with another value at this place."""
    events = deepcopy(events)
    *way, last = place
    holder: Any = events
    for key in way:
        holder = holder[key]
    holder[last] = value
    return events


def drained(stream: Any) -> tuple[list[LlmResponse], MalformedStreamError | None]:
    """Every response, and the error that ended the stream."""
    responses: list[LlmResponse] = []
    try:
        for response in stream:
            responses.append(response)
    except MalformedStreamError as problem:
        return responses, problem
    return responses, None


def check(events: list, provider: str, flush: str, on_malformed: str = "raise") -> list[LlmResponse]:
    """Hold the law over one stream."""
    stream = aggregate(events, provider=provider, flush=flush, on_malformed=on_malformed)
    responses, problem = drained(stream)
    if problem is not None:
        assert on_malformed == "raise"
        assert problem.provider == provider
        assert problem.event_number
        assert responses[-1].status == "failed"
        assert responses[-1].error_code == "MALFORMED_STREAM"
    assert not responses[-1].partial
    assert responses[-1].status in ("completed", "incomplete", "failed", "cancelled")
    for each in responses:
        assert LlmResponse.model_validate_json(each.model_dump_json(by_alias=True, exclude_none=True))
        each.executable_function_calls()
    native = to_native([each for each in responses if not each.partial], provider=provider)
    json.dumps(native)
    return responses


@pytest.mark.parametrize("provider", STREAMS)
def test_the_streams_themselves_are_fine(provider):
    for flush in ("close", "boundary"):
        assert check(STREAMS[provider], provider, flush)[-1].status == "failed"
        whole = STREAMS[provider][: -2 if provider == "openai-responses" else -1]
        assert check(whole, provider, flush)[-1].status in ("completed", "incomplete")


PLACES = {provider: [place for place in places_in(stream) if place] for provider, stream in STREAMS.items()}


@pytest.mark.parametrize("provider", STREAMS)
@settings(max_examples=120, deadline=None)
@given(st.data())
def test_any_value_at_any_place(provider, data):
    place = data.draw(st.sampled_from(PLACES[provider]))
    value = data.draw(json_values)
    flush = data.draw(st.sampled_from(["close", "boundary"]))
    events = changed(STREAMS[provider], place, value)
    wire = data.draw(st.booleans())
    if wire or not isinstance(events[place[0]], dict):
        events = ["".join(f"data: {json.dumps(each)}\n\n" for each in events).encode()]
    check(events, provider, flush, data.draw(st.sampled_from(["raise", "skip"])))


#: One value of each type, put at every place in turn.
KINDS = [None, True, 0, -7, 2**70, 1.5, "", "x", "\ud800", [], [None], ["x"], [{}], {}, {"x": [1]}]


@pytest.mark.parametrize("provider", STREAMS)
def test_each_type_at_each_place(provider):
    faults = []
    for number, place in enumerate(PLACES[provider]):
        for offset in range(0, len(KINDS), 1 if len(place) > 1 else 3):
            value = KINDS[offset]
            if len(place) == 1 and not isinstance(value, dict):
                continue
            try:
                check(changed(STREAMS[provider], place, value), provider, ("close", "boundary")[(number + offset) % 2])
            except Exception as problem:
                faults.append(f"{place} = {value!r}: {type(problem).__name__}: {str(problem)[:150]}")
    assert not faults, f"{len(faults)} faults:\n" + "\n".join(faults[:60])


# ----------------------------------------------------------------- shapes with a right answer


@pytest.mark.parametrize("depth", [200, 5_000, 200_000])
@pytest.mark.parametrize("close", ["]", "}"], ids=["lists", "objects"])
def test_deep_nesting(depth, close):
    deep = "[" * depth + "]" * depth if close == "]" else '{"a":' * depth + "1" + "}" * depth
    call = f'{{"functionCall": {{"name": "f", "args": {{"x": {deep}}}}}}}'
    for part in ('{"text": "Hi"}, ' + call, f'{{"text": "Hi"}}, {{"newKind": {deep}}}'):
        body = f'data: {{"candidates": [{{"content": {{"parts": [{part}]}}}}]}}\n\n'
        stream = aggregate([body.encode()], provider="gemini")
        try:
            responses = list(stream)
        except MalformedStreamError:
            responses = [stream.final]
        final = responses[-1]
        assert final.status in ("failed", "incomplete")


@pytest.mark.parametrize("flush", ["close", "boundary"])
def test_a_signature_that_is_no_base64_is_kept(flush):
    for wire, kept in [("c2ln", b"sig"), ("-_-_", b"\xfb\xff\xbf"), ("c2k", b"si"), ("not base64!", b"not base64!")]:
        [part] = parts_of([event([{"text": "x", "thoughtSignature": wire}])], flush=flush)
        assert part == {"text": "x", "signature": kept}


def test_a_part_with_several_payloads_loses_none():
    both = {"text": "Hi", "functionCall": {"name": "f", "args": {}}}
    final = final_of([event([both]), {"candidates": [{"finishReason": "STOP"}]}])
    assert [call.name for call in final.executable_function_calls()] == ["f"]
    assert "Hi" in final.model_dump_json()
    final = final_of([event([{"text": "Hi", "executableCode": {"code": "1", "language": "PYTHON"}}])])
    assert final.text == "Hi"
    assert "executableCode" in final.model_dump_json() or final.parts[0].executable_code


@pytest.mark.parametrize("args", [[1], "x", 5, True])
def test_arguments_that_are_no_object_never_run(args):
    stream = aggregate([event([{"text": "a"}]), event([{"functionCall": {"name": "f", "args": args}}])], "gemini")
    responses, problem = drained(stream)
    assert problem is None or problem.event_number == 2
    assert responses[-1].text == "a"
    assert not any(each.executable_function_calls() for each in responses)


@pytest.mark.parametrize("index", [None, "0", "x", -1, 1.5, [], 2**70])
def test_an_odd_candidate_index_raises_nothing_raw(index):
    odd = event([{"text": "a"}])
    odd["candidates"][0]["index"] = index
    responses = check([odd, {"candidates": [{"finishReason": "STOP"}]}], "gemini", "close")
    if index is None:
        assert (responses[-1].text, responses[-1].status) == ("a", "completed")


def test_usage_with_strings_keeps_the_rest():
    usage = {"promptTokenCount": "many", "candidatesTokenCount": 2, "promptTokensDetails": "x", "new": [1]}
    final = final_of([event([{"text": "a"}], usageMetadata=usage)])
    assert final.usage_metadata.candidates_token_count == 2
    assert final.provider_metadata["usage"]["promptTokenCount"] == "many"


@pytest.mark.parametrize(
    "body", [b"data: 5\n\n", b'data: "x"\n\n', b"data: [1]\n\n", b"data: null\n\n", b"data: {\n\n"]
)
def test_events_that_are_no_objects(body):
    stream = aggregate([sse([event([{"text": "a"}])]) + body], provider="gemini")
    with pytest.raises(MalformedStreamError, match="event 2"):
        list(stream)
    assert stream.final.text == "a"
    skipped = responses_of([sse([event([{"text": "a"}])]) + body], on_malformed="skip")
    assert described(skipped[-1].parts) == [{"text": "a"}]


@given(st.binary(max_size=40), st.sampled_from(sorted(STREAMS)))
@example(b"\xff\xfe", "gemini")
@settings(max_examples=100, deadline=None)
def test_bytes_that_are_no_stream(noise, provider):
    body = "".join(f"data: {json.dumps(each)}\n\n" for each in STREAMS[provider][:3]).encode()
    stream = aggregate([body, b"data: " + noise + b"\n\n"], provider=provider)
    try:
        list(stream)
    except MalformedStreamError:
        pass
    assert stream.final.status in ("completed", "failed", "incomplete")
