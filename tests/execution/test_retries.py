"""A fault that may pass is tried again while nothing was shown: as often, and after as long, as configured."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from sources import DONE, FINISH, HANG, HELLO, ROLE, Source, Starts, chat, collect, run

from adk_stream import StreamExecutionOptions, execute
from adk_stream.errors import (
    ConnectionLostError,
    MalformedStreamError,
    ProviderError,
    RateLimitError,
    StreamCutError,
    StreamLimitError,
    StreamTimeoutError,
)
from adk_stream.parts import StreamLimits

LOST = ConnectionResetError("reset")


def options(retries, **fields):
    return StreamExecutionOptions(**{"max_retries": retries, "retry_jitter": 0, **fields})


def error_event(code):
    return {"error": {"code": code, "message": "busy"}}


class Refused(Exception):
    """What a client raises for an HTTP error."""

    def __init__(self, status, headers=None, body=None):
        super().__init__(f"status {status}")
        self.status_code = status
        self.body = body
        self.headers = headers or {}


class Untrue(Exception):
    """No client's error."""


def test_the_second_attempt():
    starts = Starts([LOST], HELLO)
    outcome = run(collect(starts, options(1)))
    assert (outcome.end, outcome.shown, outcome.raised, outcome.attempts) == (("completed", None), "Hello", None, 2)
    assert all(source.closed for source in starts.sources)


def test_the_last_error_is_the_one_raised():
    errors = [ConnectionResetError(f"e{number}") for number in (1, 2, 3)]
    starts = Starts(*([error] for error in errors), HELLO)
    outcome = run(collect(starts, options(2)))
    assert (outcome.attempts, starts.count) == (3, 3)
    assert isinstance(outcome.raised, ConnectionLostError)
    assert outcome.raised.__cause__ is errors[-1]
    assert (outcome.end, outcome.final.error_message) == (("failed", "ConnectionLostError"), "e3")
    assert outcome.finals == [outcome.final]


def test_waits_double_up_to_the_longest():
    told = []

    def on_retry(*details):
        told.append(details)

    outcome = run(collect(Starts(*[[LOST]] * 6), options(5, retry_max_backoff=3, on_retry=on_retry)))
    assert [details[1:] for details in told] == [(2, 6, 0.5), (3, 6, 1), (4, 6, 2), (5, 6, 3), (6, 6, 3)]
    assert all(isinstance(details[0], ConnectionLostError) for details in told)
    assert outcome.seconds == pytest.approx(0.5 + 1 + 2 + 3 + 3)


def test_jitter_adds_a_share_of_the_wait():
    waits = []
    for _ in range(20):
        chosen = options(1, retry_backoff=8, retry_jitter=0.5, on_retry=lambda *details: waits.append(details[3]))
        run(collect(Starts([LOST], HELLO), chosen))
    assert all(8 <= wait <= 12 for wait in waits)
    assert len(set(waits)) > 10


def test_no_back_off_at_all():
    assert run(collect(Starts([LOST], [LOST], HELLO), options(2, retry_backoff=0))).seconds < 0.1


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "7"}, 7),
        ({"Retry-After": "1.5"}, 1.5),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "3600"}, 60),  # the option's bound
        ({"retry-after": format_datetime(datetime.now(UTC) - timedelta(hours=1), usegmt=True)}, 0),
        ({"retry-after": format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)}, 60),
        ({"retry-after": "soon"}, 0.5),
        ({"retry-after": "-1"}, 0.5),
        ({"retry-after": "nan"}, 0.5),
        ({}, 0.5),
    ],
)
def test_retry_after(headers, wait):
    outcome = run(collect(Starts([Refused(429, headers)], HELLO), options(1)))
    assert outcome.end == ("completed", None)
    assert outcome.seconds == pytest.approx(wait, abs=0.01)


