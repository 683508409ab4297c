"""Anthropic's line: each kind of behaviour, and what must hold for any stream."""

from __future__ import annotations

import base64
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adk_stream import LlmResponse, StreamingResponseAggregator, aggregate, to_native
from adk_stream.errors import MalformedStreamError, NativeError
from adk_stream.providers.line import Line


def start(id: str | None = "msg_1", usage: dict | None = None, **fields: Any) -> dict:
    usage = {"input_tokens": 10, "output_tokens": 1} if usage is None else usage
    message = {"id": id, "type": "message", "role": "assistant", "model": "claude-test", "content": []}
    return {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage, **fields}}


def opened(index: int, block: dict) -> dict:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **fields: Any) -> dict:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def closed(index: int) -> dict:
    return {"type": "content_block_stop", "index": index}


def end(reason: str | None = "end_turn", usage: dict | None = None, **fields: Any) -> list[dict]:
    usage = {"output_tokens": 5} if usage is None else usage
    stop = {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None, **fields}}
    return [{**stop, "usage": usage}, {"type": "message_stop"}]


def text(index: int, *pieces: str) -> list[dict]:
    deltas = [delta(index, "text_delta", text=piece) for piece in pieces]
    return [opened(index, {"type": "text", "text": ""}), *deltas, closed(index)]


def thinking(index: int, pieces: list[str], signature: list[str]) -> list[dict]:
    deltas = [delta(index, "thinking_delta", thinking=piece) for piece in pieces]
    deltas += [delta(index, "signature_delta", signature=piece) for piece in signature]
    return [opened(index, {"type": "thinking", "thinking": "", "signature": ""}), *deltas, closed(index)]


def tool(index: int, id: str, name: str, *fragments: str, kind: str = "tool_use", **fields: Any) -> list[dict]:
    deltas = [delta(index, "input_json_delta", partial_json=piece) for piece in fragments]
    return [
        opened(index, {"type": kind, "id": id, "name": name, "input": {}, **fields}),
        *deltas,
        closed(index),
    ]


def block(index: int, **fields: Any) -> list[dict]:
    return [opened(index, fields), closed(index)]


def final(events: list[Any], flush: str = "close") -> LlmResponse:
    *_, last = aggregate(events, provider="anthropic", flush=flush)
    return last


def native(events: list[Any]) -> list[dict]:
    """The blocks of the native message, by way of a session: JSON and back."""
    stored = LlmResponse.model_validate_json(final(events).model_dump_json(by_alias=True, exclude_none=True))
    message = to_native(stored, provider="anthropic")
    assert message["role"] == "assistant"
    return message["content"]


WEB = {
    "type": "web_search_result_location",
    "cited_text": "green",
    "url": "https://tea.example",
    "title": "Tea",
    "encrypted_index": "Eo8B==",
}
RESULT = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [{"type": "web_search_result", "url": "https://tea.example", "encrypted_content": "Erc=="}],
    "caller": {"type": "direct"},
}

RICH = [
    start(
        usage={
            "input_tokens": 3,
            "cache_read_input_tokens": 40,
            "cache_creation_input_tokens": 7,
            "output_tokens": 1,
        }
    ),
    *thinking(0, ["Let me ", "see."], ["sig", "nature=="]),
    *block(1, type="redacted_thinking", data="EmwKAhgB=="),
    *tool(2, "srvtoolu_1", "web_search", '{"que', 'ry": "tea"}', kind="server_tool_use"),
    *block(3, **RESULT),
    opened(4, {"type": "text", "text": "", "citations": []}),
    delta(4, "text_delta", text="Tea is "),
    delta(4, "citations_delta", citation=WEB),
    delta(4, "text_delta", text="green 🍵."),
    closed(4),
    *tool(
        5,
        "toolu_1",
        "brew",
        '{"cups": 184467440737',
        '09551616, "kind": "sen',
        'cha"}',
        caller={"type": "direct"},
    ),
    *tool(6, "toolu_2", "brew"),
    *end("tool_use", {"output_tokens": 60, "output_tokens_details": {"thinking_tokens": 20}}),
]
RICH_NATIVE = [
    {"type": "thinking", "thinking": "Let me see.", "signature": "signature=="},
    {"type": "redacted_thinking", "data": "EmwKAhgB=="},
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "tea"}},
    RESULT,
    {"type": "text", "text": "Tea is green 🍵.", "citations": [WEB]},
    {
        "type": "tool_use",
        "id": "toolu_1",
        "name": "brew",
        "input": {"cups": 18446744073709551616, "kind": "sencha"},
        "caller": {"type": "direct"},
    },
    {"type": "tool_use", "id": "toolu_2", "name": "brew", "input": {}},
]


