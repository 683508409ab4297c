"""The official clients against a real server: each fault of the field, as one family of errors; no socket is left."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import sys
import threading
import time
from contextlib import aclosing, closing

import pytest

from adk_stream import StreamExecutionOptions, execute, execute_blocking
from adk_stream.errors import (
    ConnectionLostError,
    MalformedStreamError,
    ProviderError,
    RateLimitError,
    StreamCutError,
    StreamTimeoutError,
)
from adk_stream.recording import Recording
from adk_stream.testing import ReplayServer

openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")
genai = pytest.importorskip("google.genai")
httpx = pytest.importorskip("httpx")

WORDS = ("Hello ", "wide ", "world")
TEXT = "".join(WORDS)
QUICK = StreamExecutionOptions(retry_backoff=0.01, end_grace=0.2)
IMPATIENT = StreamExecutionOptions(idle_timeout=0.3)


def _chat(delta, finish=None):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


_RESPONSE = {"id": "r1", "object": "response", "created_at": 1, "model": "m", "output": [], "status": "in_progress",
             "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}  # fmt: skip
_DELTA = {"type": "response.output_text.delta", "item_id": "m1", "output_index": 0, "content_index": 0, "logprobs": []}
_ITEM = {"id": "m1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
_MESSAGE = {"id": "a1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
            "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}  # fmt: skip

#: Each line's stream: one event before the text, then one for each word, then the end.
PAYLOADS = {
    "gemini": [
        {"responseId": "g1", "modelVersion": "m", "usageMetadata": {"promptTokenCount": 3}},
        *({"candidates": [{"content": {"role": "model", "parts": [{"text": word}]}}]} for word in WORDS),
        {"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"totalTokenCount": 9}},
    ],
    "openai-chat": [
        _chat({"role": "assistant", "content": ""}),
        *(_chat({"content": word}) for word in WORDS),
        _chat({}, "stop"),
        "[DONE]",
    ],
    "openai-responses": [
        {"type": "response.created", "response": _RESPONSE},
        *({**_DELTA, "delta": word} for word in WORDS),
        {"type": "response.completed", "response": {**_RESPONSE, "status": "completed"}},
    ],
    "anthropic": [
        {"type": "message_start", "message": _MESSAGE},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}}
            for word in WORDS
        ),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
         "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ],
}  # fmt: skip
LINES = list(PAYLOADS)


def _wire(line):
    frames = []
    for number, payload in enumerate(PAYLOADS[line]):
        if line == "openai-responses":
            payload = {**payload, "sequence_number": number}
        name = f"event: {payload['type']}\n" if line in ("openai-responses", "anthropic") else ""
        frames.append(f"{name}data: {payload if isinstance(payload, str) else json.dumps(payload)}\n\n")
    return "".join(frames).encode()


@pytest.fixture(scope="module")
def server():
    with ReplayServer([Recording.from_bytes(_wire(line), name=line, provider=line) for line in LINES]) as server:
        yield server


def _sockets():
    places = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    links = []
    for place in places:
        try:
            links.append(os.readlink(place))
        except OSError:
            continue
    return sum(link.startswith("socket:") for link in links)


@pytest.fixture(autouse=True)
def no_socket_stays(server):
    if not sys.platform.startswith("linux"):
        yield
        return
    before = _sockets()
    yield
    deadline = time.monotonic() + 5
    while _sockets() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert _sockets() <= before


HI = [{"role": "user", "content": "hi"}]


class Client:
    """One provider's official client, its own retries off."""

    def __init__(self, line, url, sync=False, **own):
        kind = "" if sync else "Async"
        self.line = line
        if line == "gemini":
            ours = {} if sync else {"httpx_async_client": httpx.AsyncClient()}
            self.client = genai.Client(api_key="k", http_options={"base_url": url, **ours})
            models = self.client.models if sync else self.client.aio.models
            self._ask = lambda: models.generate_content_stream(model="m", contents="hi")
            self._own = ours.get("httpx_async_client")
        elif line == "anthropic":
            self.client = getattr(anthropic, f"{kind}Anthropic")(api_key="k", base_url=url, max_retries=0, **own)
            self._ask = lambda: self.client.messages.create(model="m", max_tokens=9, messages=HI, stream=True)
        else:
            self.client = getattr(openai, f"{kind}OpenAI")(
                api_key="k", base_url=url + "/openai/v1", max_retries=0, **own
            )
            if line == "openai-chat":
                self._ask = lambda: self.client.chat.completions.create(model="m", messages=HI, stream=True)
            else:
                self._ask = lambda: self.client.responses.create(model="m", input="hi", stream=True)

    def start(self):
        return self._ask()

    async def aclose(self):
        if self.line == "gemini":
            await self._own.aclose()
            self.client.close()
        else:
            await self.client.close()

    def close(self):
        self.client.close()


