"""The contract of a stream aggregator, held against the Gemini line; each test names the property it holds."""

from __future__ import annotations

import gc
import itertools
import json
import time
import tracemalloc
from collections.abc import Callable
from copy import deepcopy

import pytest
from gemini_streams import (
    USAGE,
    described,
    event,
    final_of,
    parts_of,
    responses_of,
    run_in_steps,
    same_ids,
    seeded,
    sse,
    streams,
)
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st

from adk_stream import StreamingResponseAggregator, aggregate, to_native
from adk_stream.errors import MalformedStreamError

law = settings(max_examples=50, deadline=None)
few = settings(max_examples=25, deadline=None)
flushes = st.sampled_from(["close", "boundary"])


# ----------------------------------------------------------------- the generator's own law


@settings(max_examples=150, deadline=None)
@given(streams(max_sources=6), flushes)
def test_whatever_the_model_means_comes_out(stream, flush):
    assert parts_of(stream.events(), flush=flush) == stream.meaning


@law
@given(streams(max_sources=4), flushes)
def test_sdk_objects_give_the_same_and_are_not_changed(stream, flush):
    events = [types.GenerateContentResponse.model_validate(each) for each in stream.events()]
    before = [each.model_dump() for each in events]
    assert parts_of(events, flush=flush) == stream.meaning
    assert [each.model_dump() for each in events] == before


# ----------------------------------------------------------------- 1. end of stream


@law
@given(streams())
def test_1_completed_when_the_natural_terminal_sign_was_seen(stream):
    final = final_of(stream.events())
    assert (final.status, final.finish_reason, final.error_code) == ("completed", "STOP", None)


@law
@given(streams(), st.data())
def test_1_a_cut_stream_is_a_prefix_and_incomplete(stream, data):
    events = stream.events()
    at = data.draw(st.integers(1, len(events) - 1))
    whole, cut = final_of(events), final_of(events[:at])
    assert (cut.status, cut.error_code, cut.finish_reason) == ("incomplete", "STREAM_CUT", None)
    *front, _last = described(cut.parts) or [{}]
    open_calls = [part for part in cut.parts if (part.part_metadata or {}).get("unfinished")]
    if not open_calls:
        assert front == described(whole.parts)[: len(front)]
    assert whole.text.startswith(cut.text)
    assert whole.thought_text.startswith(cut.thought_text)
    full = {(call.name, json.dumps(call.args)) for call in whole.executable_function_calls()}
    assert {(call.name, json.dumps(call.args)) for call in cut.executable_function_calls()} <= full


@law
@given(streams(), st.sampled_from(["MAX_TOKENS", "SAFETY", "RECITATION", "MALFORMED_FUNCTION_CALL", "NEW_WORD", 77]))
def test_1_another_end_is_kept_as_it_came_and_never_read_as_a_stop(stream, reason):
    stream.finish = reason
    final = final_of(stream.events())
    known = reason in ("MAX_TOKENS", "SAFETY", "RECITATION", "MALFORMED_FUNCTION_CALL")
    assert final.status == "incomplete"
    assert final.native_finish_reason == str(reason)
    assert final.finish_reason == (reason if known else "OTHER")
    assert final.error_code == str(reason)


@law
@given(streams(kinds=("streamed", "pair")), st.data(), st.sampled_from(["MAX_TOKENS", "STOP", None]), flushes)
def test_1_an_open_call_never_runs(stream, data, reason, flush):
    flat = [part for chunk in stream.chunks for part in chunk]
    at = data.draw(st.integers(1, len(flat)))
    events = [event([part]) for part in flat[:at]]
    if reason:
        events.append({"candidates": [{"finishReason": reason}]})
    closed = sum(not part["functionCall"].get("willContinue") for part in flat[:at])
    runnable = [call for each in responses_of(events, flush=flush) for call in each.executable_function_calls()]
    assert len(runnable) == closed
    left = [{"call": call.name, "args": call.args} for call in runnable]
    for call in stream.streamed:
        wanted = {"call": call["call"], "args": call["args"]}
        if wanted in left:
            left.remove(wanted)
    assert left == []


# ----------------------------------------------------------------- 2. fragments reach the right call (with 18)


