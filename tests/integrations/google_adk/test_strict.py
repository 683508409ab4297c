"""With ``strict_adk`` the results are google-adk's own, wherever none of its known faults plays a part."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("google.adk", reason="google-adk is not installed")

from chunks import call, chunk, run, text, texts
from google.adk.features import FeatureName
from google.adk.features._feature_registry import temporary_feature_override
from google.adk.utils.streaming_utils import StreamingResponseAggregator as AdkAggregator
from hypothesis import given, settings
from hypothesis import strategies as st
from releases import as_observed

from adk_stream.integrations.google_adk import StrictStreamingResponseAggregator

words = st.text("abc é漢🎈\n", min_size=1, max_size=6)
signatures = st.sampled_from(["c2lnMQ==", "c2lnMg=="])
names = st.sampled_from(["f", "g", "h"])
arguments = st.dictionaries(
    st.sampled_from("abc"), st.one_of(words, st.integers(0, 9), st.booleans()), min_size=1, max_size=2
)
fractions = st.floats(0, 9).filter(lambda value: value != int(value))  # whole numbers become floats there
#: One kind of value for each path: what conflicts is another matter.
path_values = st.one_of(
    words.map(lambda value: {"jsonPath": "$.a", "stringValue": value}),
    words.map(lambda value: {"jsonPath": "$['d e'].f", "stringValue": value}),
    st.booleans().map(lambda value: {"jsonPath": "$.b", "boolValue": value}),
    fractions.map(lambda value: {"jsonPath": "$.c[0]", "numberValue": value}),
    st.just({"jsonPath": "$.c[1].d", "nullValue": "NULL_VALUE"}),
)


@st.composite
def text_parts(draw):
    """Pieces of text and thought. A run is signed once at most: google-adk keeps one signature of it."""
    parts = []
    signed = None
    for piece in draw(st.lists(words, min_size=1, max_size=4)):
        part = text(piece)
        if draw(st.booleans()):
            part["thought"] = True
        if draw(st.integers(0, 5)) == 0 and signed != part.get("thought"):
            part["thoughtSignature"] = draw(signatures)
        parts.append([part])
    return parts


@st.composite
def streamed_call(draw, number):
    """A call in fragments, with an id from its first or none; closed before anything else is said."""
    named = {"id": f"m{number}"} if draw(st.booleans()) else {}
    fragments = [
        {"partialArgs": [each], "willContinue": True} for each in draw(st.lists(path_values, min_size=1, max_size=4))
    ]
    parts = [{**fragments[0], "name": draw(names), **named}, *fragments[1:]]
    closing = draw(st.sampled_from([{}, {"willContinue": False}]))
    return [[call(**{**part, **({"name": part["name"]} if "name" in part else {})})] for part in [*parts, closing]]


@st.composite
def whole_calls(draw, number):
    """Complete calls, several in a chunk or one in each."""
    calls = []
    for place in range(draw(st.integers(1, 3))):
        part = call(draw(names), args=draw(arguments))
        if draw(st.booleans()):
            part["functionCall"]["id"] = f"m{number}.{place}"
        if draw(st.integers(0, 3)) == 0:
            part["thoughtSignature"] = draw(signatures)
        calls.append(part)
    return [calls] if draw(st.booleans()) else [[each] for each in calls]


others = st.sampled_from(
    [
        {"executableCode": {"language": "PYTHON", "code": "1 + 1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"text": "", "thoughtSignature": "c2lnMQ=="},
    ]
)


@st.composite
def streams(draw):
    """Chunks of a whole turn, in none of the shapes that google-adk is known to get wrong."""
    said: list[list[dict]] = []
    for number in range(draw(st.integers(1, 5))):
        said += draw(
            st.one_of(text_parts(), streamed_call(number), whole_calls(number), others.map(lambda part: [[part]]))
        )
    usage = draw(st.sampled_from([None, {"promptTokenCount": 3, "candidatesTokenCount": 4, "totalTokenCount": 7}]))
    reason = draw(st.sampled_from(["STOP", "MAX_TOKENS", "SAFETY", "RECITATION"]))
    chunks = [{"parts": parts} for parts in said]
    chunks[-1].update(finish=reason, usage=usage)
    if draw(st.booleans()):
        chunks[-1]["candidate"] = {"groundingMetadata": {"webSearchQueries": ["q"]}, "finishMessage": "so"}
    return [chunk(*each.pop("parts"), **each) for each in map(dict, chunks)]


def plain(response, ids):
    """As JSON, made ids by the order in which they appear."""
    if response is None:
        return None
    data = response.model_dump(mode="json", exclude_none=True)
    for part in (data.get("content") or {}).get("parts") or ():
        if part.get("thought") is False:
            del part["thought"]
        made = (part.get("function_call") or {}).get("id", "")
        if made.startswith("adk-"):
            part["function_call"]["id"] = ids.setdefault(made, f"made-{len(ids)}")
    return json.loads(json.dumps(data, sort_keys=True))


def both(chunks):
    """What google-adk's own aggregator gives, and what ours gives."""
    results = []
    for cls in (AdkAggregator, StrictStreamingResponseAggregator):
        ids: dict[str, str] = {}
        given, final = run(cls(), [each.model_copy(deep=True) for each in chunks])
        results.append([plain(each, ids) for each in [*given, final]])
    return results


@as_observed
@given(streams())
@settings(max_examples=200, deadline=None)
def test_progressive_results_are_google_adks(chunks):
    theirs, ours = both(chunks)
    assert ours == theirs


@as_observed
@given(st.lists(words, min_size=1, max_size=5), st.sampled_from(["STOP", "MAX_TOKENS"]))
@settings(max_examples=40, deadline=None)
def test_classic_results_of_texts_are_google_adks(pieces, reason):
    chunks = [chunk(text(piece)) for piece in pieces[:-1]] + [chunk(text(pieces[-1]), finish=reason)]
    with temporary_feature_override(FeatureName.PROGRESSIVE_SSE_STREAMING, False):
        theirs, ours = both(chunks)
    assert ours == theirs


@pytest.mark.parametrize("progressive", [True, False])
def test_what_google_adks_tests_hold(progressive):
    with temporary_feature_override(FeatureName.PROGRESSIVE_SSE_STREAMING, progressive):
        empty = chunk(candidate={"content": {"parts": []}}, finish="STOP")
        given, final = run(StrictStreamingResponseAggregator(), [empty])
        assert (len(given), given[0].error_code, final.content) == (1, None, None)
        assert given[0].content is not None
        blocked = type(empty).model_validate({"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "no"}})
        given, final = run(StrictStreamingResponseAggregator(), [blocked])
        assert (len(given), final.error_code, final.error_message, final.content) == (1, "SAFETY", "no", None)
        _, final = run(StrictStreamingResponseAggregator(), [chunk(text("no end was told"))])
        assert (final.error_code, final.custom_metadata) == (None, None)


def test_classic_gives_the_merged_text_with_the_chunk_that_ends_it():
    with temporary_feature_override(FeatureName.PROGRESSIVE_SSE_STREAMING, False):
        given, _ = run(
            StrictStreamingResponseAggregator(),
            [chunk(text("a")), chunk(text("b")), chunk(candidate={"content": {"parts": []}}, finish="STOP")],
        )
    assert [texts(each) for each in given if each.partial is False] == [["ab"]]
