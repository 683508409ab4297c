"""Models and runner against aimock, a server in Node that others wrote: reasoning, ordered blocks, breaks and chaos.

It is a second opinion. Some of what it sends no provider does (a finish reason that Gemini has not, an answer whose
event says completed and whose status does not): there the careful reading is the right one.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from google import genai
from google.genai import types
from outside_runs import QUICK, Answer, ask, finals, nothing_stays, talk, with_model

from adk_stream import StreamExecutionOptions
from adk_stream.errors import ConnectionLostError, MalformedStreamError, ProviderError, RateLimitError, StreamError
from adk_stream.models import AnthropicModel, GeminiModel, OpenAIChatModel, OpenAIResponsesModel

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")

VERSION = "1.43.0"

THOUGHT, TEXT = "First I consider the matter at length.", "Then I answer it, in words."
ODD = 'a\u2028b\u0085c 😀 é " \\ \n end'
BLOCKS = [
    {"type": "toolCall", "name": "weather", "arguments": {"city": "Oslo"}, "id": "call_1"},
    {"type": "text", "text": "While that runs, "},
    {"type": "toolCall", "name": "weather", "arguments": {"city": "Tromsø"}, "id": "call_2"},
    {"type": "text", "text": "some more."},
]
#: Gemini ends a message of calls with STOP; aimock's own word for it, FUNCTION_CALL, is none of Gemini's.
NATURAL = {"finishReason": "stop"}


def error(status: int, kind: str) -> dict:
    return {"error": {"message": "not now", "type": kind}, "status": status}


#: What aimock answers to a message that holds the word.
FIXTURES = [
    {"match": {"userMessage": "think"}, "response": {"reasoning": THOUGHT, "content": TEXT}},
    {"match": {"userMessage": "odd"}, "response": {"content": ODD}},
    {"match": {"userMessage": "blocks", "hasToolResult": True}, "response": {"content": TEXT}},
    {"match": {"userMessage": "blocks", "hasToolResult": False}, "response": {"blocks": BLOCKS, **NATURAL}},
    {"match": {"userMessage": "unknown end"}, "response": {"blocks": BLOCKS[:1]}},
    {"match": {"userMessage": "length"}, "response": {"content": TEXT, "finishReason": "length"}},
    {"match": {"userMessage": "truncate"}, "response": {"content": TEXT * 9}, "truncateAfterChunks": 9, "latency": 9},
    {
        "match": {"userMessage": "disconnect"},
        "response": {"content": TEXT * 9},
        "disconnectAfterMs": 250,
        "latency": 20,
    },
    {"match": {"userMessage": "slow"}, "response": {"content": TEXT}, "streamingProfile": {"ttft": 5000, "tps": 10}},
    {"match": {"userMessage": "limited"}, "response": error(429, "rate_limit_error")},
    {"match": {"userMessage": "broken"}, "response": error(503, "server_error")},
    {"match": {"userMessage": "refused"}, "response": error(400, "invalid_request_error")},
    {"match": {"userMessage": "drop"}, "response": {"content": TEXT}, "chaos": {"dropRate": 1}},
    {"match": {"userMessage": "garbled"}, "response": {"content": TEXT}, "chaos": {"malformedRate": 1}},
    {"match": {"userMessage": "reset"}, "response": {"content": TEXT}, "chaos": {"disconnectRate": 1}},
    {"match": {}, "response": {"content": TEXT}},
]

MODELS = {
    "gemini": lambda url: GeminiModel(
        "m", client=genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url, api_version="v1beta"))
    ),
    "openai-chat": lambda url: OpenAIChatModel("m", client=openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1")),
    "openai-responses": lambda url: OpenAIResponsesModel(
        "m", client=openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1")
    ),
    "anthropic": lambda url: AnthropicModel("m", client=anthropic.AsyncAnthropic(api_key="k", base_url=url)),
}
each_line = pytest.mark.parametrize("line", MODELS)


# ----------------------------------------------------------------- the server


@pytest.fixture(scope="session")
def program(pytestconfig, tmp_path_factory) -> Path:
    """aimock's command, installed once into pytest's cache."""
    for command in ("node", "npm"):
        if shutil.which(command) is None:
            pytest.skip(f"{command} is not installed")
    cache = getattr(pytestconfig, "cache", None)  # it can be switched off
    folder = Path(cache.mkdir("aimock") if cache else tmp_path_factory.mktemp("aimock")) / VERSION
    if not folder.exists():
        install(folder)
    return folder / "node_modules/@copilotkit/aimock/dist/cli.js"


def install(folder: Path) -> None:
    """All of it or nothing, whoever else installs at the same time."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent", "--prefix", place]
        try:
            command.append(f"@copilotkit/aimock@{VERSION}")
            subprocess.run(command, check=True, capture_output=True, timeout=120)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as problem:
            pytest.skip(f"npm cannot install aimock: {problem}")
        try:
            Path(place).rename(folder)
        except OSError:
            return  # another process was first
        Path(place).mkdir()  # for the block to remove