def test_a_rich_turn_comes_back_complete():
    response = final(RICH)
    assert (response.status, response.finish_reason, response.native_finish_reason) == (
        "completed",
        "STOP",
        "tool_use",
    )
    assert response.response_id == "msg_1"
    assert response.model_version == "claude-test"
    assert response.text == "Tea is green 🍵."
    assert response.thought_text == "Let me see."
    assert [call.id for call in response.executable_function_calls()] == ["toolu_1", "toolu_2"]
    assert [part.thought_signature for part in response.parts[:2]] == [b"signature==", b"EmwKAhgB=="]
    assert native(RICH) == RICH_NATIVE


def test_finals_of_boundary_mode_make_the_same_message():
    finals = [r for r in aggregate(RICH, provider="anthropic", flush="boundary") if not r.partial]
    assert len(finals) > 2
    assert to_native(finals, provider="anthropic")["content"] == RICH_NATIVE


def test_sdk_objects_make_the_same_message():
    from anthropic.types import beta

    fallback = {
        "type": "fallback",
        "from": {"model": "a"},
        "to": {"model": "b"},
        "trigger": {"type": "refusal"},
    }
    events = [*RICH[:-2], *block(7, **fallback), *RICH[-2:]]
    classes = {
        "message_start": beta.BetaRawMessageStartEvent,
        "content_block_start": beta.BetaRawContentBlockStartEvent,
        "content_block_delta": beta.BetaRawContentBlockDeltaEvent,
        "content_block_stop": beta.BetaRawContentBlockStopEvent,
        "message_delta": beta.BetaRawMessageDeltaEvent,
        "message_stop": beta.BetaRawMessageStopEvent,
    }
    objects = [classes[event["type"]].construct(**event) for event in events]
    assert type(objects[1].content_block) is beta.BetaThinkingBlock
    assert native(objects) == native(events)
    assert native(events)[-1] == fallback
    assert final(objects).model_dump() == final(events).model_dump()
    assert final(events).model_version == "b"


def test_usage_has_one_meaning_and_the_providers_own_stays():
    response = final(RICH)
    usage = response.usage_metadata
    assert usage.prompt_token_count == 50
    assert usage.cached_content_token_count == 40
    assert (usage.candidates_token_count, usage.thoughts_token_count, usage.total_token_count) == (
        40,
        20,
        110,
    )
    assert response.provider_metadata["usage"] == {
        "input_tokens": 3,
        "cache_read_input_tokens": 40,
        "cache_creation_input_tokens": 7,
        "output_tokens": 60,
        "output_tokens_details": {"thinking_tokens": 20},
    }


def test_each_counter_is_its_last_value_and_null_is_none():
    events = [
        start(usage={"input_tokens": 5, "output_tokens": 9, "server_tool_use": {"web_search_requests": 0}}),
        *text(0, "Hi"),
        {
            "type": "message_delta",
            "delta": {"stop_reason": None},
            "usage": {"output_tokens": 3, "input_tokens": None},
        },
        *end(
            usage={
                "output_tokens": 4,
                "server_tool_use": {"web_search_requests": 2},
                "iterations": [{"a": 1}],
            }
        ),
    ]
    response = final(events)
    assert (response.usage_metadata.prompt_token_count, response.usage_metadata.candidates_token_count) == (
        5,
        4,
    )
    assert response.provider_metadata["usage"]["server_tool_use"] == {"web_search_requests": 2}
    assert response.provider_metadata["usage"]["iterations"] == [{"a": 1}]


@pytest.mark.parametrize(
    ("reason", "status", "finish_reason", "code"),
    [
        ("end_turn", "completed", "STOP", None),
        ("stop_sequence", "completed", "STOP", None),
        ("max_tokens", "incomplete", "MAX_TOKENS", "MAX_TOKENS"),
        ("model_context_window_exceeded", "incomplete", "MAX_TOKENS", "MAX_TOKENS"),
        ("refusal", "incomplete", "SAFETY", "SAFETY"),
        ("pause_turn", "incomplete", "OTHER", "pause_turn"),
        ("a_new_reason", "incomplete", "OTHER", "a_new_reason"),
    ],
)
def test_how_it_ended(reason, status, finish_reason, code):
    response = final([start(), *text(0, "Hi"), *end(reason)])
    assert (response.status, response.finish_reason, response.error_code) == (status, finish_reason, code)
    assert response.native_finish_reason == reason


