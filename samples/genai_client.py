"""google-genai's client, its stream aggregated and stored in SQLite, then read back.

Without --url it speaks to a replay server that it starts itself.
"""

import argparse
import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from google import genai
from google.genai import types

from adk_stream import LlmResponse, StreamingResponseAggregator
from adk_stream.sessions import SqlSessionService, store_events
from adk_stream.testing import ReplayServer

RECORDING = Path(__file__).parent / "recordings" / "thinking-then-text.sse"


def ask(url: str, question: str) -> Iterator[LlmResponse]:
    """The responses to one question: partials, then what is to be kept."""
    client = genai.Client(api_key="any", http_options=types.HttpOptions(base_url=url))
    aggregator = StreamingResponseAggregator(flush="close")
    for chunk in client.models.generate_content_stream(model="gemini-3-flash-preview", contents=question):
        yield from aggregator.process_response(chunk)
    final = aggregator.close()
    if final is not None:
        yield final


async def main(url: str, database: Path) -> None:
    async with SqlSessionService(f"sqlite:///{database}") as service:
        session = await service.create_session(app_name="samples", user_id="me")
        async for event in store_events(ask(url, "Why are there two tides a day?"), service, session, author="model"):
            if event.partial:
                print(event.text, end="", flush=True)  # a hint for display: never stored
        print()
    async with SqlSessionService(f"sqlite:///{database}") as service:  # as another process would
        stored = await service.get_session(app_name="samples", user_id="me", session_id=session.id)
        assert stored is not None
        for event in stored.events:
            signed = sum(part.thought_signature is not None for part in event.parts)
            print(f"stored: {event.author}, {event.status}, {len(event.parts)} parts, {signed} signed")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="base URL of a Gemini server")
    given = parser.parse_args().url
    with tempfile.TemporaryDirectory() as folder, nullcontext() if given else ReplayServer([RECORDING]) as server:
        asyncio.run(main(given or server.url, Path(folder) / "sessions.db"))
