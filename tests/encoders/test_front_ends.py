"""The front ends' own readers, run by Node, accept what the encoders write, and understand it."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from encoder_readers import read_ag_ui, read_vercel
from encoder_streams import answer, encoded, gemini, results, streams
from hypothesis import HealthCheck, Phase, given, settings

from adk_stream import LlmResponse
from adk_stream.encoders import AgUiEncoder, VercelEncoder

FOLDER = Path(__file__).parent / "node"


@pytest.fixture(scope="session")
def node():
    """Runs one of the readers on many streams at once."""
    for command in ("node", "npm"):
        if shutil.which(command) is None:
            pytest.skip(f"{command} is not installed")
    if not (FOLDER / "node_modules").exists():
        install()

    def read(script, texts):
        done = subprocess.run(
            ["node", FOLDER / script], input=json.dumps(texts), capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        outcomes = json.loads(done.stdout)
        assert len(outcomes) == len(texts)
        return outcomes

    return read


def install():
    """Put the packages beside the readers, in a folder that git ignores; all of them or nothing."""
    with tempfile.TemporaryDirectory(prefix=".node-install-", dir=FOLDER) as folder:
        shutil.copy(FOLDER / "package.json", folder)
        command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--silent"]
        try:
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as problem:
            pytest.skip(f"npm cannot install the readers: {problem}")
        try:
            Path(folder, "node_modules").rename(FOLDER / "node_modules")
        except OSError:
            pass  # another process was first


def some_runs(count):
    """Generated streams, always the same."""
    found = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(streams())
    def collect(run):
        found.append(run)

    collect()
    return found


def framed(encoder, responses, error=None):
    return b"".join(encoder.frame(event) for event in encoded(encoder, responses, error)).decode()


def test_the_ai_sdk_reads_generated_runs(node):
    runs = some_runs(40)
    outcomes = node("vercel.mjs", [framed(VercelEncoder("m"), run.responses) for run in runs])
    for run, outcome in zip(runs, outcomes, strict=True):
        assert "error" not in outcome, outcome
        message = outcome["value"]["message"]
        told = read_vercel(encoded(VercelEncoder("m"), run.responses))
        parts = message["parts"]
        assert "".join(part["text"] for part in parts if part["type"] == "text") == run.text
        assert "".join(part["text"] for part in parts if part["type"] == "reasoning") == run.thoughts
        assert all(part["state"] == "done" for part in parts if part["type"] in ("text", "reasoning"))
        tools = {part["toolCallId"]: part for part in parts if part["type"].startswith("tool-")}
        assert set(tools) == set(told.arguments)
        for name, tool in tools.items():
            if name in run.results:
                assert (tool["state"], tool["output"]) == ("output-available", run.results[name])
            else:
                assert tool["state"] == ("input-available" if name in run.calls else "output-error")
            if name in run.calls:
                assert set(tool["input"]) == set(run.calls[name])
        assert bool(outcome["value"]["errors"]) != run.whole


def test_ag_ui_verifies_generated_runs(node):
    runs = some_runs(40)
    outcomes = node("ag_ui.mjs", [framed(AgUiEncoder("t", "r"), run.responses) for run in runs])
    for run, outcome in zip(runs, outcomes, strict=True):
        assert "error" not in outcome, outcome
        value = outcome["value"]
        told = read_ag_ui(encoded(AgUiEncoder("t", "r"), run.responses))
        assert value["warnings"] == []
        assert (value["finished"] is not None) == run.whole
        assert (value["failed"] is not None) != run.whole
        said = [message for message in value["messages"] if message["role"] == "assistant"]
        assert "".join(message.get("content") or "" for message in said) == run.text
        calls = [call for message in said for call in message.get("toolCalls", [])]
        assert {call["id"]: call["function"]["arguments"] for call in calls} == told.arguments
        answers = [message for message in value["messages"] if message["role"] == "tool"]
        assert {message["toolCallId"]: json.loads(message["content"]) for message in answers} == run.results


PNG = b"\x89PNG\r\n\xfb\xff"


def rich():
    """Everything there is, in two rounds."""
    first = gemini(
        [{"text": "thinking", "thought": True}],
        [{"text": "text \u2028 \x00 é 😀"}],
        [{"inlineData": {"mimeType": "image/png", "data": PNG}}],
        [{"functionCall": {"id": "a", "name": "f", "willContinue": True}}],
        [{"functionCall": {"partialArgs": [{"jsonPath": "$.x", "stringValue": "he"}], "willContinue": True}}],
        [{"functionCall": {"partialArgs": [{"jsonPath": "$.x", "stringValue": "llo"}], "willContinue": False}}],
        [{"functionCall": {"id": "b", "name": "g", "args": {}}}],
        [{"executableCode": {"language": "PYTHON", "code": "1+1"}}],
    )
    grounding = {"groundingChunks": [{"web": {"uri": "https://a.example/", "title": "A"}}]}
    second = LlmResponse(
        content={"role": "model", "parts": [{"text": "done"}]},
        status="completed",
        finish_reason="STOP",
        grounding_metadata=grounding,
        usage_metadata={"promptTokenCount": 1, "totalTokenCount": 1},
    )
    return [*first, results(answer("a", {"result": 1}), answer("b", {"error": "no"})), second]


def test_the_ai_sdk_reads_everything_there_is(node):
    [outcome] = node("vercel.mjs", [framed(VercelEncoder("m"), rich())])
    message = outcome["value"]["message"]
    kinds = [part["type"] for part in message["parts"]]
    assert kinds == [
        "step-start",
        "reasoning",
        "text",
        "tool-f",
        "tool-g",
        "file",
        "data-executable-code",
        "step-start",
        "text",
        "source-url",
    ]
    by_kind = {part["type"]: part for part in message["parts"]}
    assert (by_kind["tool-f"]["input"], by_kind["tool-f"]["output"]) == ({"x": "hello"}, {"result": 1})
    assert by_kind["tool-g"]["errorText"] == "no"
    assert by_kind["file"]["url"] == "data:image/png;base64,iVBORw0K+/8="
    assert by_kind["source-url"]["title"] == "A"
    assert message["metadata"]["usage"]["totalTokens"] == 1


def test_ag_ui_verifies_everything_there_is(node):
    texts = [framed(AgUiEncoder("t", "r"), rich()), framed(AgUiEncoder("t", "r"), rich()[:5], KeyboardInterrupt())]
    whole, cancelled = node("ag_ui.mjs", texts)
    roles = [message["role"] for message in whole["value"]["messages"]]
    assert roles == ["reasoning", "assistant", "tool", "tool", "assistant"]
    assert cancelled["value"]["finished"]["outcome"] == {"type": "cancelled"}


def test_the_readers_would_notice(node):
    events = encoded(VercelEncoder("m"), rich())
    encoder = VercelEncoder()
    bad = [event for event in events if event == "[DONE]" or event["type"] != "text-start"]
    unknown = [{"type": "no-such-thing"}, *events]
    outcomes = node("vercel.mjs", [b"".join(map(encoder.frame, told)).decode() for told in (bad, unknown)])
    assert all("error" in outcome for outcome in outcomes)
    encoder = AgUiEncoder("t", "r")
    events = encoded(encoder, rich())
    bad = [event for event in events if event.type != "TEXT_MESSAGE_START"]
    [outcome] = node("ag_ui.mjs", [b"".join(map(encoder.frame, bad)).decode()])
    assert "error" in outcome
