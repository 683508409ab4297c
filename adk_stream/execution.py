"""Time limits: how long a stream may keep its reader waiting.

The one room of the package that looks at a clock. It stands above the core, which never waits, and holds no
aggregation logic.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Generator, Iterable, Mapping
from queue import Empty, Full, Queue
from typing import TYPE_CHECKING, Any

from adk_stream.aggregator import StreamingResponseAggregator
from adk_stream.errors import StreamTimeoutError
from adk_stream.providers.anthropic_handler import MessagesStream, MessagesStreamHandler

if TYPE_CHECKING:
    from adk_stream.response import LlmResponse

__all__ = ["read_messages_stream"]

_Pieces = Generator[Any, None, None]
_Item = tuple[Any, BaseException | None, bool]  # a piece; or what the source raised; or the end of it

_WAITING_PIECES = 64  # read ahead of the handler, no more: a slow handler holds the source back


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
    pieces = _pieces(stream) if timeout is None else _within(_pieces(stream), stream, timeout)
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
        _close(stream)


def _within(pieces: _Pieces, stream: Any, timeout: float) -> _Pieces:
    """The pieces, pulled by a thread of their own, so that we can stop waiting for them."""
    waiting: Queue[_Item] = Queue(_WAITING_PIECES)
    left = threading.Event()
    worker = threading.Thread(target=_pull, args=(pieces, waiting, left), daemon=True)
    worker.start()
    remaining = float(timeout)
    try:
        while True:
            asked = time.monotonic()
            try:
                piece, problem, more = waiting.get(timeout=max(remaining, 0.0))
            except Empty:
                raise StreamTimeoutError(f"the stream kept us waiting for more than {timeout:g} s") from None
            remaining -= time.monotonic() - asked
            if problem is not None:
                raise problem
            if not more:
                return
            yield piece
    finally:
        left.set()
        if worker.is_alive():
            _close(stream)  # wakes a read that blocks on a socket; a generator is closed by its own thread


def _pull(pieces: _Pieces, waiting: Queue[_Item], left: threading.Event) -> None:
    last: _Item = (None, None, False)
    try:
        with contextlib.closing(pieces):
            for piece in pieces:
                if not _put(waiting, (piece, None, True), left):
                    return
    except BaseException as problem:
        last = (None, problem, False)
    _put(waiting, last, left)


def _put(waiting: Queue[_Item], item: _Item, left: threading.Event) -> bool:
    """Hand a piece over; False when nobody waits any more."""
    while not left.is_set():
        with contextlib.suppress(Full):
            waiting.put(item, timeout=0.05)
            return True
    return False


def _close(stream: Any) -> None:
    """Close a source that may be in use: what it says to that is of no interest to anybody."""
    close = getattr(stream, "close", None)
    if close is not None:
        with contextlib.suppress(Exception):
            close()
