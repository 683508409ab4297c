"""Recorded sessions of the real server, played to a ``LiveStream``: what it gives is what the recording holds.

``ADK_STREAM_CORPUS`` names the folder of recordings.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from google.genai import types
from live_talk import audio_of, brief, run, talk

from adk_stream import LlmResponse, aggregate
from adk_stream.testing import LiveServer

CORPUS = os.environ.get("ADK_STREAM_CORPUS")
RECORDINGS = sorted(
    path for path in (Path(CORPUS, "gemini_live").rglob("*.jsonl") if CORPUS else ()) if ".session." not in path.name
)


def kept(responses: list[LlmResponse]) -> list[object]:
    return [brief(response) for response in responses if not response.partial]


def totals(responses: list[LlmResponse]) -> list[int | None]:
    return [response.usage_metadata.total_token_count for response in responses if response.usage_metadata]


@pytest.mark.skipif(not RECORDINGS, reason="ADK_STREAM_CORPUS names no folder of recorded streams")
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name[-60:])
def test_what_is_given_is_what_was_recorded(path: Path) -> None:
    data = path.read_bytes()
    whole = list(aggregate([data], "gemini-live"))
    heard = len(whole) - 2  # all but the answer to setup, which the client takes, and the final
    turns = sum(bool(response.turn_complete) for response in whole)
    ends = [json.loads(line).get("serverContent", {}) for line in data.splitlines()]
    assert turns == sum(bool(content.get("turnComplete")) for content in ends)

    async def main() -> list[LlmResponse]:
        responses = []
        async with talk(server) as live:
            for _ in range(turns or 1):
                await live.send_text("go on")
                async for response in live:
                    responses.append(response)
                    for call in response.executable_function_calls():
                        answer = types.FunctionResponse(id=call.id, name=call.name, response={})
                        await live.send_function_responses(answer)
                    if response.turn_complete or (not turns and len(responses) == heard):
                        break
        return responses if turns else [*responses, live.final]  # it was recorded up to the middle of a turn

    with LiveServer(path) as server:
        responses = run(main())
    assert kept(responses) == kept(whole)
    assert audio_of(responses) == audio_of([response for response in whole if response.partial])
    # google-genai drops counters that the Live API does not name so; the total has one name
    assert totals(responses) == totals(whole)