def test_a_refusal_tells_why():
    details = {"type": "refusal", "category": "cyber", "explanation": "No."}
    response = final([start(), *end("refusal", stop_details=details)])
    assert response.error_message == "No."
    assert response.provider_metadata["anthropic"]["stop_details"] == details


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_completed_needs_stop_reason_and_message_stop(order):
    last = end()
    assert final([start(), *text(0, "Hi"), *(last[at] for at in order)]).status == "completed"
    for one in last:
        response = final([start(), *text(0, "Hi"), one])
        assert (response.status, response.error_code, response.text) == ("incomplete", "STREAM_CUT", "Hi")


@pytest.mark.parametrize(
    ("given", "fragments", "args"),
    [
        ({}, [], {}),
        ({}, [""], {}),
        ({}, [" ", "\n"], {}),
        (None, [], {}),
        ({}, ["{}"], {}),
        ({"a": 1}, [], {"a": 1}),
        ({"a": 1}, [""], {"a": 1}),
        ({"a": 1}, ['{"a"', ":1}"], {"a": 1}),
        ('{"a": 1}', [], {"a": 1}),
    ],
)
def test_arguments_whole_in_fragments_or_none(given, fragments, args):
    deltas = [delta(0, "input_json_delta", partial_json=piece) for piece in fragments]
    use = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": given}
    response = final([start(), opened(0, use), *deltas, closed(0), *end("tool_use")])
    [call] = response.executable_function_calls()
    assert (call.id, call.name, call.args) == ("toolu_1", "f", args)


@pytest.mark.parametrize("raw", ['{"a": oops}', "[1]", '"a"', '{"a": 1', '{"a": 1}}'])
def test_arguments_that_are_no_object_are_kept_and_never_run(raw):
    events = [start(), *tool(0, "toolu_1", "f", raw), *end("tool_use")]
    response = final(events)
    assert response.parts[0].function_call.args is None
    assert response.parts[0].part_metadata["raw_arguments"] == raw
    assert response.executable_function_calls() == []
    assert native(events)[0]["input"] == {"raw_arguments": raw}


@pytest.mark.parametrize("reason", ["max_tokens", "refusal", "a_new_reason"])
def test_a_call_without_input_is_not_whole_when_the_model_was_stopped(reason):
    response = final([start(), *tool(0, "a", "f"), *tool(1, "b", "g"), *end(reason)])
    assert [call.id for call in response.executable_function_calls()] == ["a"]
    assert [part.function_call.name for part in response.parts] == ["f", "g"]


def test_a_call_left_open_at_the_end_is_kept_and_never_run():
    events = [start(), *tool(0, "a", "f", '{"x": 1}')[:-1], *end("tool_use")]
    response = final(events)
    assert response.status == "completed"
    assert response.parts[0].function_call.args == {"x": 1}
    assert response.executable_function_calls() == []


def test_a_call_is_announced_once_and_only_when_whole():
    partials = [r for r in aggregate(RICH, provider="anthropic") if r.partial]
    whole = [
        part.function_call.id
        for response in partials
        for part in response.parts
        if part.function_call is not None and not part.function_call.will_continue
    ]
    assert whole == ["toolu_1", "toolu_2"]
    assert not any(response.executable_function_calls() for response in partials)


def test_blocks_may_interleave():
    first, second = tool(0, "a", "f", '{"x":', "1}"), tool(1, "b", "f", '{"y"', ":2}")
    mixed = [event for pair in zip(first, second, strict=True) for event in pair]
    response = final([start(), *mixed, *end("tool_use")])
    assert [(call.id, call.args) for call in response.executable_function_calls()] == [
        ("a", {"x": 1}),
        ("b", {"y": 2}),
    ]


def test_parts_are_in_the_order_of_their_blocks():
    response = final([start(), *text(1, "second"), *text(0, "first"), *end()])
    assert [part.text for part in response.parts] == ["first", "second"]


def test_omitted_thinking_is_kept_for_its_signature():
    events = [start(), *thinking(0, [], ["SIG"]), *text(1, "Hi"), *end()]
    assert native(events)[0] == {"type": "thinking", "thinking": "", "signature": "SIG"}
    part = final(events).parts[0]
    assert (part.text, part.thought, part.thought_signature) == ("", True, b"SIG")


def test_thinking_without_a_signature_field_goes_back_without():
    unsigned = {"type": "thinking", "thinking": "hm"}
    assert native([start(), *block(0, **unsigned), *text(1, "Hi"), *end()])[0] == unsigned
    assert native([start(), *thinking(0, ["hm"], []), *end()])[0] == {**unsigned, "signature": ""}


