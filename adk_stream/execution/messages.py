"""read_messages_stream: one Messages stream, told to a handler, within a time limit."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from adk_stream.aggregator import StreamingResponseAggregator
from adk_stream.execution.options import StreamExecutionOptions
from adk_stream.execution.patience import Patience
from adk_stream.execution.threads import ThreadBell, ThreadPump, pull
from adk_stream.providers.anthropic_handler import MessagesStream, MessagesStreamHandler

if TYPE_CHECKING:
    from adk_stream.response import LlmResponse

__all__ = ["read_messages_stream"]

_Pieces = Generator[Any, None, None]

_SHORTEST = 1e-6  # a limit of no time at all is still one


def read_messages_stream(
    stream: Iterable[Any], handler: MessagesStreamHandler, timeout: float | None = None
) -> LlmResponse | None:
    """Read one Messages stream to its end, telling ``handler`` of everything on the way.

    Args:
        stream: A blocking iterable of pieces (bytes or str cut anywhere, decoded events, or SDK objects), or
            all of it as one. It is closed at the end, if it can be.
        handler: Called in the calling thread.
        timeout: Seconds that the stream as a whole may keep us waiting; the handler's own time does not
            count. It holds even if the source blocks for ever. None: no limit.

    Returns:
        The final response, also in ``handler.final``; None if nothing had come. Reading stops at the terminal
        sign, without waiting for the source to end. An error inside the stream gives a ``failed`` final.

    Raises:
        StreamTimeoutError: the time is over; what had come is in ``handler.final``.
        MalformedStreamError: an event cannot be read.
        Exception: what the source raised, unchanged; what had come is in ``handler.final``.
    """
    aggregator = StreamingResponseAggregator("close")
    aggregator.speaks("anthropic")
    messages = MessagesStream(handler, aggregator.take)
    pieces = _pieces(stream) if timeout is None else _within(stream, timeout)
    try:
        with contextlib.closing(pieces):
            for piece in pieces:
                messages.feed(piece)
                if messages.ended:
                    break
        messages.close()
    except BaseException as problem:
        handler.final = aggregator.close(problem)
        messages.close(problem)
        raise
    handler.final = aggregator.close()
    return handler.final


def _pieces(stream: Any) -> _Pieces:
    """The pieces one by one; closing this closes the stream."""
    if isinstance(stream, (bytes, bytearray, memoryview, str, Mapping)):
        yield stream
        return
    try:
        yield from iter(stream)
    finally:
        close = getattr(stream, "close", None)
        if close is not None:
            with contextlib.suppress(Exception):
                close()


def _within(stream: Any, timeout: float) -> _Pieces:
    """The pieces, pulled by a thread of their own, so that we can stop waiting for them."""
    options = StreamExecutionOptions(None, None, total_timeout=max(float(timeout), _SHORTEST))
    bell, patience = ThreadBell(), Patience(options)
    pump = ThreadPump(lambda: stream, bell, options.close_timeout)
    try:
        while came := pull(pump, bell, patience, lambda: None):
            yield came[0]
    finally:
        pump.stop()
