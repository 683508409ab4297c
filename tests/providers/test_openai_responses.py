"""The Responses line: each kind of event by small lists, its laws by hypothesis, recordings at the end."""

from __future__ import annotations

import base64
import json
import os
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adk_stream import StreamingResponseAggregator, aggregate, to_native
from adk_stream.errors import MalformedStreamError, NativeError
from adk_stream.parts import PartDelta, StreamedPart
from adk_stream.providers.line import Line
from adk_stream.providers.openai_responses import ResponsesReader
from adk_stream.response import LlmResponse

LINE = "openai-responses"


# ----------------------------------------------------------------- building streams


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **fields}


def numbered(events: list[dict[str, Any]], start: int = 0) -> list[dict[str, Any]]:
    return [{**each, "sequence_number": start + n} for n, each in enumerate(events)]


def created(**fields: Any) -> dict[str, Any]:
    return event("created", response={"id": "resp_1", "model": "m", "status": "in_progress", "output": [], **fields})


def ended(output: list[Any] | None = None, word: str = "completed", **fields: Any) -> dict[str, Any]:
    response = {"id": "resp_1", "model": "m", "status": word, "output": output or [], **fields}
    return event(word, response=response)


def message(*contents: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "id": "msg",
        "role": "assistant",
        "status": "completed",
        "content": list(contents),
        **fields,
    }