def test_everything_may_come_with_the_start_of_a_block():
    events = [
        start(),
        *block(0, type="thinking", thinking="hm", signature="SIG"),
        *block(1, type="text", text="Hi", citations=[WEB]),
        *end(),
    ]
    assert native(events) == [event["content_block"] for event in events if event["type"] == "content_block_start"]
    assert final(events).citation_metadata.citations[0].uri == WEB["url"]


def test_citations():
    char = {
        "type": "char_location",
        "cited_text": "leaf",
        "document_index": 0,
        "document_title": "Book",
        "start_char_index": 7,
        "end_char_index": 11,
    }
    page = {"type": "page_location", "cited_text": "leaf", "document_title": "Book", "start_page_number": 2}
    found = {"type": "search_result_location", "cited_text": "x", "source": "https://s.example", "title": "S"}
    events = [start()]
    for index, cited in enumerate([WEB, char, page, found]):
        events += [opened(index, {"type": "text", "text": ""}), delta(index, "text_delta", text="t")]
        events += [delta(index, "citations_delta", citation=cited), closed(index)]
    response = final([*events, *end()])
    have = [(c.uri, c.title, c.start_index, c.end_index) for c in response.citation_metadata.citations]
    assert have == [
        (WEB["url"], "Tea", None, None),
        (None, "Book", 7, 11),
        (None, "Book", None, None),
        ("https://s.example", "S", None, None),
    ]
    assert [b["citations"] for b in native([*events, *end()])] == [[WEB], [char], [page], [found]]


def test_citations_are_kept_wherever_the_stream_is_cut_and_although_they_come_late():
    cited = [opened(0, {"type": "text", "text": ""}), delta(0, "text_delta", text="t")]
    cited.append(delta(0, "citations_delta", citation=WEB))
    other = delta(0, "citations_delta", citation={**WEB, "url": "https://late.example"})
    assert native([start(), *cited])[0]["citations"] == [WEB]
    late = [start(), *cited, closed(0), other, *end()]
    assert native(late)[0]["citations"] == [WEB, other["delta"]["citation"]]
    assert [c.uri for c in final(late).citation_metadata.citations] == [WEB["url"], "https://late.example"]


WHOLE_BLOCKS = [
    {
        "type": "web_fetch_tool_result",
        "tool_use_id": "s",
        "content": {"type": "web_fetch_result", "url": "u"},
    },
    {
        "type": "bash_code_execution_tool_result",
        "tool_use_id": "s",
        "content": {"stdout": "1", "return_code": 0},
    },
    {
        "type": "mcp_tool_result",
        "tool_use_id": "m",
        "is_error": False,
        "content": [{"type": "text", "text": "x"}],
    },
    {"type": "tomorrows_tool_result", "tool_use_id": "s", "content": {"deep": [{"er": None}, 1.5, "é"]}},
    {"type": "container_upload", "file_id": "file_1"},
    {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}},
    {"type": "never_heard_of", "data": "opaque==", "n": 3},
]


@pytest.mark.parametrize("given", WHOLE_BLOCKS, ids=lambda b: b["type"])
def test_other_blocks_are_kept_as_they_are(given):
    events = [start(), *text(0, "a"), *block(1, **given), *text(2, "b"), *end()]
    assert native(events) == [{"type": "text", "text": "a"}, given, {"type": "text", "text": "b"}]
    response = final(events)
    assert response.text == "ab"
    assert response.executable_function_calls() == []


@pytest.mark.parametrize("kind", ["server_tool_use", "mcp_tool_use", "tomorrows_tool_use"])
def test_tools_that_the_provider_runs_stream_their_input_and_are_no_calls(kind):
    events = [start(), *tool(0, "s_1", "t", '{"q": ', '"x"}', kind=kind, server_name="n"), *end("pause_turn")]
    want = {"type": kind, "id": "s_1", "name": "t", "input": {"q": "x"}, "server_name": "n"}
    assert native(events) == [want]
    response = final(events)
    assert response.parts[0].part_metadata["server_tool"] == want
    assert response.executable_function_calls() == []


def test_a_cut_server_tool_is_kept_as_far_as_it_came():
    response = final([start(), *tool(0, "s_1", "t", '{"q": ', kind="server_tool_use")[:-1]])
    metadata = response.parts[0].part_metadata
    assert metadata["server_tool"]["id"] == "s_1"
    assert (metadata["raw_arguments"], metadata["unfinished"]) == ('{"q": ', True)
    assert to_native(response, provider="anthropic")["content"][0]["input"] == {"raw_arguments": '{"q": '}


