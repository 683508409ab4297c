"""The live view of the Responses line agrees with the final response, at every event."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from adk_stream.errors import MalformedStreamError
from adk_stream.providers.openai_responses_state import ResponsesStreamState


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **fields}


USAGE = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
EVENTS = [
    event("created", response={"id": "resp_1", "model": "m", "status": "in_progress", "usage": None}),
    event("reasoning_summary_text.delta", output_index=0, summary_index=0, delta="one"),
    event("reasoning_summary_text.delta", output_index=0, summary_index=1, delta="two"),
    event("reasoning_text.delta", output_index=0, content_index=0, delta="deep"),
    event("output_text.delta", output_index=1, content_index=0, delta="Hel"),
    event("output_text.delta", output_index=1, content_index=0, delta="lo"),
    event("refusal.delta", output_index=1, content_index=1, delta="no"),
    event("output_item.added", output_index=2, item={"type": "function_call", "call_id": "a", "name": "f"}),
    event("output_item.added", output_index=3, item={"type": "function_call", "call_id": "b", "name": "f"}),
    event("function_call_arguments.delta", output_index=2, delta='{"a"'),
    event("function_call_arguments.delta", output_index=3, delta='{"b"'),
    event("function_call_arguments.done", output_index=2, arguments='{"a":1}'),
    event("completed", response={"id": "resp_1", "status": "completed", "output": [], "usage": USAGE}),
]


def test_everything_is_there_at_once():
    state = ResponsesStreamState(keep_events=True)
    for number, each in enumerate(EVENTS[:-1]):
        state.feed(each)
        assert state.event == each
        assert len(state.events) == number + 1
    assert state.output_text == "Hello"
    assert state.refusal == "no"
    assert state.reasoning_summary == "onetwo"
    assert state.reasoning_summaries == ["one", "two"]
    assert state.reasoning_text == "deep"
    assert state.function_arguments == {2: '{"a":1}', 3: '{"b"'}
    assert (state.status, state.ended, state.finish_reason, state.usage) == ("in_progress", False, None, None)
    state.feed(EVENTS[-1])
    assert (state.status, state.ended, state.finish_reason, state.usage) == (
        "completed",
        True,
        "completed",
        USAGE,
    )
    assert state.response_id == "resp_1"
    assert state.response == {
        "id": "resp_1",
        "model": "m",
        "status": "completed",
        "output": [],
        "usage": USAGE,
    }
    state.response["id"] = "changed"
    assert state.response["id"] == "resp_1"


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_bytes_cut_anywhere(size: int):
    body = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in EVENTS).encode()
    state = ResponsesStreamState().read(body[at : at + size] for at in range(0, len(body), size))
    assert (state.output_text, state.status) == ("Hello", "completed")
    assert state.events == []


def test_a_cut_stream_is_incomplete():
    state = ResponsesStreamState().read(EVENTS[:5])
    assert (state.output_text, state.status, state.ended) == ("Hel", "incomplete", True)


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ({"type": "error", "code": "c", "message": "m"}, "failed"),
        (event("failed", response={"status": "failed", "error": {"code": "c", "message": "m"}}), "failed"),
        (event("cancelled", response={"status": "cancelled"}), "cancelled"),
        (event("incomplete", response={"status": "incomplete"}), "incomplete"),
    ],
)
def test_ends(end: dict[str, Any], status: str):
    state = ResponsesStreamState().read([*EVENTS[:5], end])
    assert (state.status, state.output_text) == (status, "Hel")
    if status == "failed":
        assert state.error is not None
        assert (state.error.code, state.error.message) == ("c", "m")


def test_sdk_objects():
    pytest.importorskip("openai")
    from openai._models import construct_type
    from openai.types.responses import ResponseStreamEvent

    objects = [construct_type(type_=ResponseStreamEvent, value=each) for each in EVENTS]
    assert ResponsesStreamState().read(objects).output_text == "Hello"


def test_malformed():
    bad = event("output_text.delta", output_index=0, content_index=0, delta=1)
    with pytest.raises(MalformedStreamError):
        ResponsesStreamState().feed(bad)
    ResponsesStreamState(on_malformed="skip").feed(bad)


def test_it_needs_no_google_genai():
    code = (
        "import sys; from adk_stream.providers.openai_responses_state import ResponsesStreamState as S; "
        "s = S(); s.read([{'type': 'response.output_text.delta', 'output_index': 0, 'delta': 'x'}]); "
        "assert s.output_text == 'x'; assert not {'google.genai', 'pydantic'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
