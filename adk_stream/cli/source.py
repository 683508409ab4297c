"""Where a command's stream comes from: a file, or standard input as it arrives.

Standard input that is a recording of ours is read whole, since its pieces stand inside; anything else is the wire
itself, and is given on read by read, so that ``curl … | adk-stream run -`` shows what comes while it comes.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterable, Iterator

from adk_stream.errors import RecordingError
from adk_stream.recording import DEFAULT_MAX_RECORDING_BYTES, Recording, load_recording

__all__ = ["STDIN", "in_thread", "open_source", "standard_input"]

STDIN = "-"

_READ_SIZE = 65536
_HEAD_SIZE = 4096
_RECORDING_MARK = b'"adk_stream_recording"'


def open_source(file: str, provider: str = "auto", *, interval: float = 0.0) -> Recording | Iterator[bytes]:
    """The recording, or (standard input, not of our own format, without ``interval``) the bytes as they come.

    Raises:
        RecordingError: it cannot be read, or is empty.
    """
    if file != STDIN:
        return load_recording(file, provider, interval=interval)
    reads = standard_input()
    head = b""
    for piece in reads:
        head += piece
        if len(head) >= _HEAD_SIZE or b"\n" in head:
            break
    if not head:
        raise RecordingError("standard input: the recording is empty")
    if interval or _RECORDING_MARK in head.split(b"\n", 1)[0]:
        return Recording.from_bytes(_whole(head, reads), provider, name="standard input", interval=interval)
    return _with_head(head, reads)


async def in_thread(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Pieces of a blocking source, read in a thread that does not keep the process from ending."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue()

    def put(item: bytes | BaseException | None) -> None:
        try:
            loop.call_soon_threadsafe(queue.put_nowait, item)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more

    def read() -> None:
        try:
            for piece in pieces:
                put(piece)
        except Exception as problem:
            put(problem)
        put(None)

    threading.Thread(target=read, name="adk-stream-stdin", daemon=True).start()
    while (item := await queue.get()) is not None:
        if isinstance(item, BaseException):
            raise item
        yield item


def standard_input() -> Iterator[bytes]:
    """Standard input as it comes."""
    # Not sys.stdin: a thread that waits in its lock when the interpreter ends would crash it.
    while piece := os.read(0, _READ_SIZE):
        yield piece


def _with_head(head: bytes, reads: Iterator[bytes]) -> Iterator[bytes]:
    yield head
    yield from reads


def _whole(head: bytes, reads: Iterator[bytes]) -> bytes:
    pieces, size = [head], len(head)
    for piece in reads:
        pieces.append(piece)
        size += len(piece)
        if size > DEFAULT_MAX_RECORDING_BYTES:
            raise RecordingError(f"standard input: larger than {DEFAULT_MAX_RECORDING_BYTES} bytes")
    return b"".join(pieces)