def text(said: str, **fields: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": said, "annotations": [], **fields}


def reasoning(summary: tuple[str, ...] = (), content: tuple[str, ...] = (), **fields: Any) -> dict[str, Any]:
    item = {
        "type": "reasoning",
        "id": "rs",
        "summary": [{"type": "summary_text", "text": s} for s in summary],
        **fields,
    }
    if content:
        item["content"] = [{"type": "reasoning_text", "text": c} for c in content]
    return item


def function(arguments: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": "fc",
        "call_id": "call_1",
        "name": "f",
        "arguments": arguments,
        **fields,
    }


_EMPTY = {"content": [], "summary": [], "arguments": "", "input": ""}


def begun(item: dict[str, Any]) -> dict[str, Any]:
    """The item as output_item.added tells it."""
    fields = {key: _EMPTY.get(key, value) for key, value in item.items() if key != "encrypted_content"}
    return {**fields, "status": "in_progress"} if "status" in item else fields


def pieces(said: str, size: int) -> list[str]:
    return [said[at : at + size] for at in range(0, len(said), size)]


def streamed(item: dict[str, Any], index: int, size: int = 3) -> list[dict[str, Any]]:
    """Everything the API tells of one item."""
    place = {"output_index": index, "item_id": item.get("id")}
    events = [event("output_item.added", output_index=index, item=begun(item))]

    def told(name: str, field: str, whole: str, **at: Any) -> None:
        events.extend(event(f"{name}.delta", delta=piece, **place, **at) for piece in pieces(whole, size))
        events.append(event(f"{name}.done", **{field: whole}, **place, **at))

    for number, summary in enumerate(item.get("summary") or ()):
        told("reasoning_summary_text", "text", summary["text"], summary_index=number)
    for number, content in enumerate(item.get("content") or ()):
        at = {"content_index": number}
        events.append(event("content_part.added", part={**content, "text": ""}, **place, **at))
        if content["type"] == "refusal":
            told("refusal", "refusal", content["refusal"], **at)
        elif content["type"] == "output_text":
            told("output_text", "text", content["text"], **at)
        elif content["type"] == "reasoning_text":
            told("reasoning_text", "text", content["text"], **at)
        for n, annotation in enumerate(content.get("annotations") or ()):
            events.append(
                event("output_text.annotation.added", annotation=annotation, annotation_index=n, **place, **at)
            )
        events.append(event("content_part.done", part=content, **place, **at))
    if item["type"] == "function_call":
        told("function_call_arguments", "arguments", item["arguments"])
    if item["type"] == "custom_tool_call":
        told("custom_tool_call_input", "input", item["input"])
    events.append(event("output_item.done", output_index=index, item=item))
    return events


def stream(*items: dict[str, Any], size: int = 3, start: int = 0) -> list[dict[str, Any]]:
    body = [each for n, item in enumerate(items) for each in streamed(item, start + n, size)]
    return numbered([created(), event("in_progress", response={"id": "resp_1"}), *body, ended(list(items))])


# ----------------------------------------------------------------- reading results


def run(events: Any, flush: Any = "close", **options: Any) -> list[LlmResponse]:
    return [each for each in aggregate(deepcopy(events), LINE, flush, **options) if not each.partial]


def final(events: Any) -> LlmResponse:
    return run(events)[-1]


def shape(responses: list[LlmResponse] | LlmResponse) -> list[tuple[Any, ...]]:
    """Kind and content of each part."""
    found: list[tuple[Any, ...]] = []
    for response in responses if isinstance(responses, list) else [responses]:
        for part in response.parts:
            metadata = part.part_metadata or {}
            if "server_tool" in metadata:
                found.append(("tool", metadata["server_tool"]))
            elif part.function_call:
                call = part.function_call
                found.append(("call", call.id, call.name, call.args, "unfinished" in metadata))
            elif part.executable_code:
                found.append(("code", part.executable_code.code))
            elif part.code_execution_result:
                found.append(("result", part.code_execution_result.output))
            elif part.inline_data:
                found.append(("image", part.inline_data.mime_type, part.inline_data.data))
            else:
                kind = "refusal" if metadata.get("refusal") else "thought" if part.thought else "text"
                found.append((kind, part.text, part.thought_signature))
    return found


def dumped(response: LlmResponse) -> Any:
    return response.model_dump(mode="json", exclude_none=True)


def through_session(responses: list[LlmResponse]) -> list[LlmResponse]:
    return [LlmResponse.model_validate_json(each.model_dump_json(by_alias=True)) for each in responses]


def told_again(items: list[Any]) -> Any:
    """Items as they are compared: without nulls, what is empty, and what need not go back."""
    dropped = ("status", "logprobs", "obfuscation", "created_by")

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            cleaned = {key: plain(inner) for key, inner in value.items() if key not in dropped}
            return {key: inner for key, inner in cleaned.items() if inner not in (None, [], {})}
        return [plain(inner) for inner in value] if isinstance(value, list) else value

    return plain(items)


# ----------------------------------------------------------------- each kind


def test_text_that_is_told_five_times_counts_once():
    response = final(stream(message(text("Hello world"))))
    assert shape(response) == [("text", "Hello world", None)]
    assert response.status == "completed"
    assert response.response_id == "resp_1"
    assert response.model_version == "m"


@pytest.mark.parametrize("missed", range(2, 8))
def test_every_telling_fills_what_those_before_it_missed(missed: int):
    events = stream(message(text("abcdefghi")))
    kept = [events[0], *events[missed:]]
    assert final(kept).text == "abcdefghi"


def test_terminal_payload_gives_items_that_were_never_streamed():
    output = [reasoning(("hm",)), message(text("Hi")), function('{"a":1}')]
    response = final(numbered([created(), ended(output)]))
    assert [kind for kind, *_ in shape(response)] == ["thought", "text", "call"]
    assert [call.args for call in response.executable_function_calls()] == [{"a": 1}]
    assert told_again(to_native(response, LINE)) == told_again(output)


def test_terminal_payload_without_output_erases_nothing():
    events = numbered([created(), *streamed(message(text("Hi")), 0), ended([])])
    assert final(events).text == "Hi"


def test_terminal_payload_does_not_contradict_what_was_streamed():
    delta = event("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="streamed")
    response = final(numbered([created(), delta, ended([reasoning(("other",))])]))
    assert response.thought_text == "streamed"


def test_an_item_end_corrects_what_was_streamed():
    events = [
        created(),
        event("output_text.delta", output_index=0, content_index=0, delta="wr0ng"),
        event("output_item.done", output_index=0, item=message(text("right"))),
        ended(),
    ]
    for flush in ("close", "boundary"):
        assert shape(run(numbered(events), flush)) == [("text", "right", None)]


def test_function_call_closes_at_arguments_done():
    events = streamed(function('{"a":5}'), 0)
    done = next(n for n, each in enumerate(events) if each["type"].endswith("arguments.done"))
    response = final([created(), *events[: done + 1]])
    assert response.error_code == "STREAM_CUT"
    assert [call.id for call in response.executable_function_calls()] == ["call_1"]
    response = final([created(), *events[:done]])
    assert response.executable_function_calls() == []


def test_arguments_without_name_wait_for_the_item():
    events = [
        event("function_call_arguments.delta", output_index=3, item_id="fc", delta='{"a"'),
        event("function_call_arguments.done", output_index=3, item_id="fc", arguments='{"a":1}'),
    ]
    assert final(events).executable_function_calls() == []
    response = final([*events, event("output_item.done", output_index=3, item=function('{"a":1}')), ended()])
    assert [(c.id, c.args) for c in response.executable_function_calls()] == [("call_1", {"a": 1})]


@pytest.mark.parametrize(
    "written",
    ['{"a":1}', '{"a": 1.0}', '{"b":2,"a":1}', '{"a":"\\u00e9"}', "", "{}", '{"a":12345678901234567890}'],
)
def test_arguments_go_back_as_they_were_written(written: str):
    responses = run(stream(function(written)))
    (item,) = to_native(through_session(responses), LINE)
    assert item["arguments"] == written


def test_arguments_that_do_not_parse_are_kept_and_never_run():
    response = final(stream(function('{"a":')))
    assert response.executable_function_calls() == []
    assert response.parts[0].part_metadata["raw_arguments"] == '{"a":'
    assert to_native(response, LINE)[0]["arguments"] == '{"a":'


def test_arguments_given_as_an_object():
    item = {**function(""), "arguments": {"a": 1}}
    events = [created(), event("output_item.done", output_index=0, item=item), ended()]
    assert final(events).executable_function_calls()[0].args == {"a": 1}


def test_fields_told_after_a_call_was_given_out_go_back_too():
    item = function('{"a":1}', namespace="n")
    events = streamed(item, 0)
    del events[0]["item"]["namespace"]
    for flush in ("close", "boundary"):
        responses = through_session(run([created(), *events, ended()], flush))
        assert len([p for r in responses for p in r.parts]) == 1
        assert told_again(to_native(responses, LINE)) == told_again([item])


def test_custom_tool_call():
    item = {"type": "custom_tool_call", "id": "ct", "call_id": "call_9", "name": "sql", "input": "SELECT {"}
    response = final(stream(item))
    assert shape(response) == [("call", "call_9", "sql", {"input": "SELECT {"}, False)]
    assert to_native(response, LINE) == [item]
    cut = final(stream(item)[:5])
    assert cut.executable_function_calls() == []
    assert cut.parts[0].function_call.args is None


def test_refusal_is_no_natural_end():
    response = final(stream(message({"type": "refusal", "refusal": "I cannot."})))
    assert shape(response) == [("refusal", "I cannot.", None)]
    assert (response.status, response.error_code) == ("incomplete", "SAFETY")
    assert told_again(to_native(response, LINE)) == told_again([message({"type": "refusal", "refusal": "I cannot."})])


def test_text_and_refusal_at_one_content_index_are_two_parts():
    events = [
        event("output_text.delta", output_index=0, content_index=0, delta="a"),
        event("refusal.delta", output_index=0, content_index=0, delta="no"),
        event("output_text.delta", output_index=0, content_index=0, delta="b"),
    ]
    assert shape(final(events)) == [("text", "ab", None), ("refusal", "no", None)]


def test_summaries_are_parts_of_their_own_and_one_item_again():
    item = reasoning(("one", "two"), ("deep",), encrypted_content="gAAA=")
    responses = run(stream(item, message(text("Hi"))))
    assert shape(responses) == [
        ("thought", "one", None),
        ("thought", "two", None),
        ("thought", "deep", b"gAAA="),
        ("text", "Hi", None),
    ]
    for part in responses[0].parts[:3]:
        assert part.part_metadata[LINE]["item"]["id"] == "rs"
    assert told_again(to_native(through_session(responses), LINE)[0]) == told_again(item)


def test_reasoning_that_is_nothing_but_encrypted_is_kept():
    item = reasoning(encrypted_content="gAAA-_=")
    responses = run(stream(item, function("{}")))
    assert shape(responses)[0] == ("thought", None, b"gAAA-_=")
    assert to_native(through_session(responses), LINE)[0] == item


def test_reasoning_without_anything_is_kept_for_its_id():
    responses = run(stream(reasoning(), function("{}")))
    assert [item["type"] for item in to_native(responses, LINE)] == ["reasoning", "function_call"]


def test_the_items_own_encrypted_content_is_kept_not_the_payloads():
    events = stream(reasoning(("x",), encrypted_content="first"))
    events[-1] = ended([reasoning(("x",), encrypted_content="again")]) | {"sequence_number": len(events) - 1}
    assert final(events).parts[0].thought_signature == b"first"


def test_ids_that_change_with_every_event():
    items = [reasoning(("hm",), encrypted_content="s"), message(text("Hello")), function('{"a":1}')]
    events = stream(*items)
    for n, each in enumerate(events):
        if "item_id" in each:
            each["item_id"] = f"id{n}"
        if "item" in each:
            each["item"] = {**each["item"], "id": f"id{n}"}
        for m, item in enumerate(each.get("response", {}).get("output") or ()):
            item["id"] = f"end{m}"
    assert shape(final(events)) == shape(final(stream(*items)))


@pytest.mark.parametrize("start", [1, 7])
def test_output_index_that_starts_anywhere(start: int):
    items = [reasoning(("hm",)), message(text("Hello")), function('{"a":1}')]
    assert shape(final(stream(*items, start=start))) == shape(final(stream(*items)))


def test_output_index_missing():
    items = [
        reasoning(("hm",)),
        message(text("Hello")),
        function('{"a":1}'),
        function("{}", id="fc2", call_id="c2"),
    ]
    events = stream(*items)
    for each in events:
        each.pop("output_index", None)
    assert shape(final(events)) == shape(final(stream(*items)))


def test_output_index_always_zero():
    items = [
        reasoning(("hm",)),
        message(text("Hello")),
        function('{"a":1}'),
        function("{}", id="fc2", call_id="c2"),
    ]
    events = stream(*items)
    for each in events:
        if "output_index" in each:
            each["output_index"] = 0
    assert shape(final(events)) == shape(final(stream(*items)))


def test_output_index_always_zero_and_an_empty_payload():
    items = [
        message(text("one")),
        message(text("two"), id="msg2"),
        function("{}"),
        function("{}", id="x", call_id="c2"),
    ]
    events = [each for item in items for each in streamed(item, 0)]
    assert shape(final([created(), *events, ended()])) == shape(final(stream(*items)))


def test_ids_that_change_and_an_index_that_starts_anywhere():
    items = [message(text("one")), message(text("two"))]
    events = [each for n, item in enumerate(items) for each in streamed(item, n + 1)]
    for n, each in enumerate(events):
        if "item" in each:
            each["item"] = {**each["item"], "id": f"id{n}"}
    kept = [each for each in events if not each["type"].endswith("item.done")]
    output = [{**item, "id": f"end{n}"} for n, item in enumerate(items)]
    response = final([created(), *kept, ended(output)])
    assert shape(response) == [("text", "one", None), ("text", "two", None)]
    assert [item["id"] for item in to_native(response, LINE)] == ["end0", "end1"]


def test_a_tool_that_is_still_open_holds_back_what_stands_behind_it():
    tool = {"type": "web_search_call", "id": "ws", "status": "completed"}
    begun_tool, done_tool = streamed(tool, 0)
    events = [created(), begun_tool, *streamed(function("{}"), 1), done_tool, ended()]
    assert shape(run(events, "boundary")) == shape(run(events))


def test_interleaved_calls():
    one, two = streamed(function('{"a":1}'), 0), streamed(function('{"b":2}', id="x", call_id="call_2"), 1)
    mixed = [each for pair in zip(one, two, strict=True) for each in pair]
    response = final([created(), *mixed, ended()])
    assert [(c.id, c.args) for c in response.executable_function_calls()] == [
        ("call_1", {"a": 1}),
        ("call_2", {"b": 2}),
    ]


def test_repeated_sequence_numbers_count_once():
    events = stream(message(text("Hello world")), function('{"a":1}'))
    again = events[:9] + events[4:9] + events[6:]
    assert dumped(final(again)) == dumped(final(events))


def test_a_server_that_does_not_count():
    events = [{**each, "sequence_number": 0} for each in stream(message(text("aaaaaa"), text("aaa")))]
    assert final(events).text == "aaaaaaaaa"


def test_an_error_counts_whatever_its_number():
    events = stream(message(text("Hello world")))[:-1]
    for end in ({"type": "error", "code": "c", "message": "m"}, ended(word="failed", error={"code": "c"})):
        response = final([*events, {**end, "sequence_number": 0}])
        assert (response.status, response.error_code) == ("failed", "c")


def test_a_server_that_does_not_count_and_repeats_nothing():
    deltas = [event("output_text.delta", output_index=0, content_index=0, delta=each) for each in "abc"]
    events = [{**each, "sequence_number": 0} for each in [created(), *deltas, ended()]]
    assert final(events).text == "abc"


def test_gaps_are_told():
    events = stream(message(text("Hello world")))
    response = final(events[:4] + events[6:])
    assert response.text == "Hello world"
    assert response.provider_metadata[LINE]["sequence_gaps"] == [[4, 5]]
    assert "sequence_gaps" not in final(events).provider_metadata.get(LINE, {})


@pytest.mark.parametrize("at", range(1, 14))
def test_a_resumed_stream_without_its_beginning(at: int):
    events = stream(message(text("Hello world")), function('{"a":1}'))
    response = final(events[at:])
    assert response.status == "completed"
    assert shape(response) == [("text", "Hello world", None), ("call", "call_1", "f", {"a": 1}, False)]


def test_a_resumed_text_is_made_whole_by_the_payload_alone():
    delta = event("output_text.delta", output_index=0, content_index=0, delta="lo world")
    response = final(numbered([delta, ended([message(text("Hello world"))])], start=9))
    assert shape(response) == [("text", "Hello world", None)]


def test_a_text_with_a_gap_is_made_whole_by_the_payload_alone():
    deltas = [event("output_text.delta", output_index=0, content_index=0, delta=each) for each in "abcd"]
    events = numbered([created(), *deltas, ended([message(text("abcd"))])])
    assert final(events[:2] + events[3:]).text == "abcd"


def test_a_second_response_in_one_stream_is_a_new_group():
    second = [
        {**each, "response": {**each["response"], "id": "resp_2"}} if "response" in each else each
        for each in stream(message(text("second")))
    ]
    assert final(stream(message(text("first"))) + second).text == "firstsecond"


def test_citations_keep_their_offsets():
    cited = [
        {"type": "url_citation", "url": "https://e.org/a", "title": "A", "start_index": 2, "end_index": 4},
        {"type": "file_citation", "file_id": "file_1", "filename": "a.txt", "index": 3},
    ]
    item = message({**text("tea[1]"), "annotations": cited})
    responses = run(stream(item))
    first, second = responses[0].citation_metadata.citations
    assert (first.uri, first.title, first.start_index, first.end_index) == ("https://e.org/a", "A", 2, 4)
    assert second.title == "a.txt"
    assert told_again(to_native(through_session(responses), LINE)) == told_again([item])
    missed = [each for each in stream(item) if not each["type"].endswith("annotation.added")]
    assert len(final(missed).citation_metadata.citations) == 2


def test_log_probabilities_count_once():
    def entry(token: str) -> dict[str, Any]:
        return {
            "token": token,
            "logprob": -0.5,
            "bytes": [1],
            "top_logprobs": [{"token": token, "logprob": -0.5}],
        }

    events = [
        created(),
        event("output_text.delta", output_index=0, content_index=0, delta="a", logprobs=[entry("a")]),
        event("output_text.delta", output_index=0, content_index=0, delta="b", logprobs=[entry("b")]),
        event("output_text.done", output_index=0, content_index=0, text="ab", logprobs=[entry("a"), entry("b")]),
        event("output_item.done", output_index=0, item=message(text("ab", logprobs=[entry("a"), entry("b")]))),
        ended(),
    ]
    for kept in (events, events[:1] + events[3:]):
        result = final(kept).logprobs_result
        assert [each.token for each in result.chosen_candidates] == ["a", "b"]
        assert [each.candidates[0].log_probability for each in result.top_candidates] == [-0.5, -0.5]


def test_code_interpreter():
    item = {
        "type": "code_interpreter_call",
        "id": "ci",
        "status": "completed",
        "code": "1+1",
        "container_id": "c",
        "outputs": [{"type": "logs", "logs": "2"}, {"type": "image", "url": "u"}],
    }
    place = {"output_index": 0, "item_id": "ci"}
    events = [
        created(),
        event("output_item.added", output_index=0, item={**item, "code": "", "outputs": None}),
        event("code_interpreter_call_code.delta", delta="1+", **place),
        event("code_interpreter_call_code.delta", delta="1", **place),
        event("code_interpreter_call_code.done", code="1+1", **place),
        event("output_item.done", output_index=0, item=item),
        ended([item]),
    ]
    for flush in ("close", "boundary"):
        responses = run(events, flush)
        assert shape(responses) == [("code", "1+1"), ("result", "2")]
        assert to_native(through_session(responses), LINE) == [item]
    shown = [p.executable_code.code for r in aggregate(events[:4], LINE) if r.partial for p in r.parts]
    assert shown == ["", "1+", "1", "1+1"]
    assert shape(final(events[:4])) == [("code", "1+1")]
    assert to_native(final(events[:4]), LINE) == []


def test_image_generation():
    data = base64.b64encode(b"\x89PNG").decode()
    item = {
        "type": "image_generation_call",
        "id": "ig",
        "status": "completed",
        "result": data,
        "output_format": "webp",
    }
    events = [
        created(),
        event(
            "output_item.added",
            output_index=0,
            item={"type": "image_generation_call", "id": "ig", "result": None},
        ),
        event("image_generation_call.partial_image", output_index=0, item_id="ig", partial_image_b64=data),
        event("output_item.done", output_index=0, item=item),
        ended([item]),
    ]
    responses = list(aggregate(events, LINE))
    assert shape(responses[-1]) == [("image", "image/webp", b"\x89PNG")]
    assert ("image", "image/png", b"\x89PNG") in shape([each for each in responses if each.partial])
    assert to_native(through_session(responses[-1:]), LINE) == [item]
    assert shape(final(events[:3])) == []


TOOLS = [
    {
        "type": "web_search_call",
        "id": "ws",
        "status": "completed",
        "action": {"type": "search", "query": "tea"},
    },
    {"type": "mcp_list_tools", "id": "ml", "server_label": "s", "tools": [{"name": "t", "input_schema": {}}]},
    {
        "type": "mcp_call",
        "id": "mc",
        "name": "t",
        "server_label": "s",
        "arguments": "{}",
        "output": "x",
        "error": None,
    },
    {"type": "mcp_approval_request", "id": "ma", "name": "t", "server_label": "s", "arguments": "{}"},
    {"type": "local_shell_call", "id": "ls", "call_id": "c", "action": {"type": "exec", "command": ["ls"]}},
    {
        "type": "apply_patch_call",
        "id": "ap",
        "call_id": "c",
        "operation": {"type": "delete_file", "path": "p"},
    },
    {"type": "compaction", "id": "cm", "encrypted_content": "gAA="},
    {"type": "image_generation_call", "id": "ig", "result": "not base64!", "status": "failed"},
    {"type": "item_of_tomorrow", "id": "x", "field": {"deep": [1, {"a": None}]}},
    {"type": "item_without_id", "big": 2**70},
]


@pytest.mark.parametrize("item", TOOLS, ids=lambda item: item["type"])
def test_hosted_tools_are_kept_whole_and_never_run(item: dict[str, Any]):
    for flush in ("close", "boundary"):
        responses = run(stream(item, message(text("Hi"))), flush)
        assert shape(responses) == [("tool", item), ("text", "Hi", None)]
        assert not any(each.executable_function_calls() for each in responses)
        assert to_native(through_session(responses), LINE)[0] == item


def test_a_hosted_tool_that_was_cut_holds_what_had_come():
    place = {"output_index": 0, "item_id": "mc"}
    events = [
        event(
            "output_item.added",
            output_index=0,
            item={"type": "mcp_call", "id": "mc", "name": "t", "arguments": ""},
        ),
        event("mcp_call_arguments.delta", delta='{"a"', **place),
    ]
    response = final(events)
    assert shape(response)[0][1]["arguments"] == '{"a"'
    assert to_native(response, LINE) == []
    shell = [
        event("output_item.added", output_index=0, item={"type": "shell_call", "action": {"commands": []}}),
        event("shell_call_command.delta", output_index=0, command_index=0, delta="ls"),
        event("shell_call_command.delta", output_index=0, command_index=1, delta="pwd"),
    ]
    assert shape(final(shell))[0][1]["action"]["commands"] == ["ls", "pwd"]


@pytest.mark.parametrize("end", [ended(word="failed"), {"type": "error", "code": "c"}, ended(word="cancelled")])
def test_a_hosted_tool_that_failed_holds_what_had_come(end: dict[str, Any]):
    events = [
        event("output_item.added", output_index=0, item={"type": "mcp_call", "id": "mc", "arguments": ""}),
        event("mcp_call_arguments.delta", output_index=0, item_id="mc", delta='{"a"'),
        end,
    ]
    assert shape(final(events))[0][1]["arguments"] == '{"a"'


def test_status_goes_back_as_it_ended():
    items = [message(text("a")), {**message(text("b")), "status": "incomplete", "id": "m2"}]
    responses = run(stream(*items))
    assert [item["status"] for item in to_native(responses, LINE)] == ["completed", "incomplete"]
    cut = final(stream(function('{"a":1}', status="completed"))[:4])
    assert to_native(cut, LINE)[0]["status"] == "incomplete"


def test_contents_of_tomorrow_and_unknown_fields_go_back():
    item = message(
        text("a", extra={"x": 1}),
        {"type": "output_hologram", "data": [1]},
        text("b"),
        phase="commentary",
        novel=7,
    )
    responses = run(stream(item))
    assert told_again(to_native(through_session(responses), LINE)) == told_again([item])
    assert "".join(each.text for each in responses) == "ab"


@pytest.mark.parametrize(
    ("end", "status", "code", "reason"),
    [
        (ended(), "completed", None, "completed"),
        (
            ended(word="incomplete", incomplete_details={"reason": "max_output_tokens"}),
            "incomplete",
            "MAX_TOKENS",
            "max_output_tokens",
        ),
        (
            ended(word="incomplete", incomplete_details={"reason": "content_filter"}),
            "incomplete",
            "SAFETY",
            "content_filter",
        ),
        (ended(word="incomplete", incomplete_details={"reason": "moon"}), "incomplete", "moon", "moon"),
        (ended(word="incomplete"), "incomplete", "incomplete", "incomplete"),
        (ended(word="cancelled"), "cancelled", "STREAM_CANCELLED", "cancelled"),
        (
            ended(word="failed", error={"code": "server_error", "message": "broke"}),
            "failed",
            "server_error",
            "failed",
        ),
        ({"type": "error", "code": "rate_limit", "message": "slow"}, "failed", "rate_limit", None),
        ({"type": "error", "error": {"type": "quota", "message": "no"}}, "failed", "quota", None),
        ({"error": {"code": 503, "message": "no"}}, "failed", "503", None),
        ({"error": "bare words"}, "failed", "error", None),
        (event("in_progress", response={"status": "in_progress"}), "incomplete", "STREAM_CUT", None),
        (event("completed", response={"status": "incomplete"}), "incomplete", "incomplete", "incomplete"),
        (event("done", response={"status": "completed"}), "completed", None, "completed"),
    ],
    ids=lambda value: value.get("type") if isinstance(value, dict) else None,
)
def test_how_it_ends(end: dict[str, Any], status: str, code: str | None, reason: str | None):
    response = final([created(), event("output_text.delta", output_index=0, content_index=0, delta="Hi"), end])
    assert (response.status, response.error_code, response.native_finish_reason) == (status, code, reason)
    assert response.text == "Hi"


def test_a_whole_response_in_the_place_of_a_stream():
    body = ended([message(text("Hi"))])["response"] | {"object": "response"}
    response = final(json.dumps(body))
    assert (response.text, response.status) == ("Hi", "completed")


def test_usage_is_told_in_one_meaning():
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 5},
        "total_tokens": 17,
    }
    response = final([created(), ended(usage=usage)])
    counts = response.usage_metadata
    assert (counts.prompt_token_count, counts.cached_content_token_count) == (10, 4)
    assert (counts.candidates_token_count, counts.thoughts_token_count, counts.total_token_count) == (
        2,
        5,
        17,
    )
    assert response.provider_metadata["usage"] == usage
    beside = final([created(), ended(usage={**usage, "total_tokens": 22})]).usage_metadata
    assert (beside.candidates_token_count, beside.thoughts_token_count) == (7, 5)


