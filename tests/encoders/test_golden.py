"""Small examples, written out."""

import asyncio
import json
import time

import pytest
from encoder_streams import answer, encoded, gemini, results
from google.genai import types

from adk_stream import LlmResponse
from adk_stream.encoders import AdkEncoder, AgUiEncoder, NativeEncoder, OpenAIChatEncoder, VercelEncoder

HELLO = [[{"text": "Hel"}], [{"text": "lo"}]]
CALL = {"functionCall": {"id": "a", "name": "f", "args": {"x": 1}}}

SIGNED = {**CALL, "thoughtSignature": "c2ln"}

ENCODERS = {
    "native": NativeEncoder,
    "adk": AdkEncoder,
    "ag-ui": lambda: AgUiEncoder("t"),
    "vercel": VercelEncoder,
    "openai-chat": lambda: OpenAIChatEncoder("gpt"),
}


def vercel(responses, error=None):
    return encoded(VercelEncoder("m"), responses, error)


@pytest.mark.parametrize("flush", ["close", "boundary"])
def test_vercel_text(flush):
    assert vercel(gemini(*HELLO, flush=flush)) == [
        {"type": "start", "messageId": "m"},
        {"type": "start-step"},
        {"type": "text-start", "id": "1"},
        {"type": "text-delta", "id": "1", "delta": "Hel"},
        {"type": "text-delta", "id": "1", "delta": "lo"},
        {"type": "text-end", "id": "1"},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "stop"},
        "[DONE]",
    ]


def test_vercel_tool_rounds():
    responses = [*gemini([CALL]), results(answer("a", {"result": 2})), *gemini([{"text": "two"}])]
    assert vercel(responses)[1:-2] == [
        {"type": "start-step"},
        {"type": "tool-input-start", "toolCallId": "a", "toolName": "f"},
        {"type": "tool-input-delta", "toolCallId": "a", "inputTextDelta": '{"x":1}'},
        {"type": "tool-input-available", "toolCallId": "a", "toolName": "f", "input": {"x": 1}},
        {"type": "finish-step"},
        {"type": "tool-output-available", "toolCallId": "a", "output": {"result": 2}},
        {"type": "start-step"},
        {"type": "text-start", "id": "1"},
        {"type": "text-delta", "id": "1", "delta": "two"},
        {"type": "text-end", "id": "1"},
        {"type": "finish-step"},
    ]


def test_vercel_cancelled_in_a_call():
    responses = gemini([{"functionCall": {"id": "a", "name": "f", "willContinue": True}}], [])[:1]
    assert vercel(responses, asyncio.CancelledError())[2:] == [
        {"type": "tool-input-start", "toolCallId": "a", "toolName": "f"},
        {
            "type": "tool-input-error",
            "toolCallId": "a",
            "toolName": "f",
            "input": "",
            "errorText": "the call did not come whole",
        },
        {"type": "finish-step"},
        {"type": "abort", "reason": "STREAM_CANCELLED"},
        {"type": "finish", "finishReason": "other"},
        "[DONE]",
    ]


def test_vercel_failed():
    final = LlmResponse(status="failed", error_code="overloaded", error_message="too many")
    assert vercel([final], RuntimeError("the same, raised"))[-3:] == [
        {"type": "error", "errorText": "too many"},
        {"type": "finish", "finishReason": "error"},
        "[DONE]",
    ]
    assert vercel([], RuntimeError("early"))[-3]["errorText"] == "early"
    assert vercel([])[-3]["errorText"] == "the stream ended before the model had"


def test_vercel_headers():
    assert VercelEncoder.headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert VercelEncoder.headers["content-type"].startswith("text/event-stream")


