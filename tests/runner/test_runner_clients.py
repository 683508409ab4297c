"""Whole runs through the providers' official clients, against a local server that speaks each one's wire.

Every line tells the same story: thoughts with something opaque in them and two calls, then one more call, then the
answer. What must return to the provider is compared byte by byte in what the server was sent.
"""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import types
from scripted_model import answers, check_history, finals

from adk_stream import Runner
from adk_stream.models import AnthropicModel, GeminiModel, OpenAIChatModel, OpenAIResponsesModel
from adk_stream.recording import Recording
from adk_stream.sessions import SqlSessionService
from adk_stream.testing import ReplayServer

OPAQUE = [base64.b64encode(bytes(range(n, 200))).decode() for n in (0, 7)]

#: Of each round: thoughts, text, calls (id, name, arguments), tokens (input, output).
STORY: list[dict[str, Any]] = [
    {
        "thought": "Both are needed.",
        "text": "Let me see. ",
        "calls": [("call_a", "lookup", {"city": "Tromsø"}), ("call_b", "weigh", {"grams": 2**60})],
        "tokens": (11, 7),
    },
    {"calls": [("call_c", "lookup", {"city": "Oslo"})], "tokens": (31, 5)},
    {"text": "Tromsø is cold, and it is heavy.", "tokens": (53, 3)},
    {"text": "You are welcome.", "tokens": (60, 2)},
]
ANSWER = STORY[2]["text"]


async def lookup(city: str) -> dict:
    """Look a city up."""
    return {"city": city, "cold": True}


def weigh(grams: int) -> str:
    """Weigh something."""
    return f"{grams} g"


# ----------------------------------------------------------------- the story on each wire


def sse(payloads: list[Any], *, named: bool = False, end: str = "\n\n") -> bytes:
    frames = []
    for payload in payloads:
        name = f"event: {payload['type']}\n" if named else ""
        frames.append(f"{name}data: {payload if isinstance(payload, str) else json.dumps(payload)}{end}")
    return "".join(frames).encode()