def test_what_no_field_holds_is_in_provider_metadata():
    end = ended(previous_response_id="resp_0", store=True, tools=[{"huge": 1}]) | {"extra_usage": {"n": 1}}
    kept = final([created(), end]).provider_metadata[LINE]
    assert kept == {"previous_response_id": "resp_0", "store": True, "extra_usage": {"n": 1}}


def test_shapes_that_the_format_does_not_allow_are_told_by_number():
    bad = event("output_text.delta", output_index=0, content_index=0, delta=5)
    with pytest.raises(MalformedStreamError) as caught:
        list(aggregate([created(), bad], LINE))
    assert caught.value.event_number == 2
    with pytest.raises(MalformedStreamError):
        list(aggregate([event("output_text.delta", output_index=0, content_index=-1, delta="a")], LINE))


def test_native_of_another_line_is_text_and_calls():
    parts = [
        {"text": "secret", "thought": True, "thoughtSignature": "YWJj"},
        {"text": "Hi "},
        {"text": "there"},
        {"functionCall": {"id": "c1", "name": "f", "args": {"a": 1}}},
        {"partMetadata": {"server_tool": {"type": "web_search_tool_result"}}},
    ]
    response = LlmResponse.model_validate(
        {
            "content": {"role": "model", "parts": parts},
            "partial": False,
            "providerMetadata": {"provider": "anthropic"},
        }
    )
    said, call = to_native(response, LINE)
    assert [content["text"] for content in said["content"]] == ["Hi ", "there"]
    assert call == {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a":1}'}


def test_native_of_a_partial_is_refused():
    partial = next(iter(aggregate(stream(message(text("Hi"))), LINE)))
    with pytest.raises(NativeError):
        to_native(partial, LINE)


def test_sdk_objects_are_read_as_they_are():
    openai = pytest.importorskip("openai")
    from openai._models import construct_type
    from openai.types.responses import ResponseStreamEvent

    assert openai
    events = stream(reasoning(("hm",), encrypted_content="s"), message(text("Hi")), function('{"a":1}'))
    objects = [construct_type(type_=ResponseStreamEvent, value=each) for each in events]
    assert dumped(run(objects)[-1]) == dumped(final(events))


def test_names_of_sse_events_stand_in_for_types():
    events = stream(message(text("Hi")))
    body = "".join(
        f"event: {each['type']}\ndata: {json.dumps({k: v for k, v in each.items() if k != 'type'})}\n\n"
        for each in events
    )
    assert final(body).text == "Hi"


# ----------------------------------------------------------------- laws

words = st.text(max_size=12)
opaque = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)
json_args = st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=5) | st.booleans(), max_size=3)
contents = st.builds(text, words.filter(bool)) | st.builds(
    lambda said: {"type": "refusal", "refusal": said}, words.filter(bool)
)
any_item = st.one_of(
    st.builds(lambda c: message(*c), st.lists(contents, max_size=3)),
    st.builds(
        lambda s, c, e: reasoning(tuple(s), tuple(c), **({"encrypted_content": e} if e else {})),
        st.lists(words.filter(bool), max_size=3),
        st.lists(words.filter(bool), max_size=2),
        st.none() | opaque,
    ),
    st.builds(
        lambda args, spaced: function(json.dumps(args, indent=1 if spaced else None)),
        json_args,
        st.booleans(),
    ),
    st.builds(
        lambda said: {"type": "custom_tool_call", "id": "ct", "call_id": "c", "name": "t", "input": said},
        words,
    ),
    st.sampled_from(TOOLS),
)


