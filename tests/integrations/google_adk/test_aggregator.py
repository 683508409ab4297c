"""The drop-in by itself: google-adk's surface, our results."""

from __future__ import annotations

import inspect

import pytest

pytest.importorskip("google.adk", reason="google-adk is not installed")

from chunks import call, chunk, feed, fragment, parts_of, run, text, texts
from google.adk.features import FeatureName
from google.adk.features._feature_registry import temporary_feature_override
from google.adk.models.llm_response import LlmResponse as AdkLlmResponse
from google.genai import types
from releases import INSTALLED

from adk_stream.integrations.google_adk import (
    StreamingResponseAggregator,
    StrictStreamingResponseAggregator,
    aggregator,
)
from adk_stream.integrations.google_adk.private import JSON_PATH_NAMES

USAGE = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}


@pytest.fixture
def classic():
    with temporary_feature_override(FeatureName.PROGRESSIVE_SSE_STREAMING, False):
        yield


def aggregate(*chunks):
    return run(StreamingResponseAggregator(), list(chunks))


# ----------------------------------------------------------------- google-adk's surface


@pytest.mark.parametrize("cls", [StreamingResponseAggregator, StrictStreamingResponseAggregator])
def test_surface(cls):
    assert inspect.isasyncgenfunction(cls.process_response)
    assert not inspect.iscoroutinefunction(cls.close)
    assert cls().close() is None
    given, final = run(cls(), [chunk(text("a")), chunk(text("b"), finish="STOP")])
    assert {type(each) for each in [*given, final]} == {AdkLlmResponse}
    final.usage_metadata = None  # google-adk's model assigns to it
    assert final.partial is False


@pytest.mark.skipif(INSTALLED < (2, 11), reason="earlier releases of google-adk have none of these names")
def test_names_of_the_module_around_it():
    tracker = aggregator._JsonPathTracker()
    assert tracker.handle_chunk('{"a": "b"}')
    for name in JSON_PATH_NAMES:
        assert getattr(aggregator, name) is not None
    with pytest.raises(AttributeError):
        _ = aggregator.no_such_name


def test_a_value_can_be_put_into_the_open_call_only():
    own = StreamingResponseAggregator()
    own._set_value_by_json_path("$.x", "nobody asked")
    feed(own, [chunk(call("f", willContinue=True)), chunk(fragment("$.a", "1"))])
    own._set_value_by_json_path("$.b", 7)
    own._set_value_by_json_path("$.c", None)
    feed(own, [chunk(fragment("$.a", "2", goes_on=False), finish="STOP")])
    [part] = parts_of(own.close())
    assert part.function_call.args == {"a": "12", "b": 7, "c": None}


def test_it_is_empty_after_close():
    own = StreamingResponseAggregator()
    run(own, [chunk(text("a"), finish="STOP", usage=USAGE)])
    assert own.close() is None
    _, final = run(own, [chunk(text("b"), finish="STOP")])
    assert (texts(final), final.usage_metadata) == (["b"], None)


# ----------------------------------------------------------------- the short way is no other way


def test_short_and_full_way_give_the_same():
    pieces = [text("a"), text("b", thought=True), text("c", thought=True), text("d"), text("e"), text("f")]
    short = [chunk(piece, responseId="r") for piece in pieces]
    full = [chunk(piece, responseId="r", candidate={"finishReason": None}) for piece in pieces]
    (given, final), (same, expected) = aggregate(*short), aggregate(*full)
    assert given == same
    assert final == expected
    assert texts(final) == ["a", "bc", "def"]


def test_fragments_of_arguments_take_it_too():
    pieces = [fragment("$.a", "x"), fragment("$.a", "y"), fragment("$.b[0]", "z"), fragment("$.a", "!")]
    own = StreamingResponseAggregator()
    given = feed(own, [chunk(call("f", id="1", willContinue=True)), *[chunk(piece) for piece in pieces]])
    shown = [part.function_call for each in given for part in parts_of(each)]
    assert [each.partial_args[0].string_value for each in shown[1:]] == ["x", "y", "z", "!"]
    assert {(each.id, each.name, each.will_continue) for each in shown} == {("1", "f", True)}
    given = feed(own, [chunk(call(), finish="STOP")])
    [part] = parts_of(own.close())
    assert part.function_call.args == {"a": "xy!", "b": ["z"]}


@pytest.mark.parametrize("model", ["gemini-test", None, "other"])
@pytest.mark.parametrize("response_id", ["r", None])
def test_what_a_later_chunk_leaves_out_stays(model, response_id):
    later = chunk(text("b"), modelVersion=model, responseId=response_id)
    given, final = aggregate(chunk(text("a"), responseId="r"), later, chunk(text("c"), finish="STOP"))
    assert [each.model_version for each in given] == ["gemini-test", model or "gemini-test", "gemini-test"]
    assert texts(final) == ["abc"]


def test_other_candidates_stay_out():
    other = chunk(text("x"), candidate={"index": 1})
    given, final = aggregate(chunk(text("a")), other, chunk(text("b")), other, chunk(finish="STOP"))
    assert texts(final) == ["ab"]
    assert [texts(each) for each in given] == [["a"], ["b"]]


