"""Recorded streams of real providers through the runner; ``ADK_STREAM_CORPUS`` names their folder.

Whatever they hold, whole or broken off, the run ends with a mark and leaves a history that can be sent.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from scripted_model import check_history, finals

from adk_stream import Runner
from adk_stream.errors import StreamError
from adk_stream.models import ReplayModel
from adk_stream.models.history import turns
from adk_stream.recording import Recording, load_recording
from adk_stream.sessions import InMemorySessionService

CORPUS = os.environ.get("ADK_STREAM_CORPUS")
pytestmark = pytest.mark.skipif(not CORPUS, reason="ADK_STREAM_CORPUS names no folder of recordings")

LINES = ("gemini", "openai_chat", "openai_responses", "anthropic")
EVERY = 3  # of the recordings of a line: enough to meet each kind, in seconds


def recordings(line: str) -> list[Path]:
    index = Path(CORPUS or ".", "INDEX.tsv")
    if not index.exists():
        return []
    paths = [Path(CORPUS or ".", row.split("\t")[0]) for row in index.read_text(encoding="utf-8").splitlines()[1:]]
    return [path for path in paths if path.relative_to(CORPUS or ".").parts[0] == line and path.is_file()][::EVERY]


async def run(recording: Recording) -> None:
    service = InMemorySessionService()
    session = await service.create_session(app_name="app", user_id="u")
    model = ReplayModel(recording, repeat=True)
    runner = Runner(model, session_service=service, app_name="app", max_rounds=2)
    events = []
    try:
        async for event in runner.run_async(user_id="u", session_id=session.id, new_message="hi"):
            events.append(event)
    except StreamError:
        assert events[-1].status == "failed"
    session = await service.get_session(app_name="app", user_id="u", session_id=session.id)
    assert session is not None
    check_history(session.events)
    assert turns(session.events)
    assert [event.id for event in finals(events)] == [event.id for event in session.events[1:]]
    assert events[-1].status in ("completed", "incomplete", "failed", "cancelled")
    if events[-1].status == "completed":
        assert not events[-1].get_function_calls()


@pytest.mark.parametrize("line", LINES)
def test_a_recorded_stream_whole_and_broken_off(line):
    async def main() -> int:
        paths = recordings(line)
        for path in paths:
            recording = load_recording(path)
            if recording.provider is None:
                continue
            await run(recording)
            events = recording.by_event().pieces
            half = recording.by_event().pieces[: len(events) // 2 + 1]
            await run(Recording(half, recording.provider, recording.name))
        return len(paths)

    assert asyncio.run(main()) >= 10
