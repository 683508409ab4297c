"""google-adk's own model, flow, runner and sessions, over the real google-genai client and a local server."""

from __future__ import annotations

import asyncio
import json
from functools import cached_property
from typing import Any

from google import genai
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.google_llm import Gemini
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.base_tool import BaseTool
from google.genai import types

from adk_stream.recording import Recording
from adk_stream.testing import ReplayServer

END = [{"candidates": [{"content": {"role": "model", "parts": [{"text": "END"}]}, "finishReason": "STOP"}]}]
MAX_CALLS = 6


def recording(chunks: list[dict], model: str) -> Recording:
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode()
    return Recording.from_bytes(body, "gemini", name=model)


def recordings(turns: list[list[dict]], model: str) -> list[Recording]:
    """The turns of one run, and something to say if the loop asks for more than there are."""
    return [recording(chunks, model) for chunks in [*turns, *[END] * MAX_CALLS]]


class Tool(BaseTool):
    """Notes that it ran."""

    def __init__(self, name: str, ran: list[dict]) -> None:
        super().__init__(name=name, description=name)
        self.ran = ran

    def _get_declaration(self):
        return types.FunctionDeclaration(name=self.name, description=self.name)

    async def run_async(self, *, args, tool_context):
        self.ran.append({"name": self.name, "args": args})
        return {"ok": True}


class LocalGemini(Gemini):
    """Speaks to a local server, in Vertex AI's dialect: the Gemini API's leaves streamed arguments out."""

    @cached_property
    def api_client(self) -> genai.Client:
        return genai.Client(vertexai=True, api_key="local", http_options=types.HttpOptions(base_url=self.base_url))


def model_at(server: ReplayServer, name: str) -> LocalGemini:
    return LocalGemini(model=name, base_url=server.url)


def run_model(server: ReplayServer, name: str) -> list[LlmResponse]:
    """What google-adk's model gives for one request."""
    content = types.Content(role="user", parts=[types.Part(text="hi")])
    request = LlmRequest(model=name, contents=[content])

    async def main() -> list[LlmResponse]:
        model = model_at(server, name)
        try:
            return [response async for response in model.generate_content_async(request, stream=True)]
        finally:
            await model.api_client.aio.aclose()

    return asyncio.run(main())


def upper(callback_context: Any, llm_response: LlmResponse) -> LlmResponse | None:
    """A callback that puts a response of its own in the place of each."""
    if not (llm_response.content and llm_response.content.parts and llm_response.content.parts[0].text):
        return None
    text = llm_response.content.parts[0].text.upper()
    return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))


CALLBACKS = {"replace_text": upper}


def run_agent(
    model: Any, *, tools: tuple[str, ...] = (), service: Any = None, streaming: bool = True, **options: Any
) -> dict[str, Any]:
    """One message to an agent: its events, the tools that ran, and the session that is left."""
    ran: list[dict] = []
    callback = options.pop("after_model_callback", None)
    if callback:
        options["after_model_callback"] = CALLBACKS[callback]
    close_client = options.pop("close_client", None)
    stop_after = options.pop("stop_after", None)
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    mode = StreamingMode.SSE if streaming else StreamingMode.NONE
    run_config = RunConfig(streaming_mode=mode, max_llm_calls=MAX_CALLS)

    async def main() -> dict[str, Any]:
        sessions = service or InMemorySessionService()
        agent = LlmAgent(name="a", model=model, tools=[Tool(name, ran) for name in tools], **options)
        runner = Runner(agent=agent, app_name="app", session_service=sessions)
        session = await sessions.create_session(app_name="app", user_id="u")
        events, error = [], None
        running = runner.run_async(user_id="u", session_id=session.id, new_message=message, run_config=run_config)
        try:
            async for event in running:
                events.append(event)
                if stop_after and len(events) >= stop_after:
                    await running.aclose()
                    break
        except Exception as problem:
            error = problem
        if isinstance(model, Gemini):
            await model.api_client.aio.aclose()
        if close_client is not None:
            await close_client()
        session = await sessions.get_session(app_name="app", user_id="u", session_id=session.id)
        return {"events": events, "error": error, "session": session, "ran": ran}

    return asyncio.run(main())