def test_retry_info_of_google():
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "12s"}]
    body = {"error": {"status": "RESOURCE_EXHAUSTED", "message": "later", "details": details}}
    assert run(collect(Starts([Refused(429, body=body)], HELLO), options(1))).seconds == pytest.approx(12)


@pytest.mark.parametrize(
    ("script", "attempts", "error"),
    [
        ([LOST], 2, ConnectionLostError),
        ([TimeoutError()], 2, StreamTimeoutError),
        ([HANG], 2, StreamTimeoutError),
        ([ROLE, HANG], 2, StreamTimeoutError),
        ([], 2, StreamCutError),
        ([ROLE], 2, StreamCutError),
        ([b"data: {oops\n\n"], 2, MalformedStreamError),  # no stream at all
        ([ROLE, b"data: {oops\n\n"], 1, MalformedStreamError),
        ([Refused(400)], 1, ProviderError),
        ([Refused(401)], 1, ProviderError),
        ([Refused(403)], 1, ProviderError),
        ([Refused(404)], 1, ProviderError),
        ([Refused(408)], 2, ProviderError),
        ([Refused(409)], 2, ProviderError),
        ([Refused(429)], 2, RateLimitError),
        ([Refused(429, body={"error": {"code": "insufficient_quota"}})], 1, RateLimitError),
        ([Refused(500)], 2, ProviderError),
        ([Refused(501)], 1, ProviderError),
        ([Refused(503)], 2, ProviderError),
        ([Refused(529)], 2, ProviderError),
        ([error_event("overloaded_error")], 2, ProviderError),
        ([error_event("rate_limit_exceeded")], 2, RateLimitError),
        ([error_event(503)], 2, ProviderError),
        ([error_event("server_error")], 2, ProviderError),
        ([ROLE, error_event("server_error")], 2, ProviderError),
        ([error_event("invalid_request_error")], 1, ProviderError),
        ([error_event("content_policy_violation")], 1, ProviderError),
        ([Untrue()], 1, Untrue),
    ],
)
def test_what_is_tried_again(script, attempts, error):
    starts = Starts(script, script)
    outcome = run(collect(starts, options(1)))
    assert (outcome.attempts, type(outcome.raised)) == (attempts, error)
    assert outcome.final.status in ("failed", "incomplete")
    assert outcome.shown == ""
    assert all(source.closed for source in starts.sources[:attempts])


def test_an_error_in_the_stream_is_raised_after_its_final():
    starts = Starts([chat("Hel"), error_event("server_error"), chat("lo")])
    outcome = run(collect(starts, options(2)))
    assert (outcome.end, outcome.final.error_message) == (("failed", "server_error"), "busy")
    assert (outcome.shown, outcome.attempts) == ("Hel", 1)
    assert (outcome.raised.code, outcome.raised.message, outcome.raised.status) == ("server_error", "busy", None)


@pytest.mark.parametrize("fault", [LOST, TimeoutError(), HANG, Refused(503), error_event(503)])
def test_nothing_is_tried_again_once_something_was_shown(fault):
    starts = Starts([ROLE, chat("Hel"), fault], HELLO)
    outcome = run(collect(starts, options(3)))
    assert (outcome.shown, outcome.final.text, outcome.attempts) == ("Hel", "Hel", 1)
    assert outcome.raised is not None
    assert outcome.final.status == "failed"


def test_nothing_is_tried_again_when_it_came_with_the_first_text():
    """Text and error in one read: the text is shown first."""
    outcome = run(collect(Starts([chat("Hel") + b"data: {oops\n\n"], HELLO), options(3)))
    assert (outcome.shown, outcome.final.text, outcome.attempts) == ("Hel", "Hel", 1)
    assert isinstance(outcome.raised, MalformedStreamError)


def test_nothing_is_tried_again_when_a_fault_that_may_pass_came_with_the_first_text():
    overloaded = b"data: " + json.dumps(error_event(503)).encode() + b"\n\n"
    outcome = run(collect(Starts([chat("Hel") + overloaded], HELLO), options(3)))
    assert (outcome.shown, outcome.final.text, outcome.attempts) == ("Hel", "Hel", 1)
    assert isinstance(outcome.raised, ProviderError)