# ----------------------------------------------------------------- isolation


def test_chunks_are_not_changed_and_nothing_is_shared():
    chunks = [
        chunk(call("f", args={"x": [1]}), text("t")),
        chunk(text("more")),
        chunk({"inlineData": {"mimeType": "image/png", "data": "AAAA"}}),
        chunk(finish="STOP"),
    ]
    before = [each.model_copy(deep=True) for each in chunks]
    given, final = aggregate(*chunks)
    expected = final.model_copy(deep=True)
    for each in given:
        for part in parts_of(each):
            if part.function_call:
                part.function_call.args["x"].append(2)
            part.text = "changed"
        each.content.parts.clear()
    assert chunks == before
    assert final == expected
    assert final.content.parts[0].function_call.args == {"x": [1]}


def test_all_that_is_shown_of_a_call_bears_one_id():
    given, final = aggregate(
        chunk(fragment("$.a", "1", name="f")),
        chunk(fragment("$.a", "2")),
        chunk(call("g", args={})),
        chunk(fragment("$.a", "3", goes_on=False), finish="STOP"),
    )
    ids = [part.function_call.id for each in given for part in parts_of(each)]
    first, second = (part.function_call.id for part in parts_of(final))
    assert ids == [first, first, second, first]
    assert first != second
    assert first.startswith("adk-")


# ----------------------------------------------------------------- what google-adk would run or lose


def test_a_call_that_was_cut_is_not_for_google_adk_to_run():
    _, final = aggregate(chunk(text("ok"), fragment("$.path", "/tmp/", name="rm")), chunk(finish="MAX_TOKENS"))
    assert not final.get_function_calls()
    assert texts(final) == ["ok"]
    assert final.error_code == "MAX_TOKENS"
    [[place, part]] = final.custom_metadata["adk_stream"]["withheld_parts"]
    assert (place, part["functionCall"]["name"]) == (1, "rm")


def test_an_empty_stop_is_no_silent_end():
    _, final = aggregate(chunk({"text": ""}, finish="STOP", usage=USAGE))
    assert final.content == types.Content(role="model", parts=[])
    assert final.usage_metadata.total_token_count == 5
    assert final.error_code is None


def test_a_stream_without_an_end_is_cut():
    _, final = aggregate(chunk(text("half")))
    assert (final.error_code, final.finish_reason) == ("STREAM_CUT", None)
    assert final.custom_metadata["adk_stream"]["status"] == "incomplete"


def test_each_counter_has_its_last_value():
    _, final = aggregate(
        chunk(text("a"), usage={"promptTokenCount": 3, "candidatesTokenCount": 1, "totalTokenCount": 4}),
        chunk(text("b"), usage={"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}),
        chunk(text("c"), usage={"promptTokenCount": None, "candidatesTokenCount": 6, "totalTokenCount": 9}),
        chunk(finish="STOP", usage={"trafficType": "ON_DEMAND"}),
    )
    usage = final.usage_metadata
    assert (usage.prompt_token_count, usage.candidates_token_count, usage.total_token_count) == (3, 6, 9)
    assert usage.traffic_type.value == "ON_DEMAND"


# ----------------------------------------------------------------- classic


def test_classic_gives_a_run_when_more_has_come(classic):
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    given, final = aggregate(chunk(text("a")), chunk(text("b")), chunk(image), chunk(text("c"), finish="STOP"))
    kept = [each for each in given if not each.partial]
    assert [texts(each) for each in kept] == [["ab"]]
    assert [part.text or part.inline_data.mime_type for part in parts_of(final)] == ["image/png", "c"]


def test_classic_keeps_everything_from_the_first_call_on(classic):
    given, final = aggregate(
        chunk(text("Looking. ")),
        chunk(call("f", args={"q": 1}), text("still talking")),
        chunk(call("g", args={})),
        chunk(text("bye"), finish="STOP", usage=USAGE),
    )
    assert [texts(each) for each in given if not each.partial] == [["Looking. "]]
    assert [part.text or part.function_call.name for part in parts_of(final)] == ["f", "still talking", "g", "bye"]
    assert final.usage_metadata.total_token_count == 5


def test_the_flag_is_read_while_the_stream_runs():
    own = StreamingResponseAggregator()
    with temporary_feature_override(FeatureName.PROGRESSIVE_SSE_STREAMING, False):
        image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
        given = feed(own, [chunk(text("a")), chunk(image), chunk(image)])
    assert [texts(each) for each in given if not each.partial] == [["a"], [None]]


def test_a_call_whose_values_conflict_does_not_run_unless_it_must_as_in_google_adk():
    number = call(partialArgs=[{"jsonPath": "$.v", "numberValue": 99}], willContinue=False)
    chunks = [chunk(fragment("$.v", "12", name="f")), chunk(fragment("$.v", "34")), chunk(number)]
    assert not run(StreamingResponseAggregator(), chunks)[1].get_function_calls()
    if INSTALLED < (2, 11):
        pytest.skip("this release of google-adk joins streamed arguments in another way")
    _, final = run(StrictStreamingResponseAggregator(), chunks)
    assert final.get_function_calls()[0].args == {"v": 99}
