"""Spans and metrics of requests, runs and tools, as OpenTelemetry's own SDK receives them."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import types
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from adk_stream import Runner, StreamExecutionOptions, aggregate_async, execute
from adk_stream.errors import ConnectionLostError, RateLimitError, SessionNotFoundError
from adk_stream.integrations.opentelemetry import names, traced, traced_runs
from adk_stream.models import AnthropicModel, GeminiModel, ModelRequest, OpenAIChatModel, OpenAIResponsesModel
from adk_stream.models.replay import ReplayModel
from adk_stream.recording import Recording
from adk_stream.runner import LiveRequestQueue
from adk_stream.sessions import InMemorySessionService
from adk_stream.testing import Conversation, LiveServer, ReplayServer
from adk_stream.testing.live_messages import text, tool_call, turn_complete, usage
from adk_stream.testing.live_script import Wait

SECRET = "the password is swordfish"


class Telemetry:
    """An SDK that keeps everything in memory."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader])
        self.to = {"tracer_provider": self.tracers, "meter_provider": self.meters}

    @property
    def spans(self) -> list[ReadableSpan]:
        """In the order in which they began."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def points(self) -> dict[str, list[Any]]:
        data = self.reader.get_metrics_data()
        found: dict[str, list[Any]] = {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    found.setdefault(metric.name, []).extend(metric.data.data_points)
        return found

    def one(self) -> ReadableSpan:
        (span,) = self.spans
        return span


@pytest.fixture
def telemetry():
    kept = Telemetry()
    yield kept
    kept.tracers.shutdown()
    kept.meters.shutdown()


# ----------------------------------------------------------------- what models answer


def chunk(delta: dict[str, Any], finish: str | None = None, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m-2026", "choices": [choice], **fields}


USAGE = {
    "prompt_tokens": 11,
    "completion_tokens": 7,
    "total_tokens": 18,
    "prompt_tokens_details": {"cached_tokens": 4},
    "completion_tokens_details": {"reasoning_tokens": 2},
}


def ending(finish: str) -> list[Any]:
    return [chunk({}, finish), {**chunk({}), "choices": [], "usage": USAGE}, "[DONE]"]


def says(*words: str) -> list[Any]:
    return [*(chunk({"content": word}) for word in words), *ending("stop")]


def calls(*names: str, arguments: str = "{}") -> list[Any]:
    made = [
        {"index": n, "id": f"c{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, name in enumerate(names)
    ]
    return [chunk({"tool_calls": made}), *ending("tool_calls")]


def replay(*rounds: Any) -> ReplayModel:
    return ReplayModel(rounds, name="m", provider="openai-chat")


class Hanging:
    """Says a word, and then nothing more."""

    name, provider = "m", "openai-chat"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
        yield chunk({"content": "a word"})
        await asyncio.Event().wait()


def question(text: str = SECRET, **fields: Any) -> ModelRequest:
    return ModelRequest([types.Content(role="user", parts=[types.Part(text=text)])], **fields)


async def read(model: Any, request: ModelRequest | None = None, **options: Any) -> list[Any]:
    asked = request or question()
    execution = execute(
        lambda: model.stream(asked), StreamExecutionOptions(retry_backoff=0, **options), provider=model.provider
    )
    return [response async for response in execution]


async def run(model: Any, tools: Any = (), message: str = SECRET, **options: Any) -> list[Any]:
    service = InMemorySessionService()
    session = await service.create_session(app_name="app", user_id="u", session_id="s-1")
    runner = Runner(model, tools, session_service=service, app_name="app", **options)
    return [event async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message)]


# ----------------------------------------------------------------- one request


def test_a_request_is_a_client_span(telemetry):
    config = types.GenerateContentConfig(
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        max_output_tokens=100,
        stop_sequences=["END"],
        seed=7,
        candidate_count=1,
        response_mime_type="application/json",
    )
    asyncio.run(read(traced(replay(says("Hel", "lo")), **telemetry.to), question(config=config)))
    span = telemetry.one()
    assert (span.name, span.kind, span.status.status_code) == ("chat m", SpanKind.CLIENT, StatusCode.UNSET)
    told = dict(span.attributes or {})
    assert told.pop("gen_ai.response.time_to_first_chunk") > 0
    assert told == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.request.stream": True,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 0.9,
        "gen_ai.request.top_k": 40,
        "gen_ai.request.max_tokens": 100,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.request.seed": 7,
        "gen_ai.output.type": "json",
        "gen_ai.response.id": "chatcmpl-1",
        "gen_ai.response.model": "m-2026",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.reasoning.output_tokens": 2,
        "adk_stream.status": "completed",
    }


def test_a_request_is_measured(telemetry):
    asyncio.run(read(traced(replay(says("a", "b", "c")), **telemetry.to)))
    points = telemetry.points()
    common = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.response.model": "m-2026",
    }
    counts = {name: [point.count for point in points[name]] for name in points if hasattr(points[name][0], "count")}
    assert counts == {
        "gen_ai.client.inference.duration": [1],
        "gen_ai.client.inference.time_to_first_chunk": [1],
        "gen_ai.client.inference.time_per_output_chunk": [5],  # of six: three words, the reason, the usage, the mark
        "gen_ai.client.inference.operation.input_tokens": [1],
        "gen_ai.client.inference.operation.output_tokens": [1],
    }
    sums = {name: [point.value for point in points[name]] for name in points if hasattr(points[name][0], "value")}
    assert sums == {
        "gen_ai.client.inference.usage.input_tokens": [11],
        "gen_ai.client.inference.usage.output_tokens": [7],
        "gen_ai.client.inference.usage.cache_read.input_tokens": [4],
        "gen_ai.client.inference.usage.cache_write.input_tokens": [0],
        "gen_ai.client.inference.usage.reasoning.output_tokens": [2],
    }
    for name, (point,) in points.items():
        modality = {"gen_ai.token.modality": "unknown"} if ".usage." in name else {}
        assert dict(point.attributes) == {**common, **modality}, name
    (duration,) = points["gen_ai.client.inference.duration"]
    span = telemetry.one()
    assert duration.sum == pytest.approx(((span.end_time or 0) - (span.start_time or 0)) / 1e9, abs=1e-5)
    assert duration.explicit_bounds[:3] == (0.01, 0.02, 0.04)


def test_tokens_are_counted_by_modality_where_the_provider_does(telemetry):
    usage = {
        "promptTokenCount": 300,
        "candidatesTokenCount": 5,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 100}, {"modality": "IMAGE", "tokenCount": 150}],
    }
    part = {"content": {"role": "model", "parts": [{"text": "a cat"}]}, "finishReason": "STOP"}
    model = ReplayModel([[{"candidates": [part], "usageMetadata": usage}]], name="g", provider="gemini")
    asyncio.run(read(traced(model, **telemetry.to)))
    points = telemetry.points()["gen_ai.client.inference.usage.input_tokens"]
    assert {point.attributes["gen_ai.token.modality"]: point.value for point in points} == {
        "text": 100,
        "image": 150,
        "unknown": 50,
    }
    assert telemetry.one().name == "generate_content g"
    assert (telemetry.one().attributes or {})["gen_ai.provider.name"] == "gcp.gemini"


def test_a_provider_may_send_anything_as_usage(telemetry):
    odd = {**USAGE, "cache_creation_input_tokens": "x"}
    script = [chunk({"content": "a"}, "stop"), {**chunk({}), "choices": [], "usage": odd}, "[DONE]"]
    (*_, final) = asyncio.run(read(traced(replay(script), **telemetry.to)))
    assert final.status == "completed"
    assert names.CACHE_WRITE_TOKENS not in (telemetry.one().attributes or {})


def test_what_a_span_tells_of_faults(telemetry):
    """Error type, status, finish reason; the messages of errors, which may quote anything, are not told."""
    refused = {"error": {"message": SECRET, "type": "server_error", "code": "overloaded"}}
    outcomes: list[tuple[list[Any], str | None, str, str]] = [
        ([chunk({"content": "a"}), refused], "overloaded", "failed", "error"),
        ([chunk({"content": "a"}), ConnectionResetError(SECRET)], "ConnectionLostError", "failed", "error"),
        ([ConnectionResetError(SECRET)], "ConnectionLostError", "failed", "error"),
        ([ValueError(SECRET)], "ValueError", "failed", "error"),
        ([chunk({"content": "a"})], "STREAM_CUT", "incomplete", "error"),
        ([], "STREAM_CUT", "failed", "error"),
        ([chunk({"content": "a"}, "length"), "[DONE]"], None, "incomplete", "length"),
        ([chunk({"content": "a"}, "content_filter"), "[DONE]"], None, "incomplete", "content_filter"),
    ]
    for script, error, status, reason in outcomes:
        telemetry.exporter.clear()

        async def ask(model: Any) -> None:
            try:
                await read(model)
            except Exception:
                pass

        asyncio.run(ask(traced(replay(script), **telemetry.to)))
        span = telemetry.one()
        told = span.attributes or {}
        assert told.get("error.type") == error, script
        assert told["adk_stream.status"] == status, script
        assert told["gen_ai.response.finish_reasons"] == (reason,), script
        assert span.status.status_code is (StatusCode.ERROR if error else StatusCode.UNSET)
        assert SECRET not in span.to_json()
        assert not span.events


def test_each_attempt_is_a_span(telemetry):
    model = traced(replay([ConnectionResetError()], [ConnectionResetError()], says("a")), **telemetry.to)
    (*_, final) = asyncio.run(read(model, max_retries=2))
    assert final.status == "completed"
    assert [(span.attributes or {})["adk_stream.status"] for span in telemetry.spans] == [
        "failed",
        "failed",
        "completed",
    ]
    points = telemetry.points()["gen_ai.client.inference.duration"]
    assert {point.attributes.get("error.type"): point.count for point in points} == {"ConnectionLostError": 2, None: 1}


def test_a_stream_that_is_left_is_no_error(telemetry):
    async def leave(how: Callable[[Any], Any]) -> None:
        model = traced(Hanging(), **telemetry.to)
        execution = execute(lambda: model.stream(question()), provider="openai-chat")
        async for _ in execution:
            await how(execution)
            break

    async def close(execution: Any) -> None:
        await execution.aclose()

    async def cancel(execution: Any) -> None:
        execution.cancel()
        await asyncio.sleep(0.01)

    async def cancelled_task(execution: Any) -> None:
        task = asyncio.ensure_future(anext(execution))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])

    for how in (close, cancel, cancelled_task):
        telemetry.exporter.clear()
        asyncio.run(leave(how))
        span = telemetry.one()
        assert span.status.status_code is StatusCode.UNSET
        assert (span.attributes or {})["adk_stream.status"] == "cancelled"
        assert (span.attributes or {})["gen_ai.response.finish_reasons"] == ("error",)
        assert (span.attributes or {})["gen_ai.response.id"] == "chatcmpl-1"


def test_an_execution_that_is_let_go_ends_its_span(telemetry):
    async def main() -> None:
        model = traced(Hanging(), **telemetry.to)
        execution = execute(lambda: model.stream(question()), provider="openai-chat")
        await anext(execution)
        del execution
        await asyncio.sleep(0.02)

    asyncio.run(main())
    assert (telemetry.one().attributes or {})["adk_stream.status"] == "cancelled"


def test_the_time_is_the_sources_whatever_the_consumer_does(telemetry):
    async def main() -> None:
        model = traced(replay(says("a", "b")), **telemetry.to)
        async for _ in execute(lambda: model.stream(question()), provider="openai-chat"):
            await asyncio.sleep(0.02)

    began = time.perf_counter()
    asyncio.run(main())
    span = telemetry.one()
    assert ((span.end_time or 0) - (span.start_time or 0)) / 1e9 < (time.perf_counter() - began) / 2


def test_a_stream_that_is_read_by_other_means_has_a_span_too(telemetry):
    async def main(model: Any) -> list[Any]:
        return [each async for each in aggregate_async(model.stream(question()), provider="openai-chat")]

    assert asyncio.run(main(traced(replay(says("a")), **telemetry.to)))[-1].status == "completed"
    span = telemetry.one()
    assert span.name == "chat m"
    assert "gen_ai.response.id" not in (span.attributes or {})
    assert "gen_ai.client.inference.usage.input_tokens" not in telemetry.points()

    telemetry.exporter.clear()
    with pytest.raises(ConnectionResetError):
        asyncio.run(main(traced(replay([ConnectionResetError()]), **telemetry.to)))
    assert (telemetry.one().attributes or {})["error.type"] == "ConnectionResetError"


@pytest.mark.parametrize(("most", "count"), [(None, 102), (0, None), (10, 10), (64, 51), (102, 102), (500, 102)])
def test_of_many_times_between_chunks_some_are_measured(telemetry, most, count):
    asyncio.run(read(traced(replay(says(*"a" * 100)), chunk_times=most, **telemetry.to)))
    points = telemetry.points().get("gen_ai.client.inference.time_per_output_chunk")
    assert (points[0].count if points else None) == count
    with pytest.raises(ValueError, match="chunk_times"):
        traced(replay(says("a")), chunk_times=-1)


def test_what_the_model_says_passes_through(telemetry):
    items = says("a", "b")
    request = question()

    async def main() -> list[Any]:
        async with aclosing(traced(replay(items), **telemetry.to).stream(request)) as stream:
            return [item async for item in stream]

    assert all(given is item for given, item in zip(asyncio.run(main()), items, strict=True))
    model = replay(items)
    once = traced(model, provider_name="deepseek", **telemetry.to)
    assert traced(once) is once
    assert (once.name, once.provider, once.requests) == ("m", "openai-chat", model.requests)
    assert not hasattr(once, "connect_live")
    assert hasattr(traced(GeminiModel("g")), "connect_live")
    telemetry.exporter.clear()
    asyncio.run(read(once))
    assert (telemetry.one().attributes or {})["gen_ai.provider.name"] == "deepseek"


# ----------------------------------------------------------------- runs


def lookup(city: str = "Oslo") -> dict[str, Any]:
    """Look a city up."""
    trace.get_current_span().set_attribute("seen", True)
    return {"note": SECRET}


def fails() -> None:
    """Fails."""
    raise RuntimeError(SECRET)


async def slow() -> None:
    """Takes its time."""
    await asyncio.sleep(60)


def test_a_run_with_tools(telemetry):
    model = traced(replay(calls("lookup", "fails", "slow", "nobody"), says("done")), **telemetry.to)
    observer = traced_runs(agent_name="helper", **telemetry.to)
    asyncio.run(run(model, [lookup, fails, slow], observer=observer, tool_timeout=0.05))
    agent, first, *tools, second = telemetry.spans
    assert (agent.name, agent.kind, agent.parent) == ("invoke_agent helper", SpanKind.INTERNAL, None)
    assert [span.name for span in (first, second)] == ["chat m", "chat m"]
    assert [span.name for span in tools] == ["execute_tool lookup", "execute_tool fails", "execute_tool slow"]
    assert agent.context is not None
    for span in (first, *tools, second):
        assert span.parent is not None
        assert span.parent.span_id == agent.context.span_id
    told = dict(agent.attributes or {})
    assert told.pop("adk_stream.invocation_id").startswith("e-")
    assert told == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "openai",
        "gen_ai.agent.name": "helper",
        "gen_ai.request.model": "m",
        "gen_ai.conversation.id": "s-1",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 22,
        "gen_ai.usage.output_tokens": 14,
        "gen_ai.usage.cache_read.input_tokens": 8,
        "gen_ai.usage.reasoning.output_tokens": 4,
        "adk_stream.status": "completed",
    }
    assert (first.attributes or {})["gen_ai.conversation.id"] == "s-1"
    assert (first.attributes or {})["gen_ai.response.finish_reasons"] == ("tool_calls",)
    assert dict(tools[0].attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "lookup",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "c0",
        "seen": True,  # the tool ran inside its span, in its thread
    }
    assert [(span.attributes or {}).get("error.type") for span in tools] == [None, "RuntimeError", "TimeoutError"]
    assert agent.status.status_code is StatusCode.UNSET
    points = telemetry.points()
    assert [point.sum for point in points["gen_ai.invoke_agent.inference_calls"]] == [2]
    assert [point.sum for point in points["gen_ai.invoke_agent.tool_calls"]] == [3]
    assert [point.count for point in points["gen_ai.invoke_agent.duration"]] == [1]
    assert sum(point.count for point in points["gen_ai.execute_tool.duration"]) == 3
    assert SECRET not in "".join(span.to_json() for span in telemetry.spans)


def test_how_runs_end(telemetry):
    observer = traced_runs(**telemetry.to)
    cases: list[tuple[Any, dict[str, Any], str, str | None]] = [
        (replay([chunk({"content": "a"})]), {}, "incomplete", "STREAM_CUT"),
        (replay([ConnectionResetError()]), {}, "failed", "ConnectionLostError"),
        (replay(calls("lookup"), calls("lookup")), {"max_rounds": 1}, "incomplete", "MAX_ROUNDS"),
    ]
    for model, options, status, error in cases:
        telemetry.exporter.clear()

        async def main(model: Any, options: dict[str, Any]) -> None:
            try:
                await run(model, [lookup], observer=observer, **options)
            except ConnectionLostError:
                pass

        asyncio.run(main(model, options))
        agent = telemetry.one()
        assert (agent.attributes or {})["adk_stream.status"] == status
        assert (agent.attributes or {})["error.type"] == error
        assert agent.status.status_code is StatusCode.ERROR

    telemetry.exporter.clear()
    runner = Runner(
        replay(says("a")), session_service=InMemorySessionService(), app_name="app", observer=observer
    )  # there is no session

    async def nowhere() -> None:
        await anext(runner.run_async(user_id="u", session_id="none", new_message="hi"))

    with pytest.raises(SessionNotFoundError):
        asyncio.run(nowhere())
    assert (telemetry.one().attributes or {})["error.type"] == "SessionNotFoundError"


@pytest.mark.parametrize("in_a_tool", [False, True])
def test_a_cancelled_run(telemetry, in_a_tool):
    async def main() -> None:
        service = InMemorySessionService()
        await service.create_session(app_name="app", user_id="u", session_id="s-1")
        model = traced(replay(calls("slow")) if in_a_tool else Hanging(), **telemetry.to)
        runner = Runner(model, [slow], session_service=service, app_name="app", observer=traced_runs(**telemetry.to))

        async def follow() -> None:
            async for _ in runner.run_async(user_id="u", session_id="s-1", new_message="hi"):
                pass

        following = asyncio.create_task(follow())
        await asyncio.sleep(0.05)
        await runner.cancel(session_id="s-1")
        await following

    asyncio.run(main())
    agent, chat, *tools = telemetry.spans
    assert len(tools) == in_a_tool
    assert (agent.attributes or {})["adk_stream.status"] == "cancelled"
    assert (chat.attributes or {})["adk_stream.status"] == ("completed" if in_a_tool else "cancelled")
    assert all((tool.attributes or {})["adk_stream.status"] == "cancelled" for tool in tools)
    assert all(span.status.status_code is StatusCode.UNSET for span in telemetry.spans)


def test_a_run_is_a_child_of_the_span_around_it_and_leaves_no_context(telemetry):
    tracer = telemetry.tracers.get_tracer("app")

    async def main() -> None:
        service = InMemorySessionService()
        await service.create_session(app_name="app", user_id="u", session_id="s-1")
        runner = Runner(
            traced(replay(calls("lookup"), says("a")), **telemetry.to),
            [lookup],
            session_service=service,
            app_name="app",
            observer=traced_runs(**telemetry.to),
        )
        with tracer.start_as_current_span("request") as around:
            async for _ in runner.run_async(user_id="u", session_id="s-1", new_message="hi"):
                assert trace.get_current_span() is around
        assert otel_context.get_current() == otel_context.Context()

    asyncio.run(main())
    around, agent, *_ = telemetry.spans
    assert agent.parent is not None
    assert around.context is not None
    assert agent.parent.span_id == around.context.span_id


def test_a_blocking_run_is_a_child_too(telemetry):
    service = InMemorySessionService()
    asyncio.run(service.create_session(app_name="app", user_id="u", session_id="s-1"))
    model = traced(replay(says("a")), **telemetry.to)
    runner = Runner(model, session_service=service, app_name="app", observer=traced_runs(**telemetry.to))
    with telemetry.tracers.get_tracer("app").start_as_current_span("request"):
        assert list(runner.run(user_id="u", session_id="s-1", new_message="hi"))[-1].text == "a"
    around, agent, chat = telemetry.spans
    assert [span.parent and span.parent.span_id for span in (agent, chat)] == [
        span.context.span_id for span in (around, agent)
    ]


def test_a_live_run(telemetry):
    said = [
        Wait("text"),
        tool_call("lookup", {"city": "Oslo"}, id="c0"),
        Wait("tool_response", ids=("c0",)),
        text("Cold."),
        turn_complete(counts=usage(5, 3)),
    ]

    async def main(server: LiveServer) -> None:
        service = InMemorySessionService()
        await service.create_session(app_name="app", user_id="u", session_id="s-1")
        model = traced(GeminiModel("g", client=genai.Client(**server.client_options())), **telemetry.to)
        observer = traced_runs(**telemetry.to)
        runner = Runner(model, [lookup], session_service=service, app_name="app", observer=observer)
        requests = LiveRequestQueue()
        requests.send_content(types.Content(role="user", parts=[types.Part(text=SECRET)]))
        async for event in runner.run_live(user_id="u", session_id="s-1", live_requests=requests):
            if event.turn_complete:
                requests.close()

    with LiveServer(Conversation(said)) as server:
        asyncio.run(main(server))
    agent, tool = telemetry.spans
    assert (agent.name, tool.name) == ("invoke_agent app", "execute_tool lookup")
    assert tool.parent is not None
    assert agent.context is not None
    assert tool.parent.span_id == agent.context.span_id
    assert (agent.attributes or {})[names.INPUT_TOKENS] == 5


# ----------------------------------------------------------------- content


def test_content_is_recorded_where_it_is_asked_for(telemetry):
    model = traced(
        replay(calls("lookup", arguments='{"city": "Oslo"}'), says("It is ", "cold.")),
        record_content=True,
        **telemetry.to,
    )
    observer = traced_runs(record_content=True, **telemetry.to)
    asyncio.run(run(model, [lookup], message="How is Oslo?", observer=observer, instruction="Be brief."))
    _, first, tool, second = telemetry.spans

    def told(span: ReadableSpan, name: str) -> Any:
        return json.loads(str((span.attributes or {})[name]))

    user = {"role": "user", "parts": [{"type": "text", "content": "How is Oslo?"}]}
    call = {"type": "tool_call", "id": "c0", "name": "lookup", "arguments": {"city": "Oslo"}}
    result = {"type": "tool_call_response", "id": "c0", "response": {"note": SECRET}}
    assert told(first, names.INPUT_MESSAGES) == [user]
    assert told(first, names.SYSTEM_INSTRUCTIONS) == [{"type": "text", "content": "Be brief."}]
    assert told(first, names.OUTPUT_MESSAGES) == [{"role": "assistant", "parts": [call], "finish_reason": "tool_calls"}]
    assert told(tool, names.TOOL_ARGUMENTS) == {"city": "Oslo"}
    assert told(tool, names.TOOL_RESULT) == {"note": SECRET}
    assert told(second, names.INPUT_MESSAGES) == [
        user,
        {"role": "assistant", "parts": [call]},
        {"role": "tool", "parts": [result]},
    ]
    assert told(second, names.OUTPUT_MESSAGES)[0]["parts"] == [{"type": "text", "content": "It is cold."}]


def test_content_of_every_kind():
    from adk_stream.integrations.opentelemetry.content import input_attributes

    parts = [
        types.Part(text="hm", thought=True),
        types.Part(inline_data=types.Blob(data=b"\xff\xfe", mime_type="image/png")),
        types.Part(file_data=types.FileData(file_uri="gs://b/a.pdf", mime_type="application/pdf")),
        types.Part(executable_code=types.ExecutableCode(code="1+1", language=types.Language.PYTHON)),
        types.Part(),
    ]
    request = ModelRequest([types.Content(role="model", parts=parts), types.Content()])
    assert json.loads(input_attributes(request)[names.INPUT_MESSAGES]) == [
        {
            "role": "assistant",
            "parts": [
                {"type": "reasoning", "content": "hm"},
                {"type": "inline_data", "mime_type": "image/png", "size": 2},
                {"type": "uri", "mime_type": "application/pdf", "modality": "application", "uri": "gs://b/a.pdf"},
                {"type": "executable_code"},
                {"type": "empty"},
            ],
        },
        {"role": "user", "parts": []},
    ]


# ----------------------------------------------------------------- beside others


def test_no_second_span_inside_somebody_elses(telemetry):
    tracer = telemetry.tracers.get_tracer("framework")

    async def ask(key: str | None) -> None:
        token = otel_context.attach(otel_context.set_value(key, True)) if key else None
        try:
            (*_, final) = await read(traced(replay(says("a")), **telemetry.to))
            assert final.status == "completed"
        finally:
            if token is not None:
                otel_context.detach(token)

    private = otel_context._SUPPRESS_INSTRUMENTATION_KEY  # what is noticed here when it moves
    for key in (names.INFERENCE_CONTEXT, names.SUPPRESS_ALL, names.SUPPRESS_LANGUAGE_MODEL, private):
        asyncio.run(ask(key))
    with tracer.start_as_current_span("chat m", attributes={names.OPERATION_NAME: "chat"}):
        asyncio.run(ask(None))
    assert telemetry.one().name == "chat m"
    assert not telemetry.points()
    with tracer.start_as_current_span("invoke_agent", attributes={names.OPERATION_NAME: "invoke_agent"}):
        asyncio.run(ask(None))
    assert [span.name for span in telemetry.spans] == ["chat m", "invoke_agent", "chat m"]


def test_the_clients_instrumentation_is_told_to_keep_silent(telemetry, monkeypatch):
    """The keys in the context, while the request is made; ``opentelemetry-util-genai`` wants an object of its own."""
    seen: list[dict[str, Any]] = []

    class Model:
        name, provider = "m", "openai-chat"

        async def stream(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
            seen.append(dict(otel_context.get_current()))
            seen[-1]["span"] = trace.get_current_span()
            yield chunk({"content": "a"})

    class InferenceData: ...

    asyncio.run(read(traced(Model(), **telemetry.to)))
    module = type(sys)("opentelemetry.util.genai.invocation")
    module.InferenceData = InferenceData
    monkeypatch.setitem(sys.modules, module.__name__, module)
    asyncio.run(read(traced(Model(), **telemetry.to)))
    assert [each["suppress_language_model_instrumentation"] for each in seen] == [True, True]
    assert names.INFERENCE_CONTEXT not in seen[0]
    assert isinstance(seen[1][names.INFERENCE_CONTEXT], InferenceData)
    spans = [span.context.span_id for span in telemetry.spans if span.context]
    assert [each["span"].get_span_context().span_id for each in seen] == spans


# ----------------------------------------------------------------- real clients


def sse(*payloads: Any, named: bool = False) -> bytes:
    lines = [f"event: {each['type']}\n" if named else "" for each in payloads]
    data = [each if isinstance(each, str) else json.dumps(each) for each in payloads]
    return "".join(f"{line}data: {each}\n\n" for line, each in zip(lines, data, strict=True)).encode()


def of_gemini() -> bytes:
    part = {"content": {"role": "model", "parts": [{"text": SECRET}]}, "finishReason": "STOP"}
    usage = {"promptTokenCount": 11, "candidatesTokenCount": 5, "thoughtsTokenCount": 2, "totalTokenCount": 18}
    return sse({"candidates": [part], "usageMetadata": usage, "responseId": "r", "modelVersion": "m-2026"})


def of_responses() -> bytes:
    usage = {
        "input_tokens": 11,
        "output_tokens": 7,
        "total_tokens": 18,
        "output_tokens_details": {"reasoning_tokens": 2},
    }
    content = [{"type": "output_text", "text": SECRET, "annotations": []}]
    item = {"id": "i", "type": "message", "role": "assistant", "status": "completed", "content": content}
    whole = {"id": "r", "object": "response", "model": "m-2026", "status": "completed", "output": [item]}
    return sse(
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "item_id": "i", "delta": SECRET},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**whole, "usage": usage}},
        named=True,
    )


def of_anthropic() -> bytes:
    usage = {"input_tokens": 4, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 3, "output_tokens": 1}
    message = {"id": "r", "type": "message", "role": "assistant", "model": "m-2026", "content": [], "usage": usage}
    return sse(
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": SECRET}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
        {"type": "message_stop"},
        named=True,
    )


def gemini(url: str) -> GeminiModel:
    return GeminiModel("m", client=genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url)))


LINES: dict[str, tuple[Callable[[], bytes], Callable[[str], Any], str]] = {
    "gemini": (of_gemini, gemini, "STOP"),
    "openai-chat": (
        lambda: sse(*says(SECRET)),
        lambda url: OpenAIChatModel("m", client=openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1")),
        "stop",
    ),
    "openai-responses": (
        of_responses,
        lambda url: OpenAIResponsesModel("m", client=openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1")),
        "completed",
    ),
    "anthropic": (
        of_anthropic,
        lambda url: AnthropicModel("m", client=anthropic.AsyncAnthropic(api_key="k", base_url=url)),
        "end_turn",
    ),
}


@pytest.fixture(scope="module")
def global_telemetry():
    """The global SDK of this process, which clients with spans of their own use. It can be set once only."""
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        trace.set_tracer_provider(TracerProvider())
    exporter = InMemorySpanExporter()
    provider = trace.get_tracer_provider()
    assert isinstance(provider, TracerProvider)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter


@pytest.mark.parametrize("provider", LINES)
def test_real_clients(provider, telemetry, global_telemetry):
    write, make, reason = LINES[provider]
    global_telemetry.clear()

    async def main(url: str, refused: str) -> None:
        (*_, final) = await read(traced(make(url), **telemetry.to))
        assert final.status == "completed"
        assert final.text == SECRET
        with pytest.raises(RateLimitError):
            await read(traced(make(refused), **telemetry.to))
        gc.collect()  # the clients close their connections in the loop that they belong to
        await asyncio.sleep(0.01)

    recordings = [Recording.from_bytes(write(), provider)]
    with ReplayServer(recordings) as server, ReplayServer(recordings, faults="status=429") as refusing:
        asyncio.run(main(server.url, refusing.url))
    span, refused = telemetry.spans
    told = span.attributes or {}
    assert told[names.RESPONSE_MODEL] == "m-2026"
    assert told[names.RESPONSE_FINISH_REASONS] == (reason,)
    assert (told[names.INPUT_TOKENS], told[names.OUTPUT_TOKENS]) == (11, 7)
    assert told.get(names.CACHE_WRITE_TOKENS) == (3 if provider == "anthropic" else None)
    assert (refused.attributes or {})["adk_stream.status"] == "failed"
    assert refused.status.status_code is StatusCode.ERROR
    assert SECRET not in span.to_json() + refused.to_json()
    assert not global_telemetry.get_finished_spans(), "the client made a span of its own"


def test_a_client_that_traces_by_itself_does_so_without_us(global_telemetry):
    """So the test above would see it."""
    global_telemetry.clear()
    with ReplayServer([Recording.from_bytes(of_anthropic(), "anthropic")]) as server:
        asyncio.run(read(LINES["anthropic"][1](server.url)))
    if int(anthropic.__version__.split(".")[0]) >= 2:
        assert [span.name for span in global_telemetry.get_finished_spans()] == ["anthropic.messages.create"]


# ----------------------------------------------------------------- without


WITHOUT_SDK = """
import asyncio
from adk_stream import Runner
from adk_stream.integrations.opentelemetry import traced, traced_runs
from adk_stream.models import ReplayModel
from adk_stream.sessions import InMemorySessionService
from opentelemetry import trace

