"""A model's voice on its way to files: as WAV by hand, or kept turn by turn so that a session holds a reference."""

from __future__ import annotations

import os
import uuid
import wave
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Literal, Protocol, Self

from adk_stream.aggregator.heard import sample_rate
from adk_stream.errors import AudioFormatError

if TYPE_CHECKING:
    from adk_stream.response import LlmResponse

__all__ = ["AudioKeeper", "AudioRecorder", "AudioStore", "KeptAudio", "audio_in"]

_PCM = ("audio/pcm", "audio/l16")  # 16 bits, one channel, little endian: what Gemini sends under either name
_SAMPLE_BYTES = 2


def audio_in(response: LlmResponse) -> Iterator[tuple[str, bytes, bool]]:
    """The pieces of audio in a response: mime type, bytes, and whether they are stale (came after an interruption)."""
    for part in response.parts:
        blob = part.inline_data
        if blob is not None and blob.data and (blob.mime_type or "").startswith("audio/"):
            yield blob.mime_type or "", blob.data, bool((part.part_metadata or {}).get("stale"))


class AudioRecorder:
    """Writes the audio of partial responses as WAV: 16-bit PCM, one channel, the rate from the mime type.

    The file begins with the first audio, and is valid after every piece: a stream that breaks leaves one that can be
    played. Use it as a context manager, or ``close`` it.

    Args:
        target: A path, which is overwritten, or a binary file that can seek; a file stays the caller's to close.
        stale: Whether audio that came after an interruption, which nobody should hear, is written too.
        on_rate_change: ``"new_file"``: another file is begun, ``name-2.wav`` beside ``name.wav``; ``"raise"``. None:
            a new file where ``target`` is a path.

    Attributes:
        paths: The files that were begun.
        seconds: Length of all that was written.

    Raises:
        ValueError: another file is wanted, and ``target`` is no path.
    """

    def __init__(
        self,
        target: str | os.PathLike[str] | BinaryIO,
        *,
        stale: bool = False,
        on_rate_change: Literal["new_file", "raise"] | None = None,
    ) -> None:
        self._path = Path(target) if isinstance(target, (str, os.PathLike)) else None
        self._file = None if isinstance(target, (str, os.PathLike)) else target
        if self._path is None and on_rate_change == "new_file":
            raise ValueError("another file cannot be begun beside an open file; give a path")
        self._splits = on_rate_change == "new_file" or (on_rate_change is None and self._path is not None)
        self._stale = stale
        self._rate = 0
        self._writer: wave.Wave_write | None = None
        self._closed = False
        self.paths: list[Path] = []
        self.seconds = 0.0

    def write(self, response: LlmResponse) -> None:
        """Write the audio of a partial response; others pass by, since their audio came in partials already.

        Raises:
            AudioFormatError: the audio is no 16-bit PCM, or its rate changes and no other file is to be begun.
            ValueError: the recorder is closed.
        """
        if not response.partial:
            return
        for mime_type, data, stale in audio_in(response):
            if self._stale or not stale:
                self.write_audio(mime_type, data)

    def write_audio(self, mime_type: str, data: bytes) -> None:
        """Write a piece of audio; as ``write``."""
        if self._closed:
            raise ValueError("the recorder is closed")
        if mime_type.partition(";")[0].strip().lower() not in _PCM:
            raise AudioFormatError(f"a WAV file of 16-bit samples cannot hold {mime_type!r}")
        rate = sample_rate(mime_type)
        if self._writer is None or rate != self._rate:
            self._begin(rate)
        assert self._writer is not None
        self._writer.writeframes(data)  # patches the header each time
        self.seconds += len(data) / (rate * _SAMPLE_BYTES)

    def close(self) -> None:
        """Finish the file. Closing again does nothing."""
        self._closed = True
        self._finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self, rate: int) -> None:
        if self._writer is not None and not self._splits:
            raise AudioFormatError(f"the rate changes from {self._rate} to {rate} Hz within one file")
        self._finish()
        if self._path is not None:
            number = len(self.paths) + 1
            path = self._path if number == 1 else self._path.with_stem(f"{self._path.stem}-{number}")
            self._writer = wave.Wave_write(str(path))
            self.paths.append(path)
        else:
            assert self._file is not None
            self._writer = wave.Wave_write(self._file)
        self._rate = rate
        self._writer.setparams((1, _SAMPLE_BYTES, rate, 0, "NONE", "not compressed"))

    def _finish(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


# ----------------------------------------------------------------- references in place of bytes


class KeptAudio(Protocol):
    """One piece of a turn's audio that is being kept."""

    @property
    def uri(self) -> str:
        """Where it will be found."""
        ...

    @property
    def mime_type(self) -> str:
        """What will be found there."""
        ...

    def write(self, data: bytes) -> None:
        """More of it. Must not wait long: it is called in the event loop."""
        ...

    def close(self) -> None:
        """All of it has come."""
        ...


class AudioKeeper(Protocol):
    """Where the audio of live turns is kept; ``AudioStore`` is one, an artifact store behind this another."""

    def begin(self, mime_type: str) -> KeptAudio:
        """Begin to keep audio of that type."""
        ...


class AudioStore:
    """Keeps each turn's audio as a WAV file of a folder.

    Args:
        folder: Made when the first audio comes.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    def begin(self, mime_type: str) -> KeptAudio:
        """Begin a file.

        Raises:
            OSError: the folder cannot be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        return _WavFile(self.folder / f"{uuid.uuid4()}.wav", mime_type)


class _WavFile:
    mime_type = "audio/wav"

    def __init__(self, path: Path, source_type: str) -> None:
        self.uri = path.absolute().as_uri()
        self._source_type = source_type
        self._recorder = AudioRecorder(path)

    def write(self, data: bytes) -> None:
        self._recorder.write_audio(self._source_type, data)

    def close(self) -> None:
        self._recorder.close()
