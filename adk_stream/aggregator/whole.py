"""Whole streams: from the first piece to the last final, sync and async, and every way of leaving early."""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Generator,
    Iterator,
    Mapping,
)
from typing import TYPE_CHECKING, Any, Self

from adk_stream.aggregator.core import Audio, Flush, StreamingResponseAggregator
from adk_stream.errors import StreamLimitError
from adk_stream.parts import StreamLimits
from adk_stream.providers.line import Line

if TYPE_CHECKING:
    from adk_stream.response import LlmResponse

__all__ = ["Aggregation", "AsyncAggregation", "aggregate", "aggregate_async"]


class _Whole:
    """What both forms share: one stream, its line, its aggregator, and the final once it has ended."""

    def __init__(self, stream: Any, line: Line, aggregator: StreamingResponseAggregator) -> None:
        self.final: LlmResponse | None = None
        self._stream = stream
        self._line = line
        self._aggregator = aggregator
        self._started = False

    def _end(self, problem: BaseException | None = None) -> list[LlmResponse]:
        if problem is None:
            self.final = self._aggregator.close()
        else:
            if isinstance(problem, StreamLimitError) and problem.event_number is None:  # the assembler's own
                problem.provider, problem.event_number = self._line.provider, self._line.event_count
            self.final = self._aggregator.close_early(self._line.rest(), problem)
        return [] if self.final is None else [self.final]

    def _leave(self, problem: BaseException) -> None:
        """The consumer is gone, or the final was given already."""
        if self.final is None:
            self._end(problem)


class Aggregation(_Whole, Iterator["LlmResponse"]):
    """The responses of one stream, as they come; what ``aggregate`` gives.

    Attributes:
        final: The last final, once the stream has ended; after ``close()`` in mid-stream, what had come, with
            status ``cancelled``.
    """

    def __init__(self, stream: Any, line: Line, aggregator: StreamingResponseAggregator) -> None:
        super().__init__(stream, line, aggregator)
        self._responses = self._run(stream)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> LlmResponse:
        self._started = True
        return next(self._responses)

    def close(self) -> None:
        """Leave the stream: its source is closed, and ``final`` holds what had come."""
        self._responses.close()
        if not self._started:
            _close(self._stream)

    def _run(self, stream: Any) -> Generator[LlmResponse, None, None]:
        take, speaks, line = self._aggregator.take, self._aggregator.speaks, self._line
        pieces = _pieces(stream)
        told = False
        try:
            try:
                for piece in pieces:
                    for chunks in line.feed_short(piece):
                        if not told:  # whoever gives chunks knows the provider
                            speaks(line.provider)
                            told = True
                        for chunk in chunks:
                            yield from take(chunk)
                            if chunk.error is not None:
                                yield from self._end()
                                return
                    if not told and piece:
                        speaks(line.provider)
                for chunks in line.close():
                    for chunk in chunks:
                        yield from take(chunk)
            except Exception as problem:
                yield from self._end(problem)
                raise
            yield from self._end()
        except BaseException as problem:
            self._leave(problem)
            raise
        finally:
            _close(pieces)
            if pieces is not stream:
                _close(stream)


class AsyncAggregation(_Whole, AsyncIterator["LlmResponse"]):
    """The responses of one stream, as they come; what ``aggregate_async`` gives.

    Attributes:
        final: As for ``Aggregation``.
    """

    def __init__(self, stream: Any, line: Line, aggregator: StreamingResponseAggregator) -> None:
        super().__init__(stream, line, aggregator)
        self._responses = self._run(stream)

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Any:
        self._started = True
        return self._responses.__anext__()

    async def aclose(self) -> None:
        """Leave the stream: its source is closed, and ``final`` holds what had come."""
        await self._responses.aclose()
        if not self._started:
            await _aclose(self._stream)

    async def _run(self, stream: Any) -> AsyncGenerator[LlmResponse, None]:
        take, speaks, line = self._aggregator.take, self._aggregator.speaks, self._line
        pieces = _async_pieces(stream)
        told = False
        try:
            try:
                async for piece in pieces:
                    for chunks in line.feed_short(piece):
                        if not told:  # whoever gives chunks knows the provider
                            speaks(line.provider)
                            told = True
                        for chunk in chunks:
                            for response in take(chunk):
                                yield response
                            if chunk.error is not None:
                                for response in self._end():
                                    yield response
                                return
                    if not told and piece:
                        speaks(line.provider)
                for chunks in line.close():
                    for chunk in chunks:
                        for response in take(chunk):
                            yield response
            except Exception as problem:
                for response in self._end(problem):
                    yield response
                raise
            for response in self._end():
                yield response
        except BaseException as problem:
            self._leave(problem)
            raise
        finally:
            await _aclose(pieces)
            if pieces is not stream:
                await _aclose(stream)