def test_compaction_and_deltas_of_unknown_blocks_go_on():
    events = [
        start(),
        opened(0, {"type": "compaction", "content": None}),
        delta(0, "compaction_delta", content="Summ", encrypted_content="E1"),
        delta(0, "compaction_delta", content="ary", encrypted_content=None),
        closed(0),
        opened(1, {"type": "hologram", "scene": "a"}),
        delta(1, "hologram_delta", scene="b", depth=3),
        delta(1, "hologram_delta", scene="c"),
        closed(1),
        *end(),
    ]
    assert native(events) == [
        {"type": "compaction", "content": "Summary", "encrypted_content": "E1"},
        {"type": "hologram", "scene": "abc", "depth": 3},
    ]
    assert final(events).text == ""


def test_what_no_field_holds_is_kept():
    last = end(container={"id": "c_1"})
    last[0]["context_management"] = {"applied_edits": [{"type": "clear"}]}
    last[1]["amazon-bedrock-invocationMetrics"] = {"inputTokenCount": 16}
    metadata = final([start(container={"id": "c_0"}, extra=1), *text(0, "Hi"), *last]).provider_metadata["anthropic"]
    assert metadata == {
        "container": {"id": "c_1"},
        "extra": 1,
        "context_management": {"applied_edits": [{"type": "clear"}]},
        "amazon-bedrock-invocationMetrics": {"inputTokenCount": 16},
    }


def test_a_message_may_be_complete_at_its_start():
    content = RICH_NATIVE
    events = [start(content=content, stop_reason="tool_use"), {"type": "message_stop"}]
    assert native(events) == content
    assert final(events).status == "completed"
    assert len(final(events).executable_function_calls()) == 2
    assert native([events[0]["message"]]) == content  # an answer that was not streamed at all


def test_the_same_start_again_changes_nothing():
    events = [start(), *text(0, "a"), *tool(1, "t", "f", "{}"), *end()]
    for at in range(1, len(events)):
        assert final([*events[:at], start(), *events[at:]]).model_dump() == final(events).model_dump()


def test_another_message_opens_a_group_of_its_own():
    response = final([start("m_1"), *text(0, "a"), start("m_2"), *text(0, "b"), *end()])
    assert [part.text for part in response.parts] == ["a", "b"]
    assert response.response_id == "m_2"


def test_blocks_whose_start_was_lost():
    events = [
        start(),
        delta(0, "thinking_delta", thinking="hm"),
        delta(0, "signature_delta", signature="SIG"),
        closed(0),
        delta(1, "text_delta", text="Hi"),
        closed(1),
        delta(2, "input_json_delta", partial_json='{"a": 1}'),
        closed(2),
        *end(),
    ]
    response = final(events)
    assert (response.thought_text, response.text) == ("hm", "Hi")
    assert response.parts[0].thought_signature == b"SIG"
    assert response.parts[2].function_call.args == {"a": 1}
    assert response.executable_function_calls() == []  # nobody knows its name


def test_one_index_for_everything():
    events = [
        start(),
        *thinking(0, ["hm"], ["SIG"]),
        *text(0, "Hi"),
        *tool(0, "t", "f", "{}"),
        *end("tool_use"),
    ]
    response = final(events)
    assert (response.thought_text, response.text) == ("hm", "Hi")
    assert [call.id for call in response.executable_function_calls()] == ["t"]


def test_two_kinds_under_one_index():
    events = [
        start(),
        *text(0)[:1],
        delta(0, "thinking_delta", thinking="hm"),
        delta(0, "text_delta", text="Hi"),
    ]
    response = final([*events, closed(0), *tool(1, "t", "f", "{}"), *end("tool_use")])
    assert (response.thought_text, response.text) == ("hm", "Hi")
    assert response.parts[-1].function_call.name == "f"


def test_events_without_index_or_type():
    events = [
        start(),
        *thinking(0, ["hm"], ["SIG"]),
        *text(1, "Hi"),
        *tool(2, "t", "f", '{"a"', ":1}"),
        *end(),
    ]
    bare = [{key: value for key, value in event.items() if key != "index"} for event in events]
    assert final(bare).model_dump() == final(events).model_dump()
    body = "".join(f"event: {event.pop('type')}\ndata: {json.dumps(event)}\n\n" for event in bare)
    assert final([body]).model_dump() == final(events).model_dump()


@pytest.mark.parametrize("at", range(1, 5))
def test_an_error_in_the_stream(at):
    events = [start(), *text(0, "Hel", "lo"), *end()]
    error = {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "Overloaded"},
        "request_id": "r",
    }
    response = final([*events[:at], error, *events[at:]])
    assert (response.status, response.error_code, response.error_message) == (
        "failed",
        "overloaded_error",
        "Overloaded",
    )
    assert "Hello".startswith(response.text)
    assert response.provider_metadata["anthropic"]["request_id"] == "r"


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (
            {"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}},
            "rate_limit_error",
            "slow",
        ),
        (
            {"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED"}},
            "RESOURCE_EXHAUSTED",
            "quota",
        ),
        ({"error": "bad"}, "error", "bad"),
        ({"throttlingException": {"message": "slow"}}, "throttlingException", "slow"),
    ],
)
def test_an_error_as_the_body(body, code, message):
    response = final([json.dumps(body).encode()])
    assert (response.status, response.error_code, response.error_message) == ("failed", code, message)
    assert response.content is None