@st.composite
def item_lists(draw: st.DrawFn) -> list[dict[str, Any]]:
    items = [deepcopy(item) for item in draw(st.lists(any_item, max_size=4))]
    for number, item in enumerate(items):
        if "id" in item:
            item["id"] = f"{item['id']}_{number}"
        if item["type"] in ("function_call", "custom_tool_call"):
            item["call_id"] = f"call_{number}"
    return items


LAWS = settings(max_examples=40, deadline=None)


@LAWS
@given(item_lists(), st.integers(1, 5), st.sampled_from(["close", "boundary"]))
def test_law_everything_goes_back_as_it_came(items: list[dict[str, Any]], size: int, flush: str):
    responses = run(stream(*items, size=size), flush)
    assert told_again(to_native(through_session(responses), LINE)) == told_again(items)


@LAWS
@given(item_lists(), st.integers(1, 5))
def test_law_boundary_and_close_hold_the_same(items: list[dict[str, Any]], size: int):
    events = stream(*items, size=size)
    assert shape(run(events, "boundary")) == shape(run(events))


@LAWS
@given(item_lists(), st.data())
def test_law_deltas_and_dones_may_be_missed(items: list[dict[str, Any]], data: st.DataObject):
    events = stream(*items)
    optional = [
        n
        for n, e in enumerate(events)
        if e["type"].endswith(
            (
                ".delta",
                "text.done",
                "refusal.done",
                "arguments.done",
                "input.done",
                "part.added",
                "part.done",
                "item.added",
            )
        )
    ]
    missed = data.draw(st.sets(st.sampled_from(optional))) if optional else set()
    kept = [each for n, each in enumerate(events) if n not in missed]
    assert shape(final(kept)) == shape(final(events))


