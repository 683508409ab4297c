"""Line: one stream from pieces of any kind to StreamChunks: decoder, detection of the provider, reader.

This is where the number of an event is known, and so where everything unreadable becomes a
MalformedStreamError that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from adk_stream.checkpoint import pack, unpack
from adk_stream.errors import MalformedStreamError, SnapshotError, StreamLimitError, UnknownLineError
from adk_stream.parts import ShortChunk, StreamChunk, StreamLimits
from adk_stream.providers import DONE, LINES, Reader, open_reader, reader_type
from adk_stream.wire import MAX_DEPTH, BytesDecoder, WireEvent, decode_json, detect_line, is_too_deep

__all__ = ["Line"]

#: What one event gives.
_Chunks = Sequence[StreamChunk | ShortChunk]

#: The fast half of ``decode_json``, for the hot path.
_decode_plain = msgspec.json.Decoder().decode

_UNREADABLE = (TypeError, ValueError, KeyError, AttributeError, IndexError)

#: In the place of an event that is passed over.
_SKIPPED = object()

#: Events kept while no event has told the provider; a stream that says nothing for longer is none of ours.
_MAX_UNDETECTED = 1000


class _LineState(msgspec.Struct, forbid_unknown_fields=True):
    """Everything that a snapshot of a line holds."""

    provider: str | None
    event_count: int
    skip: bool
    options: dict[str, Any]
    limits: StreamLimits
    decoder: dict[str, Any]
    undetected: list[tuple[Any, str | None]]
    reader: bytes | None


class Line:
    """Reads one stream.

    Args:
        provider: One of ``providers.LINES``, or ``"auto"`` to judge by the first events.
        on_malformed: ``"raise"``, or ``"skip"`` to pass over events that cannot be read.
        limits: Bounds on what is held.
        reader_options: Given to the reader as they are.

    Raises:
        ValueError: there is no such provider or ``on_malformed``.
    """

    def __init__(
        self,
        provider: str = "auto",
        *,
        on_malformed: str = "raise",
        limits: StreamLimits | None = None,
        reader_options: Mapping[str, Any] | None = None,
    ) -> None:
        if on_malformed not in ("raise", "skip"):
            raise ValueError(f"on_malformed is 'raise' or 'skip', not {on_malformed!r}")
        self.provider: str | None = None if provider == "auto" else provider
        self.event_count = 0
        self._closed = False
        self._options = dict(reader_options or {})
        self._skip = on_malformed == "skip"
        self._limits = limits or StreamLimits()
        self._decoder = BytesDecoder(max_event_bytes=self._limits.max_event_bytes)
        self._undetected: list[tuple[Any, str | None]] = []
        self._reader: Reader | None = None
        self._grow_bytes: Callable[[bytes], ShortChunk | None] | None = None
        self._grow_object: Callable[[Any], ShortChunk | None] | None = None
        if self.provider is not None:
            self._use(self._open(self.provider))

    @property
    def ended(self) -> bool:
        """The line's own end mark came: nothing more needs to be fed."""
        return self._reader is not None and self._reader.ended

    def _open(self, provider: str) -> Reader:
        return open_reader(provider, **self._options)

    def _use(self, reader: Reader) -> None:
        self._reader = reader
        self._grow_bytes = getattr(reader, "grow_bytes", None)
        self._grow_object = getattr(reader, "grow_object", None)

    def feed(self, piece: Any) -> Iterable[Sequence[StreamChunk]]:
        """The chunks of one piece: bytes or str as the network gave them, a decoded event, or an SDK object.

        Raises:
            MalformedStreamError: an event cannot be read; the chunks of the events before it were given.
        """
        return map(_as_chunks, self.feed_short(piece))

    def feed_short(self, piece: Any) -> Iterable[_Chunks]:
        """``feed``, with a ShortChunk in the place of a chunk that says no more than that."""
        if not isinstance(piece, bytes):
            if isinstance(piece, (bytearray, memoryview)):
                piece = bytes(piece)
            elif isinstance(piece, str):
                if piece == DONE and self.event_count:  # among decoded events, the end mark stays the text it is
                    return self._feed_event(DONE, None)
                piece = piece.encode("utf-8", "surrogatepass")
            elif isinstance(piece, Mapping):
                return self._feed_event(piece, None)
            else:
                return self._feed_object(piece)
        grow = self._grow_bytes
        payload = None if grow is None else self._decoder.payload(piece)
        if grow is not None and payload is not None:
            short = grow(payload)
            if short is not None:
                self.event_count += 1
                return ((short,),)
        try:
            events = self._decoder.feed(piece)
        except StreamLimitError as problem:
            raise self._too_large(problem) from None
        if len(events) == 1 and self._reader is not None:  # one frame a read, as servers send: no generator for it
            return (self._read_wire(events[0]),)
        return self._decode(events)

    def close(self) -> Iterator[Sequence[StreamChunk]]:
        """The chunks that only the end sets free.

        Raises:
            MalformedStreamError: the stream ends inside an event.
            UnknownLineError: no event told the provider.
        """
        try:
            events = self._decoder.close()
        except StreamLimitError as problem:
            raise self._too_large(problem) from None
        yield from map(_as_chunks, self._decode(events))
        if self._reader is None and self._undetected:
            # an error body says the same in every line
            if not all(isinstance(event, Mapping) and event.get("error") for event, _ in self._undetected):
                event = self._undetected[0][0]
                raise UnknownLineError("no event tells the provider", event_number=1, excerpt=str(event))
            yield from map(_as_chunks, self._detected("gemini"))
        yield self.rest()

    def rest(self) -> Sequence[StreamChunk]:
        """What the reader still holds, once; also after an error, when the stream goes no further."""
        if self._reader is None or self._closed:
            return ()
        self._closed = True
        return self._reader.close()

    def _decode(self, events: Sequence[WireEvent]) -> Iterator[_Chunks]:
        for event in events:
            if self._reader is None:
                yield from self._feed_undetected(event)
            else:
                yield self._read_wire(event)

    def _feed_undetected(self, event: WireEvent) -> Iterator[_Chunks]:
        value = self._value(event)
        if value is not _SKIPPED:
            yield from self._feed_event(value, event.name)

    def _value(self, event: WireEvent) -> Any:
        """The decoded payload; ``_SKIPPED`` when it is no JSON and such events are passed over."""
        if event.data == b"[DONE]":
            return DONE
        try:
            return decode_json(event.data)
        except ValueError as problem:
            self.event_count += 1
            if self._skip:
                return _SKIPPED
            raise self._malformed(f"not JSON ({problem})", event.data) from problem

    def _read_wire(self, event: WireEvent) -> _Chunks:
        if self._grow_bytes is not None and event.name != "error":
            short = self._grow_bytes(event.data)
            if short is not None:
                self.event_count += 1
                return (short,)
        try:
            value = _decode_plain(event.data)
        except (msgspec.DecodeError, RecursionError):
            value = self._value(event)
            if value is _SKIPPED:
                return ()
        self.event_count += 1
        # so many containers inside one another open and close in no fewer bytes
        if len(event.data) > 2 * MAX_DEPTH and _has_many(event.data) and self._passes_over(value):
            return ()
        name = event.name
        return self._read(_error_event(value) if name == "error" else value, name)

    def _feed_event(self, event: Any, name: str | None) -> Iterator[_Chunks]:
        self.event_count += 1
        if self._passes_over(event):
            return
        if name == "error":
            event = _error_event(event)
        if self._reader is None:
            self._undetected.append((event, name))
            provider = detect_line(event, name)
            if provider is not None:
                yield from self._detected(provider)
            elif len(self._undetected) > _MAX_UNDETECTED:
                raise UnknownLineError(
                    f"{_MAX_UNDETECTED} events, and none tells the provider",
                    event_number=self.event_count,
                    excerpt=str(event),
                )
            return
        yield self._read(event, name)

    def _passes_over(self, event: Any) -> bool:
        """Is the event nested too deeply to be written out again, and passed over?"""
        if not (_has_many_brackets(event) and is_too_deep(event)):
            return False
        if self._skip:
            return True
        raise self._malformed("JSON nested too deeply", "")

    def _detected(self, provider: str) -> Iterator[_Chunks]:
        self.provider = provider
        self._use(self._open(provider))
        waiting, self._undetected = self._undetected, []
        for event, name in waiting:
            yield self._read(event, name)

    def _read(self, event: Any, name: str | None) -> Sequence[StreamChunk]:
        assert self._reader is not None
        try:
            return self._reader.read(event, name)
        except _UNREADABLE as problem:
            if self._skip:
                return ()
            raise self._malformed(f"an event of unknown shape ({problem})", str(event)) from problem

    def _feed_object(self, event: Any) -> Iterator[_Chunks]:
        self.event_count += 1
        if self._reader is None:
            self.provider = _provider_of(event)
            self._use(self._open(self.provider))
        assert self._reader is not None
        try:
            growth = None if self._grow_object is None else self._grow_object(event)
            yield self._reader.read_object(event) if growth is None else (growth,)
        except _UNREADABLE as problem:
            if not self._skip:
                raise self._malformed(f"an object of unknown shape ({problem})", repr(event)) from problem

    def _malformed(self, reason: str, excerpt: bytes | str) -> MalformedStreamError:
        return MalformedStreamError(reason, provider=self.provider, event_number=self.event_count, excerpt=excerpt)

    def _too_large(self, problem: StreamLimitError) -> StreamLimitError:
        """The decoder's complaint with the number of the event, which it never gave."""
        problem.provider, problem.event_number = self.provider, self.event_count + 1
        return problem

    def snapshot(self) -> bytes:
        """The state of decoder and reader, to be gone on with in another process."""
        state = _LineState(
            self.provider,
            self.event_count,
            self._skip,
            self._options,
            self._limits,
            self._decoder.snapshot(),
            self._undetected,
            None if self._reader is None else self._reader.snapshot(),
        )
        return pack("line", 1, state)

    @classmethod
    def restore(cls, data: bytes) -> Line:
        """The line that ``snapshot`` wrote.

        Raises:
            SnapshotError: the bytes are damaged, of another kind or version.
        """
        state = unpack(data, "line", 1, _LineState)
        if (state.provider is None) is not (state.reader is None) or state.provider not in (None, *LINES):
            raise SnapshotError(f"damaged line snapshot: provider {state.provider!r}")
        on_malformed = "skip" if state.skip else "raise"
        line = cls("auto", on_malformed=on_malformed, limits=state.limits, reader_options=state.options)
        line.provider, line.event_count = state.provider, state.event_count
        line._decoder = BytesDecoder.restore(state.decoder)
        line._undetected = state.undetected
        if state.provider is not None and state.reader is not None:
            line._use(reader_type(state.provider).restore(state.reader))
        return line


