"""Responses and events, there and back again."""

from __future__ import annotations

import base64

import pytest

pytest.importorskip("google.adk", reason="google-adk is not installed")

from google.adk.events.event import Event as AdkEvent
from google.adk.events.event_actions import EventActions as AdkEventActions
from google.adk.events.event_actions import EventCompaction
from google.adk.models.cache_metadata import CacheMetadata
from google.adk.models.llm_response import LlmResponse as AdkLlmResponse
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st

from adk_stream import LlmResponse
from adk_stream.integrations.google_adk import from_adk_event, from_adk_response, to_adk_event, to_adk_response
from adk_stream.sessions import Event, EventActions

SIGNATURE = bytes(range(256))
CALL = types.FunctionCall(id="1", name="f", args={"a": [1, {"b": None}]})

kept_parts = st.sampled_from(
    [
        types.Part(text="x", thought=True, thought_signature=SIGNATURE),
        types.Part(text="y", part_metadata={"anthropic": {"citations": [1]}}),
        types.Part(function_call=CALL, thought_signature=b"\xff"),
        types.Part(inline_data=types.Blob(mime_type="image/png", data=SIGNATURE)),
        types.Part(thought_signature=SIGNATURE),
        types.Part(function_response=types.FunctionResponse(id="1", name="f", response={"ok": True})),
    ]
)
withheld_parts = st.sampled_from(
    [
        types.Part(function_call=types.FunctionCall(id="2", name="cut"), part_metadata={"unfinished": True}),
        types.Part(
            function_call=types.FunctionCall(id="3", name="bad"),
            part_metadata={"raw_arguments": "{"},
            thought_signature=SIGNATURE,
        ),
        types.Part(function_call=CALL, part_metadata={"server_tool": True}),
        types.Part(
            function_response=types.FunctionResponse(id="4", name="s", response={}), part_metadata={"server_tool": True}
        ),
    ]
)
json_values = st.dictionaries(st.sampled_from("abc"), st.one_of(st.integers(), st.text(max_size=3), st.none()))

fields = {
    "content": st.one_of(
        st.none(),
        st.builds(
            types.Content, role=st.just("model"), parts=st.lists(st.one_of(kept_parts, withheld_parts), min_size=1)
        ),
    ),
    "partial": st.sampled_from([True, False, None]),
    "status": st.sampled_from([None, "completed", "incomplete", "failed"]),
    "finish_reason": st.sampled_from([None, types.FinishReason.STOP, types.FinishReason.OTHER]),
    "native_finish_reason": st.sampled_from([None, "end_turn"]),
    "response_id": st.sampled_from([None, "r-1"]),
    "error_code": st.sampled_from([None, "STREAM_CUT"]),
    "safety_ratings": st.sampled_from(
        [None, [types.SafetyRating(category="HARM_CATEGORY_HARASSMENT", probability="LOW", blocked=True)]]
    ),
    "url_context_metadata": st.sampled_from(
        [None, types.UrlContextMetadata(url_metadata=[types.UrlMetadata(retrieved_url="https://e.org")])]
    ),
    "provider_metadata": st.one_of(st.none(), json_values.map(lambda value: {"provider": "anthropic", **value})),
    "custom_metadata": st.one_of(st.none(), json_values.filter(bool)),
    "usage_metadata": st.sampled_from([None, types.GenerateContentResponseUsageMetadata(total_token_count=5)]),
    "turn_complete_reason": st.sampled_from([None, types.TurnCompleteReason.MALFORMED_FUNCTION_CALL]),
    "output_transcription": st.sampled_from([None, types.Transcription(text="hi", finished=True, language_code="de")]),
    "interaction_status": st.sampled_from([None, "IDLE"]),
    "cache_metadata": st.sampled_from([None, {"fingerprint": "f", "contents_count": 2}]),
}
responses = st.fixed_dictionaries({}, optional=fields).map(lambda chosen: LlmResponse(**chosen))


def given_back(response: LlmResponse) -> LlmResponse:
    there = to_adk_response(response)
    # a store of google-adk's writes JSON
    return from_adk_response(AdkLlmResponse.model_validate_json(there.model_dump_json(exclude_none=True)))


@given(responses)
@settings(max_examples=60, deadline=None)
def test_a_response_of_ours_comes_back(response):
    before = response.model_copy(deep=True)
    there = to_adk_response(response)
    assert from_adk_response(there).model_dump() == response.model_dump()
    assert given_back(response).model_dump() == response.model_dump()
    assert all(part.function_call is None or part.function_call.args for part in parts_of(there))
    for part in parts_of(there):
        part.text = "changed"
    assert response == before


def parts_of(response):
    return (response.content.parts or []) if response.content else []


@given(responses, st.sets(st.sampled_from("abc")), json_values)
@settings(max_examples=40, deadline=None)
def test_an_event_of_ours_comes_back(response, slow, state):
    event = Event.from_response(response, author="model", invocation_id="e-1")
    event.long_running_tool_ids = slow or None
    event.branch = "a.b"
    event.actions = EventActions(state_delta=state, transfer_to_agent="b", newer={"field": 1})
    assert from_adk_event(to_adk_event(event)).model_dump() == event.model_dump()


def test_an_event_of_google_adk_comes_back():
    content = types.Content(role="user", parts=[types.Part(text="x", thought_signature=SIGNATURE)])
    event = AdkEvent(
        author="a",
        invocation_id="i",
        content=content,
        branch="a.b",
        output={"any": ["thing"]},
        isolation_scope="s",
        long_running_tool_ids={"1", "2"},
        cache_metadata=CacheMetadata(fingerprint="f", contents_count=2),
        custom_metadata={"mine": 1},
        actions=AdkEventActions(
            state_delta={"k": {"deep": [1]}},
            artifact_delta={"f": 2},
            escalate=True,
            compaction=EventCompaction(start_timestamp=1, end_timestamp=2, compacted_content=content),
            agent_state={"at": 3},
        ),
    )
    event.node_info.path = "wf/A@1"
    own = from_adk_event(event)
    assert own.content == content
    assert to_adk_event(own) == event
    # and through the text that our stores write
    stored = Event.model_validate_json(own.model_dump_json(by_alias=True, exclude_none=True))
    assert to_adk_event(stored) == event


def test_a_call_without_arguments_is_google_adks_to_run():
    event = AdkEvent(content=types.Content(role="model", parts=[types.Part(function_call={"name": "f"})]))
    assert to_adk_event(from_adk_event(event)).get_function_calls() == event.get_function_calls()


def test_our_extras_have_one_key():
    response = LlmResponse(status="completed", response_id="r", custom_metadata={"mine": 1})
    assert to_adk_response(response).custom_metadata == {
        "mine": 1,
        "adk_stream": {"status": "completed", "response_id": "r"},
    }


def test_state_without_a_json_form_is_kept_as_google_adk_keeps_it():
    event = AdkEvent(author="a", actions=AdkEventActions(state_delta={"f": len}))
    assert from_adk_event(event).actions.state_delta == {"f": repr(len)}


def test_bytes_stay_bytes():
    part = types.Part(inline_data=types.Blob(mime_type="audio/pcm", data=SIGNATURE))
    event = Event(author="m", content=types.Content(role="model", parts=[part]))
    assert to_adk_event(event).content.parts[0].inline_data.data == SIGNATURE
    assert base64.b64encode(SIGNATURE).decode() in event.model_dump_json()