def test_an_attempt_leaves_nothing_for_the_next():
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    half = chat(None, id="chatcmpl-0", model="another", usage=usage) + b'data: {"choices": [{"del'
    outcome = run(collect(Starts([half, LOST], HELLO), options(1)))
    assert (outcome.final.text, outcome.final.response_id, outcome.final.model_version) == (
        "Hello",
        "chatcmpl-1",
        "test",
    )
    assert outcome.final.usage_metadata is None


def test_a_response_that_is_too_large_is_not_asked_for_again():
    outcome = run(collect(Starts([b"data: " + b"x" * 5000]), options(1), limits=StreamLimits(max_event_bytes=1000)))
    assert (type(outcome.raised), outcome.attempts) == (StreamLimitError, 1)


def test_the_total_limit_spans_attempts_and_waits():
    outcome = run(collect(Starts(*[[4, LOST]] * 9), options(8, retry_backoff=1, total_timeout=10)))
    assert isinstance(outcome.raised, (ConnectionLostError, StreamTimeoutError))
    assert outcome.seconds <= 10.01
    outcome = run(collect(Starts([4, HANG], [4, HANG]), options(8, first_token_timeout=None, total_timeout=10)))
    assert (outcome.raised.limit, outcome.attempts) == ("total", 1)


def test_no_wait_that_could_only_end_in_a_timeout():
    outcome = run(collect(Starts([Refused(429, {"retry-after": "30"})], HELLO), options(1, total_timeout=10)))
    assert (type(outcome.raised), outcome.attempts) == (RateLimitError, 1)
    assert outcome.seconds < 1


def test_an_error_as_the_whole_body_of_a_200():
    body = b'{"error": {"message": "busy", "type": "server_error", "code": null}}'
    outcome = run(collect(Starts([body], HELLO), options(1)))
    assert (outcome.end, outcome.shown, outcome.attempts) == (("completed", None), "Hello", 2)
    outcome = run(collect(Starts([body])))
    assert (outcome.end, outcome.final.error_message) == (("failed", "server_error"), "busy")
    assert outcome.raised.code == "server_error"


def test_a_start_that_raises():
    def start():
        raise LOST

    outcome = run(collect(start, options(2)))
    assert (outcome.attempts, type(outcome.raised)) == (3, ConnectionLostError)


def test_a_hanging_close_holds_the_next_attempt_up_no_longer_than_the_bound():
    sources = [Source(LOST, close=HANG), Source(*HELLO)]
    opened = iter(sources)
    outcome = run(collect(lambda: next(opened), options(1, close_timeout=2)))
    assert outcome.end == ("completed", None)
    assert outcome.seconds == pytest.approx(2.5, abs=0.2)


def test_cancel_ends_a_wait():
    async def leave():
        execution = execute(Starts(*[[LOST]] * 5), options(4, retry_backoff=20), provider="openai-chat")
        asyncio.get_running_loop().call_later(25, execution.cancel)
        responses = [response async for response in execution]
        return execution, responses, asyncio.get_running_loop().time()

    execution, responses, ended = run(leave())
    assert (execution.attempts, responses, ended) == (2, [], 25)
    assert execution.final is None  # nothing had come


def test_what_on_retry_raises_goes_on():
    def on_retry(*details):
        raise Untrue

    outcome = run(collect(Starts([LOST], HELLO), options(1, on_retry=on_retry)))
    assert (type(outcome.raised), outcome.attempts) == (Untrue, 1)


def test_a_finish_without_content_is_no_fault():
    outcome = run(collect(Starts([ROLE, FINISH, DONE], HELLO), options(1)))
    assert (outcome.end, outcome.attempts, outcome.shown) == (("completed", None), 1, "")
