"""Recorded streams of every provider: what front ends understand is what the finals hold."""

import os
from pathlib import Path

import pytest
from encoder_readers import read_ag_ui, read_chat, read_vercel
from encoder_streams import encoded

from adk_stream import aggregate
from adk_stream.encoders import AgUiEncoder, OpenAIChatEncoder, VercelEncoder
from adk_stream.errors import AdkStreamError

CORPUS = os.environ.get("ADK_STREAM_CORPUS")
LINES = {
    "gemini": "gemini",
    "openai_chat": "openai-chat",
    "openai_responses": "openai-responses",
    "anthropic": "anthropic",
    "gemini_live": "gemini-live",
}
LARGEST = 60_000  # bytes; a few recordings are much larger and show nothing more


def responses_to(path, provider, flush):
    found = []
    try:
        for response in aggregate([path.read_bytes()], provider=provider, flush=flush):
            found.append(response)
    except AdkStreamError:
        pass  # its failed final came first
    return found


@pytest.mark.skipif(not CORPUS, reason="ADK_STREAM_CORPUS does not name a folder of recordings")
@pytest.mark.parametrize("folder", sorted(LINES))
def test_front_ends_understand_what_the_finals_hold(folder):
    paths = sorted(path for path in Path(CORPUS, folder).rglob("*.*") if 0 < path.stat().st_size < LARGEST)
    assert paths
    for path in paths:
        for flush in ("close", "boundary"):
            responses = responses_to(path, LINES[folder], flush)
            finals = [response for response in responses if not response.partial]
            for shown in (responses, finals):
                text = "".join(
                    r.text + (r.output_transcription.text or "" if r.output_transcription else "") for r in finals
                )
                thoughts = "".join(response.thought_text for response in finals)
                for told in (
                    read_vercel(encoded(VercelEncoder(), shown)),
                    read_ag_ui(encoded(AgUiEncoder("t"), shown)),
                    read_chat(encoded(OpenAIChatEncoder("m"), shown)),
                ):
                    assert told.text == text, path
                    assert told.thoughts == thoughts, path
                    assert told.open == set(), path
