"""The Chat Completions line: what compatible servers send, and what it must come to."""

from __future__ import annotations

import base64
import json
import os
import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adk_stream import LlmResponse, aggregate, to_native
from adk_stream.providers import DONE
from adk_stream.providers.line import Line
from adk_stream.providers.openai_chat_calls import Calls, Fragment, JsonScanner
from adk_stream.providers.openai_chat_state import ChatStreamState
from adk_stream.providers.openai_chat_think import ThinkSplitter

SOME = settings(max_examples=60, deadline=None)


def chunk(delta=None, finish=None, index=0, **fields):
    choice = {"index": index, "delta": {} if delta is None else delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": [choice], **fields}


def calling(*entries):
    return chunk({"tool_calls": list(entries)})


def entry(text=None, *, name=None, **fields):
    function = {key: value for key, value in (("name", name), ("arguments", text)) if value is not None}
    return {**fields, "function": function}


def run(events, **options):
    return list(aggregate(iter(events), provider="openai-chat", **options))


def final(events, **options):
    return run(events, **options)[-1]


def kinds(response):
    """(kind, text) of each part."""
    shown = []
    for part in response.parts:
        if part.function_call is not None:
            shown.append(("call", part.function_call.name))
        elif (part.part_metadata or {}).get("refusal"):
            shown.append(("refusal", part.text))
        else:
            shown.append(("thought" if part.thought else "text", part.text))
    return shown


def calls_of(events, **options):
    return [
        (part.function_call.id, part.function_call.name, part.function_call.args)
        for response in run(events, **options)
        if not response.partial
        for part in response.parts
        if part.function_call is not None
    ]


STOP, CALLS = chunk(finish="stop"), chunk(finish="tool_calls")


# ----------------------------------------------------------------- fragments and their calls

TRUSTED = ("legal", "from_one", "string")


@st.composite
def routed_streams(draw):
    """(calls, chunks): every mix of identities in which each fragment can be told by something."""
    r = draw(st.randoms(use_true_random=False))
    index = r.choice([*TRUSTED, "missing", "null", "zero", "drifting"])
    ids = r.choice(["first", "every", "empty_later", "late", "never"])
    names = r.choice(["first", "every", "pieces", "last", "null_later"])
    if index not in TRUSTED:
        if ids in ("late", "never"):
            names = "first"
        if index == "drifting" and ids == "late":
            ids = "never"
    interleaved = r.random() < 0.5 and (index in TRUSTED or (ids == "every" and names != "last"))
    calls, pieces = [], []
    for number in range(r.randint(1, 4)):
        args = {
            r.choice("pqx"): r.choice(["tea", "{", 'a"b\\', 2**63, None, {"a": [{}]}, []])
            for _ in range(r.randint(1, 3))
        }
        name = r.choice(["read", "clock", "go_to"])
        calls.append((f"call_{number}", name, args))
        text = json.dumps(args)
        cuts = sorted(r.randint(1, len(text)) for _ in range(r.randint(0, 4)))
        texts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        entries = [entry(text) for text in texts]
        if names == "pieces":
            entries = [entry("", name=name[:2]), entry("", name=name[2:]), *entries]
        elif names == "last":
            entries.append(entry(name=name))
        else:
            entries[0]["function"]["name"] = name
        for each in entries[1:]:
            if names == "every":
                each["function"]["name"] = name
            elif names == "null_later":
                each["function"]["name"] = None
            if ids == "empty_later":
                each["id"] = ""
        if ids in ("first", "empty_later"):
            entries[0]["id"] = f"call_{number}"
        elif ids == "late":
            entries[-1]["id"] = f"call_{number}"
        for each in entries:
            if ids == "every":
                each["id"] = f"call_{number}"
            if index in TRUSTED:
                each["index"] = {"legal": number, "from_one": number + 1, "string": str(number)}[index]
            elif index in ("null", "zero"):
                each["index"] = None if index == "null" else 0
        pieces.append(entries)
    order = interleave(r, pieces) if interleaved else [each for entries in pieces for each in entries]
    if index == "drifting":
        for number, each in enumerate(order):
            each["index"] = number
    events = [calling(each) for each in order]
    if r.random() < 0.3:
        events.insert(r.randint(0, len(events)), chunk({"content": "hi"}))
    events += [CALLS, DONE] if r.random() < 0.5 else [CALLS]
    return [(None if ids == "never" else ident, name, args) for ident, name, args in calls], events


def interleave(r, pieces):
    """Any order in which the calls begin one after the other."""
    waiting, order, begun = [list(entries) for entries in pieces], [], 0
    while any(waiting):
        choices = [number for number in range(begun) if waiting[number]] + [begun] * (begun < len(pieces))
        number = r.choice(choices)
        begun = max(begun, number + 1)
        order.append(waiting[number].pop(0))
    return order


@settings(max_examples=300, deadline=None)
@given(routed_streams(), st.sampled_from(["close", "boundary"]))
def test_every_fragment_reaches_its_call(stream, flush):
    wanted, events = stream
    got = calls_of(events, flush=flush)
    assert [call[1:] for call in got] == [call[1:] for call in wanted]
    assert all(want[0] in (None, have[0]) for want, have in zip(wanted, got, strict=True))
    assert len({call[0] for call in got}) == len(got)


@pytest.mark.parametrize(
    ("entries", "wanted"),
    [
        # one index for all, and the same tool twice
        (
            [
                entry("", name="f", index=0, id="a"),
                entry('{"p":1}', index=0),
                entry('{"p":2}', name="f", index=0, id="b"),
            ],
            [("a", "f", {"p": 1}), ("b", "f", {"p": 2})],
        ),
        # a new id with every fragment of one call
        (
            [entry("", name="f", index=0, id="a"), entry('{"p":', index=0, id="b"), entry("1}", index=0, id="c")],
            [("a", "f", {"p": 1})],
        ),
        # the whole call once more, at the end
        (
            [
                entry('{"p":', name="f", index=0, id="a"),
                entry("1}", index=0),
                entry('{"p":1}', name="f", index=0, id="a"),
            ],
            [("a", "f", {"p": 1})],
        ),
        # neither id nor index
        ([entry('{"p":', name="f"), entry("1}"), entry("{}", name="g")], [(..., "f", {"p": 1}), (..., "g", {})]),
        # one id for two calls
        (
            [entry('{"p":1}', name="f", index=0, id="x"), entry('{"p":2}', name="f", index=1, id="x")],
            [("x", "f", {"p": 1}), (..., "f", {"p": 2})],
        ),
        # an object in the place of its text; no arguments at all
        ([entry({"n": 2**70}, name="f", id="a"), entry(name="g", id="b")], [("a", "f", {"n": 2**70}), ("b", "g", {})]),
        # white space after the end
        ([entry('{"p":1}', name="f", index=0, id="a"), entry("\n", index=0)], [("a", "f", {"p": 1})]),
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_identities(entries, wanted, together):
    if together and any("id" not in each and "name" not in each["function"] for each in entries):
        together = False
    events = [calling(*entries)] if together else [calling(each) for each in entries]
    got = calls_of([*events, CALLS])
    assert [call[1:] for call in got] == [call[1:] for call in wanted]
    assert all(want[0] in (..., have[0]) for want, have in zip(wanted, got, strict=True))
    assert len({call[0] for call in got}) == len(got)


def test_partials_show_the_id_of_the_final():
    events = [calling(entry('{"p":', name="f", index=0)), calling(entry("1}", index=0, id="a")), CALLS]
    shown = {part.function_call.id for response in run(events) if response.partial for part in response.parts}
    assert shown <= {None, "a"}


@SOME
@given(
    st.recursive(st.text(max_size=4), lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner)),
    st.data(),
)
def test_scanner_sees_the_end_wherever_the_text_is_cut(value, data):
    text = json.dumps({"v": value}, ensure_ascii=False)
    scanner = JsonScanner()
    at = 0
    while at < len(text):
        assert not scanner.closed
        size = data.draw(st.integers(1, 5))
        scanner.feed(text[at : at + size])
        at += size
    assert scanner.closed


def test_routing_costs_the_same_for_the_thousandth_call():
    def seconds(count):
        calls = Calls()
        start = time.process_time()
        for number in range(count):
            calls.take(Fragment(None, f"id{number}", "f", "{"), set())
            calls.take(Fragment(text="}" if number % 2 else ""), set())
            calls.take_ready()
        return time.process_time() - start

    seconds(1000)
    assert min(seconds(20_000) for _ in range(4)) < 14 * max(min(seconds(2_000) for _ in range(4)), 0.005)


def test_old_function_call_goes_back_as_one():
    events = [
        chunk({"function_call": {"name": "f", "arguments": ""}}),
        chunk({"function_call": {"arguments": '{"a":'}}),
        chunk({"function_call": {"arguments": "1}"}}),
        chunk(finish="function_call"),
    ]
    response = final(events)
    assert response.status == "completed"
    assert response.executable_function_calls()[0].args == {"a": 1}
    assert to_native(response, "openai-chat")["function_call"] == {"name": "f", "arguments": '{"a":1}'}


def test_free_text_tool():
    entries = [
        {"index": 0, "id": "a", "type": "custom", "custom": {"name": "sql", "input": "select "}},
        {"index": 0, "custom": {"input": "{1}"}},
    ]
    response = final([*map(calling, entries), CALLS])
    assert response.executable_function_calls()[0].args == {"input": "select {1}"}
    native = to_native(response, "openai-chat")["tool_calls"]
    assert native == [{"id": "a", "type": "custom", "custom": {"name": "sql", "input": "select {1}"}}]


# ----------------------------------------------------------------- the end


@pytest.mark.parametrize("reason", ["length", "content_filter", "insufficient_system_resource", None])
@pytest.mark.parametrize("text", ['{"a":1}', '{"a":'])
def test_an_open_call_at_another_end_never_runs(reason, text):
    events = [calling(entry(text, name="f", index=0, id="a"))]
    if reason:
        events += [chunk(finish=reason), DONE]
    response = final(events)
    assert response.status == "incomplete"
    assert response.executable_function_calls() == []
    assert response.parts[0].function_call.args == ({"a": 1} if text.endswith("}") else None)


def test_a_call_closes_when_the_next_begins():
    events = [calling(entry('{"a":1}', name="f", index=0, id="a")), calling(entry('{"b"', name="g", index=1, id="b"))]
    response = final(events)
    assert response.error_code == "STREAM_CUT"
    assert [call.id for call in response.executable_function_calls()] == ["a"]


@pytest.mark.parametrize(
    ("events", "status", "code"),
    [
        ([chunk({"content": "a"}), STOP], "completed", None),
        ([chunk({"content": "a"}), chunk(finish="STOP")], "completed", None),
        ([chunk({"content": "a"}), DONE], "completed", None),
        ([chunk({"content": "a"})], "incomplete", "STREAM_CUT"),
        ([chunk({"role": "assistant"}), DONE], "incomplete", "STREAM_CUT"),
        ([chunk({"content": "a"}), chunk(finish="")], "incomplete", "STREAM_CUT"),
        ([chunk({"content": "a"}), chunk(finish="length"), DONE], "incomplete", "MAX_TOKENS"),
        ([chunk({"content": "a"}), chunk(finish="content_filter")], "incomplete", "SAFETY"),
        ([chunk({"content": "a"}), chunk(finish="odd")], "incomplete", "odd"),
        ([chunk({"refusal": "no"}), STOP], "incomplete", "SAFETY"),
    ],
)
def test_ends(events, status, code):
    response = final(events)
    assert (response.status, response.error_code) == (status, code)


@pytest.mark.parametrize(
    ("event", "code", "message"),
    [
        ({"error": {"message": "gone", "code": 502}}, "502", "gone"),
        ({"error": {"message": "gone", "type": "server_error", "code": None}}, "server_error", "gone"),
        ({"error": "gone"}, None, "gone"),
        ({"choices": [], "error": {"message": "gone", "code": "x"}}, "x", "gone"),
        ({"object": "error", "message": "gone", "code": 400}, "400", "gone"),
        (chunk({"content": " b"}, error={"message": "gone", "code": 1}), "1", "gone"),
    ],
)
@pytest.mark.parametrize("before", [[], [chunk({"content": "a"})], [chunk({"content": "a"}), STOP]])
def test_errors_in_the_stream(event, code, message, before):
    response = final([*before, event, chunk({"content": "never"}), DONE])
    assert (response.status, response.error_code, response.error_message) == ("failed", code, message)
    said = event.get("choices") or [{"delta": {}}]
    assert response.text == ("a" if before else "") + said[0]["delta"].get("content", "")


WHOLE = [
    chunk({"role": "assistant", "content": ""}),
    chunk({"reasoning_content": "hm"}),
    chunk({"content": "Hel"}),
    chunk({"content": "lo"}),
    calling(entry("", name="f", index=0, id="a")),
    calling(entry('{"p":', index=0)),
    calling(entry("1}", index=0), entry('{"q":2}', name="g", index=1, id="b")),
    CALLS,
    {"id": "c1", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}},
    DONE,
]
NEUTRAL = [
    {},
    {"id": "c1", "object": "chat.completion.chunk"},
    {"choices": []},
    {"choices": None},
    {"choices": [], "usage": None, "error": None},
    {"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}},
    {"choices": [{"index": 0}]},
    {"choices": [{"index": 0, "delta": None, "finish_reason": None}]},
    chunk({"role": "assistant"}),
    chunk({"content": None, "tool_calls": None, "refusal": None, "reasoning_content": ""}),
    chunk({"content": "", "tool_calls": [], "audio": None}),
    chunk({"tool_calls": [{}]}),
    {"type": "ping"},
]


def outcome(response):
    return (
        kinds(response),
        response.status,
        response.error_code,
        response.native_finish_reason,
        response.usage_metadata,
    )


@SOME
@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.sampled_from(NEUTRAL)), max_size=6))
def test_neutral_events_change_nothing(inserted):
    events = list(WHOLE)
    for at, event in inserted:
        events.insert(at, event)
    assert outcome(final(events)) == outcome(final(WHOLE))


