"""Whatever a session holds, of whichever provider and cut wherever, each model can send it."""

from __future__ import annotations

import json

import pytest
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from wires import RECORDINGS, ask, check, result, said

from adk_stream import aggregate
from adk_stream.models import anthropic, openai_chat, openai_responses
from adk_stream.recording import load_recording

FORMS = {
    anthropic: MessageCreateParamsStreaming,
    openai_chat: CompletionCreateParamsStreaming,
    openai_responses: ResponseCreateParamsStreaming,
}
NAMES = sorted(path.name for path in RECORDINGS.glob("*.sse"))


def checked(module, request):
    body = json.loads(json.dumps(module.request_body(request)))
    for item in body.get("input", ()):
        if item.get("role") == "assistant":
            item.setdefault("id", "msg_1")  # the official type wants one; the service takes messages without
    check(FORMS[module], {"model": "m", "stream": True, **body})
    return body


def open_calls(
    value, asked=("tool_use", "function_call", "function"), answered=("tool_result", "function_call_output")
):
    """The ids of calls, and those of results, wherever they stand in a body."""
    calls, results = [], []
    if isinstance(value, dict):
        if value.get("type") in asked and ("id" in value or "call_id" in value):
            calls.append(value.get("call_id") or value["id"])
        if value.get("type") in answered or value.get("role") == "tool":
            results.append(value.get("call_id") or value.get("tool_use_id") or value["tool_call_id"])
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            inner = open_calls(each)
            calls += inner[0]
            results += inner[1]
    return calls, results


@pytest.mark.parametrize("module", FORMS, ids=lambda module: module.__name__.rpartition(".")[2])
@pytest.mark.parametrize("name", NAMES)
def test_cut_anywhere(name, module):
    recording = load_recording(RECORDINGS / name).by_event()
    pieces = [piece.data for piece in recording.pieces]
    for upto in {*range(1, len(pieces), 3), len(pieces)}:
        finals = [each for each in aggregate(pieces[:upto], recording.provider) if not each.partial]
        body = checked(module, ask("hi", *finals, "go on"))
        calls, results = open_calls(body)
        assert calls == results
        assert all(message["content"] or message.get("tool_calls") for message in body.get("messages", ()))


@pytest.mark.parametrize("module", FORMS, ids=lambda module: module.__name__.rpartition(".")[2])
@pytest.mark.parametrize("name", NAMES)
def test_tools_that_answered(name, module):
    recording = load_recording(RECORDINGS / name)
    finals = [each for each in aggregate([recording.data], recording.provider) if not each.partial]
    calls = [one for each in finals for one in each.executable_function_calls()]
    answers = [result(one.id, one.name, output="ok") for one in reversed(calls)]
    body = checked(module, ask("hi", *finals, said("and?", *answers)))
    asked, answered = open_calls(body)
    assert asked == answered
    assert {one.id for one in calls} <= set(answered)
