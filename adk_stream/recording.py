r"""Recordings: raw streams to files and back, with the bytes as they were and the time each piece arrived.

Two kinds of files are read. *Our own* (``.rec.jsonl``) keeps bytes and times; it is text, a JSON object a
line::

    {"adk_stream_recording": 1, "provider": "anthropic", "content_type": "text/event-stream", ...}
    {"at": 0.412, "text": "event: message_start\ndata: {...}\n\n"}
    {"at": 0.430, "base64": "8J+Y"}

The first line says what is known of the stream (everything but the version may be absent). Each further line
is one piece as a read gave it: ``at`` in seconds from the start, and the bytes as ``text`` where they are
UTF-8, else as ``base64``. Every line is written at once and whole, so the file is valid at any time; a last
line that a crash cut off is passed over.

*Plain wire files* are what other tools save: server-sent events (``.sse``), one JSON payload a line
(``.jsonl``), Gemini's JSON array or the body of an HTTP error (``.json``). They hold no times and no reads:
each piece is one event. Which kind a file is, its content tells, not its name.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import os
import re
import time
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

from adk_stream.errors import RecordingError
from adk_stream.wire import BytesDecoder, WireEvent, decode_json, detect_line

__all__ = [
    "DEFAULT_MAX_RECORDING_BYTES",
    "Piece",
    "Recorder",
    "Recording",
    "WireFormat",
    "load_recording",
    "play",
    "play_async",
    "redact_secrets",
    "save_recording",
]

DEFAULT_MAX_RECORDING_BYTES = 256 * 1024 * 1024

WireFormat = Literal["sse", "json-lines", "json-array"]

_VERSION = 1
_VERSION_KEY = "adk_stream_recording"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Piece(NamedTuple):
    """What one read gave.

    Attributes:
        at: When it arrived, in seconds from the start of the recording.
        data: The bytes.
    """

    at: float
    data: bytes


@dataclass(frozen=True)
class Recording:
    """One recorded stream.

    Attributes:
        pieces: The stream, in the order of arrival; joined, they are its bytes.
        provider: The line (``"gemini"``, ``"anthropic"``, …), or None if no event tells it.
        name: What the recording is called; for a file its name without endings.
        metadata: What else is known of the response: ``path`` (of the URL), ``status``, ``content_type``,
            ``model``, ``headers``, or whatever the recorder was given. JSON values.
    """

    pieces: tuple[Piece, ...]
    provider: str | None = None
    name: str = "recording"
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_bytes(
        cls, data: bytes, provider: str = "auto", *, name: str = "recording", interval: float = 0.0
    ) -> Recording:
        """The recording that a file of any kind holds.

        Args:
            data: The content of the file.
            provider: The line, or ``"auto"`` to take the file's word or judge by its events.
            name: What the recording is called.
            interval: Seconds between two events, for files that hold no times.

        Raises:
            RecordingError: it is empty, or a recording of ours that is damaged or of a newer version.
            ValueError: ``interval`` is negative or not a number.
        """
        if not (math.isfinite(interval) and interval >= 0):
            raise ValueError(f"interval is a number of seconds from 0, not {interval!r}")
        if not data.strip():
            raise RecordingError(f"{name}: the recording is empty")
        if _is_own(data):
            recording = _read_own(data.removeprefix(_BYTE_ORDER_MARK), name)
        else:
            pieces = tuple(Piece(n * interval, event) for n, event in enumerate(_split_events(data)))
            recording = cls(pieces, name=name)
        if provider != "auto":
            return replace(recording, provider=provider)
        return recording if recording.provider else replace(recording, provider=recording._told_provider())

    @property
    def data(self) -> bytes:
        """The whole stream."""
        return b"".join(piece.data for piece in self.pieces)

    @property
    def wire_format(self) -> WireFormat:
        """How the events are framed, told by the first byte that is not white space."""
        return _wire_format(self.data)

    def events(self) -> list[tuple[float, WireEvent]]:
        """The events, not parsed, each with the time its last byte arrived.

        If the stream was cut inside an event, that one comes as it stands.
        """
        decoder = BytesDecoder(max_event_bytes=sum(len(piece.data) for piece in self.pieces) + 1)
        events = [(piece.at, event) for piece in self.pieces for event in decoder.feed(piece.data)]
        return events + [(self.pieces[-1].at, event) for event in decoder.close()]

    def by_event(self) -> Recording:
        """The same bytes, cut so that each piece is one event, at the time its last byte arrived."""
        arrivals: list[tuple[int, float]] = []
        end = 0
        for piece in self.pieces:
            end += len(piece.data)
            arrivals.append((end, piece.at))
        pieces: list[Piece] = []
        end = arrived = 0
        for event in _split_events(self.data):
            end += len(event)
            while arrivals[arrived][0] < end:
                arrived += 1
            pieces.append(Piece(arrivals[arrived][1], event))
        return replace(self, pieces=tuple(pieces))

    def _told_provider(self) -> str | None:
        for _, event in self.events():
            try:
                told = detect_line(decode_json(event.data), event.name)
            except ValueError:
                continue
            if told is not None:
                return told
        return None


def load_recording(
    path: str | os.PathLike[str],
    provider: str = "auto",
    *,
    interval: float = 0.0,
    max_bytes: int = DEFAULT_MAX_RECORDING_BYTES,
) -> Recording:
    """Read a recording from a file of any kind; see the module.

    Args:
        path: The file. For standard input read the bytes and use ``Recording.from_bytes``.
        provider: The line, or ``"auto"`` to take the file's word or judge by its events.
        interval: Seconds between two events, for files that hold no times.
        max_bytes: The largest file that is read.

    Raises:
        RecordingError: the file cannot be read, is empty, too large, damaged, or of a newer version.
        ValueError: ``interval`` is negative or not a number.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as problem:
        raise RecordingError(f"{os.fspath(path)}: {problem.strerror or problem}") from problem
    if len(data) > max_bytes:
        raise RecordingError(f"{os.fspath(path)}: larger than {max_bytes} bytes")
    return Recording.from_bytes(data, provider, name=_name_of(path), interval=interval)