@SOME
@given(st.integers(0, len(WHOLE) - 4), st.sampled_from(["close", "boundary"]))
def test_the_finish_may_come_early(at, flush):
    events = [event for event in WHOLE if event is not CALLS]
    events.insert(max(at, 1), CALLS)
    parts = [kind for response in run(events, flush=flush) if not response.partial for kind in kinds(response)]
    assert parts == kinds(final(WHOLE))
    assert calls_of(events, flush=flush) == calls_of(WHOLE)


@pytest.mark.parametrize("at", range(1, 8))
def test_cut_anywhere(at):
    response = final(WHOLE[:at])
    assert (response.status, response.error_code) == ("incomplete", "STREAM_CUT")
    assert "Hello".startswith(response.text)
    assert [call.id for call in response.executable_function_calls()] == (["a"] if at == 7 else [])


@SOME
@given(st.integers(0, len(WHOLE)))
def test_a_reader_goes_on_in_another_process(at):
    line, chunks = Line("openai-chat", reader_options={"think_tags": True}), []
    for number, event in enumerate(WHOLE):
        if number == at:
            line = Line.restore(line.snapshot())
        chunks += [each for several in line.feed(event) for each in several]
    chunks += [each for several in line.close() for each in several]
    whole = Line("openai-chat", reader_options={"think_tags": True})
    wanted = [each for event in WHOLE for several in whole.feed(event) for each in several]
    wanted += [each for several in whole.close() for each in several]
    assert chunks == wanted