def lookup() -> bool:
    "Look."
    return trace.get_current_span().is_recording()

def chunk(finish, **delta):
    return {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

call = {"index": 0, "id": "c0", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}
rounds = [[chunk("tool_calls", tool_calls=[call]), "[DONE]"], [chunk("stop", content="a"), "[DONE]"]]

async def main():
    service = InMemorySessionService()
    await service.create_session(app_name="app", user_id="u", session_id="s")
    model = traced(ReplayModel(rounds, name="m", provider="openai-chat"), record_content=True)
    runner = Runner(model, [lookup], session_service=service, app_name="app", observer=traced_runs(record_content=True))
    events = [event async for event in runner.run_async(user_id="u", session_id="s", new_message="hi")]
    assert events[-1].text == "a"
    assert any(each.response == {"result": False} for event in events for each in event.get_function_responses())

asyncio.run(main())
"""

WITHOUT_API = """
import sys
sys.modules["opentelemetry"] = None
import adk_stream.integrations, adk_stream.runner, adk_stream.execution
try:
    import adk_stream.integrations.opentelemetry
except ImportError as problem:
    print(type(problem).__name__, problem)
"""


def test_without_an_sdk_nothing_happens():
    subprocess.run([sys.executable, "-c", WITHOUT_SDK], check=True, timeout=60)


def test_without_the_extra_the_error_names_it():
    done = subprocess.run([sys.executable, "-c", WITHOUT_API], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "MissingExtraError tracing needs opentelemetry-api: pip install 'adk-stream[otel]'\n"


def test_nothing_is_imported_before_it_is_used():
    program = "import adk_stream.runner, adk_stream.execution, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert not [name for name in done.stdout.split() if name.split(".")[0] == "opentelemetry"]


# ----------------------------------------------------------------- cost


def test_a_partial_costs_a_look_at_the_clock(telemetry):
    """No span, no event, no attribute for a chunk; and the time for one, generously bounded."""
    items = says(*["word "] * 3000)

    async def time_of(model: Any) -> float:
        request = question()
        began = time.process_time()
        async for _ in model.stream(request):
            pass
        return time.process_time() - began

    class Plain:
        name, provider = "m", "openai-chat"

        async def stream(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
            for item in items:
                yield item

    plain = min(asyncio.run(time_of(Plain())) for _ in range(5))
    model = traced(Plain())  # no SDK, or a global one: the per-chunk metrics are recorded at the end
    through = min(asyncio.run(time_of(model)) for _ in range(5))
    assert (through - plain) / len(items) < 20e-6
    asyncio.run(read(traced(Plain(), **telemetry.to)))
    assert not telemetry.one().events
