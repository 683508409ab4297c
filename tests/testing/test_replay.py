"""The replay server and the providers' own clients: what they read from it, and how they meet each fault."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import wire_streams as streams
from starlette.testclient import TestClient

from adk_stream.errors import RecordingError
from adk_stream.recording import Piece, Recorder, Recording, load_recording
from adk_stream.testing import Fault, ReplayServer
from adk_stream.testing.faults import FaultError

LINES = list(streams.PAYLOADS)
HTTP_LINES = {
    "gemini": ("/v1beta/models/m:streamGenerateContent?alt=sse", {}),
    "openai-chat": ("/openai/v1/chat/completions", {"model": "m", "stream": True}),
    "openai-responses": ("/v1/responses", {"model": "m", "stream": True}),
    "anthropic": ("/anthropic/v1/messages", {"model": "m", "stream": True}),
}


@pytest.fixture(scope="module")
def server() -> Iterator[ReplayServer]:
    with ReplayServer(streams.all_recordings()) as server:
        yield server


# ----------------------------------------------------------------- the clients, one function each: the text they read


def _google(server: ReplayServer, **options: Any) -> Any:
    genai = pytest.importorskip("google.genai")
    return genai.Client(api_key="k", http_options={"base_url": server.url, **options})


def read_gemini(server: ReplayServer, faults: str | None = None) -> Iterator[str]:
    client = _google(server, headers={} if faults is None else {"x-adk-stream-fault": faults})
    for chunk in client.models.generate_content_stream(model="gemini-test", contents="hi"):
        yield chunk.text or ""


def read_chat(server: ReplayServer, faults: str | None = None) -> Iterator[str]:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(api_key="k", base_url=f"{server.url}/openai/v1", max_retries=0)
    stream = client.chat.completions.create(
        model="chat-test",
        messages=[{"role": "user", "content": "hi"}],
        stream=True,
        extra_headers={} if faults is None else {"x-adk-stream-fault": faults},
    )
    for chunk in stream:
        yield from (choice.delta.content or "" for choice in chunk.choices)


def read_responses(server: ReplayServer, faults: str | None = None) -> Iterator[str]:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0)
    stream = client.responses.create(
        model="responses-test",
        input="hi",
        stream=True,
        extra_headers={} if faults is None else {"x-adk-stream-fault": faults},
    )
    for event in stream:
        if event.type == "response.output_text.delta":
            yield event.delta
        elif event.type == "error":
            yield f"<error {event.code}>"


def read_anthropic(server: ReplayServer, faults: str | None = None) -> Iterator[str]:
    anthropic = pytest.importorskip("anthropic")
    client = anthropic.Anthropic(api_key="k", base_url=f"{server.url}/anthropic", max_retries=0)
    stream = client.messages.create(
        model="anthropic-test",
        max_tokens=9,
        messages=[{"role": "user", "content": "hi"}],
        stream=True,
        extra_headers={} if faults is None else {"x-adk-stream-fault": faults},
    )
    for event in stream:
        if event.type == "content_block_delta":
            yield event.delta.text


READERS = {
    "gemini": read_gemini,
    "openai-chat": read_chat,
    "openai-responses": read_responses,
    "anthropic": read_anthropic,
}


def met(line: str, server: ReplayServer, faults: str) -> tuple[str, str | None]:
    """The text that the line's client gave before its end, and the class of what it raised."""
    words: list[str] = []
    try:
        words.extend(READERS[line](server, faults))
    except Exception as problem:
        return "".join(words), type(problem).__name__
    return "".join(words), None


@pytest.mark.parametrize("line", LINES)
def test_the_official_client_reads_the_text(server: ReplayServer, line: str) -> None:
    assert "".join(READERS[line](server)) == streams.TEXT
    seen = server.requests[-1]
    assert seen.path.startswith(("/v1", "/openai/v1", "/anthropic/v1"))
    assert "user-agent" in seen.headers
    assert "hi" in json.dumps(seen.body)
    assert seen.query == ({"alt": "sse"} if line == "gemini" else {})


@pytest.mark.parametrize("line", LINES)
def test_payloads_without_framing_serve_the_official_client(line: str) -> None:
    data = streams.lines(streams.PAYLOADS[line])
    with ReplayServer([Recording.from_bytes(data)]) as server:
        assert "".join(READERS[line](server)) == streams.TEXT


