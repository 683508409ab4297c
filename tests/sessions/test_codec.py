"""The short way of events to JSON and back gives what pydantic's gives, or leaves the event to it."""

import json
import os
import pickle
from pathlib import Path

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from adk_stream import aggregate
from adk_stream.errors import AdkStreamError
from adk_stream.sessions import Event, EventActions
from adk_stream.sessions.codec import read_quickly, write_quickly
from adk_stream.sessions.stored import read_any, write_any

CORPUS = os.environ.get("ADK_STREAM_CORPUS")
LINES = ("anthropic", "gemini", "openai_chat", "openai_responses")

text = st.text(max_size=20)
count = st.none() | st.integers(0, 2**40)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(text, json_values, max_size=3)
parts = st.one_of(
    st.builds(types.Part, text=text, thought=st.none() | st.booleans(), thought_signature=st.none() | st.binary()),
    st.builds(
        types.Part,
        function_call=st.builds(types.FunctionCall, id=st.none() | text, name=text, args=st.none() | json_objects),
        part_metadata=st.none() | json_objects,
    ),
    st.builds(types.Part, function_response=st.builds(types.FunctionResponse, name=text, response=json_objects)),
    st.builds(types.Part, inline_data=st.builds(types.Blob, data=st.binary(), mime_type=text)),
    st.builds(types.Part, file_data=st.builds(types.FileData, file_uri=text, mime_type=text)),
)
details = st.builds(types.ModalityTokenCount, modality=st.sampled_from(types.MediaModality), token_count=count)
usages = st.builds(
    types.GenerateContentResponseUsageMetadata,
    prompt_token_count=count,
    total_token_count=count,
    prompt_tokens_details=st.none() | st.lists(details, max_size=2),
)
events = st.builds(
    Event,
    id=text,
    author=text,
    timestamp=st.floats(allow_nan=False, allow_infinity=False),
    branch=st.none() | text,
    content=st.none() | st.builds(types.Content, role=st.none() | text, parts=st.none() | st.lists(parts, max_size=3)),
    actions=st.builds(EventActions, state_delta=json_objects, escalate=st.none() | st.booleans()),
    long_running_tool_ids=st.none() | st.sets(text, max_size=3),
    finish_reason=st.none() | st.sampled_from(types.FinishReason),
    status=st.sampled_from([None, "completed", "incomplete"]),
    usage_metadata=st.none() | usages,
    provider_metadata=st.none() | json_objects,
    output_transcription=st.none() | st.builds(types.Transcription, text=text, finished=st.booleans()),
)


def laid_out(value):
    """Everything of a model that one can see: types, values and their order, which fields were set, what is extra."""
    if isinstance(value, BaseModel):
        fields = [(name, laid_out(each)) for name, each in value.__dict__.items()]
        return type(value), fields, value.model_fields_set, value.__pydantic_extra__, value.__pydantic_private__
    if isinstance(value, (list, tuple)):
        return [laid_out(each) for each in value]
    if isinstance(value, dict):
        return [(name, laid_out(each)) for name, each in value.items()]
    return type(value), value


def same_both_ways(event):
    """Whether the event went the short way; if so, it came to the same."""
    short, long = write_quickly(event), write_any(event)
    if short is None:
        return False
    assert laid_out(json.loads(short)) == laid_out(json.loads(long)), "the order of the keys too"
    read = read_quickly(short)
    if read is None:
        return False
    assert read == event
    assert laid_out(read) == laid_out(read_any(short))
    assert laid_out(read_any(long)) == laid_out(read_any(short)), "a number may be spelt in another way"
    assert pickle.loads(pickle.dumps(read)) == read
    return True


@given(events)
def test_usual_events_come_to_the_same_both_ways(event):
    assert same_both_ways(event)


def test_integers_of_any_size():
    assert same_both_ways(Event(provider_metadata={"n": [2**63, -(2**64), 2**70]}))


class Text(str):
    pass


class OwnPart(types.Part):
    note: str = ""


def call(args):
    return Event(content=types.Content(parts=[types.Part(function_call=types.FunctionCall(name="f", args=args))]))


def changed(**fields):
    event = Event(content=types.Content(parts=[types.Part(text="x")]))
    event.__dict__.update(fields)
    return event


