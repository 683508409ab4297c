"""``adk-stream serve``: from the command to an answer, and an end that was asked for."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from served_app import follow, shown

from adk_stream.errors import RecordingError

RECORDING = Path(__file__).parent.parent.parent / "samples" / "recordings" / "thinking-then-text.sse"


class Command:
    def __init__(self, *arguments, **environment):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("ADK_STREAM")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "adk_stream", "serve", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**kept, **environment},
        )


def test_a_recording_is_served_without_a_key(tmp_path):
    pytest.importorskip("typer")
    arguments = ["--model", f"m=replay:{RECORDING}", "--port", "0", "--session-db", str(tmp_path / "s.db")]
    command = Command(*arguments, ADK_STREAM_TOKEN="s3cret")
    url = command.process.stdout.readline().strip()
    with httpx.Client(base_url=url, headers={"authorization": "Bearer s3cret"}, timeout=20) as command.client:
        assert httpx.get(url).status_code == 401
        told = command.client.post("/runs", json={"message": "hi"}).json()
        events = follow(command, told)
        assert events[-1]["data"] == {"status": "completed"}
        assert shown(events)
        command.process.send_signal(signal.SIGTERM)
        assert command.process.wait(20) == 0
    errors = command.process.stderr.read()
    assert "Traceback" not in errors
    # The sessions are there for the other commands.
    listed = subprocess.run(
        [sys.executable, "-m", "adk_stream", "sessions", "list", "--app", "m", "--session-db", str(tmp_path / "s.db")],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert told["sessionId"] in listed.stdout


@pytest.mark.parametrize(
    ("models", "host", "words"),
    [
        (["m=replay:nothing.sse"], "127.0.0.1", "nothing.sse"),
        ([f"a=replay:{RECORDING}", f"a=replay:{RECORDING}"], "127.0.0.1", "two models"),
        ([f"replay:{RECORDING}"], "0.0.0.0", "--token"),
        (["nobody:x"], "127.0.0.1", "nobody"),
    ],
)
def test_arguments_that_make_no_sense(models, host, words, monkeypatch):
    pytest.importorskip("typer")
    from adk_stream.cli.outcome import UsageProblem
    from adk_stream.cli.serve import Binding, serve

    monkeypatch.delenv("ADK_STREAM_TOKEN", raising=False)
    with pytest.raises((UsageProblem, RecordingError), match=words):
        serve(models, Binding(host, 0), session_db="memory:", max_runs=1, drain_seconds=0)
