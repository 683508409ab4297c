"""Each limit holds, names itself, and counts only the time that the source takes."""

from __future__ import annotations

import asyncio

import pytest
from sources import DONE, FINISH, HANG, HELLO, PING, ROLE, Starts, chat, collect, run, run_really

from adk_stream import StreamExecutionOptions
from adk_stream.errors import StreamCutError, StreamTimeoutError

OPTIONS = StreamExecutionOptions(first_token_timeout=3, idle_timeout=2)
EVENTS = [
    {"type": "message_start", "message": {"id": "msg_1", "model": "test"}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
]


def test_a_whole_stream():
    starts = Starts(HELLO)
    outcome = run(collect(starts, OPTIONS))
    assert (outcome.shown, outcome.final.text, outcome.end, outcome.raised) == (
        "Hello",
        "Hello",
        ("completed", None),
        None,
    )
    assert outcome.finals == [outcome.final]
    assert (outcome.attempts, outcome.seconds, starts.sources[0].closed) == (1, 0, True)


@pytest.mark.parametrize(
    ("script", "options", "limit", "seconds", "text"),
    [
        ([HANG], OPTIONS, "first_token", 3, ""),
        ([2, PING, HANG], OPTIONS, "first_token", 3, ""),  # a ping says nothing
        ([ROLE, HANG], OPTIONS, "idle", 2, ""),
        ([2.9, ROLE, 1, chat("Hel"), HANG], OPTIONS, "idle", 5.9, "Hel"),
        ([chat("Hel"), 1, PING, 1, PING, 1, PING, HANG], OPTIONS, "idle", 5, "Hel"),
        (
            [chat("Hel"), *[1, PING] * 9],
            StreamExecutionOptions(idle_timeout=2, content_timeout=5),
            "content",
            5,
            "Hel",
        ),
        (
            [chat("Hel"), *[1, ROLE] * 9],
            StreamExecutionOptions(idle_timeout=2, content_timeout=5),
            "content",
            5,
            "Hel",
        ),
        ([*[1, chat("a")] * 9], StreamExecutionOptions(total_timeout=4.5), "total", 4.5, "aaaa"),
    ],
)
def test_a_limit_that_is_hit(script, options, limit, seconds, text):
    starts = Starts(script)
    outcome = run(collect(starts, options))
    assert isinstance(outcome.raised, StreamTimeoutError)
    assert isinstance(outcome.raised, TimeoutError)
    assert outcome.raised.limit == limit
    assert outcome.seconds == pytest.approx(seconds)
    assert (outcome.end, outcome.final.text, outcome.shown) == (("failed", "STREAM_TIMEOUT"), text, text)
    assert outcome.finals == [outcome.final]
    assert starts.sources[0].closed


def test_pings_restart_the_idle_limit():
    outcome = run(collect(Starts([ROLE, *[1.9, PING] * 20, chat("Hi"), FINISH, DONE]), OPTIONS))
    assert outcome.end == ("completed", None)


def test_connecting_counts():
    async def start():
        await asyncio.sleep(60)

    outcome = run(collect(start, OPTIONS))
    assert (outcome.raised.limit, outcome.seconds) == ("first_token", 3)


@pytest.mark.parametrize("options", [OPTIONS, StreamExecutionOptions(content_timeout=2, total_timeout=3)])
def test_the_consumers_own_time_does_not_count(options):
    outcome = run(collect(Starts([ROLE, 0.5, chat("a"), 0.5, chat("b"), 1, FINISH, DONE]), options, between=100))
    assert (outcome.end, outcome.raised) == (("completed", None), None)


def test_no_limits_at_all():
    options = StreamExecutionOptions(first_token_timeout=None, idle_timeout=None)
    outcome = run(collect(Starts([5000, ROLE, 5000, chat("a"), FINISH, DONE]), options))
    assert (outcome.end, outcome.seconds) == (("completed", None), 10_000)


# ----------------------------------------------------------------- the terminal sign


def test_done_ends_the_wait():
    starts = Starts([*HELLO, HANG])
    outcome = run(collect(starts, OPTIONS))
    assert outcome.end == ("completed", None)
    assert outcome.seconds < 0.1
    assert starts.sources[0].closed


def test_message_stop_ends_the_wait():
    outcome = run(collect(Starts([*EVENTS, HANG]), OPTIONS, provider="anthropic"))
    assert (outcome.end, outcome.final.text) == (("completed", None), "Hi")
    assert outcome.seconds < 0.1


def test_response_completed_ends_the_wait():
    response = {"id": "resp_1", "status": "completed", "output": []}
    events = [
        {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}},
        {"type": "response.completed", "response": response},
    ]
    outcome = run(collect(Starts([*events, HANG]), OPTIONS, provider="openai-responses"))
    assert outcome.end == ("completed", None)
    assert outcome.seconds < 0.1