def save_recording(recording: Recording, path: str | os.PathLike[str]) -> None:
    """Write a recording to a file of our own kind, as it is: nothing is redacted.

    Raises:
        RecordingError: the file cannot be written, or the metadata holds what JSON does not.
    """
    try:
        with open(path, "wb") as file:
            file.write(_header_line(recording.provider, recording.metadata))
            file.writelines(_piece_line(piece) for piece in recording.pieces)
    except OSError as problem:
        raise RecordingError(f"{os.fspath(path)}: {problem.strerror or problem}") from problem


_ENDINGS = (".rec.jsonl", ".jsonl", ".json", ".sse", ".txt")


def _name_of(path: str | os.PathLike[str]) -> str:
    """The file's name without the ending. A model's name has dots of its own, so only known endings go."""
    name = Path(path).name
    ending = next((ending for ending in _ENDINGS if name.lower().endswith(ending)), "")
    return name[: len(name) - len(ending)] or name


# ----------------------------------------------------------------- plain wire files

_JSON_FORMATS: dict[bytes, WireFormat] = {b"[": "json-array", b"{": "json-lines"}
# An event can only end where one of these ends: at a line, or (JSON) at a closing brace.
_STEPS: dict[WireFormat, re.Pattern[bytes]] = {
    "sse": re.compile(rb"[^\r\n]*+(?:\r\n|\r|\n)|[^\r\n]++"),
    "json-lines": re.compile(rb"[^}\n]*+[}\n]|[^}\n]++"),
    "json-array": re.compile(rb"[^}\n]*+[}\n]|[^}\n]++"),
}


def _wire_format(data: bytes) -> WireFormat:
    telling = data[:1024].removeprefix(_BYTE_ORDER_MARK).lstrip() or data.lstrip()
    return _JSON_FORMATS.get(telling[:1], "sse")


def _split_events(data: bytes) -> list[bytes]:
    """The bytes of each event with what stands before it; what follows the last event belongs to that.

    The decoder itself tells where an event ends: it is fed in small steps until it gives one.
    """
    decoder = BytesDecoder(max_event_bytes=len(data) + 1)
    events: list[bytes] = []
    start = 0
    for step in _STEPS[_wire_format(data)].finditer(data):
        if decoder.feed(step.group()):
            events.append(data[start : step.end()])
            start = step.end()
    rest = data[start:]
    if rest and (decoder.close() or not events):
        events.append(rest)
    elif rest:
        events[-1] += rest
    return events


# ----------------------------------------------------------------- our own files


