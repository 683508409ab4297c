"""Merging what comes beside the parts."""

from __future__ import annotations

from google.genai import types

from adk_stream.metadata import as_wire, merge_metadata, merge_nested, merge_snapshot


def chunk(number: int) -> dict[str, object]:
    return {"web": {"uri": f"https://e.example/{number}"}}


def support(text: str, *indices: int) -> dict[str, object]:
    return {"segment": {"text": text}, "groundingChunkIndices": list(indices)}


def test_usage_is_a_running_total_in_which_nulls_erase_nothing() -> None:
    merged = merge_snapshot({"promptTokenCount": 3, "totalTokenCount": 4}, {"totalTokenCount": 9, "trafficType": None})
    assert merged == {"promptTokenCount": 3, "totalTokenCount": 9}
    assert merge_snapshot(merged, {}) == merged


def test_grounding_is_merged_and_the_supports_indices_shifted() -> None:
    first = {"webSearchQueries": ["q"], "groundingChunks": [chunk(1)], "groundingSupports": [support("a", 0)]}
    second = {"webSearchQueries": ["q", "r"], "groundingChunks": [chunk(2)], "groundingSupports": [support("b", 0)]}
    merged = merge_metadata(merge_metadata({}, {"grounding_metadata": first}), {"grounding_metadata": second})
    assert merged["grounding_metadata"] == {
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
    merged = merge_metadata(merge_metadata({}, {"grounding_metadata": first}), {"grounding_metadata": second})
    assert merged["grounding_metadata"] == second


def test_supports_without_chunks_of_their_own_speak_of_those_before() -> None:
    merged = merge_metadata({}, {"grounding_metadata": {"groundingChunks": [chunk(1), chunk(2)]}})
    merged = merge_metadata(merged, {"grounding_metadata": {"groundingSupports": [support("a", 1)]}})
    assert merged["grounding_metadata"]["groundingSupports"] == [support("a", 1)]


def test_citations_and_url_context_are_joined_without_repeats() -> None:
    for name, key in (("citation_metadata", "citations"), ("url_context_metadata", "urlMetadata")):
        merged: dict[str, object] = {}
        for items in ([{"uri": "1"}], [{"uri": "1"}, {"uri": "2"}], []):
            merged = merge_metadata(merged, {name: {key: items}})
        assert merged == {name: {key: [{"uri": "1"}, {"uri": "2"}]}}


def test_log_probabilities_are_joined_with_their_repeats() -> None:
    said = {"chosenCandidates": [{"token": "ha"}], "topCandidates": [{"candidates": []}]}
    merged = merge_metadata(merge_metadata({}, {"logprobs_result": said}), {"logprobs_result": said})
    assert merged["logprobs_result"]["chosenCandidates"] == [{"token": "ha"}, {"token": "ha"}]
    assert said["chosenCandidates"] == [{"token": "ha"}], "what was given stays as it was"


def test_anything_else_is_replaced_unless_the_newer_value_is_null() -> None:
    merged = merge_metadata({}, {"safety_ratings": [1], "avg_logprobs": -0.5})
    assert merge_metadata(merged, {"safety_ratings": None, "avg_logprobs": -0.25}) == {
        "safety_ratings": [1],
        "avg_logprobs": -0.25,
    }


def test_nested_objects_are_merged_key_by_key() -> None:
    old = {"a": {"b": 1, "c": [1]}, "d": 1}
    assert merge_nested(old, {"a": {"c": [2], "e": None}, "d": None}) == {"a": {"b": 1, "c": [2], "e": None}, "d": 1}
    assert old == {"a": {"b": 1, "c": [1]}, "d": 1}


def test_google_genai_objects_become_their_wire_form() -> None:
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=1)
    assert as_wire(usage) == {"promptTokenCount": 1}
    assert as_wire([usage, 2]) == [{"promptTokenCount": 1}, 2]
