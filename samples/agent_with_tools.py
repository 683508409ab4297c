"""An agent: a model, two tools and a session; the calls run here, and the model answers with their results.

Without --url it speaks to a replay server that it starts itself, whose recorded model answers in two rounds.
"""

import argparse
import asyncio
from contextlib import aclosing, nullcontext
from pathlib import Path

from google import genai
from google.genai import types

from adk_stream import Runner
from adk_stream.models import GeminiModel
from adk_stream.sessions import InMemorySessionService
from adk_stream.testing import ReplayServer

RECORDINGS = Path(__file__).parent / "recordings"
ROUNDS = [RECORDINGS / "tool-call-with-signature.sse", RECORDINGS / "answer-after-tool.sse"]


def get_weather(city: str, unit: str = "celsius") -> dict:
    """Tell the weather of today.

    Args:
        city: Where.
        unit: celsius or fahrenheit.
    """
    return {"city": city, "sky": "rain", "degrees": 14 if unit == "celsius" else 57}


async def get_tides(harbour: str) -> list[str]:
    """Tell the times of high water.

    Args:
        harbour: Where.
    """
    return ["04:10", "16:35"]


async def main(url: str) -> None:
    client = genai.Client(api_key="any", http_options=types.HttpOptions(base_url=url))
    service = InMemorySessionService()
    session = await service.create_session(app_name="samples", user_id="me")
    runner = Runner(
        GeminiModel("gemini-3-flash-preview", client=client),
        [get_weather, get_tides],
        session_service=service,
        app_name="samples",
        instruction="Look things up before you answer.",
    )
    run = runner.run_async(user_id="me", session_id=session.id, new_message="Do I need an umbrella in Lisbon?")
    async with aclosing(run):
        async for event in run:
            if event.partial:
                continue  # to show while it comes; what follows is stored
            for part in event.parts:
                if part.function_call:
                    print("call:  ", part.function_call.name, part.function_call.args)
                elif part.function_response:
                    print("result:", part.function_response.response)
                elif part.text and not part.thought:
                    print("answer:", part.text)
            last = event
    print(f"{last.status}, {run.usage.total_token_count} tokens")
    stored = await service.get_session(app_name="samples", user_id="me", session_id=session.id)
    assert stored is not None
    print("stored:", ", ".join(event.author for event in stored.events))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="base URL of a Gemini server")
    given = parser.parse_args().url
    with nullcontext() if given else ReplayServer(ROUNDS) as server:
        asyncio.run(main(given or server.url))