def test_one_response_id():
    events = [{**chunk({"content": "a"}), "id": f"x{number}"} for number in range(3)]
    assert {response.response_id for response in run([*events, STOP])} == {"x0"}


def test_choices_are_kept_apart():
    events = [
        chunk({"content": "A"}),
        chunk({"content": "B"}, index=1),
        chunk({"tool_calls": [entry("{}", name="f", index=0, id="x")]}, index=1),
        chunk(finish="stop"),
        chunk(finish="tool_calls", index=1),
        DONE,
    ]
    assert kinds(final(events)) == [("text", "A")]
    assert kinds(final(events, candidate_index=1)) == [("text", "B"), ("call", "f")]


def test_a_message_in_the_place_of_deltas():
    body = {"object": "chat.completion", "id": "c", "choices": [{"index": 0, "finish_reason": "stop"}]}
    body["choices"][0]["message"] = {"role": "assistant", "content": "hi", "reasoning_content": "hm"}
    response = final([body])
    assert (kinds(response), response.status) == ([("thought", "hm"), ("text", "hi")], "completed")


# ----------------------------------------------------------------- reasoning


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
def test_reasoning_goes_back_under_its_own_name(field):
    response = final([chunk({field: "a", "content": ""}), chunk({field: "b"}), chunk({"content": "c"}), STOP])
    assert kinds(response) == [("thought", "ab"), ("text", "c")]
    assert to_native(response, "openai-chat") == {"role": "assistant", "content": "c", field: "ab"}