def test_a_server_tool_that_was_open_at_an_error_is_kept():
    error = {"type": "error", "error": {"type": "api_error", "message": "bang"}}
    response = final([start(), *tool(0, "s", "t", '{"a": 1}', kind="server_tool_use")[:-1], error])
    assert response.parts[0].part_metadata["server_tool"]["input"] == {"a": 1}


@pytest.mark.parametrize(
    "wrap",
    [
        lambda raw: {"chunk": {"bytes": raw}},
        lambda raw: {"bytes": base64.b64encode(raw).decode(), "p": "abcdef"},
        lambda raw: {"chunk": {"bytes": base64.b64encode(raw).decode()}},
    ],
    ids=["boto3", "wire", "json"],
)
def test_bedrocks_envelope(wrap):
    wrapped = [wrap(json.dumps(event).encode()) for event in RICH]
    assert native(wrapped) == RICH_NATIVE


@pytest.mark.parametrize(
    "event",
    [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 5}},
        {"type": "content_block_delta", "index": 0, "delta": "x"},
        {"type": "content_block_start", "index": "one", "content_block": {"type": "text"}},
        {"type": "message_start", "message": 7},
        {"bytes": "%%%%"},
    ],
)
def test_impossible_shapes_are_named(event):
    responses = aggregate([start(), *text(0, "Hi"), event], provider="anthropic")
    with pytest.raises(MalformedStreamError, match="anthropic, event 5"):
        list(responses)
    assert responses.final.text == "Hi"


# ----------------------------------------------------------------- the way back


def test_partials_are_no_history():
    partial = next(iter(aggregate(RICH, provider="anthropic")))
    with pytest.raises(NativeError):
        to_native(partial, provider="anthropic")


def test_empty_text_is_left_out():
    assert native([start(), *text(0), *tool(1, "t", "f", "{}"), *end()]) == [
        {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    ]


def test_another_providers_turn_keeps_text_and_calls():
    signed = {"thoughtSignature": "c2ln"}
    parts = [
        {"text": "hm", "thought": True, **signed},
        {"text": "Hi", **signed},
        {"functionCall": {"id": "c", "name": "f", "args": {"a": 1}}, **signed},
        {"executableCode": {"code": "1", "language": "PYTHON"}},
    ]
    chunk = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}
    response = list(aggregate([chunk], provider="gemini"))[-1]
    assert to_native(response, provider="anthropic")["content"] == [
        {"type": "text", "text": "Hi"},
        {"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}},
    ]


def test_changing_a_message_changes_nothing_else():
    response = final(RICH)
    before = response.model_dump_json()
    message = to_native(response, provider="anthropic")
    for each in message["content"]:
        for value in each.values():
            if isinstance(value, (dict, list)):
                value.clear()
    assert response.model_dump_json() == before


def test_changing_a_response_changes_no_other_and_no_event():
    given = json.loads(json.dumps(RICH))
    *partials, last = aggregate(given, provider="anthropic")
    before = [response.model_dump() for response in partials]
    for part in last.parts:
        for value in (part.part_metadata or {}).values():
            if isinstance(value, dict):
                for inner in value.values():
                    if isinstance(inner, (dict, list)):
                        inner.clear()
    assert [response.model_dump() for response in partials] == before
    assert given == RICH


# ----------------------------------------------------------------- what holds for any stream

words = st.text(max_size=8)
json_objects = st.dictionaries(
    words, st.integers() | words | st.booleans() | st.none() | st.lists(words, max_size=2), max_size=3
)


def pieces_of(draw: Any, whole: str) -> list[str]:
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


@st.composite
def messages(draw: Any) -> tuple[list[dict], list[dict]]:
    """(events, the blocks they come to), with fragments cut anywhere."""
    per_block: list[list[dict]] = []
    blocks: list[dict] = []
    for index in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["text", "thinking", "redacted", "tool", "server", "result"]))
        if kind == "text":
            said = draw(words)
            per_block.append(text(index, *pieces_of(draw, said)))
            blocks += [{"type": "text", "text": said}] if said else []
        elif kind == "thinking":
            said, signature = draw(words), draw(st.text("abcXYZ+/=", min_size=1, max_size=12))
            per_block.append(thinking(index, pieces_of(draw, said), pieces_of(draw, signature)))
            blocks.append({"type": "thinking", "thinking": said, "signature": signature})
        elif kind == "redacted":
            per_block.append(block(index, type="redacted_thinking", data=draw(words)))
            blocks.append(per_block[-1][0]["content_block"])
        elif kind in ("tool", "server"):
            use = {"tool": "tool_use", "server": "server_tool_use"}[kind]
            args = draw(json_objects)
            raw = json.dumps(args, ensure_ascii=draw(st.booleans())) if args or draw(st.booleans()) else ""
            per_block.append(tool(index, f"id_{index}", "same", *pieces_of(draw, raw), kind=use))
            blocks.append({"type": use, "id": f"id_{index}", "name": "same", "input": args})
        else:
            per_block.append(block(index, type="x_tool_result", tool_use_id="s", content=draw(json_objects)))
            blocks.append(per_block[-1][0]["content_block"])
    return [start(), *(event for each in per_block for event in each), *end()], blocks