def test_ag_ui():
    responses = gemini([{"text": "so", "thought": True, "thoughtSignature": "c2ln"}], [{"text": "hi"}], [SIGNED])
    encoder = AgUiEncoder("t", "r")
    frames = [encoder.frame(event).decode() for event in encoded(encoder, responses)]
    assert all(frame.startswith("data: ") and frame.endswith("\n\n") for frame in frames)
    assert [json.loads(frame[6:]) for frame in frames] == [
        {"type": "RUN_STARTED", "threadId": "t", "runId": "r"},
        {"type": "REASONING_START", "messageId": "r-1"},
        {"type": "REASONING_MESSAGE_START", "messageId": "r-1", "role": "reasoning"},
        {"type": "REASONING_MESSAGE_CONTENT", "messageId": "r-1", "delta": "so"},
        {"type": "REASONING_MESSAGE_END", "messageId": "r-1"},
        {"type": "REASONING_END", "messageId": "r-1"},
        {"type": "TEXT_MESSAGE_START", "messageId": "r-2", "role": "assistant"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "r-2", "delta": "hi"},
        {"type": "TEXT_MESSAGE_END", "messageId": "r-2"},
        {"type": "TOOL_CALL_START", "toolCallId": "a", "toolCallName": "f", "parentMessageId": "r-2"},
        {"type": "TOOL_CALL_ARGS", "toolCallId": "a", "delta": '{"x":1}'},
        {
            "type": "REASONING_ENCRYPTED_VALUE",
            "subtype": "message",
            "entityId": "r-1",
            "encryptedValue": "c2ln",
        },
        {"type": "TOOL_CALL_END", "toolCallId": "a"},
        {
            "type": "REASONING_ENCRYPTED_VALUE",
            "subtype": "tool-call",
            "entityId": "a",
            "encryptedValue": "c2ln",
        },
        {
            "type": "RUN_FINISHED",
            "threadId": "t",
            "runId": "r",
            "outcome": {"type": "success", "pendingToolCallIds": ["a"]},
        },
    ]


def test_openai_chat():
    encoder = OpenAIChatEncoder("gpt", message_id="c", clock=lambda: 7.9)
    events = encoded(encoder, gemini([{"text": "so", "thought": True}], [{"text": "hi"}]))
    assert events[-1] == "[DONE]"
    assert encoder.frame("[DONE]") == b"data: [DONE]\n\n"
    assert all(
        event.items() >= {"id": "c", "object": "chat.completion.chunk", "created": 7, "model": "gpt"}.items()
        for event in events[:-1]
    )
    assert [event["choices"] for event in events[:-1]] == [
        [{"index": 0, "delta": delta, "finish_reason": reason}]
        for delta, reason in [
            ({"role": "assistant", "content": ""}, None),
            ({"reasoning_content": "so"}, None),
            ({"content": "hi"}, None),
            ({}, "stop"),
        ]
    ]


def test_a_name_that_comes_after_the_arguments():
    def piece(name, text):
        call = types.FunctionCall(id="a", name=name, will_continue=True)
        part = types.Part(function_call=call, part_metadata={"arguments_delta": text})
        return LlmResponse(content=types.Content(role="model", parts=[part]), partial=True)

    events = encoded(OpenAIChatEncoder("gpt"), [piece(None, '{"x"'), piece("f", ":1}")], ValueError())
    calls = [event["choices"][0]["delta"]["tool_calls"][0] for event in events[1:-1]]
    assert calls[0]["function"] == {"name": "f", "arguments": ""}
    assert [call["function"]["arguments"] for call in calls[1:]] == ['{"x"', ":1}"]


def test_what_is_no_call_for_the_client():
    metadata = {"server_tool": {"type": "web_search_call", "id": "w"}}
    final = LlmResponse(
        content=types.Content(
            role="model",
            parts=[
                types.Part(part_metadata=metadata),
                types.Part(function_call=types.FunctionCall(id="x", name="f"), part_metadata={"raw_arguments": '{"a'}),
            ],
        ),
        status="completed",
    )
    events = vercel([final])
    assert {"type": "data-server-tool", "data": metadata["server_tool"]} in events
    [broken] = [event for event in events if event != "[DONE]" and event["type"] == "tool-input-error"]
    assert broken["input"] == '{"a'
    assert events[-2]["finishReason"] == "stop"


