"""The JSON text that stores hold."""

import json
from datetime import UTC, datetime

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from adk_stream.errors import SessionError
from adk_stream.sessions import Event, Session
from adk_stream.sessions.stored import prepare, read_event

SESSION = Session(id="s", app_name="a", user_id="u")

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
any_text = st.text(st.characters(exclude_categories=())) | st.text()


def text_of(event):
    return prepare(SESSION, event)[0].text


def with_args(args, **part):
    call = types.FunctionCall(name="f", args=args)
    return Event(content=types.Content(role="model", parts=[types.Part(function_call=call, **part)]))


@given(text=any_text, args=st.dictionaries(any_text, json_values | any_text, max_size=4), signature=st.binary())
def test_any_text_arguments_and_signature_come_back(text, args, signature):
    event = with_args(args, thought_signature=signature)
    event.content.parts.append(types.Part(text=text))
    written = text_of(event)
    written.encode()  # a database holds UTF-8
    assert read_event(written) == event


@given(args=st.dictionaries(any_text, json_values, max_size=2))
def test_any_metadata_comes_back(args):
    event = Event(provider_metadata=args, custom_metadata=args)
    assert read_event(text_of(event)) == event


def test_the_text_is_compact_camel_case_with_standard_base64():
    event = Event(
        id="e",
        author="model",
        invocation_id="i",
        timestamp=1.5,
        long_running_tool_ids={"b", "a"},
        finish_reason=types.FinishReason.STOP,
        content=types.Content(parts=[types.Part(text="é", thought_signature=b"\xfb\xff\xfe")]),
    )
    assert text_of(event) == (
        '{"content":{"parts":[{"text":"é","thoughtSignature":"+//+"}]},"finishReason":"STOP","id":"e",'
        '"invocationId":"i","author":"model","timestamp":1.5,"actions":{"stateDelta":{},"artifactDelta":{},'
        '"requestedAuthConfigs":{},"requestedToolConfirmations":{}},"longRunningToolIds":["a","b"]}'
    )


def test_values_that_only_python_knows():
    args = {"at": datetime(2026, 1, 2, tzinfo=UTC), "raw": b"\xff", "pair": (1, 2), "nan": float("nan")}
    args["model"] = types.Part(text="x")
    [part] = json.loads(text_of(with_args(args)))["content"]["parts"]
    stored = part["functionCall"]["args"]
    assert stored.pop("model")["text"] == "x"
    assert stored == {"at": "2026-01-02T00:00:00Z", "raw": "/w==", "pair": [1, 2], "nan": None}
    with pytest.raises(SessionError):
        text_of(with_args({"thing": object()}))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"author": 7}', '{"timestamp": NaN}', "[" * 100_000])
def test_damaged_text(text):
    with pytest.raises(SessionError):
        read_event(text)
