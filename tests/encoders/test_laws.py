"""What holds for every stream in every format: one start, any deltas, one end; nothing told twice, nothing lost."""

import asyncio
import json
from collections import Counter

import pytest
from encoder_readers import read_ag_ui, read_chat, read_vercel
from encoder_streams import encoded, streams
from hypothesis import given, settings
from hypothesis import strategies as st

from adk_stream import LlmResponse, aggregate
from adk_stream.encoders import AgUiEncoder, OpenAIChatEncoder, VercelEncoder

few = settings(max_examples=60, deadline=None)


def whole_arguments(told, run):
    for name, args in run.calls.items():
        assert json.loads(told.arguments[name]) == args


@few
@given(streams())
def test_vercel(run):
    told = read_vercel(encoded(VercelEncoder("m"), run.responses))
    assert (told.text, told.thoughts) == (run.text, run.thoughts)
    assert told.ready == run.calls
    assert told.results == run.results
    whole_arguments(told, run)
    assert told.ended - {key for key in told.ended if isinstance(key, tuple)} == {*told.arguments}
    if run.whole:
        assert told.end == ("tool-calls" if set(run.calls) - set(run.results) else "stop")
    else:
        assert told.end == "error"


@few
@given(streams())
def test_ag_ui(run):
    told = read_ag_ui(encoded(AgUiEncoder("t", "r"), run.responses))
    assert (told.text, told.thoughts) == (run.text, run.thoughts)
    assert told.results == run.results
    whole_arguments(told, run)
    if run.whole:
        waiting = told.end["outcome"].get("pendingToolCallIds") or []
        assert waiting == [name for name in run.calls if name not in run.results]
    else:
        assert told.end["type"] == "RUN_ERROR"
        assert told.end["code"] == "STREAM_CUT"


@few
@given(streams())
def test_openai_chat(run):
    told = read_chat(encoded(OpenAIChatEncoder("gpt"), run.responses))
    assert (told.text, told.thoughts) == (run.text, run.thoughts)
    whole_arguments(told, run)
    waiting = set(run.calls) - set(run.results)
    assert told.end == (("tool_calls" if waiting else "stop") if run.whole else None)


@few
@given(streams(), st.data())
def test_left_anywhere_everything_is_closed(run, data):
    """The consumer is cancelled, or an error comes, between any two responses."""
    count = data.draw(st.integers(0, len(run.responses)))
    responses = run.responses[:count]
    told = read_vercel(encoded(VercelEncoder("m"), responses, asyncio.CancelledError()))
    assert told.end == "other"
    assert not set(told.ready) & told.broken
    told = read_ag_ui(encoded(AgUiEncoder("t", "r"), responses, asyncio.CancelledError()))
    assert told.end["outcome"] == {"type": "cancelled"}
    told = read_chat(encoded(OpenAIChatEncoder("gpt"), responses, ValueError("broken")))
    assert told.end is None


@few
@given(streams())
def test_events_are_json_and_share_nothing(run):
    encoder = VercelEncoder("m")
    events = encoded(encoder, run.responses)
    before = [encoder.frame(event) for event in events]
    for frame, event in zip(before, events, strict=True):
        assert frame.startswith(b"data: ")
        assert frame.endswith(b"\n\n")
        assert frame.count(b"\n") == 2
        if event != "[DONE]":
            assert json.loads(frame[6:]) == event
            event.clear()
    again = encoded(VercelEncoder("m"), run.responses)
    assert [encoder.frame(event) for event in again] == before


READERS = [(VercelEncoder, read_vercel), (lambda: AgUiEncoder("t", "r"), read_ag_ui)]


@pytest.mark.parametrize(("encoder", "read"), READERS)
def test_parts_that_came_interleaved_are_told_once(encoder, read):
    """A later final holds what was shown before an earlier one."""
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{"}}
    rest = {"index": 0, "function": {"arguments": "}"}}
    thought = {"reasoning_content": "0"}
    deltas = [thought, {"tool_calls": [call]}, {"content": "0"}, thought, {"tool_calls": [rest]}]
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    responses = list(aggregate(chunks, provider="openai-chat", flush="boundary"))
    told = read(encoded(encoder(), responses))
    assert (told.text, told.thoughts) == ("0", "00")


@pytest.mark.parametrize(("encoder", "read"), READERS)
def test_what_no_final_holds_hides_nothing_of_the_next(encoder, read):
    said = [("ab", True, "in_progress"), ("a", False, "in_progress"), ("c", False, "completed")]
    responses = [
        LlmResponse(content={"role": "model", "parts": [{"text": text}]}, partial=partial, status=status)
        for text, partial, status in said
    ]
    assert read(encoded(encoder(), responses)).text == "abc"


@pytest.mark.parametrize(
    "encoder", [VercelEncoder(), AgUiEncoder("t"), OpenAIChatEncoder("gpt")], ids=lambda e: type(e).__name__
)
def test_finish_is_once(encoder):
    assert encoder.finish()
    assert encoder.finish() == []
    assert encoder.finish(ValueError()) == []
    with pytest.raises(ValueError, match="finished"):
        encoder.encode(None)


@few
@given(streams())
def test_usage_is_the_sum_of_the_rounds(run):
    events = encoded(OpenAIChatEncoder("gpt", include_usage=True), run.responses)
    counts = [r.usage_metadata for r in run.responses if not r.partial and r.usage_metadata]
    usage = [event["usage"] for event in events if event != "[DONE]" and "usage" in event]
    if run.whole and counts:
        assert [use["total_tokens"] for use in usage] == [sum(count.total_token_count for count in counts)]
        assert events[-2]["choices"] == []
    else:
        assert usage == []
    assert Counter(event == "[DONE]" for event in events)[True] == run.whole