def test_one_delta_under_two_names_counts_once():
    detail = {"type": "reasoning.text", "text": "hm", "index": 0}
    delta = {"reasoning": "hm", "reasoning_content": "hm", "reasoning_details": [detail]}
    assert kinds(final([chunk(delta), chunk({"content": "a"}), STOP])) == [("thought", "hm"), ("text", "a")]


def test_reasoning_details_keep_every_field():
    details = [
        {"type": "reasoning.text", "text": "a", "index": 0, "format": "v1"},
        {"type": "reasoning.text", "text": "b", "index": 0},
        {"type": "reasoning.text", "signature": "SI", "index": 0, "id": "r1"},
        {"type": "reasoning.text", "signature": "G=", "index": 0},
        {"type": "reasoning.encrypted", "data": "ENC", "index": 1, "id": "r2"},
    ]
    response = final([*(chunk({"reasoning_details": [detail]}) for detail in details), chunk({"content": "c"}), STOP])
    assert [part.thought_signature for part in response.parts] == [b"SIG=", b"ENC", None]
    again = LlmResponse.model_validate_json(response.model_dump_json(by_alias=True))
    assert to_native(again, "openai-chat")["reasoning_details"] == [
        {"type": "reasoning.text", "text": "ab", "signature": "SIG=", "index": 0, "id": "r1", "format": "v1"},
        {"type": "reasoning.encrypted", "data": "ENC", "index": 1, "id": "r2"},
    ]


