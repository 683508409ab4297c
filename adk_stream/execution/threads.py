"""The pump of the blocking form: a daemon thread reads the source, so that its consumer can stop waiting.

A blocking read cannot be cancelled. What can be done is to shut its socket down, or to close the source under it;
where neither wakes it, the thread ends as soon as the read does, by the client's own time limit.
"""

from __future__ import annotations

import contextlib
import contextvars
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from adk_stream.execution.patience import Patience

__all__ = ["ThreadBell", "ThreadPump", "pull"]

_AHEAD = 64  # pieces read ahead of the consumer, no more: a slow one holds the source back


class ThreadBell:
    """Wakes the one thread that waits: at a ring, or when the time is over."""

    def __init__(self) -> None:
        self._rung = threading.Event()

    def ring(self) -> None:
        """Wake the one who waits; if nobody does, the next wait is over at once."""
        self._rung.set()

    def wait(self, seconds: float) -> float:
        """Wait for a ring, at most that long (it may be infinite).

        Returns:
            The seconds that it took.
        """
        began = time.monotonic()
        self._rung.wait(min(seconds, threading.TIMEOUT_MAX))
        self._rung.clear()
        return time.monotonic() - began


class ThreadPump:
    """Reads one blocking source, ahead of its consumer.

    Args:
        start: Opens the source: gives an iterable, or all of the stream as one piece.
        bell: Rung when something has come.
        close_timeout: Seconds that closing is waited for.

    Attributes:
        pieces: What has come and was not taken.
        ended: Nothing more comes.
        problem: What the source raised.
    """

    def __init__(self, start: Callable[[], Any], bell: ThreadBell, close_timeout: float) -> None:
        self.pieces: deque[Any] = deque()
        self.ended = False
        self.problem: BaseException | None = None
        self._start = start
        self._bell = bell
        self._close_timeout = close_timeout
        self._room = threading.Semaphore(_AHEAD)
        self._unwanted = self._stopped = False
        self._stream: Any = None
        run = contextvars.copy_context().run  # tracing follows the request
        self._thread = threading.Thread(target=run, args=(self._run,), name="adk-stream-source", daemon=True)
        self._thread.start()

    def take(self) -> Any:
        """The oldest piece."""
        piece = self.pieces.popleft()
        self._room.release()
        return piece

    def linger(self, seconds: float) -> None:
        """Let the source come to its end by itself, which keeps its connection usable, but not for long."""
        self._unwanted = True
        self._room.release()
        self._thread.join(seconds)

    def stop(self) -> None:
        """Close the source. Stopping again does nothing."""
        if self._stopped or self.ended:  # at its end it closes by itself, and its socket may be another's already
            return
        self._stopped = self._unwanted = True
        self._room.release()
        if self._stream is not None and not _shut_down(self._stream):
            _close(self._stream)  # a generator says no to that: its own thread closes it

    def closed(self) -> None:
        """Wait until the source is closed, no longer than the bound."""
        if self._thread is not threading.current_thread():
            self._thread.join(self._close_timeout)

    def _run(self) -> None:
        try:
            stream = self._stream = self._start()
            pieces = _pieces(stream)
            try:
                for piece in pieces:
                    if self._stopped:
                        break
                    if self._unwanted:
                        continue
                    self.pieces.append(piece)
                    self._bell.ring()
                    self._room.acquire()
            except BaseException as problem:
                self.problem = problem
            self._end()  # before the close, which may take its time
            _close(pieces)
            if pieces is not stream:
                _close(stream)
        except BaseException as problem:
            self.problem = problem
        finally:
            self._end()

    def _end(self) -> None:
        self.ended = True
        self._bell.ring()


def pull(pump: ThreadPump, bell: ThreadBell, patience: Patience, check: Callable[[], None]) -> tuple[Any, ...]:
    """The next piece, alone in a tuple; an empty one when there is none.

    Args:
        pump: What reads the source.
        bell: What the pump rings.
        patience: The limits of the wait.
        check: Called before each wait; what it raises goes on.

    Raises:
        StreamTimeoutError: a limit was hit.
        BaseException: what the source raised, unchanged.
    """
    while True:
        check()
        ended = pump.ended  # looked at first: a piece may come between the two looks, but none after the end
        if pump.pieces:
            return (pump.take(),)
        if ended:
            if pump.problem is not None:
                raise pump.problem
            return ()
        if patience.is_over():
            return ()
        patience.waited += bell.wait(patience.left)


def _pieces(stream: Any) -> Iterator[Any]:
    if isinstance(stream, (bytes, bytearray, memoryview, str, Mapping)):
        return iter((stream,))
    return iter(stream)


def _shut_down(stream: Any) -> bool:
    """Shut the socket of a client's stream down, which wakes a read that blocks on it; closing it would not.

    httpx and httpx2 tell the socket in the response's extension ``network_stream``.
    """
    extensions = getattr(getattr(stream, "response", stream), "extensions", None)
    network = extensions.get("network_stream") if isinstance(extensions, Mapping) else None
    if network is None:
        return False
    with contextlib.suppress(Exception):
        network.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        return True
    return False


def _close(source: Any) -> None:
    """Close a source that may be in use: what it says to that is of no interest to anybody."""
    close = getattr(source, "close", None)
    if close is not None:
        with contextlib.suppress(Exception):
            close()