@settings(max_examples=80, deadline=None)
@given(messages())
def test_any_message_comes_back_as_it_is(case):
    events, blocks = case
    assert native(events) == blocks
    assert final(events).status == "completed"
    assert [c.id for c in final(events).executable_function_calls()] == [
        b["id"] for b in blocks if b["type"] == "tool_use"
    ]


@settings(max_examples=40, deadline=None)
@given(messages(), st.randoms(use_true_random=False))
def test_any_interleaving_of_the_blocks_is_the_same(case, chooser):
    events, blocks = case
    queues: dict[int, list[dict]] = {}
    for event in events[1:-2]:
        queues.setdefault(event["index"], []).append(event)
    mixed = [queue.pop(0) for queue in queues.values()]  # blocks begin in order
    while any(queues.values()):
        mixed.append(chooser.choice([queue for queue in queues.values() if queue]).pop(0))
    assert native([events[0], *mixed, *events[-2:]]) == blocks


NEUTRAL = [
    {"type": "ping"},
    {"type": "future_event", "x": {"bytes": "?"}, "bytes": "?"},
    {"type": "vertex_event", "usage": {"input_tokens": 9, "output_tokens": None, "tiers": {}}},
    {},
    {"type": "content_block_delta", "index": 0, "delta": None},
    {"type": "content_block_delta", "index": 0, "delta": {}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": None}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "future_delta", "y": 2}},
    {"type": "content_block_delta", "index": 99, "delta": {"type": "future_delta", "y": 2}},
    {"type": "content_block_stop", "index": 99},
    {"type": "content_block_start", "index": 99, "content_block": None},
    {"type": "message_delta", "delta": None, "usage": None},
    {"type": "message_delta", "delta": {"stop_reason": None}},
    {"type": "message_start", "message": {"id": "msg_1"}},
]


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(NEUTRAL), st.integers(1, len(RICH))), min_size=1, max_size=6))
def test_neutral_events_change_nothing(insertions):
    events = list(RICH)
    for event, at in sorted(insertions, key=lambda pair: -pair[1]):
        events.insert(at, event)
    assert final(events).model_dump() == final(RICH).model_dump()


@settings(max_examples=60, deadline=None)
@given(messages(), st.data())
def test_a_cut_stream_is_a_prefix_and_runs_nothing_that_is_open(case, data):
    events, _ = case
    at = data.draw(st.integers(1, len(events) - 1))
    whole, cut = final(events), final(events[:at])
    assert (cut.status, cut.error_code) == ("incomplete", "STREAM_CUT")
    assert whole.text.startswith(cut.text)
    assert whole.thought_text.startswith(cut.thought_text)
    ended = {event["index"] for event in events[:at] if event["type"] == "content_block_stop"}
    ids = {f"id_{index}" for index in ended}
    assert {call.id for call in cut.executable_function_calls()} <= ids


@settings(max_examples=25, deadline=None)
@given(messages(), st.sampled_from(["close", "boundary"]))
def test_a_snapshot_at_every_event_gives_the_same_responses(case, flush):
    events, _ = case

    def run(carried: bool) -> list[dict]:
        line, aggregator, responses = Line("anthropic"), StreamingResponseAggregator(flush), []
        for event in events:
            if carried:
                line, aggregator = Line.restore(line.snapshot()), aggregator.restore(aggregator.snapshot())
            for chunks in line.feed(event):
                for chunk in chunks:
                    responses += aggregator.process_response(chunk)
        responses += [chunk for chunks in line.close() for chunk in chunks]
        return [response.model_dump() for response in [*responses, aggregator.close()]]

    assert run(True) == run(False)