def test_a_whole_call_of_a_round_that_did_not_end_well_does_not_run():
    final = gemini([CALL])[-1].model_copy(update={"status": "incomplete", "error_code": "STREAM_CUT"})
    kinds = [event["type"] for event in vercel([final])[:-1]]
    assert "tool-input-error" in kinds
    assert "tool-input-available" not in kinds


def test_a_final_that_is_not_what_was_shown_is_not_shown_again():
    partial, final = gemini([{"text": "secret"}])
    final = final.model_copy(update={"content": types.Content(role="model", parts=[types.Part(text="[removed]")])})
    deltas = [event["delta"] for event in vercel([partial, final])[:-1] if "delta" in event]
    assert deltas == ["secret"]


def test_the_users_own_words_are_not_told():
    user = LlmResponse(content=types.Content(role="user", parts=[types.Part(text="my question")]))
    assert "my question" not in str(vercel([user, *gemini(*HELLO)]))


def test_native():
    encoder = NativeEncoder(first=5)
    responses = gemini([{"text": "é\ud83d"}], [{"text": "x", "thoughtSignature": "+/8="}])
    frames = [encoder.frame(event).decode() for event in encoded(encoder, responses)]
    assert [frame.split("\n")[:2] for frame in frames] == [
        ["id: 5", "event: partial"],
        ["id: 6", "event: partial"],
        ["id: 7", "event: final"],
        ["id: 8", "event: done"],
    ]
    datas = [frame.split("\n")[2].removeprefix("data: ") for frame in frames]
    read = [LlmResponse.model_validate(json.loads(data)) for data in datas[:-1]]
    assert read == responses
    assert '"thoughtSignature":"+/8="' in datas[2]
    assert json.loads(datas[-1]) == {"status": "completed"}


def test_native_failed_and_cut():
    events = encoded(NativeEncoder(), gemini(*HELLO)[:1], TimeoutError("slow"))
    assert [(event.name, event.data) for event in events[1:]] == [
        ("error", {"code": "STREAM_TIMEOUT", "message": "slow"}),
        ("done", {"status": "failed"}),
    ]
    assert encoded(NativeEncoder(), gemini(*HELLO)[:1])[-1].data == {"status": "incomplete"}


@pytest.mark.parametrize("make", [NativeEncoder, AdkEncoder])
def test_the_short_way_gives_what_the_long_one_does(make):
    partial = gemini([{"text": "a"}, {"text": "b", "thought": True}])[0]
    longer = partial.model_copy(update={"error_code": None})  # sets one field more, so the short way is not taken
    encoder = make()
    [short], [long] = encoder.encode(partial), encoder.encode(longer)
    if make is NativeEncoder:
        short, long = short.data, long.data
    for event in (short, long):
        if make is AdkEncoder:
            event.pop("timestamp")
    assert short == long


@pytest.mark.parametrize("name", ENCODERS)
def test_cost_of_a_partial(name):
    """Microseconds, framing included, and the same after ten thousand."""
    partial = gemini([{"text": "word "}], [])[0]

    def cost(count):
        best = float("inf")
        for _ in range(5):
            encoder = ENCODERS[name]()
            start = time.process_time()
            for _ in range(count):
                for event in encoder.encode(partial):
                    encoder.frame(event)
            best = min(best, (time.process_time() - start) / count)
        return best

    few, many = cost(1000), cost(10_000)
    assert many < 50e-6
    assert many < 5 * few


@pytest.mark.parametrize("name", ENCODERS)
def test_half_a_surrogate_pair_and_numbers_beyond_64_bits(name):
    args = {"x": 2**70, "half": "\ud83d"}
    call = types.Part(function_call=types.FunctionCall(id="a", name="f", args=args))
    content = types.Content(role="model", parts=[types.Part(text="a\ud83d \u2028"), call])
    encoder = ENCODERS[name]()
    for event in encoded(encoder, [LlmResponse(content=content, status="completed")]):
        frame = encoder.frame(event).decode()
        lines = frame.removesuffix("\n\n").split("\n")
        data = lines[-1].removeprefix("data: ")
        assert data == "[DONE]" or json.loads(data)


