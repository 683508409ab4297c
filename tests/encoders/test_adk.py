"""The events of google-adk's server; where google-adk is installed, its own ``Event`` reads them."""

import json

import pytest
from encoder_streams import encoded, gemini
from google.genai import types

from adk_stream.encoders import AdkEncoder
from adk_stream.sessions import Event

CALL = {"functionCall": {"id": "a", "name": "f", "args": {"x": 1}}}


def test_adk():
    encoder = AdkEncoder(author="agent", invocation_id="i", clock=lambda: 7.5)
    responses = gemini([{"text": "Hel"}], [{"text": "lo"}], [{"text": "!", "thoughtSignature": "+/8="}])
    events = encoded(encoder, responses)
    assert len({event["id"] for event in events}) == 1
    assert json.loads(encoder.frame(events[0])[6:]) == events[0]
    assert events[0] == {
        "content": {"parts": [{"text": "Hel"}], "role": "model"},
        "partial": True,
        "customMetadata": {"adk_stream": {"status": "in_progress"}},
        "id": events[0]["id"],
        "author": "agent",
        "invocationId": "i",
        "timestamp": 7.5,
        "actions": {
            "stateDelta": {},
            "artifactDelta": {},
            "requestedAuthConfigs": {},
            "requestedToolConfirmations": {},
        },
    }
    assert events[-1]["content"]["parts"][-1]["thoughtSignature"] == "-_8="
    assert events[-1]["finishReason"] == "STOP"
    assert not {"status", "responseId", "nativeFinishReason", "providerMetadata"} & set(events[-1])
    assert encoder.finish() == []
    [problem] = encoded(AdkEncoder(clock=lambda: 7.5), [], ValueError("bad"))
    details = {"error_type": "ValueError", "error_message": "bad", "timestamp": 7.5}
    assert problem == {"error": "ValueError: bad", "error_details": details}


def test_adk_keeps_what_an_event_says():
    event = Event(id="e", author="me", invocation_id="i", timestamp=1.5, content=types.Content(parts=[]))
    [told] = AdkEncoder().encode(event)
    assert (told["id"], told["author"], told["invocationId"], told["timestamp"]) == ("e", "me", "i", 1.5)


def test_adk_reads_its_events():
    adk = pytest.importorskip("google.adk.events", reason="google-adk is not installed")
    responses = gemini([{"text": "so", "thought": True, "thoughtSignature": "+/8="}], [{"text": "hi"}], [CALL])
    for event in encoded(AdkEncoder(), responses):
        read = adk.Event.model_validate_json(json.dumps(event))
        dumped = read.model_dump(mode="json", by_alias=True, exclude_none=True)
        assert dumped["content"] == event["content"]
        assert dumped["id"] == event["id"]
