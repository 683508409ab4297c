"""Time limits that hold: also when the source blocks, and without leaving a thread behind."""

from __future__ import annotations

import json
import threading
import time

import pytest

from adk_stream.errors import MalformedStreamError, StreamTimeoutError
from adk_stream.execution import read_messages_stream
from adk_stream.providers.anthropic_handler import MessagesStreamHandler

EVENTS = [
    {"type": "message_start", "message": {"id": "msg_1", "model": "claude-test"}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
]
PIECES = [b"data: %s\n\n" % json.dumps(event).encode() for event in EVENTS]


class Source:
    """Gives pieces, then blocks until it is closed, as a socket does."""

    def __init__(self, pieces, then=None):
        self.pieces = iter(pieces)
        self.then = then
        self.closed = threading.Event()

    def __iter__(self):
        return self

    def __next__(self):
        for piece in self.pieces:
            return piece
        if self.then is not None:
            raise self.then
        self.closed.wait(20)
        raise ConnectionError("closed")

    def close(self):
        self.closed.set()


@pytest.fixture(autouse=True)
def no_thread_stays():
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + 5
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not set(threading.enumerate()) - before


@pytest.mark.parametrize("timeout", [None, 5])
def test_a_whole_stream(timeout):
    handler = MessagesStreamHandler()
    final = read_messages_stream(PIECES, handler, timeout)
    assert final is handler.final
    assert (final.status, final.text) == ("completed", "Hi")
    assert read_messages_stream(b"".join(PIECES), handler, timeout).text == "Hi"


@pytest.mark.parametrize("timeout", [None, 5])
def test_it_ends_at_the_terminal_sign_and_closes_the_source(timeout):
    source = Source(PIECES)
    began = time.monotonic()
    assert read_messages_stream(source, MessagesStreamHandler(), timeout).status == "completed"
    assert time.monotonic() - began < 10
    assert source.closed.wait(1)


@pytest.mark.parametrize("count", [0, 1, 3, 5])
def test_the_limit_holds_although_the_source_blocks(count):
    source, handler = Source(PIECES[:count]), MessagesStreamHandler()
    began = time.monotonic()
    with pytest.raises(StreamTimeoutError):
        read_messages_stream(source, handler, 0.1)
    assert 0.1 <= time.monotonic() - began < 10
    assert source.closed.wait(1)
    assert (handler.final.status, handler.final.error_code) == ("failed", "STREAM_TIMEOUT")
    assert handler.final.text == ("Hi" if count > 2 else "")


def test_the_limit_holds_for_a_generator_that_cannot_be_closed_from_outside():
    awake = threading.Event()

    def source():
        yield PIECES[0]
        awake.wait(20)
        yield PIECES[1]

    with pytest.raises(StreamTimeoutError):
        read_messages_stream(source(), MessagesStreamHandler(), 0.05)
    awake.set()  # its thread ends as soon as it wakes


def test_the_handlers_own_time_does_not_count():
    class Slow(MessagesStreamHandler):
        def on_delta_text(self, text):
            time.sleep(0.3)

    assert read_messages_stream(Source(PIECES), Slow(), 0.2).status == "completed"


@pytest.mark.parametrize("timeout", [None, 5])
def test_what_the_source_raises_goes_on_unchanged(timeout):
    problem, handler = OSError("reset"), MessagesStreamHandler()
    with pytest.raises(OSError, match="reset") as caught:
        read_messages_stream(Source(PIECES[:3], problem), handler, timeout)
    assert caught.value is problem
    assert (handler.final.status, handler.final.error_code, handler.final.text) == ("failed", "OSError", "Hi")


@pytest.mark.parametrize("timeout", [None, 5])
def test_an_error_in_the_stream_is_the_final_and_raises_nothing(timeout):
    told = []

    class Notes(MessagesStreamHandler):
        def on_error(self, error):
            told.append(error)

    error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    final = read_messages_stream([*EVENTS[:3], error], Notes(), timeout)
    assert (final.status, final.error_code, final.text) == ("failed", "overloaded_error", "Hi")
    assert [each.code for each in told] == ["overloaded_error"]


@pytest.mark.parametrize("timeout", [None, 5])
def test_unreadable_data_is_raised_and_the_source_closed(timeout):
    source, handler = Source([b"".join(PIECES[:3]) + b"data: {oops\n\n"]), MessagesStreamHandler()
    with pytest.raises(MalformedStreamError):
        read_messages_stream(source, handler, timeout)
    assert source.closed.wait(1)
    assert (handler.final.status, handler.final.error_code, handler.final.text) == (
        "failed",
        "MALFORMED_STREAM",
        "Hi",
    )


@pytest.mark.parametrize("timeout", [None, 5])
def test_an_exception_of_the_handler_leaves_the_stream(timeout):
    class Fails(MessagesStreamHandler):
        def on_delta_text(self, text):
            raise RuntimeError("mine")

    source = Source(PIECES)
    with pytest.raises(RuntimeError, match="mine"):
        read_messages_stream(source, Fails(), timeout)
    assert source.closed.wait(1)


def test_a_slow_handler_holds_the_source_back():
    taken = []

    def source():
        for _ in range(10_000):
            taken.append(1)
            yield {"type": "ping"}

    class Leaves(MessagesStreamHandler):
        def on_start(self, message_id, model):
            time.sleep(0.2)
            raise RuntimeError(str(len(taken)))

    def with_start():
        yield EVENTS[0]
        yield from source()

    with pytest.raises(RuntimeError) as caught:
        read_messages_stream(with_start(), Leaves(), 5)
    assert int(str(caught.value)) < 200
