"""A microphone and a loudspeaker, where sounddevice is installed (extra ``voice``)."""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import Callable
from typing import Any

from adk_stream.aggregator.heard import sample_rate
from adk_stream.errors import MissingExtraError

__all__ = ["Microphone", "Speaker"]

_HEARD_RATE = 16_000  # what a live model hears, https://ai.google.dev/gemini-api/docs/live
_BLOCK_SECONDS = 0.04


def _sounddevice() -> Any:
    try:
        return importlib.import_module("sounddevice")
    except (ImportError, OSError) as problem:  # OSError: the package is there, and PortAudio is not
        raise MissingExtraError(
            "the microphone and the speaker need sounddevice and PortAudio: pip install 'adk-stream[voice]'"
        ) from problem


class Microphone:
    """Gives what it hears to ``heard``, in the event loop: 16-bit PCM, one channel.

    Args:
        heard: Given each piece and its mime type.

    Raises:
        MissingExtraError: sounddevice is not installed.
    """

    mime_type = f"audio/pcm;rate={_HEARD_RATE}"

    def __init__(self, heard: Callable[[bytes, str], None]) -> None:
        self._heard = heard
        self._loop = asyncio.get_running_loop()
        self._stream = _sounddevice().RawInputStream(
            samplerate=_HEARD_RATE,
            blocksize=int(_HEARD_RATE * _BLOCK_SECONDS),
            channels=1,
            dtype="int16",
            callback=self._take,
        )
        self._stream.start()

    def _take(self, data: Any, frames: int, time: Any, status: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(self._heard, bytes(data), self.mime_type)
        except RuntimeError:
            pass  # the loop is closed: nobody listens any more

    def close(self) -> None:
        """Stop listening."""
        self._stream.close()


class Speaker:
    """Plays what it is given, in order, and can be told to be quiet.

    Raises:
        MissingExtraError: sounddevice is not installed.
    """

    def __init__(self) -> None:
        self._library = _sounddevice()
        self._guard = threading.Lock()  # the library asks for samples in a thread of its own
        self._waiting = bytearray()
        self._rate = 0
        self._stream: Any = None

    def play(self, mime_type: str, data: bytes) -> None:
        """Play a piece after all that waits; another rate opens the device anew."""
        rate = sample_rate(mime_type)
        if rate != self._rate:
            self.close()
            self._rate = rate
            self._stream = self._library.RawOutputStream(
                samplerate=rate,
                blocksize=int(rate * _BLOCK_SECONDS),
                channels=1,
                dtype="int16",
                callback=self._fill,
            )
            self._stream.start()
        with self._guard:
            self._waiting += data

    def hush(self) -> None:
        """Play nothing of what waits."""
        with self._guard:
            self._waiting.clear()

    def close(self) -> None:
        """Stop playing."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
        self.hush()

    def _fill(self, out: Any, frames: int, time: Any, status: Any) -> None:
        size = len(out)
        with self._guard:
            piece = bytes(self._waiting[:size])
            del self._waiting[:size]
        out[:] = piece.ljust(size, b"\0")