def _header_line(provider: str | None, metadata: Mapping[str, Any]) -> bytes:
    known = {_VERSION_KEY: _VERSION, **({"provider": provider} if provider else {})}
    header = known | dict(metadata) | known
    try:
        return json.dumps(header, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    except (TypeError, ValueError) as problem:
        raise RecordingError(f"the metadata of a recording are JSON values: {problem}") from problem


def _piece_line(piece: Piece) -> bytes:
    try:
        content = {"text": piece.data.decode()}
    except UnicodeDecodeError:
        content = {"base64": base64.b64encode(piece.data).decode()}
    return json.dumps({"at": round(piece.at, 6), **content}, ensure_ascii=False).encode() + b"\n"


def _is_own(data: bytes) -> bool:
    first = data.removeprefix(_BYTE_ORDER_MARK).split(b"\n", 1)[0]
    if _VERSION_KEY.encode() not in first:
        return False
    try:
        header = decode_json(first)
    except ValueError:
        return False
    return isinstance(header, dict) and _VERSION_KEY in header


def _read_own(data: bytes, name: str) -> Recording:
    *lines, rest = data.split(b"\n")
    if rest and (not lines or _is_whole(rest)):
        lines.append(rest)  # the last line, of a file without a final line end
    header = _object(lines[0], name, 1)
    if header.pop(_VERSION_KEY) != _VERSION:
        raise RecordingError(f"{name}: a recording of another version than {_VERSION}")
    provider = header.pop("provider", None)
    status = header.get("status", 200)
    if not (provider is None or isinstance(provider, str)):
        raise RecordingError(f"{name}: line 1: provider is a string")
    if not (isinstance(status, int) and 100 <= status <= 599):
        raise RecordingError(f"{name}: line 1: status is an HTTP status, not {status!r}")
    if not isinstance(header.get("content_type", ""), str):
        raise RecordingError(f"{name}: line 1: content_type is a string")
    pieces: list[Piece] = []
    for number, line in enumerate(lines[1:], 2):
        if line.strip():
            pieces.append(_piece(_object(line, name, number), name, number))
            if len(pieces) > 1 and pieces[-1].at < pieces[-2].at:
                raise RecordingError(f"{name}: line {number}: it arrived before the line above it")
    return Recording(tuple(pieces), provider, name, header)


def _is_whole(line: bytes) -> bool:
    try:
        return isinstance(decode_json(line), dict)
    except ValueError:
        return False


def _object(line: bytes, name: str, number: int) -> dict[str, Any]:
    try:
        value = decode_json(line)
    except ValueError as problem:
        raise RecordingError(f"{name}: line {number}: {problem}") from problem
    if not isinstance(value, dict):
        raise RecordingError(f"{name}: line {number}: not a JSON object")
    return value


def _piece(line: Mapping[str, Any], name: str, number: int) -> Piece:
    at, text, coded = line.get("at"), line.get("text"), line.get("base64")
    if isinstance(at, bool) or not isinstance(at, (int, float)) or not 0 <= at < math.inf:
        raise RecordingError(f"{name}: line {number}: 'at' is a number of seconds from 0, not {at!r}")
    try:
        if isinstance(text, str) and coded is None:
            return Piece(float(at), text.encode())
        if isinstance(coded, str) and text is None:
            return Piece(float(at), base64.b64decode(coded, validate=True))
    except (ValueError, OverflowError) as problem:
        raise RecordingError(f"{name}: line {number}: {problem}") from problem
    raise RecordingError(f"{name}: line {number}: a piece has either 'text' or 'base64', a string")


# ----------------------------------------------------------------- recording

_SECRETS = (
    re.compile(r"(?<=[?&;])(?P<keep>(?:api[-_]?key|key|access_token|token)=)[^&;\s\"']+", re.IGNORECASE),
    re.compile(r"(?P<keep>\bBearer\s+)[\w.~+/=-]{6,}", re.IGNORECASE),
    re.compile(r"(?P<keep>\bsk-)[\w-]{8,}"),
    re.compile(r"(?P<keep>\bAIza)[\w-]{16,}"),
)
_SECRET_NAMES = re.compile(r"authorization|cookie|api[-_]?key|token|secret|password", re.IGNORECASE)
_MASK = "[redacted]"


def redact_secrets(value: Any, name: str = "") -> Any:
    """Metadata with what looks like a secret masked: values of headers and fields that carry credentials by
    their name, and in any text ``?key=…``, ``Bearer …``, ``sk-…`` and ``AIza…``.

    It knows these forms only, and nothing of personal data.

    Args:
        value: JSON values.
        name: The header or field that holds the value.
    """
    if isinstance(value, Mapping):
        return {key: redact_secrets(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [redact_secrets(inner, name) for inner in value]
    if not isinstance(value, str):
        return value
    if _SECRET_NAMES.search(name):
        return _MASK
    for secret in _SECRETS:
        value = secret.sub(rf"\g<keep>{_MASK}", value)
    return value


class Recorder:
    """Writes a stream to a file while it passes through to its consumer.

    ::

        with Recorder("turn.rec.jsonl", provider="anthropic", metadata={"model": "claude-…"}) as recorder:
            for response in aggregate(recorder.tap(http_response.iter_bytes())):
                ...

    Each piece is in the file before the consumer has it. The consumer gets the bytes as they came; ``redact``
    changes only what is written. The metadata always go through ``redact_secrets``. The bytes of the stream
    are written as they are unless ``redact`` is given: the default looks for no secret in what a model said.
    A secret that two pieces share is out of reach of ``redact``, which sees one piece at a time.

    Args:
        path: The file; one that exists is written over.
        provider: The line, if it is known.
        metadata: What is known of the response, JSON values: ``path``, ``status``, ``content_type``,
            ``model``, …
        redact: What is written in place of a piece's bytes.
        clock: The time in seconds; a recording starts when its recorder is made, so make it before the
            request.

    Raises:
        RecordingError: the file cannot be written, or the metadata hold what JSON does not. Then also from
            the stream that passes through.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        provider: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        redact: Callable[[bytes], bytes] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = Path(path)
        self._redact = redact
        self._clock = clock
        self._start = clock()
        header = _header_line(provider, redact_secrets(metadata or {}))
        try:
            self._file = open(path, "wb", buffering=0)  # noqa: SIM115  (closed by close())
        except OSError as problem:
            raise RecordingError(f"{os.fspath(path)}: {problem.strerror or problem}") from problem
        self._write(header)

    def write(self, data: bytes) -> None:
        """Write one piece that has just arrived. An empty one is no piece."""
        if data:
            at = self._clock() - self._start
            self._write(_piece_line(Piece(at, data if self._redact is None else self._redact(data))))

    def tap(self, stream: Iterable[bytes]) -> Generator[bytes, None, None]:
        """The pieces of ``stream``, each written when it arrives. Closing it closes the stream."""
        try:
            for piece in stream:
                self.write(piece)
                yield piece
        finally:
            close = getattr(stream, "close", None)
            if close is not None:
                close()

    async def tap_async(self, stream: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
        """``tap`` for an asynchronous stream. The file is written in the loop's own thread."""
        try:
            async for piece in stream:
                self.write(piece)
                yield piece
        finally:
            close = getattr(stream, "aclose", None)
            if close is not None:
                await close()

    def close(self) -> None:
        """Close the file. Closing again does nothing."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, line: bytes) -> None:
        try:
            rest = memoryview(line)
            while rest:
                rest = rest[self._file.write(rest) :]
        except (OSError, ValueError) as problem:  # ValueError: the file is closed
            raise RecordingError(f"{self.path}: {problem}") from problem


# ----------------------------------------------------------------- playing


def play(
    recording: Recording,
    pace: float = 1.0,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> Generator[bytes, None, None]:
    """The pieces, each at its time.

    The times count from the start, as on a real connection: a consumer that was slow finds what is due at
    once.

    Args:
        recording: What is played.
        pace: What the recorded times are multiplied by: 1 as recorded, 2 half as fast, 0 at once.
        clock: The time in seconds.
        sleep: Waits for that many seconds.

    Raises:
        ValueError: ``pace`` is negative or not a number (at the first piece).
    """
    _check_pace(pace)
    start = clock()
    for piece in recording.pieces:
        wait = start + piece.at * pace - clock() if pace else 0.0
        if wait > 0:
            sleep(wait)
        yield piece.data


async def play_async(
    recording: Recording,
    pace: float = 1.0,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> AsyncGenerator[bytes, None]:
    """``play`` for an event loop."""
    _check_pace(pace)
    start = clock()
    for piece in recording.pieces:
        wait = start + piece.at * pace - clock() if pace else 0.0
        if wait > 0:
            await sleep(wait)
        yield piece.data


def _check_pace(pace: float) -> None:
    if not (math.isfinite(pace) and pace >= 0):
        raise ValueError(f"pace is a factor from 0, not {pace!r}")