@law
@given(streams(kinds=("streamed", "pair", "call"), max_sources=4), flushes)
def test_2_every_fragment_reaches_its_call_and_ids_are_unique_and_stable(stream, flush):
    responses = responses_of(stream.events(), flush=flush)
    calls = [part.function_call for each in responses if not each.partial for part in each.parts]
    assert [{"call": call.name, "args": call.args} for call in calls] == [
        {"call": call["call"], "args": call["args"]} for call in stream.meaning
    ]
    ids = [call.id for call in calls]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    shown = {
        part.function_call.id
        for each in responses
        if each.partial
        for part in each.parts
        if part.function_call and part.function_call.id
    }
    assert shown <= set(ids)


# ----------------------------------------------------------------- 3. neutral events

NEUTRAL = [
    {},
    {"candidates": []},
    {"candidates": None},
    {"candidates": [None]},
    {"candidates": [{}]},
    {"candidates": [{"content": None}]},
    {"candidates": [{"content": {}}]},
    {"candidates": [{"content": {"parts": None, "role": None}, "finishReason": None, "index": None}]},
    {"candidates": [{"content": {"role": "model", "parts": []}}]},
    {"candidates": [{"content": {"role": "model", "parts": [{"text": ""}]}}]},
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "", "thought": True}]}}]},
    {"candidates": [{"content": {"role": "model", "parts": [{"text": None}, None, {}]}}]},
    {"candidates": [{"finishReason": "FINISH_REASON_UNSPECIFIED"}]},
    {"candidates": [{"finishReason": 0}]},
    {"usageMetadata": None},
    {"usageMetadata": {}},
    {"responseId": None, "modelVersion": None},
    {"promptFeedback": None},
    {"error": None},
    {"candidates": [{"safetyRatings": [], "groundingMetadata": None, "citationMetadata": {}}]},
]


@settings(max_examples=120, deadline=None)
@given(streams(), st.lists(st.tuples(st.sampled_from(NEUTRAL), st.integers(0, 20)), min_size=1, max_size=5))
def test_3_neutral_events_change_nothing(stream, insertions):
    plain = stream.events()
    events = list(plain)
    for neutral, at in insertions:
        events.insert(min(at, len(events)), neutral)
    assert same_ids([final_of(events)]) == same_ids([final_of(plain)])


@law
@given(streams(), st.integers(0, 20))
def test_3_unknown_fields_and_numeric_enums_change_no_part(stream, at):
    plain = stream.events()
    events = deepcopy(plain)
    events[min(at, len(events) - 1)]["newField"] = {"deep": [1]}
    events[min(at, len(events) - 1)]["candidates"][0]["newField"] = 5
    events[-1]["candidates"][0]["finishReason"] = 1
    final, wanted = final_of(events), final_of(plain)
    assert described(final.parts) == described(wanted.parts)
    assert (final.status, final.finish_reason) == ("completed", "STOP")
    assert final.provider_metadata["gemini"] == {"newField": 5} or "newField" in final.provider_metadata["gemini"]


@law
@given(streams())
def test_3_comments_and_unknown_sse_fields_change_nothing(stream):
    body = sse(stream.events())
    noisy = b": hello\r\nretry: 5\r\n\r\n" + body.replace(b"data: ", b": ping\r\nid: 7\r\nnew: x\r\ndata: ")
    assert same_ids(responses_of([noisy])) == same_ids(responses_of([body]))


# ----------------------------------------------------------------- 4. bytes


@law
@given(streams(), st.data(), st.sampled_from(["\n", "\r", "\r\n"]), st.booleans())
def test_4_the_reads_do_not_matter(stream, data, newline, bom):
    events = stream.events()
    body = (b"\xef\xbb\xbf" if bom else b"") + sse(events, newline)
    places = sorted({*data.draw(st.lists(st.integers(0, len(body)), max_size=8)), 0, len(body)})
    cuts = [body[a:b] for a, b in itertools.pairwise(places)]
    wanted = same_ids(responses_of(events))
    assert same_ids(responses_of(cuts)) == wanted
    assert same_ids(responses_of([body[i : i + 1] for i in range(len(body))])) == wanted


@few
@given(streams())
def test_4_a_json_array_is_the_same_stream(stream):
    events = stream.events()
    body = json.dumps(events, indent=2).encode()
    assert same_ids(responses_of([body[i : i + 3] for i in range(0, len(body), 3)])) == same_ids(responses_of(events))


# ----------------------------------------------------------------- 5. arguments