NEUTRAL = [
    {},
    {"type": "ping"},
    {"type": None},
    event("queued", response={"id": "resp_1", "status": "queued", "output": []}),
    event("in_progress", response=None),
    event("thing_of_tomorrow", output_index=0, item_id="msg", delta="x", error={"code": 1}),
    event("output_text.delta", output_index=0, content_index=0, delta="", logprobs=None),
    event("output_text.delta", output_index=0, content_index=0, delta=None),
    event("web_search_call.searching", output_index=0, item_id="ws"),
    event("content_part.added", output_index=0, content_index=0, part=None),
    event("output_item.added", output_index=0, item=None),
    event("output_text.annotation.added", output_index=0, content_index=0, annotation=None),
]


@LAWS
@given(item_lists(), st.lists(st.tuples(st.integers(0, 60), st.sampled_from(NEUTRAL)), max_size=6))
def test_law_neutral_events_change_nothing(items: list[dict[str, Any]], extra: list[tuple[int, dict[str, Any]]]):
    events = stream(*items)
    mixed = list(events)
    for at, neutral in extra:
        mixed.insert(1 + at % len(events), neutral)
    assert dumped(final(mixed)) == dumped(final(events))


@LAWS
@given(item_lists(), st.integers(1, 4), st.data())
def test_law_a_cut_stream_is_honest(items: list[dict[str, Any]], size: int, data: st.DataObject):
    events = stream(*items, size=size)
    at = data.draw(st.integers(1, len(events) - 1))
    cut, whole = final(events[:at]), final(events)
    assert (cut.status, cut.error_code) == ("incomplete", "STREAM_CUT")
    assert whole.text.startswith(cut.text)
    assert whole.thought_text.startswith(cut.thought_text)
    kinds = [kind for kind, *_ in shape(whole)]
    assert [kind for kind, *_ in shape(cut)] == kinds[: len(cut.parts)]
    closed = {e["item"].get("call_id") for e in events[:at] if e["type"].endswith("item.done")}
    names = {e["item"].get("id"): e["item"].get("call_id") for e in events[:at] if "item" in e}
    closed |= {names.get(e["item_id"]) for e in events[:at] if e["type"].endswith(("arguments.done", "input.done"))}
    assert {call.id for call in cut.executable_function_calls()} <= closed


