"""The blocking form: the same limits, retries and ways of leaving, in threads."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import pytest
from sources import HANG, HELLO, PING, ROLE, BlockingSource, Starts, chat

from adk_stream import StreamExecutionOptions, execute_blocking
from adk_stream.errors import ConnectionLostError, MalformedStreamError, StreamCutError, StreamTimeoutError

QUICK = StreamExecutionOptions(first_token_timeout=0.15, idle_timeout=0.15, retry_backoff=0.01, close_timeout=1)
LOST = ConnectionResetError("reset")


def starts(*scripts):
    return Starts(*scripts, kind=BlockingSource)


def collect(start, options=None, between=0.0, **arguments):
    execution = execute_blocking(start, options, provider="openai-chat", **arguments)
    responses, raised, began = [], None, time.monotonic()
    with closing(execution):
        try:
            for response in execution:
                responses.append(response)
                time.sleep(between)
        except Exception as problem:
            raised = problem
    shown = "".join(response.text for response in responses if response.partial)
    return execution, shown, raised, time.monotonic() - began


def end(execution):
    return execution.final.status, execution.final.error_code


def test_a_whole_stream():
    opened = starts(HELLO)
    execution, shown, raised, _ = collect(opened)
    assert (end(execution), execution.final.text, shown, raised) == (("completed", None), "Hello", "Hello", None)
    assert opened.sources[0].closed
    assert list(execution) == []


@pytest.mark.parametrize(
    ("script", "limit", "text"),
    [([HANG], "first_token", ""), ([ROLE, chat("Hel"), HANG], "idle", "Hel"), ([PING, HANG], "first_token", "")],
)
def test_limits_hold_although_the_source_blocks(script, limit, text):
    opened = starts(script)
    execution, shown, raised, seconds = collect(opened, QUICK)
    assert (type(raised), raised.limit) == (StreamTimeoutError, limit)
    assert (end(execution), execution.final.text, shown) == (("failed", "STREAM_TIMEOUT"), text, text)
    assert 0.14 <= seconds < 5
    assert opened.sources[0].closed


def test_pings_restart_the_idle_limit():
    options = StreamExecutionOptions(idle_timeout=0.6)
    assert end(collect(starts([ROLE, *[0.2, PING] * 4, *HELLO]), options)[0]) == ("completed", None)


def test_the_consumers_own_time_does_not_count():
    execution, _, raised, _ = collect(starts([ROLE, 0.05, *HELLO]), StreamExecutionOptions(0.4, 0.4), between=0.5)
    assert (end(execution), raised) == (("completed", None), None)


def test_done_ends_the_wait():
    execution, _, _, seconds = collect(starts([*HELLO, HANG]))
    assert end(execution) == ("completed", None)
    assert seconds < 5


def test_the_terminal_sign_ends_the_wait_after_a_grace():
    execution, _, _, seconds = collect(starts([*HELLO[:-1], HANG]), StreamExecutionOptions(end_grace=0.1))
    assert end(execution) == ("completed", None)
    assert 0.09 <= seconds < 5


def test_retries():
    told = []
    options = StreamExecutionOptions(
        max_retries=2, retry_backoff=0.05, retry_jitter=0, on_retry=lambda *details: told.append(details[1:])
    )
    execution, shown, raised, seconds = collect(starts([LOST], [], HELLO), options)
    assert (end(execution), shown, raised, execution.attempts) == (("completed", None), "Hello", None, 3)
    assert told == [(2, 3, 0.05), (3, 3, 0.1)]
    assert seconds >= 0.15


def test_the_last_error_is_the_one_raised():
    execution, _, raised, _ = collect(starts([LOST], []), StreamExecutionOptions(max_retries=1, retry_backoff=0))
    assert (type(raised), execution.attempts, end(execution)) == (StreamCutError, 2, ("failed", "STREAM_CUT"))


def test_no_retry_once_something_was_shown():
    options = StreamExecutionOptions(max_retries=3)
    execution, shown, raised, _ = collect(starts([chat("Hel"), LOST], HELLO), options)
    assert (shown, execution.attempts, type(raised)) == ("Hel", 1, ConnectionLostError)
    assert raised.__cause__ is LOST


def test_unreadable_data():
    execution, shown, raised, _ = collect(starts([chat("Hel"), b"data: {oops\n\n"]))
    assert (type(raised), shown, end(execution)) == (MalformedStreamError, "Hel", ("failed", "MALFORMED_STREAM"))


def test_cancel_from_another_thread():
    opened = starts([ROLE, chat("Hel"), HANG])
    execution = execute_blocking(opened, provider="openai-chat")
    timer = threading.Timer(0.1, execution.cancel)
    timer.start()
    began = time.monotonic()
    assert [response.text for response in execution] == ["Hel"]
    assert time.monotonic() - began < 5
    assert (end(execution), execution.final.text) == (("cancelled", "STREAM_CANCELLED"), "Hel")
    execution.cancel()
    execution.close()
    assert opened.sources[0].closed
    timer.join()


def test_cancel_ends_a_wait():
    execution = execute_blocking(starts([LOST], HELLO), StreamExecutionOptions(max_retries=1, retry_backoff=30))
    timer = threading.Timer(0.1, execution.cancel)
    timer.start()
    assert list(execution) == []
    assert (execution.final, execution.attempts) == (None, 1)
    timer.join()


def test_cancel_before_the_start():
    opened = starts(HELLO)
    execution = execute_blocking(opened)
    execution.cancel()
    assert (list(execution), opened.count, execution.final) == ([], 0, None)


def test_close_in_mid_stream():
    opened = starts([ROLE, chat("Hel"), HANG])
    with closing(execute_blocking(opened, provider="openai-chat")) as execution:
        assert next(execution).text == "Hel"
    assert (end(execution), execution.final.text) == (("cancelled", "STREAM_CANCELLED"), "Hel")
    assert opened.sources[0].closed


def test_break_closes_when_the_iterator_is_let_go():
    opened = starts([ROLE, chat("Hel"), HANG])
    execution = execute_blocking(opened, provider="openai-chat")
    for _ in execution:
        break
    del execution
    deadline = time.monotonic() + 5
    while not opened.sources[0].closed and time.monotonic() < deadline:
        time.sleep(0.01)
    assert opened.sources[0].closed


def test_an_interrupt_leaves():
    opened = starts([ROLE, chat("Hel"), KeyboardInterrupt("mine")])
    execution = execute_blocking(opened, provider="openai-chat")
    assert next(execution).text == "Hel"
    with pytest.raises(KeyboardInterrupt):
        next(execution)
    assert end(execution) == ("cancelled", "STREAM_CANCELLED")
    assert opened.sources[0].closed


def test_only_a_little_is_read_ahead():
    opened = starts([chat("a")] * 5000)
    with closing(execute_blocking(opened, provider="openai-chat")) as execution:
        next(execution)
        time.sleep(0.1)
        assert opened.sources[0].given < 100


def test_a_generator_that_blocks_does_not_hold_us():
    awake = threading.Event()

    def source():
        yield chat("Hel")
        awake.wait(20)

    options = StreamExecutionOptions(idle_timeout=0.1, close_timeout=0.1)
    execution, _, raised, seconds = collect(source, options)
    assert (raised.limit, execution.final.text) == ("idle", "Hel")
    assert seconds < 5
    awake.set()  # its thread ends as soon as it wakes


def test_a_start_that_blocks_does_not_hold_us():
    awake = threading.Event()
    options = StreamExecutionOptions(first_token_timeout=0.1, close_timeout=0.1)
    _, _, raised, seconds = collect(lambda: awake.wait(20), options)
    assert raised.limit == "first_token"
    assert seconds < 5
    awake.set()