@law
@given(st.dictionaries(st.text(max_size=4), st.integers() | st.text() | st.lists(st.none()) | st.just({}), max_size=4))
def test_5_an_object_given_whole_is_taken_as_it_is(given_args):
    body = sse([event([{"functionCall": {"name": "f", "args": given_args}}])])
    [call] = final_of([body]).parts
    assert call.function_call.args == given_args
    assert list(call.function_call.args) == list(given_args)


@pytest.mark.parametrize("call", [{"name": "f"}, {"name": "f", "args": None}, {"name": "f", "args": {}}])
def test_5_missing_null_or_empty_arguments_are_an_empty_object(call):
    final = final_of([event([{"functionCall": call}]), {"candidates": [{"finishReason": "STOP"}]}])
    assert [each.args for each in final.executable_function_calls()] == [{}]


@law
@given(streams(kinds=("streamed",), max_sources=1), flushes)
def test_5_fragments_followed_by_a_whole_copy_count_once(stream, flush):
    [call] = stream.meaning
    whole = {"name": call["call"], "args": call["args"], "id": "x"}
    start = stream.chunks[0][0]["functionCall"]
    start["id"] = "x"
    events = stream.events()
    events.insert(-1, event([{"functionCall": whole}]))
    assert parts_of(events, flush=flush) == [{**call, "id": "x"}]
    open_then_whole = [event([{"functionCall": start}]), event([{"functionCall": whole}])]
    assert parts_of(open_then_whole, flush=flush) == [{**call, "id": "x"}]


def test_5_integers_stay_integers():
    number = 2**63 + 1
    whole = event([{"functionCall": {"name": "f", "args": {"n": number}}}])
    fragment = {"jsonPath": "$.n", "numberValue": number}
    streamed = event([{"functionCall": {"name": "f", "partialArgs": [fragment], "willContinue": False}}])
    for each in (whole, streamed):
        args = final_of([sse([each])]).parts[0].function_call.args
        assert json.dumps(args) == json.dumps({"n": number})


@pytest.mark.parametrize("flush", ["close", "boundary"])
def test_5_arguments_that_contradict_themselves_keep_their_text_and_never_run(flush):
    fragments = [{"jsonPath": "$.a", "stringValue": "x"}, {"jsonPath": "$.a.b", "stringValue": "y"}]
    events = [
        event([{"functionCall": {"name": "f", "partialArgs": fragments, "willContinue": False}}]),
        {"candidates": [{"finishReason": "STOP"}]},
    ]
    responses = responses_of(events, flush=flush)
    [part] = [part for each in responses if not each.partial for part in each.parts]
    assert part.function_call.args is None
    assert part.part_metadata["raw_arguments"]
    assert not any(each.executable_function_calls() for each in responses)


# ----------------------------------------------------------------- 6. reasoning


@law
@given(streams(kinds=("text", "thought", "signed", "call")), flushes)
def test_6_partials_joined_equal_the_final_per_kind(stream, flush):
    responses = responses_of(stream.events(), flush=flush)
    for view in ("text", "thought_text"):
        shown = "".join(getattr(each, view) for each in responses if each.partial)
        kept = "".join(getattr(each, view) for each in responses if not each.partial)
        assert shown == kept
    kinds = {"text": "text", "thought_text": "thought"}
    for view, kind in kinds.items():
        meant = "".join(each.get(kind, "") for each in stream.meaning)
        assert "".join(getattr(each, view) for each in responses if not each.partial) == meant


@law
@given(st.lists(st.tuples(st.booleans(), st.sampled_from(["", "a", "bc"])), min_size=1, max_size=8))
def test_6_an_empty_delta_ends_no_run(deltas):
    events = [event([{"text": text, **({"thought": True} if thought else {})}]) for thought, text in deltas]
    kept = [pair for pair in deltas if pair[1]]
    runs: list[dict] = []
    for thought, text in kept:
        kind = "thought" if thought else "text"
        if runs and kind in runs[-1]:
            runs[-1][kind] += text
        else:
            runs.append({kind: text})
    assert parts_of(events) == runs


# ----------------------------------------------------------------- 8. usage


@law
@given(streams(), st.lists(st.integers(0, 20), min_size=1, max_size=4), flushes)
def test_8_usage_is_the_last_snapshot_and_on_one_final(stream, places, flush):
    responses = responses_of(stream.events(usage_at=tuple(sorted(places))), flush=flush)
    told = [each.usage_metadata for each in responses if each.usage_metadata is not None]
    assert len(told) == 1
    assert responses[-1].usage_metadata is told[0]
    assert told[0].prompt_token_count == USAGE["promptTokenCount"]
    assert told[0].candidates_token_count == USAGE["candidatesTokenCount"]
    assert told[0].total_token_count == USAGE["totalTokenCount"]