@LAWS
@given(item_lists(), st.data())
def test_law_resumed_with_an_overlap(items: list[dict[str, Any]], data: st.DataObject):
    events = stream(*items)
    broken = data.draw(st.integers(1, len(events)))
    back = data.draw(st.integers(0, broken))
    assert dumped(final(events[:broken] + events[back:])) == dumped(final(events))


@settings(max_examples=15, deadline=None)
@given(item_lists())
def test_law_a_reader_may_move_at_any_event(items: list[dict[str, Any]]):
    events = stream(*items)
    aggregator, line = StreamingResponseAggregator("close"), Line(LINE)
    aggregator.speaks(LINE)
    for each in events:
        line, aggregator = (
            Line.restore(line.snapshot()),
            StreamingResponseAggregator.restore(aggregator.snapshot()),
        )
        for chunks in line.feed(each):
            for chunk in chunks:
                aggregator.take(chunk)
    for chunks in line.close():
        for chunk in chunks:
            aggregator.take(chunk)
    assert dumped(aggregator.close()) == dumped(final(events))


@LAWS
@given(item_lists())
def test_law_shown_deltas_are_the_final_text(items: list[dict[str, Any]]):
    responses = list(aggregate(stream(*items), LINE))
    shown = [each for each in responses if each.partial]
    assert "".join(each.text for each in shown) == responses[-1].text
    assert "".join(each.thought_text for each in shown) == responses[-1].thought_text
    assert not any(each.executable_function_calls() for each in shown)


