"""Whatever a session holds, what is sent is what providers take."""

from __future__ import annotations

import copy
import json
from itertools import zip_longest

import pytest
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st

from adk_stream import LlmResponse, aggregate, to_native
from adk_stream.models.history import NO_RESULT, ModelTurn, UserTurn, turns
from adk_stream.sessions import Event


def said(text, role="user"):
    return types.Content(role=role, parts=[types.Part(text=text)])


def call(name, id=None, signature=None, **metadata):
    return types.Part(
        function_call=types.FunctionCall(id=id, name=name, args={}),
        thought_signature=signature,
        part_metadata=metadata or None,
    )


def result(name=None, id=None, value="done"):
    return types.Part(function_response=types.FunctionResponse(id=id, name=name, response={"result": value}))


def answer(*parts, **fields):
    return LlmResponse(content=types.Content(role="model", parts=list(parts)), **fields)


def results(*parts):
    return types.Content(role="user", parts=list(parts))


def shape(found):
    """The turns as short words."""
    words = []
    for turn in found:
        if isinstance(turn, ModelTurn):
            parts = [part for response in turn.responses for part in response.parts]
            words.append("model: " + " ".join(map(word, parts)))
        else:
            words.append("user: " + " ".join(map(word, turn.parts)))
    return words


def word(part):
    if part.function_call:
        return f"{part.function_call.name}?{part.function_call.id}"
    if part.function_response:
        return f"{part.function_response.name}!{part.function_response.id}"
    return f"({part.text})" if part.thought else part.text or "…"


def test_consecutive_messages_of_one_side_are_one_turn():
    found = turns([said("a"), said("b"), answer(types.Part(text="c")), answer(types.Part(text="d")), said("e")])
    assert shape(found) == ["user: a b", "model: c d", "user: e"]
    assert len(found[1].responses) == 2


def test_what_was_given_is_given_back_where_nothing_is_to_change():
    response = answer(types.Part(text="hm", thought=True, thought_signature=b"s"), call("f", "1", b"sig"))
    given = [said("go"), response, results(result("f", "1"))]
    before = copy.deepcopy(given)
    found = turns(given)
    assert found[1].responses[0] is response
    assert found[2].parts[0] is given[2].parts[0]
    assert given == before


def test_a_bare_content_of_the_model_is_a_response():
    found = turns([said("hi"), types.Content(role="model", parts=[types.Part(text="yes")])])
    assert found == [UserTurn([types.Part(text="hi")]), ModelTurn([answer(types.Part(text="yes"))])]


def test_no_messages_no_turns():
    assert turns([]) == []


def test_hints_empty_texts_and_turns_of_nothing_are_left_out():
    found = turns(
        [
            said("hi"),
            answer(types.Part(text="y"), partial=True),
            LlmResponse(turn_complete=True),
            answer(types.Part(text="")),
            said(""),
            types.Content(role="user"),
            answer(types.Part(text=""), types.Part(text="yes"), types.Part(text="", thought_signature=b"s")),
            said("on"),
        ]
    )
    assert shape(found) == ["user: hi", "model: yes …", "user: on"]
    assert found[1].responses[0].parts[-1].thought_signature == b"s"


def test_a_turn_of_thoughts_alone_is_left_out_and_its_neighbours_are_one():
    cut = answer(types.Part(text="hm", thought=True), status="incomplete", error_code="STREAM_CUT")
    signed = answer(types.Part(text="", thought_signature=b"s"))
    assert shape(turns([said("a"), cut, said("b"), signed, said("c")])) == ["user: a b c"]
    kept = turns([said("a"), cut, answer(types.Part(text="yes")), said("b")])
    assert shape(kept) == ["user: a", "model: (hm) yes", "user: b"], "thoughts stay with what they led to"


@pytest.mark.parametrize("status", ["incomplete", "failed", "cancelled"])
def test_what_a_broken_run_said_stays_and_its_calls_are_answered(status):
    broken = answer(types.Part(text="look"), call("f", "1", unfinished=True), status=status)
    found = turns([said("go"), broken, said("well?")])
    assert shape(found) == ["user: go", "model: look f?1", "user: f!1 well?"]
    assert found[2].results[0].response == {"error": NO_RESULT}
    assert [part.text for part in found[2].said] == ["well?"]


def test_a_call_at_the_very_end_is_answered_too():
    assert shape(turns([said("go"), answer(call("f", "1"))])) == ["user: go", "model: f?1", "user: f!1"]


def test_a_call_without_a_name_cannot_be_sent():
    assert shape(turns([said("go"), answer(types.Part(text="x"), call("", "1"), call(None, "2"))])) == [
        "user: go",
        "model: x",
    ]


