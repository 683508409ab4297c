"""Every sample runs, and every recording ends as samples/README.md says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from adk_stream import aggregate, to_native
from adk_stream.recording import load_recording

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "samples"
README = (SAMPLES / "README.md").read_text(encoding="utf-8")
TOLD = re.findall(r"^\| `([\w-]+\.sse)` \| .* \| (\w+)(?: `(\w+)`)? \|$", README, re.M)


def test_readme_tells_of_every_file():
    assert sorted(name for name, _, _ in TOLD) == sorted(file.name for file in (SAMPLES / "recordings").iterdir())
    assert set(re.findall(r"^\| `(\w+\.py)`", README, re.M)) == {file.name for file in SAMPLES.glob("*.py")}


@pytest.mark.parametrize(("name", "status", "code"), TOLD, ids=[name for name, _, _ in TOLD])
def test_recording_ends_as_readme_says(name, status, code):
    data = (SAMPLES / "recordings" / name).read_bytes()
    *_, final = aggregate([data])
    assert (final.status, final.error_code or "") == (status, code)
    provider = load_recording(SAMPLES / "recordings" / name).provider
    if status == "completed":
        assert to_native(final, provider=provider)
    *_, by_byte = aggregate((data[n : n + 1] for n in range(len(data))), provider=provider)
    assert by_byte.text == final.text
    assert by_byte.usage_metadata == final.usage_metadata


def run(program, *arguments):
    done = subprocess.run(
        [sys.executable, SAMPLES / program, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ten_lines():
    out = run("ten_lines.py")
    assert "keeps completed" in out
    assert "runs  get_weather {'city': 'Lisbon', 'unit': 'celsius'}" in out


def test_genai_client():
    pytest.importorskip("sqlalchemy")
    pytest.importorskip("uvicorn")
    out = run("genai_client.py")
    assert "🌊 — two high tides a day.\n" in out
    assert out.endswith("stored: model, completed, 3 parts, 1 signed\n")


def test_openai_client():
    pytest.importorskip("openai")
    out = run("openai_client.py")
    finals = [line for line in out.splitlines() if line.startswith("final: completed")]
    assert len(finals) == 2
    assert "('get_rate', {'from': 'EUR', 'to': 'JPY'})" in finals[0]
    assert "open all winter." in finals[1]
    assert out.count("partial: thought") == 2


def test_anthropic_client():
    pytest.importorskip("anthropic")
    out = run("anthropic_client.py")
    assert [line for line in out.splitlines() if line.startswith("block")] == [
        "block: thinking",
        "block: text",
        "block: tool_use",
    ]
    assert 'find_rooms {"date": "2026-02-13", "seats": 12, "projector": true}' in out


def test_agent_with_tools():
    pytest.importorskip("uvicorn")
    assert run("agent_with_tools.py").splitlines() == [
        "call:   get_weather {'city': 'Lisbon', 'unit': 'celsius'}",
        "result: {'city': 'Lisbon', 'sky': 'rain', 'degrees': 14}",
        "answer: Yes, take one: it rains in Lisbon, at 14 °C.",
        "completed, 318 tokens",
        "stored: user, model, model, model",
    ]


def test_live_voice():
    pytest.importorskip("trustme")
    pytest.importorskip("websockets")
    first, *lines, last = run("live_voice.py").splitlines()
    assert first == "user: What is the weather in Lisbon?"
    assert lines[0] == "model: get_weather({'city': 'Lisbon'})"
    assert lines[1] == "get_weather: {'city': 'Lisbon', 'sky': 'rain', 'celsius': 14}"
    assert lines[2:4] == ["model: Rain, at fourteen degrees.", "user: And tomorrow?"]
    assert lines[4].startswith("model: Tomorrow")
    assert lines[4].endswith(" …")
    assert lines[5:] == ["user: Thank you!", "model: You are welcome."]
    assert re.fullmatch(r"voice: [01]\.\d s in voice\.wav", last)


def test_read_session():
    out = run("read_session.py")
    assert "samples / me: 5 events" in out
    assert "incomplete STREAM_CUT" in out


def test_read_session_of_a_database(tmp_path):
    pytest.importorskip("sqlalchemy")
    assert run("read_session.py", f"sqlite:///{tmp_path / 'empty.db'}") == ""