@LAWS
@given(item_lists())
def test_law_nothing_given_out_is_shared(items: list[dict[str, Any]]):
    events = stream(*items)
    untouched = deepcopy(events)
    responses = []
    for each in aggregate(events, LINE):
        for part in each.parts:
            spoil(part.part_metadata)
        responses.append(each)
    assert events == untouched
    native = to_native(run(events), LINE)
    assert told_again(native) == told_again(items)


def spoil(value: Any) -> None:
    if isinstance(value, dict):
        for inner in list(value.values()):
            spoil(inner)
        value["spoiled"] = True
    elif isinstance(value, list):
        for inner in value:
            spoil(inner)
        value.append("spoiled")


def test_plain_deltas_are_plain_parts():
    reader = ResponsesReader()
    delta = event("output_text.delta", output_index=0, content_index=0, delta="a")
    (first,), (second,) = reader.read(delta), reader.read(delta)
    assert first.parts[0].part.part_metadata is not None
    assert second.parts == (StreamedPart(PartDelta("a"), first.parts[0].index, True),)


# ----------------------------------------------------------------- recordings

CORPUS = os.environ.get("ADK_STREAM_CORPUS")


def recordings() -> list[Path]:
    return sorted(path for path in (Path(CORPUS) / "openai_responses").rglob("*.*")) if CORPUS else []