def test_ag_ui_writes_deltas_as_its_models_do():
    encoder = AgUiEncoder("t", "r")
    responses = gemini([{"text": "so \u2028", "thought": True}], [{"text": 'h"i é'}], [CALL])
    deltas = [event for event in encoded(encoder, responses) if "delta" in type(event).model_fields]
    assert len(deltas) == 3
    for event in deltas:
        assert json.loads(encoder.frame(event)[6:]) == json.loads(event.model_dump_json(by_alias=True))


def test_a_server_that_counts_its_calls_anew_in_each_round():
    first, second = gemini([CALL]), gemini([{"functionCall": {"id": "a", "name": "g", "args": {"x": 2}}}])
    events = vercel([*first, results(answer("a", {"n": 1})), *second, results(answer("a", {"n": 2}))])
    ready = {e["toolCallId"]: e["input"] for e in events[:-1] if e["type"] == "tool-input-available"}
    outputs = {e["toolCallId"]: e["output"] for e in events[:-1] if e["type"] == "tool-output-available"}
    assert list(ready.values()) == [{"x": 1}, {"x": 2}]
    assert list(outputs.items()) == list(zip(ready, [{"n": 1}, {"n": 2}], strict=True))
    assert events[-2]["finishReason"] == "stop"


def heard(text, *, partial, **fields):
    spoken = types.Transcription(text=text, finished=not partial)
    return LlmResponse(output_transcription=spoken, partial=partial, **fields)


def test_live_turns():
    """A turn's finals bear its status, an interrupted one holds less than was shown; each turn is a step."""
    turn = [
        heard("one ", partial=True, status="in_progress"),
        heard("two", partial=True, status="in_progress"),
        LlmResponse(partial=True, status="in_progress"),
    ]
    interrupted = [
        heard("one", partial=False, status="incomplete", interrupted=True),
        LlmResponse(partial=False, status="incomplete", interrupted=True, turn_complete=True),
    ]
    whole = [
        LlmResponse(
            content=types.Content(role="model", parts=[types.Part(text="so", thought=True)]),
            partial=False,
            status="completed",
        ),
        heard("one two", partial=False, status="completed"),
        LlmResponse(partial=False, status="completed", turn_complete=True, finish_reason="STOP"),
    ]
    events = vercel([*turn, *interrupted, *turn, *whole])
    assert [event["type"] for event in events[1:-2]] == [
        *("start-step", "text-start", "text-delta", "text-delta", "text-end", "finish-step"),
        *("start-step", "text-start", "text-delta", "text-delta", "text-end"),
        *("reasoning-start", "reasoning-delta", "reasoning-end", "finish-step"),
    ]
    assert events[-2]["finishReason"] == "stop"


def test_a_signature_goes_with_the_run_that_showed_its_thought():
    """It came in pieces, after other things had been shown; and one part of thought was shown in two runs."""

    def piece(text, thought=None):
        content = types.Content(role="model", parts=[types.Part(text=text, thought=thought)])
        return LlmResponse(content=content, partial=True, status="in_progress")

    final = LlmResponse(
        content=types.Content(
            role="model",
            parts=[
                types.Part(text="one", thought=True, thought_signature=b"1"),
                types.Part(text="A"),
                types.Part(text="twothree", thought=True, thought_signature=b"2"),
            ],
        ),
        status="completed",
    )
    shown = [piece("one", True), piece("A"), piece("two", True), piece("B"), piece("th", True)]
    for partials, expected in ((shown, ["r-1", "r-5"]), ([], ["r-1", "r-3"])):
        events = encoded(AgUiEncoder("t", "r"), [*partials, final])
        assert [event.entity_id for event in events if event.type == "REASONING_ENCRYPTED_VALUE"] == expected
        deltas = [event.delta for event in events if event.type == "REASONING_MESSAGE_CONTENT"]
        assert "".join(deltas) == "onetwothree"
