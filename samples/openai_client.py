"""OpenAI's client: Chat Completions and Responses through the same loop.

Without --url it speaks to a replay server that it starts itself.
"""

import argparse
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from openai import OpenAI

from adk_stream import aggregate
from adk_stream.testing import ReplayServer

RECORDINGS = Path(__file__).parent / "recordings"
NAMES = ("openai-chat-tools.sse", "openai-responses-reasoning.sse")


def show(stream: Iterable[Any]) -> None:
    """The client's own objects go in; which of the two interfaces they are of, they tell themselves."""
    for response in aggregate(stream):
        if not response.partial:
            calls = [(call.name, call.args) for call in response.executable_function_calls()]
            print(f"final: {response.status}, {response.text!r}, {calls}")
            continue
        for part in response.parts:
            fragment = (part.part_metadata or {}).get("arguments_delta")
            if fragment:
                print("partial:", part.function_call.name, repr(fragment))
            elif part.text:
                print("partial:", "thought" if part.thought else "text", repr(part.text))


def main(url: str) -> None:
    client = OpenAI(api_key="any", base_url=url)
    question = "What time is it in Tokyo, and what is the euro worth there?"
    show(
        client.chat.completions.create(
            model="gpt-5-mini", messages=[{"role": "user", "content": question}], stream=True
        )
    )
    show(client.responses.create(model="gpt-5-mini", input="Over the mountains or by the coast?", stream=True))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="base URL, as https://api.openai.com/v1")
    given = parser.parse_args().url
    with nullcontext() if given else ReplayServer([RECORDINGS / name for name in NAMES]) as server:
        main(given or f"{server.url}/v1")