@settings(max_examples=40, deadline=None)
@given(messages(), st.data())
def test_partials_show_every_delta_once(case, data):
    events, blocks = case
    partials = [r for r in aggregate(events, provider="anthropic") if r.partial]
    whole = final(events)
    assert "".join(response.text for response in partials) == whole.text
    assert "".join(response.thought_text for response in partials) == whole.thought_text
    for use in (b for b in blocks if b["type"] == "tool_use"):
        shown = "".join(
            (part.part_metadata or {}).get("arguments_delta", "")
            for response in partials
            for part in response.parts
            if part.function_call is not None and part.function_call.id == use["id"]
        )
        assert json.loads(shown or "{}") == use["input"]


def test_moving_the_usage_changes_no_part():
    last = end("tool_use", {"output_tokens": 60, "output_tokens_details": {"thinking_tokens": 20}})
    usage = {"type": "message_delta", "delta": {}, "usage": last[0].pop("usage")}
    body = RICH[:-2]
    for at in range(1, len(body) + 1):
        assert final([*body[:at], usage, *body[at:], *last]).model_dump() == final(RICH).model_dump()


# ----------------------------------------------------------------- recorded streams

CORPUS = os.environ.get("ADK_STREAM_CORPUS")
RECORDINGS = (
    sorted(path for path in Path(CORPUS, "anthropic").rglob("*") if path.suffix in (".sse", ".jsonl")) if CORPUS else []
)


def recorded_events(path: Path) -> list[dict]:
    lines = path.read_text().splitlines()
    if path.suffix == ".sse":
        lines = [line.removeprefix("data:") for line in lines if line.startswith("data:")]
    return [json.loads(line) for line in lines if line.strip()]


def expected_blocks(events: list[dict]) -> list[dict]:
    """The blocks that plain concatenation gives; ``$raw`` is the joined input."""
    blocks: dict[int, dict] = {}
    for event in events:
        if event["type"] == "message_start":
            blocks.update(enumerate(event["message"].get("content") or []))
        elif event["type"] == "content_block_start":
            blocks[event["index"]] = dict(event["content_block"])
        elif event["type"] == "content_block_delta":
            into, change = blocks[event["index"]], dict(event["delta"])
            if change.pop("type") == "citations_delta":
                into["citations"] = [*(into.get("citations") or ()), change["citation"]]
                continue
            for key, value in change.items():
                into[key] = (into.get(key) or "") + value
    for each in blocks.values():
        raw = each.pop("partial_json", "")
        if raw.strip():
            try:
                each["input"] = json.loads(raw)
            except ValueError:
                each["input"] = {"raw_arguments": raw}
    blocks = {index: each for index, each in blocks.items() if each["type"] != "text" or each["text"]}
    return [{k: v for k, v in blocks[i].items() if v is not None and v != []} for i in sorted(blocks)]


@pytest.mark.skipif(not RECORDINGS, reason="ADK_STREAM_CORPUS names no folder of recorded streams")
def test_the_official_sdk_agrees_where_it_lost_nothing():
    """What Anthropic's own accumulator makes of the recordings is kept beside them."""
    agreed = 0
    for path in RECORDINGS:
        told = json.loads(Path(CORPUS, "oracle", *path.parts[-3:-1], path.name + ".json").read_text())
        message = told["beta"].get("final")
        if told["loss"] or told["beta"]["status"] != "ok":
            continue
        have, response = native([path.read_bytes()]), final([path.read_bytes()])
        wanted = [each for each in message["content"] if each.get("text") != ""]
        assert [without_nulls(each) for each in have] == [without_nulls(each) for each in wanted], path.name
        assert response.native_finish_reason == message["stop_reason"]
        agreed += 1
    assert agreed > len(RECORDINGS) / 2


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None and item != []}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


@pytest.mark.skipif(not RECORDINGS, reason="ADK_STREAM_CORPUS names no folder of recorded streams")
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_recorded_streams(path):
    body = path.read_bytes()
    whole = final([body])
    have = to_native(whole, provider="anthropic")["content"]
    assert [{k: v for k, v in each.items() if v is not None and v != []} for each in have] == expected_blocks(
        recorded_events(path)
    )
    chooser = random.Random(path.name)
    sizes = [1 if len(body) < 20_000 else 97, 7 if len(body) < 100_000 else 997]
    cuts = [[body[at : at + size] for at in range(0, len(body), size)] for size in sizes]
    places = sorted(chooser.sample(range(len(body)), 20))
    cuts.append([body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True)])
    for cut in cuts:
        assert final(cut).model_dump() == whole.model_dump()
