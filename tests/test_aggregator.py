"""StreamingResponseAggregator on google-genai's own objects and on StreamChunks: its public face, point by point."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from google.genai import types
from pydantic import BaseModel

from adk_stream import (
    LlmResponse,
    StreamChunk,
    StreamedPart,
    StreamFault,
    StreamingResponseAggregator,
    StreamLimits,
    aggregate,
)
from adk_stream.errors import EmptyResponseError, MalformedStreamError, SnapshotError, StreamLimitError
from adk_stream.parts import PartDelta, TranscriptDelta

Part = types.Part


def call(name: str = "f", call_id: str | None = "c", **args: Any) -> Part:
    return Part(function_call=types.FunctionCall(id=call_id, name=name, args=args))


def chunk(*parts: Part, finish: str | None = None, index: int | None = None, **fields: Any) -> Any:
    candidate = types.Candidate(
        content=types.Content(role="model", parts=list(parts)),
        finish_reason=None if finish is None else types.FinishReason(finish),
        index=index,
        **fields,
    )
    return types.GenerateContentResponse(candidates=[candidate])


def usage(**counts: int) -> Any:
    return types.GenerateContentResponse(usage_metadata=types.GenerateContentResponseUsageMetadata(**counts))


def run(*chunks: Any, flush: str = "close", **options: Any) -> tuple[list[LlmResponse], LlmResponse | None]:
    aggregator = StreamingResponseAggregator(flush=flush, **options)
    responses = [response for each in chunks for response in aggregator.process_response(each)]
    return responses, aggregator.close()


def told(responses: list[LlmResponse]) -> list[tuple[bool, list[str]]]:
    """(partial, what the parts are) of each response."""
    return [(bool(each.partial), [what(part) for part in each.parts]) for each in responses]


def what(part: Part) -> str:
    if part.function_call:
        return f"call {part.function_call.name}"
    if part.inline_data:
        return f"blob {(part.inline_data.data or b'').decode()}"
    return f"{'thought' if part.thought else 'text'} {part.text}"


def mutable_things(value: Any) -> Iterator[Any]:
    """Every model, list and dict within, itself included."""
    inner: Any = ()
    if isinstance(value, BaseModel):
        inner = vars(value).values()
    elif isinstance(value, dict):
        inner = value.values()
    elif isinstance(value, list):
        inner = value
    else:
        return
    yield value
    for each in inner:
        yield from mutable_things(each)


HELLO = (chunk(Part(text="hm", thought=True)), chunk(Part(text="Hel")), chunk(Part(text="lo"), finish="STOP"))


class TestFlushAtClose:
    def test_every_chunk_that_shows_something_is_one_partial_and_close_gives_everything(self) -> None:
        responses, final = run(*HELLO, usage(total_token_count=3))
        assert told(responses) == [(True, ["thought hm"]), (True, ["text Hel"]), (True, ["text lo"])]
        assert final is not None
        assert told([final]) == [(False, ["thought hm", "text Hello"])]
        assert (final.status, final.finish_reason, final.error_code) == ("completed", types.FinishReason.STOP, None)
        assert final.usage_metadata is not None
        assert final.usage_metadata.total_token_count == 3

    def test_a_chunk_of_text_and_a_call_is_one_partial(self) -> None:
        responses, final = run(chunk(Part(text="a"), call(x=1), Part(text="b"), finish="STOP"))
        assert told(responses) == [(True, ["text a", "call f", "text b"])]
        assert final is not None
        assert [one.args for one in final.executable_function_calls()] == [{"x": 1}]
        assert responses[0].executable_function_calls() == []


class TestFlushAtBoundaries:
    def test_text_with_the_finish_is_still_a_partial_and_close_gives_the_run(self) -> None:
        responses, final = run(*HELLO, flush="boundary")
        assert all(response.partial for response in responses)
        assert final is not None
        assert told([final]) == [(False, ["thought hm", "text Hello"])]

    def test_an_empty_parts_chunk_ends_the_run(self) -> None:
        responses, final = run(*HELLO[:2], chunk(finish="STOP"), flush="boundary")
        assert told(responses[2:]) == [(False, ["thought hm", "text Hel"]), (True, [])]
        assert responses[2].status == "in_progress"
        assert final is not None
        assert (final.parts, final.status) == ([], "completed")

    def test_a_whole_call_ends_the_run(self) -> None:
        responses, final = run(*HELLO[:2], chunk(call(), call("g", "d"), finish="STOP"), flush="boundary")
        assert told(responses[2:]) == [(False, ["thought hm", "text Hel"]), (False, ["call f", "call g"])]
        assert len(responses[3].executable_function_calls()) == 2
        assert final is not None
        assert told([final]) == [(False, [])]

    def test_audio_ends_the_run_and_is_joined_at_the_next_flush(self) -> None:
        def audio(data: bytes) -> Any:
            return chunk(Part(inline_data=types.Blob(mime_type="audio/pcm", data=data)))

        responses, final = run(
            HELLO[1], audio(b"x"), audio(b"y"), chunk(Part(text="z"), finish="STOP"), flush="boundary"
        )
        assert told(responses) == [
            (True, ["text Hel"]),
            (False, ["text Hel"]),
            (True, ["blob x"]),
            (True, ["blob y"]),
            (True, ["text z"]),
        ]
        assert final is not None
        assert told([final]) == [(False, ["blob xy", "text z"])]
        _, final = run(audio(b"x"), chunk(finish="STOP"), audio="drop")
        assert final is not None
        assert final.parts == []

    def test_a_mixed_chunk_comes_as_responses_that_are_wholly_partial_or_wholly_final(self) -> None:
        mixed = chunk(Part(text="a"), call(), Part(text="b"), call("g", "d"), Part(text="c"), finish="STOP")
        responses, final = run(mixed, flush="boundary")
        assert final is not None
        assert told([*responses, final]) == [
            (True, ["text a"]),
            (False, ["text a"]),
            (False, ["call f"]),
            (True, ["text b"]),
            (False, ["text b"]),
            (False, ["call g"]),
            (True, ["text c"]),
            (False, ["text c"]),
        ]

    def test_a_stream_of_a_call_alone_has_a_closing_final(self) -> None:
        responses, final = run(chunk(call(), finish="STOP"), usage(total_token_count=5), flush="boundary")
        assert told(responses) == [(False, ["call f"])]
        assert responses[0].usage_metadata is None
        assert final is not None
        assert final.usage_metadata is not None


class TestTheCall:
    def test_the_chunk_is_taken_in_although_nobody_iterates(self) -> None:
        aggregator = StreamingResponseAggregator()
        for each in HELLO:
            aggregator.process_response(each)
        final = aggregator.close()
        assert final is not None
        assert final.text == "Hello"

    def test_an_empty_object_raises_and_the_aggregator_stays_usable(self) -> None:
        aggregator = StreamingResponseAggregator()
        aggregator.process_response(HELLO[1])
        with pytest.raises(EmptyResponseError):
            aggregator.process_response(types.GenerateContentResponse())
        aggregator.process_response(HELLO[2])
        final = aggregator.close()
        assert final is not None
        assert final.text == "Hello"

    @pytest.mark.parametrize("thing", [None, "text", {"candidates": []}, object()])
    def test_anything_else_is_a_type_error(self, thing: Any) -> None:
        with pytest.raises(TypeError, match="a chunk is"):
            StreamingResponseAggregator().process_response(thing)

    def test_what_was_given_is_not_changed_and_nothing_is_shared(self) -> None:
        given = chunk(call(x=[1]), Part(text="a", part_metadata={"k": [1]}), finish="STOP")
        before = given.model_dump()
        aggregator = StreamingResponseAggregator(flush="close")
        (partial,) = aggregator.process_response(given)
        partial.parts[0].function_call.args["x"].append(2)
        partial.parts[1].part_metadata["k"].append(2)
        final = aggregator.close()
        assert final is not None
        assert final.parts[0].function_call.args == {"x": [1]}
        assert final.parts[1].part_metadata == {"k": [1]}
        assert given.model_dump() == before

    @pytest.mark.parametrize("flush", ["close", "boundary"])
    def test_no_emitted_object_is_the_callers_or_anothers(self, flush: str) -> None:
        image = Part(inline_data=types.Blob(mime_type="image/png", data=b"x"), part_metadata={"k": [1]})
        code = Part(executable_code=types.ExecutableCode(code="x"))
        given = [chunk(Part(text="a"), call(x=[1]), image, code), chunk(Part(text="b"), finish="STOP")]
        responses, final = run(*given, flush=flush)
        assert final is not None
        seen: dict[int, str] = {}
        for name, model in [("given", each) for each in given] + [
            (f"response {number}", each) for number, each in enumerate([*responses, final])
        ]:
            for thing in mutable_things(model):
                assert seen.setdefault(id(thing), name) == name, f"{name} shares {thing!r} with {seen[id(thing)]}"
        before = [each.model_dump() for each in [*given, *responses, final]]
        run(*given, flush=flush)
        assert [each.model_dump() for each in [*given, *responses, final]] == before

    @pytest.mark.parametrize(
        "options", [{"flush": "later"}, {"audio": "keep"}, {"candidate_index": -1}, {"candidate_index": None}]
    )
    def test_arguments_are_checked(self, options: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=next(iter(options))):
            StreamingResponseAggregator(**options)


class TestTheEnd:
    def test_nothing_came(self) -> None:
        assert StreamingResponseAggregator().close() is None

    def test_a_second_close_gives_none_and_the_aggregator_may_be_used_again(self) -> None:
        aggregator = StreamingResponseAggregator(flush="close")
        for _ in range(2):
            for each in HELLO:
                aggregator.process_response(each)
            final = aggregator.close()
            assert final is not None
            assert final.text == "Hello"
            assert aggregator.close() is None

    def test_no_terminal_sign(self) -> None:
        _, final = run(*HELLO[:2])
        assert final is not None
        assert (final.status, final.error_code, final.finish_reason) == ("incomplete", "STREAM_CUT", None)

    @pytest.mark.parametrize(
        ("error", "status", "code"),
        [
            (asyncio.CancelledError(), "cancelled", "STREAM_CANCELLED"),
            (GeneratorExit(), "cancelled", "STREAM_CANCELLED"),
            (KeyboardInterrupt(), "cancelled", "STREAM_CANCELLED"),
            (TimeoutError("slow"), "failed", "STREAM_TIMEOUT"),
            (type("ReadTimeout", (Exception,), {})("slow"), "failed", "STREAM_TIMEOUT"),
            (MalformedStreamError("bad"), "failed", "MALFORMED_STREAM"),
            (ConnectionError("reset"), "failed", "ConnectionError"),
            (type("CancelledError", (Exception,), {})(), "cancelled", "STREAM_CANCELLED"),
        ],
        ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
    )
    def test_close_with_an_error_keeps_what_had_come(self, error: BaseException, status: str, code: str) -> None:
        aggregator = StreamingResponseAggregator(flush="close")
        for each in (*HELLO, usage(total_token_count=3)):
            aggregator.process_response(each)
        final = aggregator.close(error=error)
        assert final is not None
        assert (final.status, final.error_code, final.error_message) == (status, code, str(error) or None)
        assert final.text == "Hello"
        assert final.usage_metadata is not None

    @pytest.mark.parametrize(
        ("finish", "status", "reason", "code"),
        [
            ("STOP", "completed", "STOP", None),
            ("MAX_TOKENS", "incomplete", "MAX_TOKENS", "MAX_TOKENS"),
            ("SAFETY", "incomplete", "SAFETY", "SAFETY"),
            ("MALFORMED_FUNCTION_CALL", "incomplete", "MALFORMED_FUNCTION_CALL", "MALFORMED_FUNCTION_CALL"),
            ("FINISH_REASON_UNSPECIFIED", "incomplete", None, "STREAM_CUT"),
        ],
    )
    def test_finish_reasons(self, finish: str, status: str, reason: str | None, code: str | None) -> None:
        _, final = run(chunk(Part(text="a"), finish=finish, finish_message="why"))
        assert final is not None
        assert (final.status, final.error_code) == (status, code)
        assert final.finish_reason == (reason and types.FinishReason[reason])
        assert final.native_finish_reason == finish
        if code == finish:
            assert final.error_message == "why"

    def test_a_reason_that_nobody_knows(self) -> None:
        _, final = run(StreamChunk(finish_reason="OTHER", native_finish_reason="tired", terminal=True))
        assert final is not None
        assert (final.status, final.finish_reason, final.error_code) == (
            "incomplete",
            types.FinishReason.OTHER,
            "tired",
        )

    def test_a_blocked_prompt(self) -> None:
        blocked = types.GenerateContentResponsePromptFeedback(
            block_reason=types.BlockedReason.PROHIBITED_CONTENT, block_reason_message="no"
        )
        _, final = run(types.GenerateContentResponse(prompt_feedback=blocked))
        assert final is not None
        assert (final.status, final.error_code, final.error_message) == ("incomplete", "PROHIBITED_CONTENT", "no")
        assert final.finish_reason == types.FinishReason.SAFETY
        assert final.content is None

    @pytest.mark.parametrize(
        ("number", "status", "code"),
        [
            (1, "completed", None),
            (2, "incomplete", "MAX_TOKENS"),
            (3, "incomplete", "SAFETY"),
            (4, "incomplete", "RECITATION"),
            (5, "incomplete", "OTHER"),
            (77, "incomplete", "77"),
            (0, "incomplete", "STREAM_CUT"),
            (True, "incomplete", "True"),
            (1.0, "incomplete", "1.0"),
            ("TOMORROWS_REASON", "incomplete", "TOMORROWS_REASON"),
        ],
    )
    def test_finish_reasons_on_the_wire(self, number: Any, status: str, code: str | None) -> None:
        *_, final = aggregate([{"candidates": [{"finishReason": number}]}], "gemini")
        assert (final.status, final.error_code) == (status, code)

    @pytest.mark.parametrize(
        ("reason", "code"),
        [(1, "SAFETY"), (2, "OTHER"), (3, "BLOCKLIST"), (4, "PROHIBITED_CONTENT"), (9, "9"), ("NEW", "NEW")],
    )
    def test_block_reasons_on_the_wire(self, reason: Any, code: str) -> None:
        *_, final = aggregate([{"promptFeedback": {"blockReason": reason}}], "gemini")
        assert (final.status, final.finish_reason, final.error_code) == ("incomplete", "SAFETY", code)

    @pytest.mark.parametrize("reason", [0, None, "", "BLOCKED_REASON_UNSPECIFIED"])
    def test_prompt_feedback_without_a_reason_blocks_nothing(self, reason: Any) -> None:
        feedback = {"promptFeedback": {"blockReason": reason, "safetyRatings": []}}
        *_, final = aggregate([feedback, {"candidates": [{"finishReason": "STOP"}]}], "gemini")
        assert (final.status, final.error_code) == ("completed", None)

    def test_a_later_unspecified_reason_takes_no_end_away(self) -> None:
        _, final = run(chunk(Part(text="a"), finish="STOP"), chunk(finish="FINISH_REASON_UNSPECIFIED"))
        assert final is not None
        assert (final.status, final.native_finish_reason) == ("completed", "STOP")

    def test_a_call_that_was_cut_never_runs_whatever_the_end(self) -> None:
        named = Part(function_call=types.FunctionCall(id="c", name="f"))
        open_call = StreamedPart(named, 0, True, '{"a":1}')
        for end in (StreamChunk(), StreamChunk(finish_reason="STOP", native_finish_reason="STOP", terminal=True)):
            for flush in ("close", "boundary"):
                responses, final = run(StreamChunk([open_call]), end, flush=flush)
                assert final is not None
                assert final.parts[0].function_call.args == {"a": 1}
                assert [one for each in (*responses, final) for one in each.executable_function_calls()] == []

    def test_a_refusal_is_never_a_natural_end(self) -> None:
        refusal = StreamedPart(PartDelta("no", part_metadata={"refusal": True}), 0, True)
        for flush in ("close", "boundary"):
            chunks = (StreamChunk([refusal]), StreamChunk(empty=True), StreamChunk(finish_reason="STOP", terminal=True))
            _, final = run(*chunks, flush=flush)
            assert final is not None
            assert (final.status, final.error_code) == ("incomplete", "SAFETY")

    def test_an_error_in_the_stream(self) -> None:
        _, final = run(HELLO[1], StreamChunk(error=StreamFault("503", "busy")), HELLO[2])
        assert final is not None
        assert (final.status, final.error_code, final.error_message) == ("failed", "503", "busy")

    def test_metadata_of_every_chunk_is_on_the_final_alone(self) -> None:
        first = chunk(Part(text="a"), avg_logprobs=-0.5, safety_ratings=[types.SafetyRating(blocked=False)])
        first.model_version, first.response_id = "m-1", "r-1"
        responses, final = run(first, chunk(Part(text="b"), finish="STOP"), usage(prompt_token_count=1))
        assert final is not None
        assert (final.avg_logprobs, final.model_version, final.response_id) == (-0.5, "m-1", "r-1")
        assert final.safety_ratings == [types.SafetyRating(blocked=False)]
        assert {response.response_id for response in responses} == {"r-1"}
        assert all(response.usage_metadata is None for response in responses)

    def test_a_transcript_of_what_is_said(self) -> None:
        responses, final = run(
            StreamChunk(transcript=TranscriptDelta("output", "Hel")),
            StreamChunk(transcript=TranscriptDelta("output", "lo")),
            StreamChunk(finish_reason="STOP", terminal=True),
        )
        said = [response.output_transcription for response in responses]
        assert [each and (each.text, each.finished) for each in said] == [("Hel", False), ("lo", False)]
        assert final is not None
        assert final.output_transcription == types.Transcription(text="Hello", finished=True)


class TestCandidates:
    MIXED = (
        chunk(Part(text="A"), index=0),
        chunk(Part(text="B"), index=1),
        chunk(Part(text="a"), index=0, finish="STOP"),
        chunk(Part(text="b"), index=1, finish="MAX_TOKENS"),
    )

    @pytest.mark.parametrize(("index", "text", "status"), [(0, "Aa", "completed"), (1, "Bb", "incomplete")])
    @pytest.mark.parametrize("flush", ["close", "boundary"])
    def test_are_kept_apart(self, index: int, text: str, status: str, flush: str) -> None:
        responses, final = run(*self.MIXED, flush=flush, candidate_index=index)
        assert "".join(response.text for response in responses if response.partial) == text
        assert final is not None
        assert (final.text, final.status) == (text, status)

    def test_the_only_one_is_taken_whatever_its_index(self) -> None:
        _, final = run(chunk(Part(text="x"), index=2, finish="STOP"))
        assert final is not None
        assert (final.text, final.status) == ("x", "completed")

    @pytest.mark.parametrize("flush", ["close", "boundary"])
    def test_another_that_comes_first_gives_way_to_the_wanted(self, flush: str) -> None:
        one, two, three, four = self.MIXED
        responses, final = run(two, chunk(index=1), one, four, three, flush=flush)
        assert final is not None
        assert (final.text, final.status) == ("Aa", "completed")
        assert "".join(each.text for each in responses if not each.partial) == ""

    def test_one_that_is_not_there(self) -> None:
        _, final = run(chunk(Part(text="x"), finish="STOP"), candidate_index=3)
        assert final is not None
        assert (final.parts, final.status) == ([], "incomplete")


def test_several_response_ids_are_groups_in_order_and_the_newest_is_the_finals() -> None:
    chunks = [
        StreamChunk([StreamedPart(PartDelta(text), 0, True)], response_id=response_id)
        for response_id, text in (("m1", "a"), ("m2", "b"), ("m1", "c"), ("m2", "d"))
    ]
    _, final = run(*chunks)
    assert final is not None
    assert [part.text for part in final.parts] == ["ac", "bd"]
    assert final.response_id == "m2"


def test_the_end_of_one_response_is_not_that_of_the_next() -> None:
    def said(response_id: str, **fields: Any) -> StreamChunk:
        return StreamChunk([StreamedPart(PartDelta("a"), 0, True)], response_id=response_id, **fields)

    end = {"finish_reason": "STOP", "native_finish_reason": "stop", "terminal": True}
    _, final = run(said("m1", **end), said("m2"))
    assert final is not None
    assert (final.status, final.error_code) == ("incomplete", "STREAM_CUT")
    _, final = run(said("m1", **end), said("m2"), said("m2", **end))
    assert final is not None
    assert final.status == "completed"


def test_an_error_before_anything_came() -> None:
    aggregator = StreamingResponseAggregator()
    assert aggregator.close(error=KeyboardInterrupt()) is None
    final = aggregator.close(error=ConnectionError("refused"))
    assert final is not None
    assert (final.status, final.error_code, final.error_message) == ("failed", "ConnectionError", "refused")
    assert final.content is None
    assert aggregator.close() is None


def test_limits_are_kept_and_what_had_come_stays() -> None:
    aggregator = StreamingResponseAggregator(flush="close", limits=StreamLimits(max_parts=1))
    aggregator.process_response(chunk(Part(text="a")))
    with pytest.raises(StreamLimitError):
        aggregator.process_response(chunk(Part(text="t", thought=True)))
    final = aggregator.close()
    assert final is not None
    assert final.text == "a"


class TestSnapshots:
    @pytest.mark.parametrize("flush", ["close", "boundary"])
    def test_restored_anywhere_it_goes_on_as_if_it_had_never_stopped(self, flush: str) -> None:
        chunks = (*HELLO[:2], chunk(call(x=2**70)), chunk(Part(text="x", thought_signature=b"\xff")), HELLO[2])
        straight = run(*chunks, flush=flush)
        for cut in range(len(chunks) + 1):
            aggregator = StreamingResponseAggregator(flush=flush)
            responses = [each for one in chunks[:cut] for each in aggregator.process_response(one)]
            aggregator = StreamingResponseAggregator.restore(aggregator.snapshot())
            responses += [each for one in chunks[cut:] for each in aggregator.process_response(one)]
            assert (responses, aggregator.close()) == straight

    def test_bytes_that_are_none(self) -> None:
        with pytest.raises(SnapshotError):
            StreamingResponseAggregator.restore(b"nothing")