def halves(text: str) -> list[str]:
    return [text[: len(text) // 2], text[len(text) // 2 :]]


def gemini(told: dict[str, Any]) -> bytes:
    parts: list[dict[str, Any]] = []
    if "thought" in told:
        parts += [{"text": half, "thought": True} for half in halves(told["thought"])]
    parts += [{"text": half} for half in halves(told.get("text", "")) if half]
    for place, (id, name, args) in enumerate(told.get("calls", ())):
        signed = {"thoughtSignature": OPAQUE[0]} if place == 0 and "thought" in told else {}
        parts.append({"functionCall": {"id": id, "name": name, "args": args}, **signed})
    if "calls" not in told:
        parts.append({"text": "", "thoughtSignature": OPAQUE[1]})
    prompt, output = told["tokens"]
    usage = {"promptTokenCount": prompt, "candidatesTokenCount": output, "totalTokenCount": prompt + output}
    chunks: list[dict[str, Any]] = [
        {"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}], "responseId": "r"}
        for part in parts
    ]
    chunks[-1]["candidates"][0]["finishReason"] = "STOP"
    chunks[-1]["usageMetadata"] = usage
    return sse(chunks, end="\r\n\r\n")


def chat(told: dict[str, Any]) -> bytes:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    if "thought" in told:
        for half in halves(told["thought"]):
            deltas.append({"reasoning_content": half})
        sealed = {"type": "reasoning.encrypted", "data": OPAQUE[0], "id": "rs", "format": "x", "index": 0}
        deltas.append({"reasoning_details": [sealed]})
    deltas += [{"content": half} for half in halves(told.get("text", "")) if half]
    for index, (id, name, args) in enumerate(told.get("calls", ())):
        begin, rest = halves(json.dumps(args))
        signed = {"extra_content": {"google": {"thought_signature": OPAQUE[1]}}} if "thought" in told else {}
        call = {"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": begin}}
        call |= signed if index == 0 else {}
        deltas.append({"tool_calls": [call]})
        deltas.append({"tool_calls": [{"index": index, "function": {"arguments": rest}}]})
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunks: list[Any] = [{**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    reason = "tool_calls" if "calls" in told else "stop"
    prompt, output = told["tokens"]
    usage = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
    chunks.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    return sse([*chunks, {**base, "choices": [], "usage": usage}, "[DONE]"])


def responses(told: dict[str, Any]) -> bytes:
    output: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []

    def add(item: dict[str, Any], opened: dict[str, Any], deltas: list[dict[str, Any]]) -> None:
        place = len(output)
        output.append(item)
        events.append({"type": "response.output_item.added", "output_index": place, "item": opened})
        events.extend({**delta, "output_index": place, "item_id": item["id"]} for delta in deltas)
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})

    if "thought" in told:
        summary = [{"type": "summary_text", "text": told["thought"]}]
        item = {"id": "rs_1", "type": "reasoning", "summary": summary, "encrypted_content": OPAQUE[0]}
        delta = {"type": "response.reasoning_summary_text.delta", "summary_index": 0}
        deltas = [{**delta, "delta": half} for half in halves(told["thought"])]
        add(item, {"id": "rs_1", "type": "reasoning", "summary": []}, deltas)
    if told.get("text"):
        said = [{"type": "output_text", "text": told["text"], "annotations": []}]
        item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": said}
        delta = {"type": "response.output_text.delta", "content_index": 0}
        deltas = [{**delta, "delta": half} for half in halves(told["text"])]
        add(item, {**item, "status": "in_progress", "content": []}, deltas)
    for id, name, args in told.get("calls", ()):
        item = {"id": f"fc_{id}", "type": "function_call", "call_id": id, "name": name, "status": "completed"}
        deltas = [
            {"type": "response.function_call_arguments.delta", "delta": half} for half in halves(json.dumps(args))
        ]
        add({**item, "arguments": json.dumps(args)}, {**item, "status": "in_progress", "arguments": ""}, deltas)
    prompt, tokens = told["tokens"]
    whole = {
        "id": "resp_1",
        "object": "response",
        "model": "m",
        "status": "completed",
        "output": output,
        "usage": {"input_tokens": prompt, "output_tokens": tokens, "total_tokens": prompt + tokens},
    }
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    all_events = [{"type": "response.created", "response": begun}, *events]
    all_events.append({"type": "response.completed", "response": whole})
    return sse([{**event, "sequence_number": n} for n, event in enumerate(all_events)], named=True)


def messages(told: dict[str, Any]) -> bytes:
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if "thought" in told:
        thoughts = [{"type": "thinking_delta", "thinking": half} for half in halves(told["thought"])]
        signed = {"type": "signature_delta", "signature": OPAQUE[0]}
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*thoughts, signed]))
        blocks.append(({"type": "redacted_thinking", "data": OPAQUE[1]}, []))
    if told.get("text"):
        deltas = [{"type": "text_delta", "text": half} for half in halves(told["text"])]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for id, name, args in told.get("calls", ()):
        deltas = [{"type": "input_json_delta", "partial_json": half} for half in halves(json.dumps(args))]
        blocks.append(({"type": "tool_use", "id": id, "name": name, "input": {}}, deltas))
    prompt, tokens = told["tokens"]
    begin = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**begin, "usage": {"input_tokens": prompt, "output_tokens": 1}}}
    ]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.extend({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        events.append({"type": "content_block_stop", "index": index})
    reason = {"stop_reason": "tool_use" if "calls" in told else "end_turn", "stop_sequence": None}
    events.append({"type": "message_delta", "delta": reason, "usage": {"output_tokens": tokens}})
    events.append({"type": "message_stop"})
    return sse(events, named=True)


# ----------------------------------------------------------------- the lines


def results_of_gemini(body: dict[str, Any]) -> list[Any]:
    parts = [part for content in body["contents"] for part in content["parts"]]
    return [part["functionResponse"]["id"] for part in parts if "functionResponse" in part]


def results_of_chat(body: dict[str, Any]) -> list[Any]:
    return [message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"]


def results_of_responses(body: dict[str, Any]) -> list[Any]:
    return [item["call_id"] for item in body["input"] if item.get("type") == "function_call_output"]


def results_of_messages(body: dict[str, Any]) -> list[Any]:
    blocks = [b for message in body["messages"] if isinstance(message["content"], list) for b in message["content"]]
    return [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]


@dataclass(frozen=True)
class Line:
    provider: str
    write: Callable[[dict[str, Any]], bytes]
    model: Callable[[str], Any]
    results: Callable[[dict[str, Any]], list[Any]]
    opaque: list[str]


LINES = [
    Line(
        "gemini",
        gemini,
        lambda url: GeminiModel(
            "m", client=genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url, timeout=10_000))
        ),
        results_of_gemini,
        OPAQUE[:1],
    ),
    Line(
        "openai-chat",
        chat,
        lambda url: OpenAIChatModel("m", client=openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1")),
        results_of_chat,
        OPAQUE,
    ),
    Line(
        "openai-responses",
        responses,
        lambda url: OpenAIResponsesModel("m", client=openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1")),
        results_of_responses,
        OPAQUE[:1],
    ),
    Line(
        "anthropic",
        messages,
        lambda url: AnthropicModel("m", client=anthropic.AsyncAnthropic(api_key="k", base_url=url)),
        results_of_messages,
        OPAQUE,
    ),
]
each_line = pytest.mark.parametrize("line", [pytest.param(line, id=line.provider) for line in LINES])


@pytest.fixture
def server() -> Iterator[ReplayServer]:
    recordings = [Recording.from_bytes(line.write(told), line.provider) for line in LINES for told in STORY]
    with ReplayServer(recordings) as running:
        yield running


def runner_of(line: Line, server_url: str, service: Any, **options: Any) -> Runner:
    return Runner(line.model(server_url), [lookup, weigh], session_service=service, app_name="app", **options)


async def tell(line: Line, url: str, service: Any) -> tuple[Any, list[Any], str]:
    runner = runner_of(line, url, service)
    session = await service.create_session(app_name="app", user_id="u", session_id=f"s-{line.provider}")
    run = runner.run_async(user_id="u", session_id=session.id, new_message="What of Tromsø?")
    return run, [event async for event in run], session.id


# ----------------------------------------------------------------- the runs


@each_line
def test_two_tools_and_three_rounds(line, server, tmp_path):
    async def main():
        async with SqlSessionService(f"sqlite:///{tmp_path / 'sessions.db'}") as service:
            run, events, session_id = await tell(line, server.url, service)
            session = await service.get_session(app_name="app", user_id="u", session_id=session_id)
            assert len(asyncio.all_tasks()) == 1
            return run, events, session.events

    run, events, stored = asyncio.run(main())
    check_history(stored)
    first, results, second, more, third = finals(events)
    assert [event.status for event in (first, second, third)] == ["completed"] * 3
    assert third.text == ANSWER
    assert first.thought_text == STORY[0]["thought"]
    assert first.text == STORY[0]["text"]
    calls = [(call.id, call.name, call.args) for call in first.get_function_calls()]
    assert calls == STORY[0]["calls"]
    assert answers(results) == [{"city": "Tromsø", "cold": True}, {"result": f"{2**60} g"}]
    assert answers(more) == [{"city": "Oslo", "cold": True}]
    assert [event.id for event in stored[1:]] == [event.id for event in finals(events)]

    # one final for each round, directly after its partials, which bear its id and show the same text
    order = [event.id for event in events]
    assert [id for n, id in enumerate(order) if n == 0 or order[n - 1] != id] == [event.id for event in stored[1:]]
    for final in (first, second, third):
        partials = [event for event in events if event.partial and event.id == final.id]
        assert "".join(event.text for event in partials) == final.text
        assert "".join(event.thought_text for event in partials) == final.thought_text

    # usage is the sum, and each event has its own
    assert run.usage.prompt_token_count == sum(told["tokens"][0] for told in STORY[:3])
    assert run.usage.total_token_count == sum(sum(told["tokens"]) for told in STORY[:3])
    assert [event.usage_metadata.total_token_count for event in (first, second, third)] == [
        sum(told["tokens"]) for told in STORY[:3]
    ]

    # what the provider was sent
    bodies = [request.body for request in server.requests]
    assert len(bodies) == 3
    assert [line.results(body) for body in bodies] == [[], ["call_a", "call_b"], ["call_a", "call_b", "call_c"]]
    for body in bodies[1:]:
        sent = json.dumps(body)
        for value in line.opaque:
            assert sent.count(value) == 1
        assert "unfinished" not in sent


GO_ON = """
import asyncio, sys
sys.path[:0] = [sys.argv[3]]
from test_runner_clients import LINES, runner_of
from adk_stream.sessions import SqlSessionService

async def main():
    async with SqlSessionService(sys.argv[1]) as service:
        for line in LINES:
            runner = runner_of(line, sys.argv[2], service)
            run = runner.run_async(user_id="u", session_id=f"s-{line.provider}", new_message="Thank you.")
            print([event.text async for event in run][-1])

asyncio.run(main())
"""


def test_another_process_goes_on_with_what_was_stored(server, tmp_path):
    url = f"sqlite:///{tmp_path / 'sessions.db'}"

    async def main():
        async with SqlSessionService(url) as service:
            for line in LINES:
                await tell(line, server.url, service)

    asyncio.run(main())
    told = len(server.requests)
    arguments = [sys.executable, "-c", GO_ON, url, server.url, str(Path(__file__).parent)]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [STORY[3]["text"]] * len(LINES)
    for line, request in zip(LINES, server.requests[told:], strict=True):
        sent = json.dumps(request.body, ensure_ascii=False)
        assert line.results(request.body) == ["call_a", "call_b", "call_c"]
        assert all(value in sent for value in line.opaque)
        assert "Thank you." in sent
        assert ANSWER in sent


@each_line
@pytest.mark.parametrize("fault", ["drop@2", "cut@2", "stall@2", "status=500", "error_event@2"])
def test_a_fault_of_the_wire_leaves_a_history_that_the_client_sends(line, fault, server, tmp_path):
    from adk_stream import StreamExecutionOptions

    async def main():
        async with SqlSessionService(f"sqlite:///{tmp_path / 'sessions.db'}") as service:
            limits = StreamExecutionOptions(idle_timeout=0.2)
            runner = runner_of(line, server.url, service, execution=limits)
            session = await service.create_session(app_name="app", user_id="u")
            server.queue_fault(fault)
            events = []
            try:
                async for event in runner.run_async(user_id="u", session_id=session.id, new_message="hi"):
                    events.append(event)
            except Exception:
                assert events[-1].status == "failed"
            assert finals(events)[0].status in ("failed", "incomplete")
            again = [e async for e in runner.run_async(user_id="u", session_id=session.id, new_message="go on")]
            session = await service.get_session(app_name="app", user_id="u", session_id=session.id)
            return again, session.events

    again, stored = asyncio.run(main())
    check_history(stored)
    assert again[-1].status == "completed"


@each_line
def test_a_run_that_is_left_closes_the_clients_connection_and_can_go_on(line, server, tmp_path):
    async def main():
        async with SqlSessionService(f"sqlite:///{tmp_path / 'sessions.db'}") as service:
            runner = runner_of(line, server.url, service)
            session = await service.create_session(app_name="app", user_id="u")
            server.queue_fault("stall@4")
            run = runner.run_async(user_id="u", session_id=session.id, new_message="hi")
            await anext(run)
            assert await runner.cancel(session_id=session.id)
            assert len(asyncio.all_tasks()) == 1
            again = [e async for e in runner.run_async(user_id="u", session_id=session.id, new_message="go on")]
            session = await service.get_session(app_name="app", user_id="u", session_id=session.id)
            return again, session.events

    again, stored = asyncio.run(main())
    check_history(stored)
    assert stored[1].status == "cancelled"
    assert again[-1].status == "completed"


@each_line
def test_the_blocking_form_keeps_the_clients_connections(line, server, tmp_path):
    service = SqlSessionService(f"sqlite:///{tmp_path / 'sessions.db'}")
    session = asyncio.run(service.create_session(app_name="app", user_id="u"))
    runner = runner_of(line, server.url, service)
    for expected in (ANSWER, STORY[3]["text"]):
        events = list(runner.run(user_id="u", session_id=session.id, new_message="hi"))
        assert events[-1].text == expected
    asyncio.run(service.close())