def test_the_asynchronous_clients(server: ReplayServer) -> None:
    openai, anthropic = pytest.importorskip("openai"), pytest.importorskip("anthropic")

    async def gemini() -> str:
        client = _google(server)
        stream = await client.aio.models.generate_content_stream(model="gemini-test", contents="hi")
        return "".join([chunk.text or "" async for chunk in stream])

    async def chat() -> str:
        client = openai.AsyncOpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0)
        stream = await client.chat.completions.create(model="m", messages=[], stream=True)
        return "".join([choice.delta.content or "" async for chunk in stream for choice in chunk.choices])

    async def messages() -> str:
        client = anthropic.AsyncAnthropic(api_key="k", base_url=server.url, max_retries=0)
        async with client.messages.stream(model="m", max_tokens=9, messages=[]) as stream:
            return "".join([text async for text in stream.text_stream])

    async def all_at_once() -> list[str]:
        return await asyncio.gather(gemini(), chat(), messages())

    assert asyncio.run(all_at_once()) == [streams.TEXT] * 3


def test_gemini_framing_that_its_client_cannot_read_is_made_readable() -> None:
    wild = streams.wire("gemini").replace(b"data: ", b": note\r\nid: 7\r\nevent: message\r\ndata:")
    with ReplayServer([Recording.from_bytes(wild)]) as server:
        assert "".join(read_gemini(server)) == streams.TEXT


# ----------------------------------------------------------------- faults as the clients meet them

FIRST = streams.WORDS[0]