def test_content_lists():
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}], "closed": True}
    reference = {"type": "reference", "reference_ids": [1]}
    items = [thinking, {"type": "text", "text": "a"}, reference]
    response = final([*(chunk({"content": [item]}) for item in items), STOP])
    assert to_native(response, "openai-chat")["content"] == items


@SOME
@given(
    st.lists(st.tuples(st.booleans(), st.text("ab <t/>hink", max_size=12)), max_size=5),
    st.lists(st.integers(1, 9), min_size=1, max_size=8),
)
def test_think_tags_cut_anywhere(runs, sizes):
    runs = [(thought, text.replace("<", "(")) for thought, text in runs]
    text = "".join(f"<think>{text}</think>" if thought else text for thought, text in runs)
    splitter, got, at, number = ThinkSplitter(anywhere=True), [], 0, 0
    while at < len(text):
        size = sizes[number % len(sizes)]
        got += splitter.feed(text[at : at + size])
        at, number = at + size, number + 1
    got += splitter.close()
    for kind in (True, False):
        assert "".join(t for k, t in got if k is kind) == "".join(t for k, t in runs if k is kind)


@pytest.mark.parametrize(
    ("model", "option", "wanted"),
    [
        ("gpt-4", None, [("text", "<think>hm</think>a")]),
        ("gpt-4", True, [("thought", "hm"), ("text", "a")]),
        ("sonar-reasoning-pro", None, [("thought", "hm"), ("text", "a")]),
        ("sonar-reasoning-pro", False, [("text", "<think>hm</think>a")]),
    ],
)
def test_think_tags_only_where_they_are_meant(model, option, wanted):
    events = [{**chunk({"content": text}), "model": model} for text in ("<thi", "nk>h", "m</th", "ink>a")]
    response = final([*events, STOP], think_tags=option)
    assert kinds(response) == wanted
    assert to_native(response, "openai-chat")["content"] == "<think>hm</think>a"


def test_a_tag_in_mid_text_of_a_known_model_is_text():
    events = [{**chunk({"content": "say <think>x</think>"}), "model": "sonar-reasoning"}, STOP]
    assert kinds(final(events)) == [("text", "say <think>x</think>")]


# ----------------------------------------------------------------- what comes beside