def test_results_come_in_the_order_of_their_calls_from_wherever_they_stand():
    found = turns(
        [
            said("go"),
            answer(call("f", "1"), call("g", "2")),
            answer(call("h", "3")),
            results(result("h", "3"), types.Part(text="by the way")),
            results(result("g", "2")),
        ]
    )
    assert shape(found)[1:] == ["model: f?1 g?2 h?3", "user: f!1 g!2 h!3 by the way"]
    assert found[2].results[0].response == {"error": NO_RESULT}


def test_a_late_result_takes_the_place_of_what_was_said_first():
    found = turns(
        [
            said("go"),
            answer(call("slow", "1")),
            results(result("slow", "1", "at work")),
            answer(types.Part(text="wait")),
            results(result("slow", "1", "ready")),
            answer(types.Part(text="here")),
        ]
    )
    assert shape(found) == ["user: go", "model: slow?1", "user: slow!1", "model: wait here"]
    assert found[2].results[0].response == {"result": "ready"}


def test_results_without_a_call_are_left_out():
    found = turns([results(result("f", "1")), answer(types.Part(text="a")), results(result("f", "9"), result("g"))])
    assert shape(found) == ["model: a"]


def test_calls_and_results_without_ids_meet_by_name_and_get_ids():
    found = turns([said("go"), answer(call("f"), call("g"), call("f")), results(result("g"), result("f", value=1))])
    ids = [part.function_call.id for part in found[1].responses[0].parts]
    assert len({*ids}) == 3
    assert all(ids)
    assert [(each.id, each.name) for each in found[2].results] == list(zip(ids, "fgf", strict=True))
    assert found[2].results[0].response == {"result": 1}
    assert found[2].results[2].response == {"error": NO_RESULT}


def test_an_id_that_was_there_before_is_made_new_in_both_places():
    again = [answer(call("f", "call_0", b"sig")), results(result("f", "call_0", "first"))]
    more = [answer(call("f", "call_0", b"sig")), results(result("f", "call_0", "second"))]
    found = turns([said("go"), *again, *more])
    first, second = found[1].responses[0].parts[0], found[3].responses[0].parts[0]
    assert first.function_call.id == "call_0"
    assert second.function_call.id not in (None, "call_0")
    assert second.thought_signature == b"sig"
    assert found[2].results[0].response == {"result": "first"}
    assert (found[4].results[0].id, found[4].results[0].response) == (second.function_call.id, {"result": "second"})
    assert turns([said("go"), *again, *more, said("on")])[:3] == found[:3], "the ids of the past do not change"


def test_what_the_provider_ran_itself_needs_no_result():
    found = turns([said("go"), answer(call("search", "1", server_tool=True), types.Part(text="found"))])
    assert shape(found) == ["user: go", "model: search?1 found"]


def test_transcripts_are_the_text_of_a_live_turn():
    found = turns(
        [
            LlmResponse(input_transcription=types.Transcription(text="hel", finished=False), partial=True),
            LlmResponse(input_transcription=types.Transcription(text="hello", finished=True)),
            LlmResponse(output_transcription=types.Transcription(text="good day", finished=True)),
            LlmResponse(output_transcription=types.Transcription(text="", finished=True)),
            LlmResponse(turn_complete=True),
            said("on"),
        ]
    )
    assert shape(found) == ["user: hello", "model: good day", "user: on"]


def test_events_of_a_session_know_who_spoke():
    users = Event(author="user", content=types.Content(parts=[types.Part(text="hi")]))
    models = Event(author="agent", content=types.Content(parts=[types.Part(text="yes")]))
    tools = Event(author="agent", content=types.Content(parts=[result("f", "1")]))
    found = turns([users, models, Event(author="agent", content=answer(call("f", "1")).content), tools])
    assert shape(found) == ["user: hi", "model: yes f?1", "user: f!1"]


# ----------------------------------------------------------------- any history