def recorded_events(body: bytes) -> list[dict[str, Any]]:
    """The events of a recording, line by line: none of them spreads over lines."""
    events = []
    for line in body.decode().split("\n"):
        payload = line.removeprefix("data:").strip()
        if payload.startswith("{"):
            events.append(json.loads(payload))
    return events


@pytest.mark.skipif(not CORPUS, reason="ADK_STREAM_CORPUS does not name a folder of recordings")
def test_recordings_are_read_whole_and_go_back():
    judged = 0
    for path in recordings():
        body = path.read_bytes()
        try:
            events = recorded_events(body)
        except ValueError:
            continue  # a recording of broken JSON
        done = {e["output_index"]: e["item"] for e in events if e.get("type") == "response.output_item.done"}
        whole = any(e.get("type") == "response.completed" for e in events)
        if not done or not whole or len(done) != sum(e.get("type") == "response.output_item.added" for e in events):
            continue
        items = [done[index] for index in sorted(done)]
        responses = run([body])
        said = [c["text"] for i in items if i["type"] == "message" for c in i["content"] if c["type"] == "output_text"]
        assert responses[-1].text == "".join(said), path.name
        assert told_again(to_native(through_session(responses), LINE)) == told_again(items), path.name
        finals = through_session(run([body], "boundary"))
        assert told_again(to_native(finals, LINE)) == told_again(items), path.name
        judged += 1
    assert judged > 60


@pytest.mark.skipif(not CORPUS, reason="ADK_STREAM_CORPUS does not name a folder of recordings")
def test_recordings_cut_in_pieces_are_the_same():
    for path in recordings():
        body = path.read_bytes()[:40_000]
        try:
            expected = [dumped(each) for each in run([body])]
        except MalformedStreamError:
            continue
        for size in (1, 7, 1009):
            if size == 1 and len(body) > 10_000:
                continue
            got = [dumped(each) for each in run([body[at : at + size] for at in range(0, len(body), size)])]
            assert got == expected, path.name
