"""Whatever client an exception comes from, it means the same error of this package."""

from __future__ import annotations

import asyncio
import errno
import http.client
import json
import socket
import ssl
import urllib.error

import pytest

from adk_stream.errors import (
    ConnectionLostError,
    MalformedStreamError,
    ProviderError,
    RateLimitError,
    StreamCutError,
    StreamError,
    StreamLimitError,
    StreamTimeoutError,
)
from adk_stream.execution.faults import as_stream_error, may_pass

httpx = pytest.importorskip("httpx")
httpx2 = pytest.importorskip("httpx2")
requests = pytest.importorskip("requests")
openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")
genai_errors = pytest.importorskip("google.genai.errors")
websockets = pytest.importorskip("websockets")

URL = "http://127.0.0.1/"


def answer(library, status, headers=None, body=None):
    return library.Response(status, headers=headers, json=body, request=library.Request("POST", URL))


def refused(sdk, status, body=None, headers=None):
    """As the SDK makes it of an answer: the message is the body's, in its own form."""
    library = (
        httpx2 if hasattr(sdk, "DefaultHttpxClient") and issubclass(sdk.DefaultHttpxClient, httpx2.Client) else httpx
    )
    client = sdk.Client(api_key="k") if hasattr(sdk, "Client") else sdk.OpenAI(api_key="k")
    return client._make_status_error_from_response(answer(library, status, headers, body))


def lookalike(module, *names):
    """An instance of a class of a library that is not installed here; the last name is its own."""
    cls: type = Exception
    for name in names:
        cls = type(name, (cls,), {"__module__": module})
    return cls("told")


def decode_error():
    try:
        json.loads("{oops")
    except ValueError as problem:
        return problem


LOST = [
    httpx.RemoteProtocolError("peer closed"),
    httpx.ConnectError("refused"),
    httpx.ReadError("reset"),
    httpx.StreamClosed(),
    httpx2.RemoteProtocolError("peer closed"),
    httpx2.ReadError("reset"),
    lookalike("httpcore", "ProtocolError", "RemoteProtocolError"),
    lookalike("httpcore", "NetworkError", "ReadError"),
    lookalike("aiohttp.client_exceptions", "ClientError", "ClientPayloadError"),
    lookalike("aiohttp.client_exceptions", "ClientError", "ServerDisconnectedError"),
    requests.exceptions.ConnectionError("reset"),
    requests.exceptions.ChunkedEncodingError("cut"),
    lookalike("urllib3.exceptions", "HTTPError", "ProtocolError"),
    urllib.error.URLError("refused"),
    http.client.IncompleteRead(b""),
    openai.APIConnectionError(request=None),
    anthropic.APIConnectionError(request=None),
    websockets.exceptions.ConnectionClosedError(None, None),
    ConnectionResetError("reset"),
    BrokenPipeError("pipe"),
    EOFError(),
    asyncio.IncompleteReadError(b"", 5),
    ssl.SSLError("handshake"),
    socket.gaierror("no such host"),
    OSError(errno.EHOSTUNREACH, "no route"),
]
TIMED_OUT = [
    httpx.ReadTimeout("read"),
    httpx.PoolTimeout("pool"),
    httpx2.ConnectTimeout("connect"),
    lookalike("httpcore", "TimeoutException", "ReadTimeout"),
    lookalike("aiohttp.client_exceptions", "ClientError", "ServerTimeoutError"),
    requests.exceptions.ReadTimeout("read"),
    lookalike("urllib3.exceptions", "HTTPError", "TimeoutError", "ReadTimeoutError"),
    openai.APITimeoutError(request=None),
    anthropic.APITimeoutError(request=None),
    TimeoutError("timed out"),
]
UNREADABLE = [
    decode_error(),
    requests.exceptions.JSONDecodeError("oops", "doc", 0),
    httpx.DecodingError("gzip"),
    genai_errors.UnknownApiResponseError("oops"),
    lookalike("aiohttp.client_exceptions", "ClientError", "ClientResponseError", "ContentTypeError"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "oops"),
]
UNCHANGED = [
    ValueError("mine"),
    KeyError("mine"),
    RuntimeError("mine"),
    FileNotFoundError("mine"),
    OSError(errno.ENOSPC, "disk"),
    asyncio.CancelledError(),
    KeyboardInterrupt(),
    GeneratorExit(),
    StreamLimitError("large"),
    ProviderError("code", "message"),
]


def name(problem):
    return f"{type(problem).__module__}.{type(problem).__name__}"


