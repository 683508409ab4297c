"""Laws over all scripts, on a clock that jumps: what is shown is the final, and no wait is longer than its limit."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from sources import DONE, FINISH, HANG, PING, ROLE, Starts, chat, collect, run

from adk_stream import StreamExecutionOptions
from adk_stream.errors import ConnectionLostError, ProviderError, StreamCutError, StreamTimeoutError

ERROR = {"error": {"code": "server_error", "message": "busy"}}
LASTING = {"error": {"code": "invalid_request_error", "message": "no"}}
ENDS = {
    "completed": [FINISH, DONE],
    "no end mark": [FINISH],
    "cut": [],
    "lost": [ConnectionResetError("reset")],
    "hangs": [HANG],
    "error": [ERROR],
    "lasting error": [LASTING],
}
RAISED = {
    "completed": None,
    "no end mark": None,
    "cut": StreamCutError,
    "lost": ConnectionLostError,
    "hangs": StreamTimeoutError,
    "error": ProviderError,
    "lasting error": ProviderError,
}
PIECES = {"ping": PING, "role": ROLE, "text": chat("word ")}

# Eighths are exact in binary, and no sum of them is a limit, nor are two limits hit at once: each ends otherwise.
waits = st.integers(0, 24).map(lambda number: number / 8)
steps = st.lists(st.tuples(waits, st.sampled_from(sorted(PIECES))), max_size=8)
attempts = st.lists(st.tuples(steps, st.sampled_from(sorted(ENDS))), min_size=1, max_size=4)


def limits(rest):
    return st.one_of(st.none(), st.integers(0, 40).map(lambda number: number / 8 + rest))


def script(attempt):
    events, end = attempt
    return [*(each for wait, kind in events for each in (wait, PIECES[kind])), *ENDS[end]]


@settings(max_examples=60, deadline=None)
@given(attempts, st.integers(0, 4), st.sampled_from([0.0, 7.0]))
def test_what_is_shown_is_the_final_exactly_once(given_attempts, retries, between):
    options = StreamExecutionOptions(50, 50, max_retries=retries, retry_backoff=0.5, retry_jitter=0)
    starts = Starts(*map(script, given_attempts), *[script(([], "completed"))] * 5)
    outcome = run(collect(starts, options, between=between))
    assert outcome.shown == outcome.final.text
    assert outcome.finals == [outcome.final]
    assert all(source.closed for source in starts.sources[: starts.count])

    made = [*given_attempts, *[([], "completed")] * 5][: outcome.attempts]
    assert outcome.attempts == starts.count <= retries + 1
    for events, end in made[:-1]:
        assert "text" not in [kind for _, kind in events]
        assert end in ("cut", "lost", "hangs", "error")

    last_events, last_end = made[-1]
    alone = run(collect(Starts(script(made[-1])), StreamExecutionOptions(50, 50), between=between))
    assert alone.final == outcome.final
    assert type(alone.raised) is type(outcome.raised)
    shown = "text" in [kind for _, kind in last_events]
    expected = None if shown and last_end == "cut" else RAISED[last_end]
    assert (outcome.raised is None) if expected is None else type(outcome.raised) is expected
    if not shown and last_end in ("cut", "lost", "hangs", "error"):
        assert outcome.attempts == retries + 1


def foresee(events, options):
    """The limit that is hit and when; or None and when all has come."""
    now = bytes_at = content_at = 0.0
    spoke = False
    for wait, kind in [*events, (HANG, "ping")]:
        dues = {"total": options.total_timeout}
        if spoke:
            dues["idle"] = None if options.idle_timeout is None else bytes_at + options.idle_timeout
            dues["content"] = None if options.content_timeout is None else content_at + options.content_timeout
        else:
            dues["first_token"] = options.first_token_timeout
        known = [(due, name) for name, due in dues.items() if due is not None]
        if known and min(known)[0] < now + wait:
            return min(known)[1], min(known)[0]
        if wait == HANG:
            return None, now
        now += wait
        bytes_at = now
        if kind != "ping" and not spoke:
            spoke, content_at = True, now
        if kind == "text":
            content_at = now
    raise AssertionError


@settings(max_examples=60, deadline=None)
@given(steps, limits(1 / 16), limits(1 / 32), limits(3 / 32), limits(1 / 64))
def test_no_wait_is_longer_than_its_limit(events, first, idle, content, total):
    options = StreamExecutionOptions(first, idle, content, total)
    limit, when = foresee(events, options)
    whole = [each for wait, kind in events for each in (wait, PIECES[kind])]
    outcome = run(collect(Starts([*whole, HANG] if limit else [*whole, *ENDS["completed"]]), options))
    assert getattr(outcome.raised, "limit", None) == limit
    assert abs(outcome.seconds - when) < 1e-6
    assert outcome.end == (("failed", "STREAM_TIMEOUT") if limit else ("completed", None))
    assert outcome.shown == outcome.final.text


@settings(max_examples=40, deadline=None)
@given(steps, st.sampled_from([0.5, 3.0, 1000.0]))
def test_a_slow_consumer_is_never_the_sources_fault(events, between):
    options = StreamExecutionOptions(3.5625, 3.5625, 30.0625, 60.0625)
    whole = [each for wait, kind in events for each in (wait, PIECES[kind])]
    if foresee(events, options)[1] > sum(wait for wait, _ in events):  # without the consumer, all is in time
        outcome = run(collect(Starts([*whole, *ENDS["completed"]]), options, between=between))
        assert (outcome.end, outcome.raised) == (("completed", None), None)
