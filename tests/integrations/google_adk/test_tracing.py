"""A traced model inside google-adk, whose own span tells of the request already."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("google.adk", reason="google-adk is not installed")

from google.adk.agents import Agent
from google.adk.runners import InMemoryRunner
from google.genai import types
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from adk_stream.integrations.google_adk import AdkStreamLlm
from adk_stream.integrations.opentelemetry import traced
from adk_stream.models import ReplayModel


def test_one_request_is_one_span():
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        trace.set_tracer_provider(TracerProvider())
    exporter = InMemorySpanExporter()
    trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(exporter))
    choice = {"index": 0, "delta": {"content": "hello"}, "finish_reason": "stop"}
    answer = [{"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}, "[DONE]"]
    model = AdkStreamLlm(traced(ReplayModel([answer], name="m", provider="openai-chat")))

    async def main() -> list:
        runner = InMemoryRunner(Agent(name="a", model=model), app_name="app")
        session = await runner.session_service.create_session(app_name="app", user_id="u")
        message = types.Content(role="user", parts=[types.Part(text="hi")])
        return [event async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message)]

    assert asyncio.run(main())[-1].content.parts[0].text == "hello"
    told = [(span.attributes or {}).get("gen_ai.operation.name") for span in exporter.get_finished_spans()]
    assert [name for name in told if name in ("chat", "generate_content")] == ["generate_content"]