class Outcome:
    def __init__(self, execution, responses, raised, seconds):
        self.final, self.attempts, self.raised, self.seconds = execution.final, execution.attempts, raised, seconds
        self.shown = "".join(response.text for response in responses if response.partial)
        self.finals = [response for response in responses if not response.partial]

    @property
    def end(self):
        return self.final.status, self.final.error_code


async def no_task_stays():
    """Google's client leaves generators of its own to the loop's finalizer, which takes some rounds."""
    deadline = time.monotonic() + 2
    while len(asyncio.all_tasks()) > 1 and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    assert asyncio.all_tasks() == {asyncio.current_task()}


def run(server, line, *faults, options=QUICK):
    """One execution against these faults, one for each attempt (None: none)."""
    for fault in faults:
        server.queue_fault(*([fault] if fault else []))

    async def read():
        async with aclosing(Client(line, server.url)) as client:
            execution, responses, raised = execute(client.start, options, provider=line), [], None
            began = time.monotonic()
            async with aclosing(execution):
                try:
                    async for response in execution:
                        responses.append(response)
                except Exception as problem:
                    raised = problem
            outcome = Outcome(execution, responses, raised, time.monotonic() - began)
        await no_task_stays()
        return outcome

    return asyncio.run(read())


@pytest.mark.parametrize("line", LINES)
def test_no_fault(server, line):
    outcome = run(server, line, None)
    assert (outcome.shown, outcome.final.text, outcome.end, outcome.raised) == (TEXT, TEXT, ("completed", None), None)
    assert outcome.finals == [outcome.final]


@pytest.mark.parametrize("line", LINES)
def test_the_connection_drops(server, line):
    outcome = run(server, line, "drop=3", options=StreamExecutionOptions(max_retries=2))
    assert type(outcome.raised) is ConnectionLostError
    assert outcome.raised.__cause__ is not None
    assert (outcome.end, outcome.attempts) == (("failed", "ConnectionLostError"), 1)
    assert outcome.shown == outcome.final.text == "Hello wide "


@pytest.mark.parametrize("line", LINES)
def test_the_stream_is_cut(server, line):
    outcome = run(server, line, "cut=3")
    assert (outcome.end, outcome.raised) == (("incomplete", "STREAM_CUT"), None)
    assert outcome.shown == outcome.final.text == "Hello wide "


@pytest.mark.parametrize("line", LINES)
def test_malformed_json(server, line):
    outcome = run(server, line, "malformed=2", options=StreamExecutionOptions(max_retries=2))
    assert type(outcome.raised) is MalformedStreamError
    assert (outcome.end, outcome.final.text) == (("failed", "MALFORMED_STREAM"), "Hello ")
    assert outcome.attempts == 1


@pytest.mark.parametrize("line", LINES)
def test_429_with_retry_after(server, line):
    outcome = run(server, line, "status=429", options=StreamExecutionOptions(max_retries=0))
    assert type(outcome.raised) is RateLimitError
    assert (outcome.raised.status, outcome.raised.retry_after) == (429, 1)
    assert outcome.final.status == "failed"
    assert outcome.final.error_code == outcome.raised.code
    assert outcome.final.error_code.lower() in ("rate_limit_exceeded", "rate_limit_error", "resource_exhausted")
    assert "refuses" in outcome.final.error_message


def test_retry_after_is_kept_to(server):
    options = StreamExecutionOptions(max_retries=1, retry_backoff=0, retry_jitter=0)
    outcome = run(server, "anthropic", "status=429", None, options=options)
    assert (outcome.end, outcome.attempts, outcome.shown) == (("completed", None), 2, TEXT)
    assert outcome.seconds >= 1


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_refusal_is_not_tried_again(server, line, status):
    outcome = run(server, line, f"status={status}", options=StreamExecutionOptions(max_retries=2))
    assert type(outcome.raised) is ProviderError
    assert (outcome.raised.status, outcome.attempts, outcome.final.status) == (status, 1, "failed")


@pytest.mark.parametrize("line", LINES)
def test_a_garbage_body(server, line):
    outcome = run(server, line, "garbage", "garbage", options=StreamExecutionOptions(max_retries=1, retry_backoff=0))
    kind = MalformedStreamError if line == "gemini" else StreamCutError  # the other clients give an empty stream
    assert type(outcome.raised) is kind
    assert (outcome.end, outcome.attempts) == (("failed", kind.code), 2)


