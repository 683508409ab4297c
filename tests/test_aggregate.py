"""aggregate and aggregate_async: whole streams of any kind of piece, and every way out of them."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, closing
from typing import Any

import pytest
from google.genai import types

from adk_stream import LlmResponse, StreamLimits, aggregate, aggregate_async
from adk_stream.errors import MalformedStreamError, StreamLimitError, UnknownLineError


def event(text: str, finish: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": [{"text": text}]}}
    return {"candidates": [candidate | ({"finishReason": finish} if finish else {})]}


EVENTS = [event("Hel"), event("lo "), event("there", "STOP")]
FRAMES = [b"data: " + json.dumps(each).encode() + b"\r\n\r\n" for each in EVENTS]
BODY = b"".join(FRAMES)

PIECES: dict[str, Any] = {
    "frames": FRAMES,
    "one bytes": BODY,
    "one str": BODY.decode(),
    "bytearray": [bytearray(BODY)],
    "str pieces": [BODY.decode()[:50], BODY.decode()[50:]],
    "single bytes": [BODY[at : at + 1] for at in range(len(BODY))],
    "decoded events": EVENTS,
    "SDK objects": [types.GenerateContentResponse.model_validate(each) for each in EVENTS],
    "JSON array": json.dumps(EVENTS, indent=1),
    "JSON lines": "\n".join(map(json.dumps, EVENTS)),
    "empty pieces between": [b"", *FRAMES, b""],
}


def go(stream: Any, provider: str = "gemini", **options: Any) -> list[LlmResponse]:
    return list(aggregate(stream, provider, **options))


async def go_async(stream: Any, provider: str = "gemini", **options: Any) -> list[LlmResponse]:
    return [response async for response in aggregate_async(stream, provider, **options)]


@pytest.mark.parametrize("provider", ["gemini", "auto"])
@pytest.mark.parametrize("pieces", PIECES.values(), ids=PIECES)
def test_pieces_of_any_kind(pieces: Any, provider: str) -> None:
    responses = go(pieces, provider)
    assert [response.text for response in responses] == ["Hel", "lo ", "there", "Hello there"]
    assert [response.partial for response in responses] == [True, True, True, False]
    assert responses[-1].status == "completed"
    assert asyncio.run(go_async(pieces, provider)) == responses


def test_an_async_source() -> None:
    async def source() -> AsyncIterator[bytes]:
        for frame in FRAMES:
            yield frame

    assert asyncio.run(go_async(source())) == go(FRAMES)


@pytest.mark.parametrize("stream", [[], b"", "", [b""]])
def test_an_empty_stream_gives_nothing(stream: Any) -> None:
    assert go(stream) == []
    assert asyncio.run(go_async(stream)) == []


def test_a_stream_of_comments_alone_is_a_cut_stream() -> None:
    (final,) = go([b": keep-alive\n\n"])
    assert (final.status, final.error_code) == ("incomplete", "STREAM_CUT")


def test_one_decoded_event_alone() -> None:
    (shown, final) = go(event("all", "STOP"))
    assert (shown.text, final.text, final.status) == ("all", "all", "completed")
    assert asyncio.run(go_async(event("all", "STOP"))) == [shown, final]


def test_boundary_flush_gives_the_same_finals_in_pieces() -> None:
    call = {"functionCall": {"id": "c", "name": "f", "args": {"a": 1}}}
    events = [
        event("a"),
        {"candidates": [{"content": {"parts": [call]}}]},
        event("b", "STOP"),
    ]
    together = go(events)[-1]
    finals = [response for response in go(events, flush="boundary") if not response.partial]
    assert len(finals) == 3
    assert [part for final in finals for part in final.parts] == together.parts
    assert [final.status for final in finals] == ["in_progress", "in_progress", "completed"]


def test_the_wanted_candidate() -> None:
    events = [{"candidates": [{"index": i, "content": {"parts": [{"text": t}]}} for i, t in enumerate("ab")]}]
    assert [go(events, candidate_index=index)[-1].text for index in (0, 1, 2)] == ["a", "b", ""]


def test_audio_is_joined_or_dropped() -> None:
    sound = {"inlineData": {"mimeType": "audio/pcm", "data": "AAE="}}
    events = [{"candidates": [{"content": {"parts": [sound]}}]}] * 2
    final, dropped = go(events)[-1], go(events, audio="drop")[-1]
    assert [part.inline_data.data for part in final.parts] == [b"\0\1\0\1"]
    assert dropped.parts == []
    assert len(go(events, audio="drop")) == 3


def test_an_empty_object_is_neutral_in_a_stream() -> None:
    objects = [types.GenerateContentResponse(), *PIECES["SDK objects"]]
    assert go(objects) == go(EVENTS)
    assert go([{}, *EVENTS, {}]) == go(EVENTS)


@pytest.mark.parametrize(
    "arguments",
    [{"provider": "gpt"}, {"flush": "never"}, {"on_malformed": "ignore"}, {"audio": "x"}],
    ids=lambda each: next(iter(each)),
)
def test_arguments_are_checked_at_the_call(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        aggregate([], **arguments)
    with pytest.raises(ValueError):
        aggregate_async([], **arguments)


class TestErrors:
    def test_an_error_in_the_data_ends_the_stream_and_raises_nothing(self) -> None:
        error = {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}
        *_, final = go([EVENTS[0], error, EVENTS[1]])
        assert (final.status, final.error_code, final.error_message) == ("failed", "UNAVAILABLE", "busy")
        assert final.text == "Hel"

    @pytest.mark.parametrize("provider", ["gemini", "auto"])
    def test_an_error_body_in_the_place_of_the_stream(self, provider: str) -> None:
        body = json.dumps({"error": {"code": 400, "message": "bad key", "status": "INVALID_ARGUMENT"}}, indent=2)
        (final,) = go(body, provider)
        assert (final.status, final.error_code) == ("failed", "INVALID_ARGUMENT")

    @pytest.mark.parametrize("run", [go, lambda *args: asyncio.run(go_async(*args))], ids=["sync", "async"])
    def test_an_exception_of_the_source_follows_its_final_unchanged(self, run: Callable[..., Any]) -> None:
        problem = ConnectionError("reset by peer")
        seen: list[LlmResponse] = []

        def source() -> Iterator[bytes]:
            yield FRAMES[0]
            raise problem

        with pytest.raises(ConnectionError) as raised:
            for response in aggregate(source(), "gemini"):
                seen.append(response)
        assert raised.value is problem
        assert [(each.partial, each.status) for each in seen] == [(True, "in_progress"), (False, "failed")]
        assert (seen[-1].text, seen[-1].error_code, seen[-1].error_message) == ("Hel", "ConnectionError", str(problem))
        with pytest.raises(ConnectionError):
            run(source())

    def test_what_is_no_json_names_provider_event_and_excerpt(self) -> None:
        stream = [FRAMES[0], b"data: {broken\n\n", FRAMES[2]]
        seen: list[LlmResponse] = []
        with pytest.raises(MalformedStreamError) as raised:
            for response in aggregate(stream, "gemini"):
                seen.append(response)
        problem = raised.value
        assert (problem.provider, problem.event_number) == ("gemini", 2)
        assert "{broken" in problem.excerpt
        assert "gemini, event 2" in str(problem)
        assert (seen[-1].status, seen[-1].error_code, seen[-1].text) == ("failed", "MALFORMED_STREAM", "Hel")

    @pytest.mark.parametrize("bad", [b"data: {broken\n\n", b'data: {"candidates": 5}\n\n', b"data: [1]\n\n"])
    def test_or_is_passed_over_when_asked(self, bad: bytes) -> None:
        assert go([FRAMES[0], bad, *FRAMES[1:]], on_malformed="skip") == go(FRAMES)
        with pytest.raises(MalformedStreamError):
            go([FRAMES[0], bad, *FRAMES[1:]])

    def test_events_of_one_read_before_the_malformed_one_are_given(self) -> None:
        seen = []
        with pytest.raises(MalformedStreamError):
            for response in aggregate(BODY[: len(FRAMES[0]) * 2 - 2] + b"data: {\n\n", "gemini"):
                seen.append(response)
        assert seen[0].text == "Hel"

    def test_no_event_tells_the_provider(self) -> None:
        with pytest.raises(UnknownLineError, match="no event tells the provider"):
            go([{"hello": 1}], "auto")

    def test_what_is_no_json_raises_in_the_async_form_too(self) -> None:
        async def read() -> tuple[list[LlmResponse], MalformedStreamError]:
            seen: list[LlmResponse] = []
            with pytest.raises(MalformedStreamError) as raised:
                async for response in aggregate_async([FRAMES[0], b"data: {broken\n\n"], "gemini"):
                    seen.append(response)
            return seen, raised.value

        seen, problem = asyncio.run(read())
        assert [(each.partial, each.status) for each in seen] == [(True, "in_progress"), (False, "failed")]
        assert problem.event_number == 2

    def test_an_exception_before_the_first_piece(self) -> None:
        def refused() -> Iterator[bytes]:
            raise ConnectionError("refused")
            yield b""

        seen: list[LlmResponse] = []
        with pytest.raises(ConnectionError):
            for response in aggregate(refused()):
                seen.append(response)
        assert [(each.status, each.error_code) for each in seen] == [("failed", "ConnectionError")]

    def test_a_time_limit_of_the_source(self) -> None:
        responses = aggregate(Source(TimeoutError("idle")), "gemini")
        with pytest.raises(TimeoutError):
            for _ in responses:
                pass
        assert responses.final is not None
        assert (responses.final.status, responses.final.error_code) == ("failed", "STREAM_TIMEOUT")

    def test_nothing_is_read_after_an_error_in_the_data(self) -> None:
        source = Source(AssertionError("read on"))
        source.frames = [FRAMES[0], b'data: {"error": {"message": "busy"}}\n\n']
        assert go(source)[-1].status == "failed"
        assert source.closed == 1

    def test_limits_of_the_response_name_provider_and_event(self) -> None:
        seen: list[LlmResponse] = []
        thought = {"candidates": [{"content": {"parts": [{"text": "hm", "thought": True}]}}]}
        with pytest.raises(StreamLimitError, match="gemini, event 2: more than 1 parts"):
            for response in aggregate([EVENTS[0], thought], "gemini", limits=StreamLimits(max_parts=1)):
                seen.append(response)
        assert (seen[-1].status, seen[-1].error_code, seen[-1].text) == ("failed", "MALFORMED_STREAM", "Hel")

    def test_limits(self) -> None:
        limits = StreamLimits(max_event_bytes=1000)
        with pytest.raises(StreamLimitError) as raised:
            go([FRAMES[0], b"data: " + b"x" * 2000], limits=limits)
        assert raised.value.provider == "gemini"


class Source:
    """An iterable that knows whether it was closed; sync and async."""

    def __init__(self, problem: BaseException | None = None) -> None:
        self.closed = 0
        self.problem = problem
        self.frames = FRAMES[:2]

    def __iter__(self) -> Iterator[bytes]:
        yield from self.frames
        if self.problem is not None:
            raise self.problem
        yield FRAMES[2]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for frame in self:
            yield frame

    def close(self) -> None:
        self.closed += 1


class TestLeaving:
    def test_a_break_closes_the_source_when_the_iterator_is_let_go(self) -> None:
        source = Source()
        for _ in aggregate(source, "gemini"):
            break
        gc.collect()
        assert source.closed == 1

    def test_closing_closes_at_once_and_keeps_what_had_come(self) -> None:
        source = Source()
        with closing(aggregate(source, "gemini")) as responses:
            next(responses)
        assert source.closed == 1
        assert responses.final is not None
        assert (responses.final.status, responses.final.error_code) == ("cancelled", "STREAM_CANCELLED")
        assert responses.final.text == "Hel"
        responses.close()
        assert source.closed == 1
        assert list(responses) == []

    def test_closing_before_the_first_response(self) -> None:
        source = Source()
        responses = aggregate(source, "gemini")
        responses.close()
        assert source.closed == 1
        assert responses.final is None

    def test_a_stream_read_to_its_end_has_its_final(self) -> None:
        source = Source()
        responses = aggregate(source, "gemini")
        assert list(responses)[-1] is responses.final
        assert source.closed == 1

    def test_an_interrupt_yields_nothing_and_goes_on(self) -> None:
        source = Source(KeyboardInterrupt())
        responses = aggregate(source, "gemini")
        seen = []
        with pytest.raises(KeyboardInterrupt):
            for response in responses:
                seen.append(response)
        assert all(response.partial for response in seen)
        assert responses.final is not None
        assert (responses.final.status, responses.final.text) == ("cancelled", "Hello ")
        assert source.closed == 1

    def test_an_interrupt_in_the_async_form(self) -> None:
        async def read() -> Any:
            responses = aggregate_async(Source(asyncio.CancelledError()), "gemini")
            with pytest.raises(asyncio.CancelledError):
                async for response in responses:
                    assert response.partial
            return responses.final

        final = asyncio.run(read())
        assert (final.status, final.error_code, final.text) == ("cancelled", "STREAM_CANCELLED", "Hello ")

    def test_a_generator_is_closed(self) -> None:
        ended: list[str] = []

        def source() -> Iterator[bytes]:
            try:
                yield from FRAMES
            finally:
                ended.append("sync")

        async def async_source() -> AsyncIterator[bytes]:
            try:
                for frame in FRAMES:
                    yield frame
            finally:
                ended.append("async")

        async def leave() -> Any:
            async with aclosing(aggregate_async(async_source(), "gemini")) as responses:
                await anext(responses)
                assert ended == ["sync"]
            return responses.final

        with closing(aggregate(source(), "gemini")) as responses:
            next(responses)
            assert ended == []
        assert ended == ["sync"]
        assert asyncio.run(leave()).status == "cancelled"
        assert ended == ["sync", "async"]

    def test_aclose_before_close_where_a_source_has_both(self) -> None:
        class Both(Source):
            async def aclose(self) -> None:
                self.closed += 10

        source = Both()
        asyncio.run(go_async(source))
        assert source.closed == 10

    def test_aclose_before_the_first_response(self) -> None:
        async def leave() -> tuple[Source, Any]:
            source = Source()
            responses = aggregate_async(source, "gemini")
            await responses.aclose()
            return source, responses.final

        assert (lambda source, final: (source.closed, final))(*asyncio.run(leave())) == (1, None)

    def test_an_error_of_the_consumer(self) -> None:
        source = Source()
        with pytest.raises(ZeroDivisionError), closing(aggregate(source, "gemini")) as responses:
            for _ in responses:
                _ = 1 / 0
        assert source.closed == 1

    def test_aclosing(self) -> None:
        async def leave() -> tuple[Source, Any]:
            source = Source()
            async with aclosing(aggregate_async(source, "gemini")) as responses:
                async for _ in responses:
                    break
            await responses.aclose()
            return source, responses.final

        source, final = asyncio.run(leave())
        assert source.closed == 1
        assert (final.status, final.text) == ("cancelled", "Hel")

    def test_a_cancelled_task(self) -> None:
        class Slow(Source):
            async def __aiter__(self) -> AsyncIterator[bytes]:
                yield FRAMES[0]
                await asyncio.sleep(60)

        async def cancel() -> tuple[Source, Any, list[LlmResponse]]:
            source, seen = Slow(), []
            responses = aggregate_async(source, "gemini")

            async def consume() -> None:
                async for response in responses:
                    seen.append(response)

            task = asyncio.create_task(consume())
            while not seen:
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return source, responses.final, seen

        source, final, seen = asyncio.run(cancel())
        assert source.closed == 1
        assert final.status == "cancelled"
        assert final.text == "Hel"
        assert [response.partial for response in seen] == [True]

    def test_an_async_close_method_is_awaited(self) -> None:
        class Client(Source):
            async def close(self) -> None:  # type: ignore[override]
                await asyncio.sleep(0)
                self.closed += 1

        source = Client()
        asyncio.run(go_async(source))
        assert source.closed == 1