def test_8_a_later_object_without_counts_erases_nothing_and_a_cut_keeps_the_counts():
    events = [event([{"text": "x"}], usageMetadata=USAGE), {"usageMetadata": {"trafficType": "ON_DEMAND"}}]
    final = final_of(events)
    assert final.usage_metadata.total_token_count == USAGE["totalTokenCount"]
    assert (final.usage_metadata.traffic_type, final.status) == ("ON_DEMAND", "incomplete")


# ----------------------------------------------------------------- 9. opaque replay data


@law
@given(streams(kinds=("signed", "bare_signature", "call", "streamed", "text", "thought"), max_sources=6), flushes)
def test_9_each_signature_stays_on_its_part_and_goes_back_on_it(stream, flush):
    finals = [each for each in responses_of(stream.events(), flush=flush) if not each.partial]
    parts = [part for each in finals for part in each.parts]
    assert [part.thought_signature for part in parts] == [each.get("signature") for each in stream.meaning]
    again = to_native(finals, provider="gemini")["parts"]
    assert parts_of([event(again)]) == stream.meaning


# ----------------------------------------------------------------- 11. order of signals


@law
@given(streams(), flushes)
def test_11_partials_come_before_the_final_that_holds_them_and_a_call_is_ready_once(stream, flush):
    responses = responses_of(stream.events(), flush=flush)
    assert not responses[-1].partial
    assert {each.response_id for each in responses} == {"r-1"}
    ready = [call.id for each in responses for call in each.executable_function_calls()]
    assert len(ready) == len(set(ready)) == sum("call" in each for each in stream.meaning)
    shown = kept = ""
    for each in responses:
        if each.partial:
            shown += each.text
        else:
            kept += each.text
        assert shown.startswith(kept)


def test_11_one_event_of_text_call_and_text_is_given_in_order_each_wholly_partial_or_wholly_final():
    call = {"functionCall": {"name": "f", "args": {}, "id": "1"}}
    responses = responses_of([event([{"text": "a"}, call, {"text": "b"}])], flush="boundary")
    assert [(each.partial, described(each.parts)) for each in responses] == [
        (True, [{"text": "a"}]),
        (False, [{"text": "a"}]),
        (False, [{"call": "f", "args": {}, "id": "1"}]),
        (True, [{"text": "b"}]),
        (False, [{"text": "b"}]),
    ]


def test_1_a_reason_that_says_nothing_takes_no_end_back():
    end = {"candidates": [{"finishReason": "STOP"}]}
    nothing = {"candidates": [{"finishReason": "FINISH_REASON_UNSPECIFIED"}]}
    assert final_of([event([{"text": "a"}]), nothing]).status == "incomplete"
    final = final_of([event([{"text": "a"}]), end, nothing])
    assert (final.status, final.finish_reason, final.native_finish_reason) == ("completed", "STOP", "STOP")


# ----------------------------------------------------------------- 13. side channels


@law
@given(st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=2, unique=True), min_size=1, max_size=4))
def test_13_grounding_is_merged_over_chunks_with_its_indices_shifted(chunks):
    events = []
    for uris in chunks:
        grounding = {
            "groundingChunks": [{"web": {"uri": uri}} for uri in uris],
            "groundingSupports": [
                {"segment": {"text": uri, "startIndex": number}, "groundingChunkIndices": [number]}
                for number, uri in enumerate(uris)
            ],
        }
        events.append(event([{"text": "x"}]))
        events[-1]["candidates"][0]["groundingMetadata"] = grounding
    merged = final_of(events).grounding_metadata
    assert {chunk.web.uri for chunk in merged.grounding_chunks} == {uri for uris in chunks for uri in uris}
    told = {support.segment.text for support in merged.grounding_supports}
    assert told == {uri for uris in chunks for uri in uris}
    for support in merged.grounding_supports:
        assert [merged.grounding_chunks[i].web.uri for i in support.grounding_chunk_indices] == [support.segment.text]


