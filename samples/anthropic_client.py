"""Anthropic's client: signed thinking and a tool call, and the message that goes into the next request.

Without --url it speaks to a replay server that it starts itself.
"""

import argparse
import json
from contextlib import nullcontext
from pathlib import Path

from anthropic import Anthropic

from adk_stream import aggregate, to_native
from adk_stream.testing import ReplayServer

RECORDING = Path(__file__).parent / "recordings" / "anthropic-thinking-tool.sse"


def main(url: str) -> None:
    client = Anthropic(api_key="any", base_url=url)
    messages = [{"role": "user", "content": "Which rooms with a projector are free on Friday, for twelve?"}]
    stream = client.messages.create(model="claude-sonnet-5", max_tokens=1000, messages=messages, stream=True)
    responses = aggregate(stream)
    for response in responses:
        if response.partial and response.text:
            print("partial:", repr(response.text))
    final = responses.final
    assert final is not None
    print(f"final: {final.status}")
    messages.append(to_native(final, provider="anthropic"))  # thinking with its signature, as the API asks for it
    for block in messages[-1]["content"]:
        print("block:", block["type"])
    for call in final.executable_function_calls():
        print("call: ", call.name, json.dumps(call.args))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="base URL, as https://api.anthropic.com")
    given = parser.parse_args().url
    with nullcontext() if given else ReplayServer([RECORDING]) as server:
        main(given or server.url)
