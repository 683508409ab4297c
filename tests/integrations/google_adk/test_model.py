"""Our models inside google-adk's Runner, through each provider's own client, over a local server."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("google.adk", reason="google-adk is not installed")
pytest.importorskip("anthropic", reason="anthropic is not installed")
pytest.importorskip("openai", reason="openai is not installed")

import anthropic
import openai
from adk_runs import run_agent
from google import genai
from google.adk.sessions import InMemorySessionService
from google.genai import types
from matching import text_of

from adk_stream import aggregate, to_native
from adk_stream.integrations.google_adk import AdkSessionService, AdkStreamLlm, from_adk_event
from adk_stream.models import AnthropicModel, GeminiModel, OpenAIChatModel, OpenAIResponsesModel
from adk_stream.recording import Recording
from adk_stream.testing import ReplayServer

ARGUMENTS = '{"city": "Oslo", "days": [1, 2]}'


# ----------------------------------------------------------------- what each provider says, twice


def _anthropic(*blocks: tuple[dict, list[dict]], reason: str) -> list[dict]:
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
    events: list[dict] = [{"type": "message_start", "message": {**message, "usage": {"input_tokens": 9}}}]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}})
    return [*events, {"type": "message_stop"}]


ANTHROPIC = [
    _anthropic(
        (
            {"type": "thinking", "thinking": "", "signature": ""},
            [
                {"type": "thinking_delta", "thinking": "Weather, "},
                {"type": "thinking_delta", "thinking": "then."},
                {"type": "signature_delta", "signature": "EuYBCkQYAiJA"},
            ],
        ),
        ({"type": "redacted_thinking", "data": "EmwKAhgB"}, []),
        ({"type": "text", "text": ""}, [{"type": "text_delta", "text": "Let me look. "}]),
        (
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
            [{"type": "input_json_delta", "partial_json": piece} for piece in (ARGUMENTS[:9], ARGUMENTS[9:])],
        ),
        reason="tool_use",
    ),
    _anthropic(({"type": "text", "text": ""}, [{"type": "text_delta", "text": "Rain."}]), reason="end_turn"),
]


def _chat(*deltas: dict, reason: str) -> list[dict | str]:
    def chunk(delta: dict, finish: str | None = None) -> dict:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}

    usage = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
    return [*map(chunk, deltas), chunk({}, reason), {**chunk({}), "choices": [], "usage": usage}, "[DONE]"]


def _tool_delta(arguments: str, **first: object) -> dict:
    return {"tool_calls": [{"index": 0, **first, "function": {"name": "f", "arguments": arguments}}]}


CHAT = [
    _chat(
        {"role": "assistant", "content": "", "reasoning_content": "Weather, "},
        {"reasoning_content": "then."},
        {"content": "Let me look. "},
        _tool_delta(ARGUMENTS[:9], id="call_1", type="function"),
        {"tool_calls": [{"index": 0, "function": {"arguments": ARGUMENTS[9:]}}]},
        reason="tool_calls",
    ),
    _chat({"role": "assistant", "content": "Rain."}, reason="stop"),
]


def _responses(*items: dict) -> list[dict]:
    response = {
        "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": [], "tools": [],
        "parallel_tool_calls": True, "tool_choice": "auto", "status": "in_progress",
    }  # fmt: skip
    events: list[dict] = [{"type": "response.created", "response": response}]
    for index, item in enumerate(items):
        at = {"output_index": index, "item_id": item["id"]}
        opened = {**item, **({"arguments": ""} if "arguments" in item else {}), "status": "in_progress"}
        events.append({"type": "response.output_item.added", "output_index": index, "item": opened})
        if item["type"] == "message":
            text = item["content"][0]["text"]
            events.append({"type": "response.output_text.delta", **at, "content_index": 0, "delta": text})
        if item["type"] == "function_call":
            for piece in (ARGUMENTS[:9], ARGUMENTS[9:]):
                events.append({"type": "response.function_call_arguments.delta", **at, "delta": piece})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    usage = {"input_tokens": 9, "output_tokens": 5, "total_tokens": 14}
    done = {**response, "status": "completed", "output": list(items), "usage": usage}
    events.append({"type": "response.completed", "response": done})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _said(text: str) -> dict:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": content}


RESPONSES = [
    _responses(
        {
            "id": "rs_1",
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "Weather, then."}],
            "encrypted_content": "gAAAAABo",
        },
        _said("Let me look. "),
        {
            "id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "f", "arguments": ARGUMENTS,
            "status": "completed",
        },
    ),
    _responses(_said("Rain.")),
]  # fmt: skip


def _gemini(*parts: dict) -> list[dict]:
    chunks: list[dict] = [
        {"candidates": [{"content": {"role": "model", "parts": [part]}}], "responseId": "r", "modelVersion": "m"}
        for part in parts
    ]
    chunks[-1]["candidates"][0]["finishReason"] = "STOP"
    chunks[-1]["usageMetadata"] = {"promptTokenCount": 9, "candidatesTokenCount": 5, "totalTokenCount": 14}
    return chunks


GEMINI = [
    _gemini(
        {"text": "Weather, ", "thought": True},
        {"text": "then.", "thought": True},
        {"text": "Let me look. "},
        {"functionCall": {"id": "g1", "name": "f", "args": json.loads(ARGUMENTS)}, "thoughtSignature": "c2lnMQ=="},
    ),
    _gemini({"text": "Rain."}),
]


def _frames(events: list) -> bytes:
    frames = []
    for event in events:
        name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
        frames.append(f"{name}data: {event if isinstance(event, str) else json.dumps(event)}\n\n")
    return "".join(frames).encode()


# ----------------------------------------------------------------- the models, each on its official client


def anthropic_at(server: ReplayServer):
    client = anthropic.AsyncAnthropic(api_key="any", base_url=server.url)
    return AnthropicModel("m", client=client), client.close


def chat_at(server: ReplayServer):
    client = openai.AsyncOpenAI(api_key="any", base_url=f"{server.url}/v1")
    return OpenAIChatModel("m", client=client), client.close


def responses_at(server: ReplayServer):
    client = openai.AsyncOpenAI(api_key="any", base_url=f"{server.url}/v1")
    return OpenAIResponsesModel("m", client=client), client.close


def gemini_at(server: ReplayServer):
    client = genai.Client(api_key="any", http_options=types.HttpOptions(base_url=server.url))
    return GeminiModel("m", client=client), client.aio.aclose


LINES = {
    "anthropic": (ANTHROPIC, anthropic_at),
    "openai-chat": (CHAT, chat_at),
    "openai-responses": (RESPONSES, responses_at),
    "gemini": (GEMINI, gemini_at),
}


def sent_back(line: str, body: dict) -> list:
    """What the second request says that the model itself had said."""
    if line == "gemini":
        return [content for content in body["contents"] if content["role"] == "model"]
    if line == "openai-responses":
        own = ("reasoning", "function_call")
        return [item for item in body["input"] if item.get("type") in own or item.get("role") == "assistant"]
    return [message for message in body["messages"] if message["role"] == "assistant"]


@pytest.fixture(params=["google-adk's store", "ours"])
def service(request, tmp_path):
    if request.param == "ours":
        return AdkSessionService(f"sqlite:///{tmp_path}/s.db")
    return InMemorySessionService()


@pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("line", LINES)
def test_a_run_with_a_tool(line, streaming, service):
    turns, model_at = LINES[line]
    bodies = [_frames(turn) for turn in turns]
    recordings = [Recording.from_bytes(body, line, name="m") for body in bodies]
    with ReplayServer(recordings) as server:
        model, close_client = model_at(server)
        done = run_agent(
            AdkStreamLlm(model),
            tools=("f",),
            service=service,
            streaming=streaming,
            close_client=close_client,
            instruction="Be brief.",
        )
        assert done["error"] is None
        first, second = server.requests
    assert done["ran"] == [{"name": "f", "args": json.loads(ARGUMENTS)}]
    events = done["events"]
    assert [bool(event.partial) for event in events].count(True) == (0 if not streaming else len(events) - 3)
    if streaming:
        assert text_of([event for event in events if event.partial]) == "Let me look. Rain."
    stored = [event for event in done["session"].events if event.author == "a"]
    assert text_of(stored) == "Let me look. Rain."
    assert [event.usage_metadata.total_token_count for event in stored if event.usage_metadata] == [14, 14]
    thought = "".join(part.text for part in stored[0].content.parts if part.thought and part.text)
    assert thought == "Weather, then."

    final = list(aggregate([bodies[0]], provider=line))[-1]
    native = to_native(final, provider=line)
    assert sent_back(line, second.body) == (native if isinstance(native, list) else [native])
    assert "Be brief." in json.dumps(first.body)
    assert from_adk_event(stored[0]).status == "completed"


def test_what_had_come_of_a_stream_that_fails_is_kept():
    bodies = _frames(ANTHROPIC[0][:8])
    failed = bodies + _frames([{"type": "error", "error": {"type": "overloaded_error", "message": "later"}}])
    with ReplayServer([Recording.from_bytes(failed, "anthropic", name="m")]) as server:
        model, close_client = anthropic_at(server)
        done = run_agent(AdkStreamLlm(model), close_client=close_client)
    stored = [event for event in done["session"].events if event.author == "a" and event.content]
    assert stored[0].error_code == "overloaded_error"
    assert next(part.text for part in stored[0].content.parts if part.thought) == "Weather, then."