def test_what_trails_the_finish_reason_is_waited_for_but_not_long():
    usage = chat(usage={"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}, choices=[])
    outcome = run(collect(Starts([*HELLO[:4], 0.8, usage, PING, HANG]), OPTIONS))
    assert outcome.end == ("completed", None)
    assert outcome.final.usage_metadata.total_token_count == 5
    assert outcome.seconds == pytest.approx(1.8)


def test_usage_after_geminis_finish_reason():
    events = [
        {"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]},
        0.5,
        {"usageMetadata": {"promptTokenCount": 3, "totalTokenCount": 4}},
        HANG,
    ]
    outcome = run(collect(Starts(events), OPTIONS, provider="gemini"))
    assert (outcome.end, outcome.final.usage_metadata.total_token_count) == (("completed", None), 4)
    assert outcome.seconds == pytest.approx(1.5)


def test_a_source_that_ends_by_itself_after_the_end_mark_is_not_cut_off():
    async def source():
        for piece in HELLO:
            yield piece
        await asyncio.sleep(0)
        ended.append(True)

    ended = []
    assert run(collect(source, OPTIONS)).end == ("completed", None)
    assert ended


def test_a_source_that_never_ends_and_never_waits_is_stopped():
    async def source():
        try:
            for piece in HELLO:
                yield piece
            while True:
                yield PING
        finally:
            closed.append(True)

    closed = []
    outcome = run_really(collect(source, OPTIONS))
    assert (outcome.end, closed) == (("completed", None), [True])


# ----------------------------------------------------------------- cuts


@pytest.mark.parametrize("count", [2, 3])
def test_a_cut_after_something_was_shown_raises_nothing(count):
    outcome = run(collect(Starts(HELLO[:count])))
    assert (outcome.end, outcome.raised) == (("incomplete", "STREAM_CUT"), None)
    assert outcome.final.text == outcome.shown != ""


@pytest.mark.parametrize(
    ("script", "status"), [([], "failed"), ([PING], "failed"), ([b"<html>It works!</html>\n"], "failed")]
)
def test_an_answer_without_any_event_is_a_fault(script, status):
    outcome = run(collect(Starts(script)))
    assert isinstance(outcome.raised, StreamCutError)
    assert outcome.end == (status, "STREAM_CUT")


def test_a_cut_before_anything_was_shown_is_a_fault():
    outcome = run(collect(Starts([ROLE])))
    assert isinstance(outcome.raised, StreamCutError)
    assert outcome.end == ("incomplete", "STREAM_CUT")
    assert outcome.final.response_id == "chatcmpl-1"


def test_flush_boundary_and_the_other_arguments_go_through():
    outcome = run(collect(Starts([chat("<think>a</think>b"), FINISH, DONE]), flush="boundary", think_tags=True))
    assert [part.text for part in outcome.final.parts] == ["a", "b"]
    with pytest.raises(ValueError, match="flush"):
        run(collect(Starts(HELLO), flush="sometimes"))
    with pytest.raises(ValueError, match="provider"):
        run(collect(Starts(HELLO), provider="none"))


def test_the_real_clock():
    outcome = run_really(collect(Starts([chat("Hel"), HANG]), StreamExecutionOptions(idle_timeout=0.1)))
    assert outcome.raised.limit == "idle"
    assert 0.1 <= outcome.seconds < 2


def test_a_plain_iterable_will_do():
    assert run(collect(lambda: HELLO)).end == ("completed", None)
    assert run(collect(lambda: b"".join(HELLO))).end == ("completed", None)
