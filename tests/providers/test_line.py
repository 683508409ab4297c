"""Line: which provider a stream speaks, which event could not be read, and going on elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from google.genai import types

from adk_stream.checkpoint import pack
from adk_stream.errors import MalformedStreamError, SnapshotError, StreamLimitError, UnknownLineError
from adk_stream.parts import StreamChunk, StreamLimits
from adk_stream.providers import LINES
from adk_stream.providers.line import Line


def gemini(text: str, finish: str | None = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": [{"text": text}]}, "index": 0}
    return {"candidates": [candidate | ({"finishReason": finish} if finish else {})], "modelVersion": "m"}


def chat(text: str, finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}


#: A short stream of each line: (SSE name, event).
STREAMS: dict[str, list[tuple[str | None, Any]]] = {
    "gemini": [(None, gemini("Hé")), (None, gemini("llo", "STOP"))],
    "gemini-live": [
        (None, {"setupComplete": {}}),
        (None, {"serverContent": {"modelTurn": {"parts": [{"text": "Hé"}]}}}),
        (None, {"serverContent": {"modelTurn": {"parts": [{"text": "llo"}]}}}),
        (None, {"serverContent": {"turnComplete": True}, "usageMetadata": {"totalTokenCount": 3}}),
    ],
    "openai-chat": [(None, chat("Hé")), (None, chat("llo", "stop")), (None, "[DONE]")],
    "openai-responses": [
        ("response.created", {"type": "response.created", "response": {"id": "resp_1", "model": "m", "output": []}}),
        (
            "response.output_text.delta",
            {
                "type": "response.output_text.delta",
                "output_index": 0,
                "content_index": 0,
                "item_id": "i",
                "delta": "Hé",
            },
        ),
        (
            "response.output_text.delta",
            {
                "type": "response.output_text.delta",
                "output_index": 0,
                "content_index": 0,
                "item_id": "i",
                "delta": "llo",
            },
        ),
        ("response.completed", {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}),
    ],
    "anthropic": [
        ("message_start", {"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "content": []}}),
        (
            "content_block_start",
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        ),
        (
            "content_block_delta",
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hé"}},
        ),
        (
            "content_block_delta",
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "llo"}},
        ),
        ("content_block_stop", {"type": "content_block_stop", "index": 0}),
        ("message_delta", {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}}),
        ("message_stop", {"type": "message_stop"}),
    ],
}


def frame(name: str | None, event: Any) -> bytes:
    data = event if event == "[DONE]" else json.dumps(event, ensure_ascii=False)
    return (f"event: {name}\n" if name else "").encode() + f"data: {data}\n\n".encode()


BODIES = {provider: b"".join(frame(*each) for each in stream) for provider, stream in STREAMS.items()}


#: Streams that are cut where the reader holds something back.
TOOL = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
HELD: dict[str, list[Any]] = {
    "openai-chat": [chat("a <thi")],
    "anthropic": [
        STREAMS["anthropic"][0][1],
        {"type": "content_block_start", "index": 0, "content_block": TOOL},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "server_tool_use", "id": "s", "name": "w"},
        },
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{"}},
    ],
}


def fed(line: Line, *pieces: Any) -> list[StreamChunk]:
    return [chunk for piece in pieces for chunks in line.feed(piece) for chunk in chunks]


def closed(line: Line) -> list[StreamChunk]:
    return [chunk for chunks in line.close() for chunk in chunks]


def read(pieces: Iterable[Any], provider: str = "auto", **options: Any) -> tuple[Line, list[StreamChunk]]:
    line = Line(provider, **options)
    return line, fed(line, *pieces) + closed(line)


def said(chunks: list[StreamChunk]) -> str:
    return "".join(streamed.part.text or "" for chunk in chunks for streamed in chunk.parts)


ERROR_FOR_ALL = {"error": {"message": "no such model", "type": "invalid_request_error", "code": "model_not_found"}}


class TestDetection:
    def test_there_is_a_stream_here_for_every_line(self) -> None:
        assert set(STREAMS) == set(LINES)

    @pytest.mark.parametrize("provider", STREAMS)
    def test_a_detected_line_reads_as_the_named_one(self, provider: str) -> None:
        line, chunks = read([BODIES[provider]])
        assert line.provider == provider
        assert chunks == read([BODIES[provider]], provider)[1]
        assert said(chunks) == "Héllo"
        assert any(chunk.terminal for chunk in chunks)
        assert line.event_count == len(STREAMS[provider])

    @pytest.mark.parametrize("provider", STREAMS)
    @pytest.mark.parametrize("first", [{}, {"type": "ping"}, []], ids=str)
    def test_events_that_tell_nothing_wait_and_are_counted(self, provider: str, first: Any) -> None:
        line = Line()
        assert fed(line, b"data: " + json.dumps(first).encode() + b"\n\n") == []
        assert line.provider is None
        if first == []:  # it waits, and is no event of any line
            with pytest.raises(MalformedStreamError) as raised:
                fed(line, BODIES[provider])
            assert raised.value.provider == provider
            return
        assert said(fed(line, BODIES[provider])) == "Héllo"
        assert (line.provider, line.event_count) == (provider, 1 + len(STREAMS[provider]))

    def test_what_waited_comes_before_what_told(self) -> None:
        usage = {"usageMetadata": {"totalTokenCount": 7}}
        line = Line()
        assert fed(line, usage) == []
        chunks = fed(line, gemini("a"))
        assert [chunk.usage_metadata for chunk in chunks] == [{"totalTokenCount": 7}, None]
        assert said(chunks) == "a"

    def test_a_named_line_asks_nobody(self) -> None:
        line, chunks = read([chat("a")], "gemini")
        assert line.provider == "gemini"
        assert said(chunks) == ""

    def test_an_unknown_name(self) -> None:
        with pytest.raises(ValueError, match="no provider 'gpt'"):
            Line("gpt")
        with pytest.raises(ValueError, match="on_malformed"):
            Line("gemini", on_malformed="ignore")

    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (ERROR_FOR_ALL["error"], "model_not_found"),
            ({"code": 503, "message": "busy", "status": "UNAVAILABLE"}, "UNAVAILABLE"),
            ("out of order", None),
        ],
    )
    @pytest.mark.parametrize("form", ["body", "event", "named event"])
    def test_an_error_without_a_line_is_an_error_still(self, error: Any, code: str | None, form: str) -> None:
        if form == "named event" and not isinstance(error, dict):
            pytest.skip("a bare text is no named event's object")
        pieces = {
            "body": json.dumps({"error": error}, indent=2).encode(),
            "event": frame(None, {"error": error}),
            "named event": frame("error", error),
        }
        _, chunks = read([pieces[form]])
        (fault,) = [chunk.error for chunk in chunks if chunk.error is not None]
        assert fault.code == code
        assert fault.message == (error["message"] if isinstance(error, dict) else error)

    def test_an_error_and_something_else_tell_nothing(self) -> None:
        with pytest.raises(UnknownLineError):
            read([ERROR_FOR_ALL, {"hello": 1}])

    def test_nobody_tells_until_the_end(self) -> None:
        with pytest.raises(UnknownLineError) as raised:
            read([{"hello": "you"}, {"hello": "there"}])
        problem = raised.value
        assert (problem.event_number, problem.provider) == (1, None)
        assert "you" in problem.excerpt
        assert isinstance(problem, MalformedStreamError)

    def test_nobody_tells_for_too_long(self) -> None:
        line = Line()
        with pytest.raises(UnknownLineError) as raised:
            for _ in range(100_000):
                fed(line, {"hello": 1})
        assert raised.value.event_number == line.event_count < 2000

    def test_a_stream_of_nothing(self) -> None:
        assert read([])[1] == read([b"", b": comment\n\n"])[1] == []


class TestObjects:
    def test_google_genai(self) -> None:
        line, chunks = read([types.GenerateContentResponse.model_validate(gemini("a", "STOP"))])
        assert (line.provider, said(chunks)) == ("gemini", "a")

    def test_openai_chat(self) -> None:
        openai = pytest.importorskip("openai.types.chat")
        line, chunks = read([openai.ChatCompletionChunk.model_validate({**chat("a", "stop"), "created": 1})])
        assert (line.provider, said(chunks)) == ("openai-chat", "a")

    def test_openai_responses(self) -> None:
        openai = pytest.importorskip("openai.types.responses")
        delta = {**STREAMS["openai-responses"][1][1], "sequence_number": 1, "logprobs": []}
        line, chunks = read([openai.ResponseTextDeltaEvent.model_validate(delta)])
        assert (line.provider, said(chunks)) == ("openai-responses", "Hé")

    def test_anthropic(self) -> None:
        anthropic = pytest.importorskip("anthropic.types")
        names = {
            "content_block_start": anthropic.RawContentBlockStartEvent,
            "content_block_delta": anthropic.RawContentBlockDeltaEvent,
        }
        events = [names[name].model_validate(event) for name, event in STREAMS["anthropic"] if name in names]
        line, chunks = read(events)
        assert (line.provider, said(chunks)) == ("anthropic", "Héllo")

    @pytest.mark.parametrize("thing", [5, None, object()])
    def test_anything_else_is_a_type_error(self, thing: Any) -> None:
        with pytest.raises(TypeError, match="no piece of a stream"):
            fed(Line(), thing)

    def test_an_object_of_another_sdk_names_its_number(self) -> None:
        with pytest.raises(MalformedStreamError) as raised:
            fed(Line("gemini"), gemini("a"), object())
        assert (raised.value.provider, raised.value.event_number) == ("gemini", 2)


class TestPieces:
    @pytest.mark.parametrize("provider", STREAMS)
    def test_cut_anywhere_and_of_any_kind(self, provider: str) -> None:
        body = BODIES[provider]
        whole = read([body])[1]
        assert read([body[at : at + 1] for at in range(len(body))])[1] == whole
        assert read([bytearray(body)])[1] == read([memoryview(body)])[1] == read([body.decode()])[1] == whole
        assert read([event for _, event in STREAMS[provider]])[1] == whole

    def test_the_end_mark_among_decoded_events(self) -> None:
        chunks = read([chat("a"), "[DONE]"], "openai-chat")[1]
        assert any(chunk.terminal for chunk in chunks)

    @pytest.mark.parametrize("provider", STREAMS)
    def test_the_end_mark_of_another_line_is_neutral(self, provider: str) -> None:
        chunks = read([BODIES[provider], b"data: [DONE]\n\n"], provider)[1]
        assert said(chunks) == "Héllo"
        assert all(chunk.error is None for chunk in chunks)

    @pytest.mark.parametrize("provider", HELD)
    def test_the_rest_comes_once(self, provider: str) -> None:
        line = Line(provider, reader_options={"think_tags": True})
        fed(line, *HELD[provider])
        assert any(chunk.parts for chunk in line.rest())
        assert list(line.rest()) == closed(line) == []


class TestMalformed:
    BAD = [b"data: {broken\n\n", b"data: [1]\n\n", b'data: "text"\n\n', b"data: 5\n\n", b"data: true\n\n"]

    @pytest.mark.parametrize("bad", BAD)
    @pytest.mark.parametrize("provider", STREAMS)
    def test_names_provider_number_and_excerpt(self, provider: str, bad: bytes) -> None:
        line = Line(provider)
        before = [frame(*each) for each in STREAMS[provider][:2]]
        fed(line, *before)
        with pytest.raises(MalformedStreamError) as raised:
            fed(line, bad)
        assert (raised.value.provider, raised.value.event_number) == (provider, 3)
        assert raised.value.excerpt.lower() in bad.decode()
        assert raised.value.excerpt

    @pytest.mark.parametrize("bad", BAD)
    @pytest.mark.parametrize("provider", STREAMS)
    @pytest.mark.parametrize("named", [True, False])
    def test_is_passed_over_and_counted_when_asked(self, provider: str, bad: bytes, named: bool) -> None:
        frames = [frame(*each) for each in STREAMS[provider]]
        line, chunks = read([frames[0], bad, *frames[1:]], provider if named else "auto", on_malformed="skip")
        assert said(chunks) == "Héllo"
        assert line.event_count == len(frames) + 1

    def test_is_passed_over_before_the_line_is_known(self) -> None:
        line, chunks = read([b"data: {broken\n\n", BODIES["gemini"]], on_malformed="skip")
        assert (said(chunks), line.event_count) == ("Héllo", 3)

    def test_the_events_of_one_read_before_it_are_given(self) -> None:
        line, seen = Line("gemini"), []
        with pytest.raises(MalformedStreamError):
            for chunks in line.feed(BODIES["gemini"] + b"data: {\n\n"):
                seen += chunks
        assert said(seen) == "Héllo"

    @pytest.mark.parametrize("open_", ["[", '{"a":'])
    @pytest.mark.parametrize("depth", [1_000, 100_000])
    def test_nested_too_deeply(self, open_: str, depth: int) -> None:
        close = "]" if open_ == "[" else "}"
        bad = f'data: {{"candidates":[], "x": {open_ * depth}1{close * depth}}}\n\n'.encode()
        with pytest.raises(MalformedStreamError) as raised:
            fed(Line("gemini"), bad)
        assert raised.value.event_number == 1
        assert said(read([bad, BODIES["gemini"]], "gemini", on_malformed="skip")[1]) == "Héllo"

    def test_an_event_that_is_too_large_names_its_number(self) -> None:
        line = Line("gemini", limits=StreamLimits(max_event_bytes=500))
        fed(line, BODIES["gemini"])
        with pytest.raises(StreamLimitError, match="larger than 500 bytes") as raised:
            fed(line, b"data: " + b"x" * 1000)
        assert (raised.value.provider, raised.value.event_number) == ("gemini", 3)

    def test_a_bare_error_in_a_named_event(self) -> None:
        bare = frame("error", {"code": 503, "message": "busy", "status": "UNAVAILABLE"})
        chunks = read([frame(None, gemini("a")), bare], "gemini")[1]
        assert [chunk.error.code for chunk in chunks if chunk.error] == ["UNAVAILABLE"]


class TestSnapshots:
    @pytest.mark.parametrize("named", [True, False])
    @pytest.mark.parametrize("provider", STREAMS)
    def test_restored_at_every_byte_it_goes_on_as_if_it_had_never_stopped(self, provider: str, named: bool) -> None:
        body = BODIES[provider]
        straight, whole = read([body], provider if named else "auto")
        for cut in range(0, len(body) + 1, 3):
            line = Line(provider if named else "auto")
            before = fed(line, body[:cut])
            line = Line.restore(line.snapshot())
            assert before + fed(line, body[cut:]) + closed(line) == whole
            assert (line.provider, line.event_count) == (straight.provider, straight.event_count)

    def test_what_waits_for_a_line_is_carried_along(self) -> None:
        line = Line()
        fed(line, {"usageMetadata": {"totalTokenCount": 2**70}}, frame("odd", {}))
        line = Line.restore(line.snapshot())
        chunks = fed(line, gemini("a"))
        assert chunks[0].usage_metadata == {"totalTokenCount": 2**70}
        assert line.event_count == 3

    def test_the_options_are_carried_along(self) -> None:
        line = Line(on_malformed="skip", limits=StreamLimits(max_event_bytes=400), reader_options={"think_tags": True})
        line = Line.restore(line.snapshot())
        chunks = fed(line, b"data: {broken\n\n", chat("<think>hm</think>yes"))
        assert [part.part.thought for chunk in chunks for part in chunk.parts] == [True, False]
        with pytest.raises(StreamLimitError):
            fed(line, b"data: " + b"x" * 1000)

    @pytest.mark.parametrize("provider", HELD)
    def test_a_line_that_was_closed_stays_closed(self, provider: str) -> None:
        line = Line(provider, reader_options={"think_tags": True})
        fed(line, *HELD[provider])
        assert any(chunk.parts for chunk in closed(Line.restore(line.snapshot())))
        assert any(chunk.parts for chunk in closed(line))
        assert closed(Line.restore(line.snapshot())) == []

    def test_every_cut_is_damage(self) -> None:
        line = Line()
        fed(line, BODIES["anthropic"][:200])
        whole = line.snapshot()
        for end in range(len(whole)):
            with pytest.raises(SnapshotError):
                Line.restore(whole[:end])

    @pytest.mark.parametrize(
        "state",
        [
            {},
            [],
            {"provider": "gemini"},
            {"provider": "gpt", "reader": "x"},
            {"provider": "gemini", "reader": None},
            {"limits": 5},
            {"limits": {"max_parts": "many"}},
            {"options": 5},
            {"decoder": {"decoder": "none"}},
            {"undetected": [5]},
        ],
        ids=str,
    )
    def test_a_state_of_another_shape(self, state: Any) -> None:
        whole = {
            "provider": None,
            "event_count": 1,
            "skip": False,
            "options": {},
            "limits": StreamLimits(),
            "decoder": Line()._decoder.snapshot(),
            "undetected": [],
            "reader": None,
        }
        assert Line.restore(pack("line", 1, whole)).event_count == 1
        broken = whole | state if state else state
        with pytest.raises(SnapshotError):
            Line.restore(pack("line", 1, broken))

    def test_a_snapshot_of_something_else(self) -> None:
        with pytest.raises(SnapshotError, match="wanted one of line"):
            Line.restore(pack("StreamState", 1, {}))