def aggregate(
    stream: Any,
    provider: str = "auto",
    flush: Flush = "close",
    *,
    candidate_index: int = 0,
    audio: Audio | None = None,
    think_tags: bool | None = None,
    on_malformed: str = "raise",
    limits: StreamLimits | None = None,
) -> Aggregation:
    """The responses of a whole stream: partials while it runs, then the finals.

    Args:
        stream: An iterable of pieces (bytes or str cut anywhere, decoded events as dicts, or SDK objects), or all of
            it as one bytes or str.
        provider: One of ``providers.LINES``, or ``"auto"`` to judge by the first events.
        flush: ``"close"`` gives everything in one final, ``"boundary"`` whenever a run of text ends.
        candidate_index: The candidate (choice) that is aggregated.
        audio: ``"join"`` or ``"drop"``; None joins, on the live line it drops.
        think_tags: Split ``<think>`` tags out of the text; None: where the provider is known to inline them.
        on_malformed: ``"raise"``, or ``"skip"`` to pass over events that cannot be read.
        limits: Bounds on what is held.

    An error inside the data ends the stream with a ``failed`` final and raises nothing. An exception of the source
    gives its ``failed`` final first and then goes on to the caller unchanged. When the consumer leaves, the source
    is closed and what had come is in ``.final``; use ``contextlib.closing`` to have that at once.

    Raises:
        MalformedStreamError: an event cannot be read (its ``failed`` final came first).
        ValueError: an argument is none of the values above.
    """
    return Aggregation(stream, *_prepared(provider, flush, candidate_index, audio, think_tags, on_malformed, limits))


def aggregate_async(
    stream: Any,
    provider: str = "auto",
    flush: Flush = "close",
    *,
    candidate_index: int = 0,
    audio: Audio | None = None,
    think_tags: bool | None = None,
    on_malformed: str = "raise",
    limits: StreamLimits | None = None,
) -> AsyncAggregation:
    """``aggregate`` over an async iterable (a plain iterable will do as well); the same arguments."""
    prepared = _prepared(provider, flush, candidate_index, audio, think_tags, on_malformed, limits)
    return AsyncAggregation(stream, *prepared)


def _prepared(
    provider: str,
    flush: Flush,
    candidate_index: int,
    audio: Audio | None,
    think_tags: bool | None,
    on_malformed: str,
    limits: StreamLimits | None,
) -> tuple[Line, StreamingResponseAggregator]:
    options: dict[str, Any] = {"accept_tail": True}  # a stream that is read as a whole
    if think_tags is not None:
        options["think_tags"] = think_tags
    line = Line(provider, on_malformed=on_malformed, limits=limits, reader_options=options)
    return line, StreamingResponseAggregator(flush, candidate_index, audio, limits=limits)


def _pieces(stream: Any) -> Iterator[Any]:
    if isinstance(stream, (bytes, bytearray, memoryview, str, Mapping)):
        return iter((stream,))
    return iter(stream)


def _async_pieces(stream: Any) -> AsyncIterator[Any]:
    return aiter(stream) if isinstance(stream, AsyncIterable) else _in_turn(_pieces(stream))


async def _in_turn(pieces: Iterator[Any]) -> AsyncGenerator[Any, None]:
    for piece in pieces:
        yield piece


def _close(source: Any) -> None:
    close = getattr(source, "close", None)
    if close is not None:
        close()


async def _aclose(source: Any) -> None:
    """Close an async iterator, or a client's stream, whose method may be called either way and be sync or not."""
    close = getattr(source, "aclose", None) or getattr(source, "close", None)
    closed = close() if close is not None else None
    if isinstance(closed, Awaitable):
        await closed