LONG = {
    "a field of a newer version": Event.model_validate({"madeIn": 2030}),
    "a field of a newer version in the actions": Event(actions=EventActions.model_validate({"madeIn": 2030})),
    "a rare field": Event(grounding_metadata=types.GroundingMetadata(web_search_queries=["x"])),
    "a rare field of a part": Event(content=types.Content(parts=[types.Part(executable_code={"code": "1"})])),
    "somebody's own part": Event(content=types.Content(parts=[OwnPart(text="x", note="y")])),
    "half of a surrogate pair": Event(author="\ud83d"),
    "half of a surrogate pair in a key": call({"\ud83d": 1}),
    "an integer that Python refuses to write": call({"n": 10**5000}),
    "no number": call({"n": [float("nan")]}),
    "no number of the event's own": changed(avg_logprobs=float("inf")),
    "bytes among values": call({"b": b"x"}),
    "a model among values": call({"m": types.Part(text="x")}),
    "a tuple": call({"t": (1, 2)}),
    "a key that is no string": call({"inner": {1: 2}}),
    "a string of another class": Event(provider_metadata={"a": Text("x")}),
    "an artifact": Event(actions=EventActions(artifact_delta={"f": 1})),
    "a word nobody knows": changed(status="new"),
    "a value of a wrong type": changed(content=[1]),
    "another wrong type": changed(finish_reason=[]),
    "an integer as time": changed(timestamp=7),
}


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize("event", LONG.values(), ids=LONG)
def test_anything_else_is_left_to_pydantic(event):
    assert write_quickly(event) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"id": ""},  # a new one is made
        {"id": None},
        {"timestamp": 7},
        {"timestamp": "7"},
        {"actions": None},
        {"madeIn": 2030},
        {"invocation_id": "by its other name"},
        {"finishReason": "A_NEW_ONE"},
        {"finishReason": "stop"},
        {"status": ["completed"]},
        {"partial": 1},
        {"author": 7},
        {"longRunningToolIds": "ab"},
        {"longRunningToolIds": [1]},
        {"content": {"parts": {}}},
        {"content": {"parts": [7]}},
        {"content": {"parts": [{"thoughtSignature": "-_-_"}]}},
        {"content": {"parts": [{"thoughtSignature": "ä"}]}},
        {"content": {"parts": [{"thoughtSignature": 7}]}},
        {"content": {"parts": [{"text": "x", "new": 1}]}},
        {"actions": {"stateDelta": {}}},
        {"actions": {"stateDelta": {}, "artifactDelta": {"a": "1"}}},
    ],
    ids=repr,
)
def test_texts_that_need_pydantic(changes):
    usual = json.loads(write_quickly(Event(author="a")))
    assert read_quickly(json.dumps(usual)) is not None
    assert read_quickly(json.dumps(usual | changes)) is None
    missing = {key: value for key, value in usual.items() if key not in changes}
    assert (read_quickly(json.dumps(missing)) is None) == bool(changes.keys() & {"id", "timestamp", "actions"})


@pytest.mark.parametrize(
    "damaged", ["", "{", "[]", "null", "7", '{"timestamp": NaN}', "[" * 100_000, '{"a":"\\ud83d"}']
)
def test_damaged_text(damaged):
    assert read_quickly(damaged) is None


def test_events_that_were_read_share_nothing():
    written = write_quickly(call({"a": [1]}))
    one, two = read_quickly(written), read_quickly(written)
    one.actions.state_delta["x"] = 1
    one.content.parts[0].function_call.args["a"].append(2)
    one.model_extra["x"] = 1
    one.model_fields_set.clear()
    assert laid_out(two) == laid_out(read_any(written)) == laid_out(read_quickly(written))


@pytest.mark.skipif(not CORPUS, reason="ADK_STREAM_CORPUS does not name a folder of recordings")
def test_recorded_answers_come_to_the_same_and_most_are_usual():
    quick = []
    for path in sorted(path for line in LINES for path in Path(CORPUS, line).rglob("*.*")):
        try:
            for response in aggregate([path.read_bytes()], flush="close"):
                if not response.partial:
                    quick.append(same_both_ways(Event.from_response(response, author="model", invocation_id="i")))
        except AdkStreamError:
            continue
    assert len(quick) > 20
    assert sum(quick) > 0.8 * len(quick)