@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        *((each, ConnectionLostError) for each in LOST),
        *((each, StreamTimeoutError) for each in TIMED_OUT),
        *((each, MalformedStreamError) for each in UNREADABLE),
    ],
    ids=lambda value: name(value) if isinstance(value, BaseException) else "",
)
def test_faults_without_a_status(problem, kind):
    error = as_stream_error(problem)
    assert type(error) is kind
    assert error.__cause__ is problem
    assert str(error)
    assert may_pass(error) is (kind is not MalformedStreamError)


@pytest.mark.parametrize("problem", UNCHANGED, ids=name)
def test_what_no_client_raises_is_unchanged(problem):
    assert as_stream_error(problem) is problem


OPENAI_BODY = {"error": {"message": "slow down", "type": "requests", "param": None, "code": "rate_limit_exceeded"}}
ANTHROPIC_BODY = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
GEMINI_BODY = {"error": {"code": 503, "message": "later", "status": "UNAVAILABLE"}}


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        (refused(openai, 429, OPENAI_BODY), ("rate_limit_exceeded", "slow down", 429)),
        (refused(openai, 400, {"error": {"message": "bad", "type": "invalid_request_error", "code": None}}),
         ("invalid_request_error", "bad", 400)),
        (refused(anthropic, 529, ANTHROPIC_BODY), ("overloaded_error", "busy", 529)),
        (genai_errors.ServerError(503, GEMINI_BODY, None), ("UNAVAILABLE", "later", 503)),
        (genai_errors.ServerError(503, [GEMINI_BODY], None), ("UNAVAILABLE", "later", 503)),
        (httpx.HTTPStatusError("refused", request=None, response=answer(httpx, 404)), ("404", "refused", 404)),
        (requests.exceptions.HTTPError("refused", response=type("R", (), {"status_code": 500, "headers": {}})()),
         ("500", "refused", 500)),
        (urllib.error.HTTPError(URL, 429, "slow down", {"Retry-After": "3"}, None),
         ("429", "HTTP Error 429: slow down", 429)),
        # inside a stream: no status of their own
        (openai.APIError("the server failed", request=None, body={"code": "server_error", "message": "failed"}),
         ("server_error", "failed", None)),
        (anthropic.APIStatusError("busy", response=answer(httpx2, 200), body=ANTHROPIC_BODY),
         ("overloaded_error", "busy", None)),
        (openai.APIError("told", request=None, body=None), ("APIError", "told", None)),
        (openai.APIError("told", request=None, body="a text"), ("APIError", "a text", None)),
    ],
    ids=lambda value: name(value) if isinstance(value, BaseException) else "",
)  # fmt: skip
def test_refusals(problem, told):
    error = as_stream_error(problem)
    assert isinstance(error, ProviderError)
    assert isinstance(error, RateLimitError) is (told[2] == 429)
    assert (error.code, error.message, error.status) == told
    assert error.__cause__ is problem


@pytest.mark.parametrize("sdk", [openai, anthropic])
def test_retry_after_of_the_clients(sdk):
    error = as_stream_error(refused(sdk, 429, OPENAI_BODY, {"Retry-After": "7"}))
    assert error.retry_after == 7
    assert as_stream_error(refused(sdk, 429, OPENAI_BODY)).retry_after is None


def test_retry_after_of_google():
    assert (
        as_stream_error(
            genai_errors.ClientError(429, GEMINI_BODY, answer(httpx, 429, {"retry-after": "7"}))
        ).retry_after
        == 7
    )


@pytest.mark.parametrize("headers", [None, 5, "retry-after", [], {"retry-after": object()}, {"retry-after": None}])
@pytest.mark.parametrize("body", [None, [], 5, b"", {"error": []}, {"error": {"code": {}, "details": [5, {}]}}])
def test_odd_answers_are_read_without_complaint(headers, body):
    problem = RuntimeError("odd")
    problem.status_code, problem.headers, problem.body = 500, headers, body
    error = as_stream_error(problem)
    assert (error.code, error.status, error.retry_after) == ("500", 500, None)


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (StreamTimeoutError("late", "first_token"), True),
        (StreamTimeoutError("late", "total"), False),
        (StreamCutError("cut"), True),
        (StreamError("else"), False),
        (ProviderError("billing_not_active", "pay", status=429), False),
        (ProviderError("invalid_request_error", "bad", status=None), False),
        (ProviderError(None, None), False),
        (ProviderError("504", None), True),
        (ProviderError("x", None, status=505), False),
        (RateLimitError("x", None), True),
    ],
)
def test_what_may_pass(error, passes):
    assert may_pass(error) is passes