@pytest.mark.parametrize(
    ("fault", "text", "raised"),
    [
        ("cut", FIRST, dict.fromkeys(LINES)),
        ("drop", FIRST, {"gemini": "RemoteProtocolError", "openai-chat": "APIConnectionError",
                         "openai-responses": "APIConnectionError", "anthropic": "RemoteProtocolError"}),
        ("malformed", FIRST, {"gemini": "UnknownApiResponseError"} | dict.fromkeys(LINES[1:], "JSONDecodeError")),
        ("status=429", "", {"gemini": "ClientError"} | dict.fromkeys(LINES[1:], "RateLimitError")),
        ("status=503", "", {"gemini": "ServerError", "openai-chat": "InternalServerError",
                            "openai-responses": "InternalServerError", "anthropic": "ServiceUnavailableError"}),
        ("garbage", "", {"gemini": "UnknownApiResponseError"} | dict.fromkeys(LINES[1:])),
        ("stall=0.1", streams.TEXT, dict.fromkeys(LINES)),
        ("slow_first=0.1", streams.TEXT, dict.fromkeys(LINES)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("line", LINES)
def test_faults(server: ReplayServer, line: str, fault: str, text: str, raised: dict[str, str | None]) -> None:
    name, _, value = fault.partition("=")
    after = streams.LEAD[line] + 1
    assert met(line, server, f"{name}{'=' + value if value else ''}@{after}") == (text, raised[line])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("gemini", (FIRST, "ServerError")),
        ("openai-chat", (FIRST, "APIError")),
        ("openai-responses", (FIRST + "<error server_error>", None)),
        ("anthropic", (FIRST, "OverloadedError")),
    ],
)
def test_an_error_inside_the_stream(server: ReplayServer, line: str, expected: tuple[str, str | None]) -> None:
    after = streams.LEAD[line] + 1
    text, raised = met(line, server, f"error_event={after}")
    if line == "anthropic":
        raised = "OverloadedError" if raised in ("APIStatusError", "OverloadedError") else raised
    assert (text, raised) == expected


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("fault", ["cut_in_event", "cut_in_character"])
def test_a_cut_inside_never_gives_more_text(server: ReplayServer, line: str, fault: str) -> None:
    after = streams.LEAD[line] + 1
    text, _ = met(line, server, f"{fault}={after}")
    assert text == FIRST


def test_a_client_that_retries_gets_through(server: ReplayServer) -> None:
    openai = pytest.importorskip("openai")
    server.queue_fault(Fault("status", status=429, seconds=0))
    client = openai.OpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=1)
    before = len(server.requests)
    stream = client.chat.completions.create(model="m", messages=[], stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == streams.TEXT
    assert len(server.requests) == before + 2


def test_a_client_that_limits_its_wait_leaves_a_stall(server: ReplayServer) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(api_key="k", base_url=f"{server.url}/v1", max_retries=0, timeout=0.2)
    for fault in ("stall=60", "slow_first=60"):
        server.queue_fault(fault)
        began = time.monotonic()
        with pytest.raises(Exception, match=r"(?i)time"):
            list(client.chat.completions.create(model="m", messages=[], stream=True))
        assert time.monotonic() - began < 20


# ----------------------------------------------------------------- which recording, which path, whose faults


def post(client: TestClient, line: str, model: str = "m", **options: Any) -> Any:
    path, body = HTTP_LINES[line]
    return client.post(path.replace("/m:", f"/{model}:"), json={**body, "model": model}, **options)


def test_recordings_of_a_line_are_served_in_turn_or_by_model() -> None:
    texts = {"a": b"data: {1}\n\n", "b": b"data: {2}\n\n", "c-1.5": b"data: {3}\n\n"}
    recordings = [Recording.from_bytes(data, line, name=name) for line in LINES for name, data in texts.items()]
    recordings.append(Recording((Piece(0.0, b"data: {4}\n\n"),), "gemini", "d", {"model": "gemini-4"}))
    for line in LINES:
        client = TestClient(ReplayServer(recordings).app)
        turns = [post(client, line).content[6:9] for _ in range(6)]
        count = 4 if line == "gemini" else 3
        assert turns == [b"{%d}" % (n % count + 1) for n in range(6)]
        assert post(client, line, "c-1.5").content == texts["c-1.5"]
        assert post(client, line, "c-1.5").content == texts["c-1.5"]
        assert post(client, line).content[6:9] == b"{%d}" % (6 % count + 1)
    assert post(client, "gemini", "gemini-4").content == b"data: {4}\n\n"


@pytest.mark.parametrize("version", ["v1", "v1beta", "v1alpha", "v1beta1"])
@pytest.mark.parametrize("prefix", ["", "/projects/p/locations/l/publishers/google", "/publishers/google"])
def test_gemini_paths(version: str, prefix: str) -> None:
    server = ReplayServer(streams.all_recordings())
    path = f"/{version}{prefix}/models/m:streamGenerateContent"
    client = TestClient(server.app)
    events = client.post(f"{path}?alt=sse", json={})
    assert events.headers["content-type"].startswith("text/event-stream")
    array = client.post(path, json={})
    assert array.headers["content-type"].startswith("application/json")
    assert array.json() == streams.gemini()
    assert [seen.path for seen in server.requests] == [path, path]


@pytest.mark.parametrize("line", LINES)
def test_errors_of_requests_are_in_the_lines_own_words(line: str) -> None:
    path, body = HTTP_LINES[line]
    empty = TestClient(ReplayServer([]).app)
    missing = post(empty, line)
    assert missing.status_code == 404
    assert f"no recording of {line} for model 'm'" in missing.json()["error"]["message"]
    full = TestClient(ReplayServer(streams.all_recordings()).app)
    whole = path.replace("streamG", "g")
    refused = full.post(whole, json={**body, "stream": False})
    assert refused.status_code == 501
    assert full.post(path, content=b"{").status_code == 400
    assert full.post(path, content=b"[1]").status_code == (200 if line == "gemini" else 501)
    faulty = post(full, line, headers={"x-adk-stream-fault": "explode"})
    assert faulty.status_code == 400
    assert "no fault 'explode'" in faulty.json()["error"]["message"]


def test_other_paths_are_not_found() -> None:
    client = TestClient(ReplayServer(streams.all_recordings()).app)
    for path in ("/", "/v1/embeddings", "/v1/messages/count_tokens", "/v1beta/models/m:countTokens"):
        answer = client.post(path, json={})
        assert answer.status_code == 404
        assert path in answer.json()["error"]["message"]


def test_a_body_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adk_stream.testing.replay._MAX_BODY_BYTES", 20)
    client = TestClient(ReplayServer(streams.all_recordings()).app)
    answer = client.post("/v1/messages", json={"stream": True, "pad": "x" * 20})
    assert answer.status_code == 400
    assert "larger" in answer.json()["error"]["message"]


def test_faults_of_the_request_come_first_then_queued_then_the_servers() -> None:
    server = ReplayServer(streams.all_recordings(), faults="status=500")
    client = TestClient(server.app)
    server.queue_fault("status=503")
    server.queue_fault()
    assert post(client, "anthropic", headers={"x-adk-stream-fault": "status=401"}).status_code == 401
    assert [post(client, "anthropic").status_code for _ in range(4)] == [503, 200, 500, 500]
    assert post(client, "anthropic", headers={"x-adk-stream-fault": ""}).status_code == 200
    limited = post(client, "anthropic", headers={"x-adk-stream-fault": "status=429"})
    assert limited.headers["retry-after"] == "1"


def test_a_recorded_http_error_comes_as_one() -> None:
    body = b'{"error": {"code": 429, "message": "slow down"}}'
    recording = Recording((Piece(0.0, body),), "gemini", metadata={"status": 429})
    answer = post(TestClient(ReplayServer([recording]).app), "gemini")
    assert (answer.status_code, answer.content) == (429, body)


def test_recordings_that_cannot_be_served(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="nowhere"):
        ReplayServer([tmp_path / "nowhere.sse"])
    with pytest.raises(RecordingError, match="odd: its line is unknown"):
        ReplayServer([Recording.from_bytes(b"<html>", name="odd")])
    with pytest.raises(RecordingError, match="gemini-live"):
        ReplayServer([Recording.from_bytes(b'{"setupComplete": {}}')])
    with pytest.raises(FaultError):
        ReplayServer([], faults="explode")
    with pytest.raises(ValueError, match="pace"):
        ReplayServer([], pace=-1.0)


def test_files_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "anthropic-test.sse").write_bytes(streams.wire("anthropic"))
    with ReplayServer([tmp_path / "anthropic-test.sse"]) as server:
        assert "".join(read_anthropic(server)) == streams.TEXT