def _as_chunks(found: _Chunks) -> Sequence[StreamChunk]:
    return [each if isinstance(each, StreamChunk) else each.chunk() for each in found]


def _has_many_brackets(event: Any) -> bool:
    """The cheap half of ``is_too_deep``, for what is nearly every event."""
    try:
        data = msgspec.json.encode(event)
    except (TypeError, ValueError, RecursionError):
        return True
    return _has_many(data)


def _has_many(data: bytes) -> bool:
    return data.count(b"{") + data.count(b"[") > MAX_DEPTH


def _error_event(event: Any) -> Any:
    """An SSE event named ``error`` whose data is the bare error, in the shape of the others."""
    bare = isinstance(event, Mapping) and "error" not in event and event.get("type") != "error"
    return {"error": event} if bare else event


#: SDK objects by the module that defines them: the provider of a stream that says ``"auto"``.
_SDK_MODULES = (
    ("openai.types.chat", "openai-chat"),
    ("openai.types.responses", "openai-responses"),
    ("anthropic", "anthropic"),
)


def _provider_of(event: Any) -> str:
    """The line an SDK object belongs to, by its class.

    Raises:
        TypeError: it is no object of a known SDK.
    """
    names = {cls.__name__ for cls in type(event).__mro__}
    if "GenerateContentResponse" in names:
        return "gemini"
    if "LiveServerMessage" in names:
        return "gemini-live"
    module = type(event).__module__
    provider = next((line for prefix, line in _SDK_MODULES if module.startswith(prefix)), None)
    if provider is None or provider not in LINES:
        raise TypeError(f"{type(event).__module__}.{type(event).__name__} is no piece of a stream")
    return provider