@pytest.mark.parametrize("line", LINES)
def test_an_error_event(server, line):
    outcome = run(server, line, "error_event=3", options=StreamExecutionOptions(max_retries=2))
    assert type(outcome.raised) is ProviderError
    assert outcome.final.status == "failed"
    assert outcome.final.error_code.lower() in ("unavailable", "server_error", "overloaded_error")
    assert (outcome.final.error_code, outcome.final.error_message) == (
        outcome.raised.code,
        "the server failed while it streamed",
    )
    assert (outcome.shown, outcome.final.text, outcome.attempts) == ("Hello wide ", "Hello wide ", 1)


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize(
    "fault", ["drop=0", "drop=1", "cut=0", "cut=1", "malformed=0", "error_event=0", "error_event=1", "garbage",
              "status=503", "stall=9@0", "stall=9@1", "slow_first=9"]
)  # fmt: skip
def test_before_anything_was_shown_the_next_attempt_is_clean(server, line, fault):
    limit = 0.5 if fault.startswith("s") and fault != "status=503" else 30
    options = StreamExecutionOptions(limit, limit, max_retries=1, retry_backoff=0, retry_max_after=0)
    outcome = run(server, line, fault, None, options=options)
    assert (outcome.end, outcome.raised, outcome.attempts) == (("completed", None), None, 2)
    assert outcome.shown == outcome.final.text == TEXT


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize(
    ("fault", "limit", "text"), [("stall=30@3", "idle", "Hello wide "), ("slow_first=30", "first_token", "")]
)
def test_a_stall(server, line, fault, limit, text):
    outcome = run(server, line, fault, options=StreamExecutionOptions(first_token_timeout=0.3, idle_timeout=0.3))
    assert (type(outcome.raised), outcome.raised.limit) == (StreamTimeoutError, limit)
    assert (outcome.end, outcome.final.text, outcome.shown) == (("failed", "STREAM_TIMEOUT"), text, text)
    assert 0.29 <= outcome.seconds < 3


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("fault", ["stall=30@", "drop="])
def test_what_happens_after_the_end_concerns_nobody(server, line, fault):
    """The terminal event is there; the body does not end, or breaks off."""
    outcome = run(server, line, f"{fault}{len(PAYLOADS[line]) - (line == 'openai-chat')}")
    assert (outcome.end, outcome.final.text, outcome.raised) == (("completed", None), TEXT, None)
    assert outcome.seconds < 3


@pytest.mark.parametrize("line", LINES)
def test_cancel_in_mid_stream(server, line):
    server.queue_fault("stall=30@3")

    async def leave():
        async with aclosing(Client(line, server.url)) as client:
            execution = execute(client.start, provider=line)
            threading.Timer(0.3, execution.cancel).start()
            responses = [response async for response in execution]
            assert "".join(response.text for response in responses) == "Hello wide "
            assert execution.final.status == "cancelled"
        await no_task_stays()

    began = time.monotonic()
    asyncio.run(leave())
    assert time.monotonic() - began < 5


# ----------------------------------------------------------------- the blocking clients


@pytest.mark.parametrize("line", ["openai-chat", "anthropic"])
def test_a_blocking_client_that_stalls_over_tls(server, line):
    """Shutting the socket down wakes a read below TLS as well: the thread does not stay until the client's limit."""
    trustme = pytest.importorskip("trustme")
    uvicorn = pytest.importorskip("uvicorn")
    httpx2 = pytest.importorskip("httpx2")
    authority = trustme.CA()
    context = ssl.create_default_context()
    authority.configure_trust(context)
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(server.app, log_level="critical", lifespan="off", timeout_graceful_shutdown=0)
    config.load()
    config.ssl = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(config.ssl)
    tls = uvicorn.Server(config)
    thread = threading.Thread(target=tls.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    server.queue_fault("stall=30@3")
    url = f"https://127.0.0.1:{listener.getsockname()[1]}"
    began = time.monotonic()
    with closing(Client(line, url, sync=True, http_client=httpx2.Client(verify=context))) as client:
        execution = execute_blocking(client.start, IMPATIENT, provider=line)
        with pytest.raises(StreamTimeoutError):
            list(execution)
    assert (execution.final.error_code, execution.final.text) == ("STREAM_TIMEOUT", "Hello wide ")
    assert time.monotonic() - began < 5
    tls.should_exit = True
    thread.join(10)


#: google-genai's blocking stream tells no socket: its thread reads on until the client's own limit.
BLOCKING_LINES = [line for line in LINES if line != "gemini"]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("fault", [None, "drop=1", "cut=0", "status=503"])
def test_blocking_clients(server, line, fault):
    server.queue_fault(*([fault] if fault else []))
    options = StreamExecutionOptions(max_retries=1, retry_backoff=0, retry_max_after=0)
    with closing(Client(line, server.url, sync=True)) as client:
        execution = execute_blocking(client.start, options, provider=line)
        shown = "".join(response.text for response in execution if response.partial)
    assert (shown, execution.final.status) == (TEXT, "completed")
    assert execution.attempts == (1 if fault is None else 2)


@pytest.mark.parametrize("line", BLOCKING_LINES)
def test_a_blocking_client_that_stalls(server, line):
    server.queue_fault("stall=30@3")
    began = time.monotonic()
    with closing(Client(line, server.url, sync=True)) as client:
        execution = execute_blocking(client.start, IMPATIENT, provider=line)
        with pytest.raises(StreamTimeoutError):
            list(execution)
    assert (execution.final.error_code, execution.final.text) == ("STREAM_TIMEOUT", "Hello wide ")
    assert time.monotonic() - began < 5