@law
@given(streams(kinds=("code", "image", "text", "call")), flushes)
def test_13_server_side_tools_and_images_come_once_in_order_and_never_run(stream, flush):
    responses = responses_of(stream.events(), flush=flush)
    assert parts_of(stream.events(), flush=flush) == stream.meaning
    calls = [call.name for each in responses for call in each.executable_function_calls()]
    assert calls == [each["call"] for each in stream.meaning if "call" in each]


def test_13_citations_safety_log_probabilities_and_url_context_each_once():
    first, last = event([{"text": "A"}]), event([{"text": "B"}])
    first["candidates"][0] |= {"citationMetadata": {"citations": [{"uri": "u1", "startIndex": 0, "endIndex": 1}]}}
    last["candidates"][0] |= {
        "citationMetadata": {"citations": [{"uri": "u2", "startIndex": 1, "endIndex": 2}]},
        "safetyRatings": [{"category": 9, "probability": "NEGLIGIBLE"}],
        "avgLogprobs": -0.5,
        "urlContextMetadata": {
            "urlMetadata": [{"retrievedUrl": "u", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS"}]
        },
    }
    final = final_of([first, last])
    assert [(c.uri, c.start_index, c.end_index) for c in final.citation_metadata.citations] == [
        ("u1", 0, 1),
        ("u2", 1, 2),
    ]
    assert [rating.category for rating in final.safety_ratings] == ["HARM_CATEGORY_SEXUALLY_EXPLICIT"]
    assert final.avg_logprobs == -0.5
    assert [url.retrieved_url for url in final.url_context_metadata.url_metadata] == ["u"]


# ----------------------------------------------------------------- 14. errors inside a 200 stream


@law
@given(streams(), st.integers(0, 20), flushes)
def test_14_an_error_ends_the_stream_with_its_code_and_what_had_come(stream, at, flush):
    events = stream.events()
    at = min(at, len(events))
    error = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}
    before = [final_of(events[:at])] if at else []
    responses = responses_of([*events[:at], error, *events[at:]], flush=flush)
    final = responses[-1]
    assert (final.status, final.error_code, final.error_message) == ("failed", "UNAVAILABLE", "overloaded")
    assert final.finish_reason is None
    kept = described(part for each in responses if not each.partial for part in each.parts)
    assert kept == described(part for each in before for part in each.parts)


@pytest.mark.parametrize("wrap", [lambda body: body, lambda body: [body]], ids=["object", "array"])
def test_14_an_error_as_a_plain_json_body(wrap):
    body = json.dumps(wrap({"error": {"code": 400, "message": "bad", "status": "INVALID_ARGUMENT"}})).encode()
    [final] = responses_of([body])
    assert (final.status, final.error_code, final.error_message) == ("failed", "INVALID_ARGUMENT", "bad")
    assert final.content is None


# ----------------------------------------------------------------- 16. cost


def lots_of_text(n: int) -> list:
    return [sse([event([{"text": "word "}])]) for _ in range(n)]


def lots_of_arguments(n: int) -> list:
    fragment = {"jsonPath": "$.document", "stringValue": "word "}
    start = event([{"functionCall": {"name": "f", "willContinue": True}}])
    return [start, *(event([{"functionCall": {"partialArgs": [fragment], "willContinue": True}}]) for _ in range(n))]


def one_long_line(n: int) -> list:
    body = sse([event([{"text": "x" * (n * 100)}])])
    return [body[at : at + 100] for at in range(0, len(body), 100)]


def lots_of_audio(n: int) -> list:
    return [event([{"inlineData": {"mimeType": "audio/pcm", "data": "AAAA" * 20}}]) for _ in range(n)]


def citations(n: int) -> list:
    events = [event([{"text": "a"}]) for _ in range(n)]
    for number, each in enumerate(events):
        each["candidates"][0]["citationMetadata"] = {"citations": [{"uri": "u", "startIndex": number}]}
    return events


def grounding(n: int) -> list:
    events = [event([{"text": "a"}]) for _ in range(n)]
    for number, each in enumerate(events):
        each["candidates"][0]["groundingMetadata"] = {
            "groundingChunks": [{"web": {"uri": f"u{number}"}}],
            "groundingSupports": [{"segment": {"endIndex": number}, "groundingChunkIndices": [0]}],
        }
    return events


def parts_behind_an_open_call(n: int) -> list:
    start = event([{"functionCall": {"name": "f", "willContinue": True}}])
    image = event([{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}])
    return [start, *itertools.islice(itertools.cycle([image, *lots_of_audio(1)]), n)]


def rounds(n: int) -> list:
    return [event([{"text": "a"}], responseId=f"r-{number}") for number in range(n)]


def new_fields(n: int) -> list:
    return [event([{"text": "a", "partMetadata": {f"k{number}": 1}}], **{f"n{number}": 1}) for number in range(n)]


def seconds(pieces: list, flush: str) -> float:
    gc.collect()
    gc.disable()  # what it costs depends on all else that lives in this process
    try:
        began = time.process_time()
        for _ in aggregate(pieces, provider="gemini", flush=flush):
            pass
        return time.process_time() - began
    finally:
        gc.enable()


def growth(make: Callable, n: int, flush: str) -> float:
    small, large = make(n), make(10 * n)
    seconds(small, flush)  # imports and caches
    return min(seconds(large, flush) for _ in range(2)) / min(seconds(small, flush) for _ in range(4))


@pytest.mark.parametrize("flush", ["close", "boundary"])
@pytest.mark.parametrize("make", [lots_of_text, lots_of_arguments, lots_of_audio, one_long_line])
def test_16_time_grows_as_the_stream_does(make, flush):
    assert growth(make, 2_000, flush) <= 13


@pytest.mark.parametrize("make", [citations, grounding, parts_behind_an_open_call, rounds, new_fields])
def test_16_nothing_beside_the_text_costs_more_the_more_of_it_there_is(make):
    assert growth(make, 300, "boundary") <= 15


@pytest.mark.parametrize("make", [lots_of_text, lots_of_arguments, lots_of_audio])
def test_16_memory_is_bounded_by_the_size_of_what_comes_out(make):
    def peak(n: int) -> int:
        tracemalloc.start()
        try:
            for _ in aggregate((each for each in make(1) * n), provider="gemini"):
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(10)
    content = 20_000 * {lots_of_audio: 60}.get(make, 5)
    assert peak(20_000) < 5 * content + 200_000


def test_16_nothing_is_kept_after_the_end():
    aggregation = aggregate(lots_of_text(10), provider="gemini")
    list(aggregation)
    fresh = StreamingResponseAggregator("close")
    seeded(fresh)
    seeded(aggregation._aggregator)
    assert aggregation._aggregator.snapshot() == fresh.snapshot()


def test_16_calls_without_end_are_refused():
    opened = [event([{"functionCall": {"name": "f", "id": str(n), "willContinue": True}}]) for n in range(1001)]
    with pytest.raises(MalformedStreamError, match="1000 calls open"):
        final_of(opened)
    assert len(final_of(opened[:1000]).parts) == 1000


# ----------------------------------------------------------------- 18. tool names


@law
@given(st.lists(st.sampled_from([None, "", "f"]), min_size=1, max_size=4))
def test_18_a_null_or_empty_or_repeated_name_erases_nothing(names):
    calls = [{"name": "f", "willContinue": True}, *({"name": name, "willContinue": True} for name in names)]
    fragment = {"jsonPath": "$.a", "stringValue": "x"}
    events = [event([{"functionCall": {**each, "partialArgs": [fragment]}}]) for each in calls]
    events.append(event([{"functionCall": {"willContinue": False}}]))
    [part] = final_of(events).parts
    assert (part.function_call.name, part.function_call.args) == ("f", {"a": "x" * len(calls)})


def test_18_a_name_after_the_arguments():
    fragment = {"jsonPath": "$.a", "stringValue": "x"}
    events = [
        event([{"functionCall": {"partialArgs": [fragment], "willContinue": True}}]),
        event([{"functionCall": {"name": "f", "willContinue": False}}]),
        {"candidates": [{"finishReason": "STOP"}]},
    ]
    assert [(call.name, call.args) for call in final_of(events).executable_function_calls()] == [("f", {"a": "x"})]


# ----------------------------------------------------------------- 19. content at the finish


@law
@given(streams(), st.integers(0, 20), st.integers(0, 20), flushes)
def test_19_moving_finish_and_usage_changes_no_part(stream, finish_at, usage_at, flush):
    moved = stream.events(min(finish_at, len(stream.chunks) - 1), (usage_at,))
    assert parts_of(moved, flush=flush) == stream.meaning
    final = final_of(moved, flush=flush)
    assert (final.status, final.usage_metadata.total_token_count) == ("completed", USAGE["totalTokenCount"])


# ----------------------------------------------------------------- 20. isolation


@law
@given(streams(), streams(), st.data(), flushes)
def test_20_a_second_candidate_changes_nothing(first, second, data, flush):
    """Interleaved in events of its own or in the same events, one is as if the other were not there."""
    ours, others = first.events(), second.events()
    for each in others:
        each["candidates"][0]["index"] = 1
        each["responseId"] = "r-1"
        each.pop("usageMetadata", None)
    mixed = []
    queues = [list(ours), list(others)]
    while all(queues):
        how = data.draw(st.sampled_from(["ours", "others", "both"]))
        if how == "both":
            one, other = queues[0].pop(0), queues[1].pop(0)
            mixed.append({**one, "candidates": [*one["candidates"], *other["candidates"]]})
        else:
            mixed.append(queues[how == "others"].pop(0))
    mixed += queues[0] + queues[1]
    assert parts_of(mixed, flush=flush) == first.meaning
    assert parts_of(mixed, flush=flush, candidate_index=1) == second.meaning
    assert final_of(mixed, flush=flush).status == "completed"


@law
@given(streams(), flushes)
def test_20_emitted_objects_are_never_changed_and_share_nothing(stream, flush):
    events = stream.events()
    given_events = deepcopy(events)
    responses, dumps = [], []
    for each in aggregate(events, provider="gemini", flush=flush):
        responses.append(each)
        dumps.append(each.model_dump_json())
    assert [each.model_dump_json() for each in responses] == dumps
    assert events == given_events
    for number, each in enumerate(responses):
        for part in each.parts:
            for holder in (part.part_metadata, part.function_call and part.function_call.args):
                spoil(holder)
            part.text = "spoiled"
        if each.content:
            each.content.parts.clear()
        rest = [other.model_dump_json() for other in responses[number + 1 :]]
        assert rest == dumps[number + 1 :]
    assert events == given_events


def spoil(value: object) -> None:
    if isinstance(value, dict):
        for inner in value.values():
            spoil(inner)
        value["spoiled"] = True
    elif isinstance(value, list):
        for inner in value:
            spoil(inner)
        value.append("spoiled")


@few
@given(st.lists(streams(max_sources=3), min_size=2, max_size=3), st.data())
def test_20_interleaved_streams_are_as_if_run_one_after_another(several, data):
    queues = [list(stream.events()) for stream in several]
    sources = [iter(aggregate(iter(queue), provider="gemini")) for queue in queues]
    got: list[list] = [[] for _ in several]
    alive = set(range(len(several)))
    while alive:
        number = data.draw(st.sampled_from(sorted(alive)))
        try:
            got[number].append(next(sources[number]))
        except StopIteration:
            alive.discard(number)
    for stream, responses in zip(several, got, strict=True):
        assert same_ids(responses) == same_ids(responses_of(stream.events()))


# ----------------------------------------------------------------- snapshots and boundaries


@settings(max_examples=30, deadline=None)
@given(streams(max_sources=4), flushes)
def test_a_snapshot_at_any_event_goes_on_as_if_never_stopped(stream, flush):
    events = stream.events()
    wanted = [each.model_dump() for each in run_in_steps(events, flush, set())]
    for at in range(len(events) + 1):
        assert [each.model_dump() for each in run_in_steps(events, flush, {at})] == wanted
    everywhere = run_in_steps(events, flush, set(range(len(events) + 1)))
    assert [each.model_dump() for each in everywhere] == wanted


@few
@given(streams(max_sources=3), flushes, st.data())
def test_a_snapshot_at_any_byte_goes_on_as_if_never_stopped(stream, flush, data):
    body = sse(stream.events())
    wanted = [each.model_dump() for each in run_in_steps([body], flush, set())]
    for at in data.draw(st.lists(st.integers(1, len(body) - 1), min_size=3, max_size=6)):
        cut = [body[:at], body[at:]]
        assert [each.model_dump() for each in run_in_steps(cut, flush, {1})] == wanted


@law
@given(streams(max_sources=6))
def test_the_responses_of_boundary_joined_hold_the_parts_of_close(stream):
    events = stream.events()
    close, boundary = run_in_steps(events, "close", set()), run_in_steps(events, "boundary", set())

    def kept(responses: list) -> list[dict]:
        return [part.model_dump() for each in responses if not each.partial for part in each.parts]

    assert kept(boundary) == kept(close)
    last, other = close[-1].model_dump(exclude={"content"}), boundary[-1].model_dump(exclude={"content"})
    assert last == other