@contextmanager
def running(program: Path, folder: Path, *options: str) -> Iterator[str]:
    """The URL of an aimock."""
    (folder / "fixtures.json").write_text(json.dumps({"fixtures": FIXTURES}))
    command = ["node", str(program), "-p", "0", "-f", str(folder), "-c", "5", "--log-level", "info", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        lines = []
        for line in process.stdout:
            lines.append(line)
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            if found:
                break
        else:
            raise AssertionError("".join(lines))
        yield found[0]
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def aimock(program, tmp_path_factory) -> Iterator[str]:
    with running(program, tmp_path_factory.mktemp("aimock")) as url:
        yield url


@pytest.fixture
def url(aimock) -> Iterator[str]:
    with nothing_stays(aimock):
        yield aimock


def asking(line: str, url: str, *messages: str, options: StreamExecutionOptions = QUICK) -> list[Answer]:
    async def main(model) -> list[Answer]:
        return [await ask(model, options, message=message) for message in messages]

    return with_model(lambda: MODELS[line](url), main)


# ----------------------------------------------------------------- answers


@each_line
def test_answers(line, url):
    thinks, odd, cut = asking(line, url, "think", "odd", "length")
    assert (thinks.end, thinks.shown, thinks.kept) == (("completed", None), TEXT, TEXT)
    assert thinks.final.thought_text == THOUGHT
    assert "".join(response.thought_text for response in thinks.responses if response.partial) == THOUGHT
    assert (odd.end, odd.shown, odd.kept) == (("completed", None), ODD, ODD)
    # the Responses of aimock tell no reason, and tell it in an event that says completed
    code = "incomplete" if line == "openai-responses" else "MAX_TOKENS"
    assert (cut.end, cut.shown, cut.raised) == (("incomplete", code), TEXT, None)


@each_line
def test_ordered_blocks_and_a_tool_round(line, url):
    asked = []

    def weather(city: str) -> str:
        """Tell the weather of a city."""
        asked.append(city)
        return f"cold in {city}"

    run = with_model(lambda: MODELS[line](url), lambda model: talk(model, ["blocks", "think"], tools=[weather]))
    calls, results, answer = finals(run.runs[0])
    assert calls.status == "completed"
    order = [part.text or part.function_call.id for part in calls.parts if part.text or part.function_call]
    if line == "openai-chat":  # its text has no place among the calls
        assert order == ["call_1", "While that runs, some more.", "call_2"]
    else:
        assert order == ["call_1", "While that runs, ", "call_2", "some more."]
    assert asked == ["Oslo", "Tromsø"]
    assert [each.response["result"] for each in results.get_function_responses()] == ["cold in Oslo", "cold in Tromsø"]
    assert (answer.text, answer.status) == (TEXT, "completed")
    last = finals(run.runs[1])[-1]
    assert (last.text, last.thought_text, run.raised) == (TEXT, THOUGHT, [None, None])


def test_calls_under_an_unknown_finish_reason_do_not_run(url):
    asked = []

    def weather(city: str) -> None:
        """Tell the weather of a city."""
        asked.append(city)

    messages = ["unknown end", "think"]
    run = with_model(lambda: MODELS["gemini"](url), lambda model: talk(model, messages, tools=[weather]))
    assert asked == []
    assert (run.stored[1].status, run.stored[1].native_finish_reason) == ("incomplete", "FUNCTION_CALL")
    assert (run.runs[1][-1].text, run.raised) == (TEXT, [None, None])


# ----------------------------------------------------------------- faults


@each_line
def test_faults(line, url):
    """Each of them through a runner; then one more run of the same session answers."""
    errors = {
        "truncate": ConnectionLostError,
        "disconnect": ConnectionLostError,
        "limited": RateLimitError,
        "broken": ProviderError,
        "refused": ProviderError,
        "drop": ProviderError,
        "garbled": MalformedStreamError,
        "reset": ConnectionLostError,
    }
    statuses = {"limited": 429, "broken": 503, "refused": 400, "drop": 500}

    async def main(model) -> None:
        for message, error in errors.items():
            run = await talk(model, [message, "think"])
            problem, broken = run.raised[0], run.runs[0]
            assert (message, type(problem), broken[-1].status) == (message, error, "failed")
            assert broken[-1].error_code == (problem.code or type(problem).__name__)
            shown = "".join(event.text for event in broken if event.partial)
            assert shown == broken[-1].text
            assert bool(shown) is (message in ("truncate", "disconnect"))
            assert (TEXT * 9).startswith(shown)
            assert getattr(problem, "status", None) == statuses.get(message)
            assert getattr(problem, "retry_after", None) == (1 if message == "limited" else None)
            assert (run.runs[1][-1].text, run.raised[1]) == (TEXT, None)

    with_model(lambda: MODELS[line](url), main)


@each_line
def test_what_is_tried_again(line, url):
    options = StreamExecutionOptions(10, 10, max_retries=2, retry_backoff=0.01, retry_max_after=0.01)
    messages = ("truncate", "disconnect", "refused", "limited", "broken", "drop", "garbled", "reset")
    answers = asking(line, url, *messages, options=options)
    assert [answer.attempts for answer in answers] == [1, 1, 1, 3, 3, 3, 3, 3]


@each_line
def test_a_slow_beginning(line, url):
    [answer] = asking(line, url, "slow", options=StreamExecutionOptions(first_token_timeout=0.2))
    assert (answer.end, answer.raised.limit) == (("failed", "STREAM_TIMEOUT"), "first_token")
    assert answer.seconds < 4


def test_chaos(program, tmp_path):
    """Half of all requests go wrong. What is shown is the answer, exactly once, or an error of this package tells."""
    chaos = ["drop", "malformed", "disconnect", "ratelimit"]
    options = [word for kind in chaos for word in (f"--chaos-{kind}", "0.15")]
    patient = StreamExecutionOptions(10, 10, max_retries=9, retry_backoff=0.001, retry_max_after=0.01)

    async def main(model) -> list[Answer]:
        return await asyncio.gather(*(ask(model, patient, message="think") for _ in range(15)))

    with running(program, tmp_path, *options) as url, nothing_stays(url):
        for line in MODELS:
            answers = with_model(lambda line=line: MODELS[line](url), main)
            assert sum(answer.attempts for answer in answers) > len(answers)
            for answer in answers:
                assert answer.shown == answer.kept == (TEXT if answer.raised is None else "")
                assert answer.raised is None or isinstance(answer.raised, StreamError)
            assert sum(answer.raised is None for answer in answers) > 10
