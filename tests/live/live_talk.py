"""What the tests of live sessions share: a client of the local server, and responses told in few words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from google import genai

from adk_stream import LlmResponse
from adk_stream.live import LiveStream
from adk_stream.testing import LiveServer
from adk_stream.testing.live_messages import tone

SECONDS = 10.0  # no test waits longer
VOICE = tone(0.02, rate=16_000)
QUIET = 0.1  # seconds after which the server takes the user to have spoken


@asynccontextmanager
async def talk(server: LiveServer, *, vertexai: bool = False, **options: Any) -> AsyncIterator[LiveStream]:
    client = genai.Client(**server.client_options(vertexai=vertexai))
    config = {"response_modalities": ["AUDIO"], **options.pop("config", {})}
    stream = LiveStream(client, model="any", config=config, reconnect_backoff=0.05, **{"late_words": 0.05, **options})
    async with asyncio.timeout(SECONDS), stream as live:
        yield live


def run(work: Any) -> Any:
    """Run a test's coroutine; no task is left behind it."""

    async def checked() -> Any:
        result = await work
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for _ in range(20):  # the client's own tasks of a closed connection end by themselves
            left = [task for task in left if not task.done()]
            if not left:
                break
            await asyncio.sleep(0.01)
        assert left == []
        return result

    return asyncio.run(checked())


async def came(live: LiveStream, wanted: Any) -> None:
    """Wait, without reading, until a response that is wanted waits to be read."""
    while not any(wanted(entry.response) for entry in live._inbox._entries):
        await asyncio.sleep(0.01)


async def until(live: LiveStream, wanted: Any) -> list[LlmResponse]:
    """The responses up to the first that is wanted."""
    responses = []
    async for response in live:
        responses.append(response)
        if wanted(response):
            return responses
    raise AssertionError(f"the session ended before it: {[brief(response) for response in responses]}")


async def turn(live: LiveStream) -> list[LlmResponse]:
    """The responses of the turn that comes."""
    return await until(live, lambda response: response.turn_complete)


def brief(response: LlmResponse) -> Any:
    """What a response is about, in one word or pair."""
    if response.turn_complete:
        return ("complete", response.status)
    for who in ("input", "output"):
        said = getattr(response, f"{who}_transcription")
        if said is not None:
            return (who, said.text)
    for part in response.parts:
        if part.function_call:
            return ("call", part.function_call.id)
        if part.function_response:
            return ("answer", part.function_response.response)
        if part.inline_data:
            return "audio"
        if part.text is not None:
            return ("text", part.text)
    if response.error_code:
        return response.error_code
    return "interrupted" if response.interrupted else "signal"


def finals(responses: list[LlmResponse]) -> list[Any]:
    return [brief(response) for response in responses if not response.partial]


def audio_of(responses: list[LlmResponse]) -> bytes:
    return b"".join(
        part.inline_data.data for response in responses for part in response.parts if part.inline_data is not None
    )