def test_only_the_last_requests_are_kept() -> None:
    server = ReplayServer(streams.all_recordings())
    server.requests.extend([None] * 2000)  # type: ignore[list-item]
    post(TestClient(server.app), "anthropic")
    assert len(server.requests) == 1000
    assert server.requests[-1].path == "/anthropic/v1/messages"


# ----------------------------------------------------------------- times, start and stop


def read_raw(url: str, path: str) -> Iterator[tuple[float, bytes]]:
    import httpx

    began = time.monotonic()
    with httpx.stream("POST", url + path, json={"stream": True}) as answer:
        for piece in answer.iter_raw():
            yield time.monotonic() - began, piece


def test_the_recorded_times_are_kept_at_the_pace() -> None:
    data = streams.wire("openai-chat")
    recording = Recording.from_bytes(data, interval=0.1)
    with ReplayServer([recording], pace=0.5) as server:
        pieces = list(read_raw(server.url, "/v1/chat/completions"))
    assert b"".join(piece for _, piece in pieces) == data
    assert [piece for _, piece in pieces] == [piece.data for piece in recording.pieces]
    assert all(at >= piece.at * 0.5 for (at, _), piece in zip(pieces, recording.pieces, strict=True))
    assert pieces[-1][0] < 2


def test_a_dropped_connection_has_no_end() -> None:
    import httpx

    with (
        ReplayServer(streams.all_recordings(), faults="drop=2") as server,
        pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"),
    ):
        list(read_raw(server.url, "/v1/chat/completions"))


def test_the_end_of_the_server_ends_a_stall() -> None:
    server = ReplayServer(streams.all_recordings(), faults="stall=60").start()
    with closing(read_raw(server.url, "/v1/chat/completions")) as pieces:
        next(pieces)
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 20
    server.stop()
    with pytest.raises(RuntimeError, match="not running"):
        _ = server.url


def test_a_server_starts_once_and_again_after_its_end() -> None:
    threads = threading.active_count()
    server = ReplayServer(streams.all_recordings())
    for _ in range(2):
        with server:
            assert "".join(read_anthropic(server)) == streams.TEXT
            with pytest.raises(RuntimeError, match="running"):
                server.start()
    assert threading.active_count() == threads


def test_a_port_that_is_taken(server: ReplayServer) -> None:
    port = int(server.url.rsplit(":", 1)[1])
    taken = ReplayServer([], port=port)
    with pytest.raises(OSError, match="in use"):
        taken.start()
    taken.stop()


def test_record_and_replay(server: ReplayServer, tmp_path: Path) -> None:
    with Recorder(tmp_path / "m.rec.jsonl", provider="anthropic") as recorder:
        list(recorder.tap(piece for _, piece in read_raw(server.url, "/v1/messages")))
    assert load_recording(tmp_path / "m.rec.jsonl").data == streams.wire("anthropic")
    with ReplayServer([tmp_path / "m.rec.jsonl"], pace=1.0) as again:
        assert "".join(read_anthropic(again)) == streams.TEXT


# ----------------------------------------------------------------- the plugin, and what an import costs

pytest_plugins = ["pytester"]


def test_the_fixture_starts_and_stops_servers(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("from adk_stream.testing.pytest_plugin import adk_stream_replay")
    pytester.makepyfile(
        """
        import socket
        from adk_stream.recording import Recording

        seen = []

        def test_it(adk_stream_replay):
            recording = Recording.from_bytes(b'data: {"choices": []}')
            seen.extend(adk_stream_replay([recording], pace=1.0) for _ in range(2))
            for server in seen:
                port = int(server.url.rsplit(":")[-1])
                socket.create_connection(("127.0.0.1", port)).close()

        def test_after():
            for server in seen:
                try:
                    server.url
                except RuntimeError:
                    continue
                raise AssertionError("still running")
        """
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("adk_stream.testing", ["starlette", "uvicorn", "anyio", "google.genai", "pydantic"]),
        ("adk_stream.testing.pytest_plugin", ["starlette", "uvicorn", "google.genai", "pydantic"]),
        ("adk_stream.testing.replay", ["google.genai", "openai", "anthropic"]),
        ("adk_stream.recording", ["starlette", "google.genai", "pydantic"]),
    ],
)
def test_imports_are_lazy(module: str, unwanted: list[str]) -> None:
    code = f"import {module}, sys; print([name for name in {unwanted!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
