"""Models on clients of their own making serve as many streams at once as they are asked for."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import aclosing

import pytest
from google.genai import types

from adk_stream.models import AnthropicModel, GeminiModel, OpenAIChatModel
from adk_stream.models.request import ModelRequest
from adk_stream.recording import Recording
from adk_stream.testing import ReplayServer

STREAMS = 120  # more than the hundred connections that httpx gives a client that says nothing

BODIES = {
    "gemini": b'data: {"candidates": [{"content": {"role": "model", "parts": [{"text": "hi"}]}}]}\n\n' * 2,
    "openai-chat": b'data: {"choices": [{"index": 0, "delta": {"content": "hi"}}]}\n\n' * 2,
    "anthropic": b'event: ping\ndata: {"type": "ping"}\n\n' * 2,
}
MODELS = {"gemini": GeminiModel, "openai-chat": OpenAIChatModel, "anthropic": AnthropicModel}


@pytest.mark.parametrize("line", BODIES)
def test_many_streams_at_once(line, monkeypatch):
    async def main(model) -> None:
        request = ModelRequest([types.Content(role="user", parts=[types.Part(text="hi")])])
        everyone = asyncio.Barrier(STREAMS)

        async def one() -> None:
            async with aclosing(model.stream(request)) as stream:
                await anext(stream)
                await everyone.wait()

        async with asyncio.timeout(30):
            await asyncio.gather(*(one() for _ in range(STREAMS)))
        client = model._client().aio if line == "gemini" else model._clients.current()
        await (client.aclose if line == "gemini" else client.close)()

    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(name, "k")
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    with ReplayServer([Recording.from_bytes(BODIES[line], line)], faults="stall=60@1") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
        asyncio.run(main(MODELS[line]("m")))


def test_the_package_is_imported_before_a_loop_could_be_held_up():
    program = "import sys; from adk_stream.models import OpenAIChatModel as M; M('m'); assert 'openai' in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