NAMES = st.sampled_from(["f", "g", "h"])
IDS = st.sampled_from([None, "", "1", "2", "3", "4"])
SIGNATURES = st.sampled_from([None, None, b"\x00s"])
TEXTS = st.builds(types.Part, text=st.sampled_from(["", "a", "b"]), thought_signature=SIGNATURES)
THOUGHTS = st.builds(types.Part, text=st.sampled_from(["", "hm"]), thought=st.just(True), thought_signature=SIGNATURES)
CALLS = st.builds(
    lambda name, id, signature, metadata: call(name, id, signature, **metadata),
    st.sampled_from(["f", "g", "h", "", None]),
    IDS,
    SIGNATURES,
    st.sampled_from([{}, {}, {"unfinished": True}, {"raw_arguments": "{"}, {"cancelled": True}, {"server_tool": {}}]),
)
RESULTS = st.builds(lambda name, id: result(name, id), NAMES, IDS)
ANSWERS = st.builds(
    lambda parts, partial, status, line: answer(
        *parts, partial=partial, status=status, provider_metadata={"provider": line}
    ),
    st.lists(TEXTS | THOUGHTS | CALLS, max_size=4),
    st.sampled_from([None, None, True]),
    st.sampled_from(["completed", "incomplete", "cancelled"]),
    st.sampled_from(["gemini", "anthropic", "openai-chat", "openai-responses"]),
)
MESSAGES = (
    ANSWERS
    | st.builds(lambda parts: results(*parts), st.lists(RESULTS | TEXTS, max_size=4))
    | st.builds(lambda parts: types.Content(role="model", parts=parts), st.lists(TEXTS | CALLS, max_size=3))
    | st.just(LlmResponse(output_transcription=types.Transcription(text="spoken", finished=True)))
)


@settings(max_examples=60, deadline=None)
@given(st.lists(MESSAGES, max_size=12))
def test_any_history_can_be_sent(messages):
    before = copy.deepcopy(messages)
    found = turns(messages)
    assert messages == before
    ids = []
    for turn, after in zip_longest(found, found[1:]):
        assert type(turn) is not type(after)
        if isinstance(turn, UserTurn):
            assert turn.parts
            continue
        assert not any(response.partial for response in turn.responses)
        assert all(response.parts for response in turn.responses)
        parts = [part for response in turn.responses for part in response.parts]
        assert any(not part.thought and (part.text or part.function_call) for part in parts)
        asked = [
            (part.function_call.id, part.function_call.name)
            for part in parts
            if part.function_call and "server_tool" not in (part.part_metadata or {})
        ]
        assert all(id and name for id, name in asked)
        answered = [(each.id, each.name) for each in after.results] if after else []
        assert answered == asked
        ids += [id for id, _ in asked]
    assert len({*ids}) == len(ids)
    firsts = [turn for turn in found[:1] if isinstance(turn, UserTurn)]
    assert not any(turn.results for turn in firsts), "results need a call before them"


@settings(max_examples=40, deadline=None)
@given(st.lists(MESSAGES, max_size=10), st.sampled_from(["gemini", "anthropic", "openai-chat", "openai-responses"]))
def test_nothing_that_was_said_is_lost_or_comes_twice(messages, line):
    kept = [message for message in messages if not getattr(message, "partial", None)]
    texts = [part.text for m in kept for part in parts_of(m) if part.text and not part.thought]
    found = turns(messages)
    assert sorted(texts) == sorted(
        part.text
        for turn in found
        for part in (turn.parts if isinstance(turn, UserTurn) else [p for r in turn.responses for p in r.parts])
        if part.text and not part.thought
    )
    for turn in found:
        if isinstance(turn, ModelTurn):
            to_native(turn.responses, line)


def parts_of(message):
    if isinstance(message, types.Content):
        return message.parts or []
    spoken = message.output_transcription
    return [types.Part(text=spoken.text)] if spoken else message.parts


CHAT = [
    {"choices": [{"index": 0, "delta": {"content": "look"}}]},
    {
        "choices": [
            {
                "index": 0,
                "delta": {
                    "tool_calls": [
                        {"index": 0, "id": "c1", "function": {"name": "f", "arguments": '{"a":'}},
                        {"index": 1, "id": "c2", "function": {"name": "g", "arguments": ""}},
                    ]
                },
            }
        ]
    },
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 1, "function": {"arguments": '{"b": 1'}}]}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 1, "function": {"arguments": "}"}}]}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
]


@pytest.mark.parametrize("events", range(len(CHAT) + 1))
@pytest.mark.parametrize("flush", ["close", "boundary"])
def test_a_real_stream_cut_anywhere_can_be_sent_on(events, flush):
    stored = list(aggregate(CHAT[:events], provider="openai-chat", flush=flush))
    stored = [LlmResponse.model_validate_json(each.model_dump_json(by_alias=True)) for each in stored]
    found = turns([said("go"), *stored, said("on")])
    model = [turn for turn in found if isinstance(turn, ModelTurn)]
    assert len(model) == (1 if events else 0)
    for turn in model:
        native = to_native(turn.responses, "openai-chat")
        ids = [each["id"] for each in native.get("tool_calls", ())]
        assert [each.id for each in found[-1].results] == ids
        assert json.dumps(native)
    assert isinstance(found[-1], UserTurn)
    assert found[-1].parts[-1].text == "on"