@pytest.mark.parametrize(
    ("usage", "wanted"),
    [
        ({"prompt_tokens": 5, "completion_tokens": 4, "total_tokens": 9}, (5, 4, None, 9, None)),
        (
            {
                "prompt_tokens": 5,
                "completion_tokens": 4,
                "total_tokens": 9,
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            (5, 1, 3, 9, None),
        ),
        (
            {
                "prompt_tokens": 5,
                "completion_tokens": 4,
                "total_tokens": 12,
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            (5, 4, 3, 12, None),
        ),
        (
            {"prompt_tokens": 5, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 2}},
            (5, 4, None, 9, 2),
        ),
        ({"prompt_tokens": 5, "completion_tokens": 4, "prompt_cache_hit_tokens": 2}, (5, 4, None, 9, 2)),
    ],
)
@pytest.mark.parametrize("place", ["chunk", "choice", "groq", "before"])
def test_usage_means_one_thing_wherever_it_stands(usage, wanted, place):
    text = chunk({"content": "a"})
    if place == "choice":
        text["choices"][0]["usage"] = usage
    told = {"chunk": {"usage": usage}, "groq": {"x_groq": {"usage": usage}}, "before": {"usage": usage}}.get(place, {})
    events = [text, {**STOP, **told}] if place != "before" else [{"choices": [], **told}, text, {**STOP, "usage": None}]
    response = final(events)
    counts = response.usage_metadata
    assert wanted == (
        counts.prompt_token_count,
        counts.candidates_token_count,
        counts.thoughts_token_count,
        counts.total_token_count,
        counts.cached_content_token_count,
    )
    assert response.provider_metadata["usage"] == usage


def test_usage_is_a_running_total():
    usages = [{"prompt_tokens": 5, "completion_tokens": n, "total_tokens": 5 + n} for n in (1, 2, 3)]
    response = final([*(chunk({"content": "a"}, usage=usage) for usage in usages), STOP])
    assert response.usage_metadata.candidates_token_count == 3


def test_annotations_and_citations():
    notes = [
        {
            "type": "url_citation",
            "url_citation": {"url": f"https://e.org/{n}", "title": "t", "start_index": n, "end_index": 9},
        }
        for n in (1, 2)
    ]
    events = [chunk({"content": "a", "annotations": [note]}) for note in notes]
    response = final([*events, STOP])
    assert [each.uri for each in response.citation_metadata.citations] == ["https://e.org/1", "https://e.org/2"]
    assert to_native(response, "openai-chat")["annotations"] == notes
    urls = ["https://e.org/a", "https://e.org/b"]
    response = final([chunk({"content": text}, citations=urls) for text in "xy"])
    assert [each.uri for each in response.citation_metadata.citations] == urls


def test_log_probabilities():
    def told(token):
        return {
            "content": [
                {"token": token, "logprob": -0.1, "bytes": [97], "top_logprobs": [{"token": "z", "logprob": -2.0}]}
            ]
        }

    events = [chunk({"content": token}) for token in "ab"]
    for event, token in zip(events, "ab", strict=True):
        event["choices"][0]["logprobs"] = told(token)
    result = final([*events, STOP]).logprobs_result
    assert [each.token for each in result.chosen_candidates] == ["a", "b"]
    assert result.top_candidates[1].candidates[0].log_probability == -2.0


@pytest.mark.parametrize("size", [3, 4, 8])
def test_audio(size):
    data = bytes(range(24))
    digits = base64.b64encode(data).decode()
    pieces = [{"data": digits[at : at + size]} for at in range(0, len(digits), size)]
    events = [chunk({"audio": {"id": "audio_1", "transcript": "Hel"}}), chunk({"audio": {"transcript": "lo"}})]
    events += [chunk({"audio": piece}) for piece in pieces]
    response = final([*events, chunk({"audio": {"expires_at": 1}}), DONE])
    assert response.status == "completed"
    assert response.output_transcription.text == "Hello"
    assert response.parts[0].inline_data.data == data
    assert to_native(response, "openai-chat") == {"role": "assistant", "content": None, "audio": {"id": "audio_1"}}


def test_images():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}, "index": 0}
    response = final([chunk({"content": "see"}), chunk({"images": [image]}), STOP])
    assert response.parts[1].inline_data.data == b"hi"
    assert to_native(response, "openai-chat")["images"] == [image]


def test_a_tool_of_the_server_is_no_call():
    begun = {"index": 0, "type": "search", "arguments": "{}"}
    events = [chunk({"executed_tools": [begun]}), chunk({"executed_tools": [{**begun, "output": "x"}]}), STOP]
    for flush in ("close", "boundary"):
        parts = [part for r in run(events, flush=flush) if not r.partial for part in r.parts]
        assert [part.part_metadata["server_tool"] for part in parts] == [{**begun, "output": "x"}]


