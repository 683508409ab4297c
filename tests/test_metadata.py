"""Merging what comes beside the parts."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from adk_stream.metadata import Metadata, as_wire, merge_into, merge_nested, take_snapshot


def chunk(number: int) -> dict[str, object]:
    return {"web": {"uri": f"https://e.example/{number}"}}


def support(text: str, *indices: int) -> dict[str, object]:
    return {"segment": {"text": text}, "groundingChunkIndices": list(indices)}


def merged(*messages: dict[str, Any]) -> dict[str, Any]:
    """The metadata of these messages, none of which may be changed by it."""
    before = deepcopy(messages)
    metadata = Metadata()
    for message in messages:
        metadata.add(message)
    assert messages == before
    return metadata.merged


def test_usage_is_a_running_total_in_which_nulls_erase_nothing() -> None:
    usage = {"promptTokenCount": 3, "totalTokenCount": 4}
    take_snapshot(usage, {"totalTokenCount": 9, "trafficType": None})
    take_snapshot(usage, {})
    assert usage == {"promptTokenCount": 3, "totalTokenCount": 9}


def test_grounding_is_merged_and_the_supports_indices_shifted() -> None:
    first = {"webSearchQueries": ["q"], "groundingChunks": [chunk(1)], "groundingSupports": [support("a", 0)]}
    second = {"webSearchQueries": ["q", "r"], "groundingChunks": [chunk(2)], "groundingSupports": [support("b", 0)]}
    assert merged({"grounding_metadata": first}, {"grounding_metadata": second})["grounding_metadata"] == {
        "webSearchQueries": ["q", "r"],
        "groundingChunks": [chunk(1), chunk(2)],
        "groundingSupports": [support("a", 0), support("b", 1)],
    }


def test_grounding_that_repeats_all_of_it_counts_once() -> None:
    first = {"groundingChunks": [chunk(1)], "groundingSupports": [support("a", 0)]}
    second = {
        "groundingChunks": [chunk(1), chunk(2)],
        "groundingSupports": [support("a", 0), support("b", 0, 1)],
    }
    assert merged({"grounding_metadata": first}, {"grounding_metadata": second})["grounding_metadata"] == second


def test_supports_without_chunks_of_their_own_speak_of_those_before() -> None:
    chunks = {"grounding_metadata": {"groundingChunks": [chunk(1), chunk(2)]}}
    supports = {"grounding_metadata": {"groundingSupports": [support("a", 1)]}}
    assert merged(chunks, supports)["grounding_metadata"]["groundingSupports"] == [support("a", 1)]


def test_indices_beyond_the_messages_own_chunks_speak_of_those_before() -> None:
    first = {"groundingChunks": [chunk(1), chunk(2), chunk(3)]}
    second = {"groundingChunks": [chunk(4)], "groundingSupports": [support("a", 0, 2), support("b")]}
    both = merged({"grounding_metadata": first}, {"grounding_metadata": second})["grounding_metadata"]
    assert both["groundingSupports"] == [support("a", 3, 2), support("b")]


@pytest.mark.parametrize("indices", [None, 5, "x", {}, ["x", None, 1.5, {}]])
def test_indices_that_are_none_stay_as_they_came(indices: Any) -> None:
    odd = {"groundingChunks": [chunk(1)], "groundingSupports": [{"groundingChunkIndices": indices}, 7]}
    assert merged({"grounding_metadata": odd})["grounding_metadata"] == odd


def test_citations_and_url_context_are_joined_without_repeats() -> None:
    for name, key in (("citation_metadata", "citations"), ("url_context_metadata", "urlMetadata")):
        messages = [{name: {key: items}} for items in ([{"uri": "1"}], [{"uri": "1"}, {"uri": "2"}], [])]
        assert merged(*messages) == {name: {key: [{"uri": "1"}, {"uri": "2"}]}}


def test_a_message_that_repeats_an_entry_itself() -> None:
    twice = {"citation_metadata": {"citations": [{"uri": "1"}, {"uri": "1"}]}}
    assert merged(twice)["citation_metadata"]["citations"] == [{"uri": "1"}]


def test_log_probabilities_are_joined_with_their_repeats() -> None:
    said = {"chosenCandidates": [{"token": "ha"}], "topCandidates": [{"candidates": []}]}
    both = merged({"logprobs_result": said}, {"logprobs_result": said})
    assert both["logprobs_result"]["chosenCandidates"] == [{"token": "ha"}, {"token": "ha"}]


@pytest.mark.parametrize("odd", [5, "x", [1], True])
def test_a_value_of_the_wrong_type_takes_nothing_away(odd: Any) -> None:
    right = {"citation_metadata": {"citations": [{"uri": "1"}], "more": 1}}
    for wrong in ({"citation_metadata": odd}, {"citation_metadata": {"citations": odd}}):
        if odd != [1] or wrong["citation_metadata"] == odd:
            assert merged(right, wrong) == merged(wrong, right) == right
    grounding = {"grounding_metadata": {"groundingChunks": odd, "groundingSupports": odd, "webSearchQueries": odd}}
    assert merged(grounding) == grounding


def test_anything_else_is_replaced_unless_the_newer_value_is_null() -> None:
    first, second = {"safety_ratings": [1], "avg_logprobs": -0.5}, {"safety_ratings": None, "avg_logprobs": -0.25}
    assert merged(first, second) == {"safety_ratings": [1], "avg_logprobs": -0.25}


def test_nested_objects_are_merged_key_by_key() -> None:
    old = {"a": {"b": 1, "c": [1]}, "d": 1}
    assert merge_nested(old, {"a": {"c": [2], "e": None}, "d": None}) == {"a": {"b": 1, "c": [2], "e": None}, "d": 1}
    assert old == {"a": {"b": 1, "c": [1]}, "d": 1}


json_objects = st.recursive(
    st.none() | st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
).filter(lambda value: isinstance(value, dict))


@given(st.lists(json_objects, max_size=4))
def test_merging_in_place_is_the_same_and_leaves_what_was_given_alone(messages: list[dict[str, Any]]) -> None:
    before, own, wanted = deepcopy(messages), {}, {}
    for message in messages:
        wanted = merge_nested(wanted, message)
        own = merge_into(own, message)
    assert own == wanted
    assert messages == before


def test_google_genai_objects_become_their_wire_form() -> None:
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=1)
    assert as_wire(usage) == {"promptTokenCount": 1}
    assert as_wire([usage, 2]) == [{"promptTokenCount": 1}, 2]