def test_extra_content_stays_with_its_call_and_its_text():
    first = entry('{"a":1}', name="f", index=0, id="a", extra_content={"google": {"thought_signature": "AA"}})
    second = entry(None, index=0, extra_content={"google": {"thought_signature": "BB"}})
    other = entry("{}", name="f", index=1, id="b")
    signed = {"content": "", "extra_content": {"google": {"thought_signature": "TT"}}}
    response = final([chunk({"content": "t"}), chunk(signed), calling(first), calling(second), calling(other), CALLS])
    again = LlmResponse.model_validate_json(response.model_dump_json(by_alias=True))
    native = to_native(again, "openai-chat")
    assert native["extra_content"] == {"google": {"thought_signature": "TT"}}
    assert native["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "AABB"}}
    assert "extra_content" not in native["tool_calls"][1]


def test_unknown_fields_are_kept_and_padding_is_not():
    event = chunk({"content": "a"}, service_tier="flex", obfuscation="xx", p="yy", sla={"ms": 1})
    kept = final([event, STOP]).provider_metadata["openai-chat"]
    assert kept["sla"] == {"ms": 1}
    assert kept["service_tier"] == "flex"
    assert not kept.keys() & {"obfuscation", "p"}


def test_a_turn_of_another_provider_goes_in_as_text_and_calls():
    events = [
        {"type": "message_start", "message": {"id": "m", "model": "c", "content": [], "usage": {}}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "thinking", "thinking": "", "signature": ""},
        },
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "S"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": "hi"}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}},
        {"type": "message_stop"},
    ]
    (response,) = [r for r in aggregate(iter(events), provider="anthropic") if not r.partial]
    assert to_native(response, "openai-chat") == {"role": "assistant", "content": "hi"}


# ----------------------------------------------------------------- the live view, and recordings


def test_live_view():
    view = ChatStreamState()
    seen = []
    for event in WHOLE:
        view.feed(event)
        seen.append((view.text, view.tool_name))
    view.close()
    assert seen[1:7] == [("hm", None), ("Hel", None), ("lo", None), ("", "f"), ("", "f"), ("", "g")]
    assert (view.output, view.reasoning_output, view.finish_reason, view.status) == (
        "Hello",
        "hm",
        "tool_calls",
        "completed",
    )
    assert [call["function"]["arguments"] for call in view.tool_calls] == ['{"p":1}', '{"q":2}']
    assert view.usage["total_tokens"] == 7


CORPUS = os.environ.get("ADK_STREAM_CORPUS")


def recordings():
    folder = Path(CORPUS, "openai_chat") if CORPUS else None
    return sorted(folder.rglob("*.sse")) if folder and folder.is_dir() else []


@pytest.mark.skipif(not recordings(), reason="ADK_STREAM_CORPUS does not name a folder of recordings")
def test_recordings_do_not_depend_on_how_reads_cut_them():
    for path in recordings():
        body = path.read_bytes()
        if len(body) > 60_000:
            continue
        r = random.Random(len(body))
        cuts = sorted(r.randrange(len(body)) for _ in range(20))
        pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
        whole, again = final([body]), final(pieces)
        assert outcome(whole) == outcome(again), path.name
        assert plain_text(body) == (whole.text, whole.thought_text), path.name


def plain_text(body):
    """Text and reasoning by plain concatenation."""
    text, thought = [], []
    for line in body.decode().splitlines():
        if not line.startswith("data:") or line[5:].strip() == "[DONE]":
            continue
        for choice in json.loads(line[5:]).get("choices") or ():
            delta = choice.get("delta") or {}
            content = delta.get("content")
            for item in content if isinstance(content, list) else ():
                if item["type"] == "text":
                    text.append(item["text"])
                else:
                    thought += [inner["text"] for inner in item["thinking"]]
            text.append(content if isinstance(content, str) else "")
            text.append(delta.get("refusal") or "")
            details = "".join(each.get("text") or "" for each in delta.get("reasoning_details") or ())
            thought.append(delta.get("reasoning_content") or delta.get("reasoning") or details)
    return "".join(text), "".join(thought)
