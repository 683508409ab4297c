"""The assembler: parts merged by index and response id, built fresh each time."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types

from adk_stream.errors import StreamLimitError
from adk_stream.parts import CallDelta, PartAssembler, PartDelta, StreamedPart, StreamLimits, part_delta


def text(value: str | None, index: int | None, partial: bool = True, **fields: Any) -> StreamedPart:
    return StreamedPart(PartDelta(value, **fields), index, partial)


def call(index: int, fragment: str | None = None, *, partial: bool = True, **fields: Any) -> StreamedPart:
    return StreamedPart(PartDelta(function_call=CallDelta(**fields)), index, partial, fragment)


def whole(index: int, **fields: Any) -> StreamedPart:
    return StreamedPart(PartDelta(whole=fields, provider="gemini"), index)


def assembled(*parts: StreamedPart, response_id: str | None = "r", **options: Any) -> list[types.Part]:
    assembler = PartAssembler(**options)
    for part in parts:
        assembler.add(part, response_id)
    return assembler.finish()


def texts(parts: list[types.Part]) -> list[str | None]:
    return [part.text for part in parts]


def test_partials_append_at_their_index_whatever_the_order() -> None:
    parts = assembled(text("c", 2), text("a", 0), text("d", 2), text("b", 0))
    assert texts(parts) == ["ab", "cd"]


def test_a_complete_part_replaces_what_is_there() -> None:
    assert texts(assembled(text("ab", 0), text("whole", 0, partial=False))) == ["whole"]
    assert texts(assembled(text("one", 0, partial=False), text("two", 0, partial=False))) == ["two"]


def test_an_unstamped_part_stays_out() -> None:
    assert assembled(text("a", None)) == []


def test_text_and_thought_at_one_index_are_not_merged() -> None:
    parts = assembled(text("hm", 0, thought=True), text("a", 1))
    assert [(part.text, part.thought) for part in parts] == [("hm", True), ("a", None)]


def test_signature_pieces_at_one_index_are_one_signature() -> None:
    parts = assembled(
        text("a", 0, thought=True), text("", 0, thought=True, thought_signature=b"s1"), text(None, 0, thought=True)
    )
    assert parts == [types.Part(text="a", thought=True, thought_signature=b"s1")]
    pieces = [text(None, 0, thought_signature=piece) for piece in (b"x", b"y")]
    assert assembled(*pieces) == [types.Part(thought_signature=b"xy")]


def test_an_empty_text_that_came_is_not_the_same_as_none() -> None:
    assert assembled(text("", 0, thought_signature=b"s"))[0].text == ""
    assert assembled(text(None, 0, thought_signature=b"s"))[0].text is None
    assert assembled(text("", 0)) == []


def test_metadata_of_deltas_is_merged() -> None:
    parts = assembled(text("a", 0, part_metadata={"k": {"x": 1}}), text("b", 0, part_metadata={"k": {"y": 2}}))
    assert parts[0].part_metadata == {"k": {"x": 1, "y": 2}}


class TestGroups:
    def test_response_ids_keep_rounds_apart_in_order_of_first_appearance(self) -> None:
        assembler = PartAssembler()
        for response_id, value in (("m1", "a"), ("m2", "b"), ("m1", "c")):
            assembler.add(text(value, 0), response_id)
        assert texts(assembler.finish()) == ["ac", "b"]

    def test_an_id_that_comes_late_is_the_open_groups(self) -> None:
        assembler = PartAssembler()
        assembler.add(text("a", 0), None)
        assembler.add(text("b", 0), "m1")
        assert texts(assembler.finish()) == ["ab"]

    def test_a_group_whose_id_came_late_is_found_again(self) -> None:
        assembler = PartAssembler()
        for response_id, value in ((None, "a"), ("m1", "b"), ("m2", "c"), ("m1", "d")):
            assembler.add(text(value, 0), response_id)
        assert texts(assembler.finish()) == ["abd", "c"]

    def test_without_ids_a_round_begins_where_text_goes_back_before_a_complete_part(self) -> None:
        parts = assembled(
            text("one", 0, thought=True),
            text("A", 1),
            call(2, partial=False, name="f"),
            text("two", 0, thought=True),
            text("B", 1),
            response_id=None,
        )
        assert texts(parts) == ["one", "A", None, "two", "B"]

    def test_without_ids_a_call_fragment_does_not_break_a_text_run(self) -> None:
        parts = assembled(text("a", 0), call(1, "{", name="f"), text("b", 0), response_id=None)
        assert texts(parts) == ["ab", None]


class TestCalls:
    def test_fragments_are_joined_and_parsed_when_the_call_is_complete(self) -> None:
        (part,) = assembled(call(0, '{"a":', id="c", name="f"), call(0, "1}"), call(0, partial=False))
        assert part == types.Part(function_call=types.FunctionCall(id="c", name="f", args={"a": 1}))

    def test_a_whole_copy_counts_once(self) -> None:
        (part,) = assembled(call(0, '{"a":1}', id="c", name="f"), call(0, '{"a":1}', partial=False))
        assert part.function_call.args == {"a": 1}
        (part,) = assembled(call(0, '{"a":', id="c", name="f"), call(0, partial=False, args={"a": 2}))
        assert part.function_call.args == {"a": 2}

    @pytest.mark.parametrize("fragment", [None, "", " \n"])
    def test_no_arguments_are_an_empty_object(self, fragment: str | None) -> None:
        (part,) = assembled(call(0, fragment, id="c", name="f"), call(0, partial=False))
        assert part.function_call.args == {}
        assert part.part_metadata is None

    @pytest.mark.parametrize("raw", ["{", "[1]", "1", '"a"', "{'a': 1}", '{"a":1} x'])
    def test_what_does_not_parse_to_an_object_keeps_its_text(self, raw: str) -> None:
        (part,) = assembled(call(0, raw, id="c", name="f"), call(0, partial=False))
        assert part.function_call.args is None
        assert part.part_metadata == {"raw_arguments": raw}

    def test_an_unfinished_call_is_marked_and_keeps_arguments_that_are_whole(self) -> None:
        (cut,) = assembled(call(0, '{"a', id="c", name="f"))
        assert cut.function_call.args is None
        assert cut.part_metadata == {"raw_arguments": '{"a', "unfinished": True}
        (closed,) = assembled(call(0, '{"a":1}', id="c", name="f"))
        assert closed.function_call.args == {"a": 1}
        assert closed.part_metadata == {"unfinished": True}

    def test_integers_stay_integers(self) -> None:
        (part,) = assembled(call(0, '{"a":9223372036854775808}', name="f"), call(0, partial=False))
        assert part.function_call.args == {"a": 2**63}

    def test_an_id_is_made_once_and_differs_between_calls(self) -> None:
        assembler = PartAssembler()
        slots = [assembler.add(call(index, partial=False, name="f")) for index in (0, 1)]
        ids = [slot.build().function_call.id for slot in slots]
        assert [part.function_call.id for part in assembler.finish()] == ids
        assert len(set(ids)) == 2

    def test_the_signature_of_a_resent_call_is_kept_or_replaced_never_joined(self) -> None:
        signed = PartDelta(thought_signature=b"s", function_call=CallDelta("c", "f", {"a": 1}))
        unsigned = PartDelta(function_call=CallDelta("c", "f", {"a": 2}))
        (part,) = assembled(StreamedPart(signed, 0), StreamedPart(unsigned, 0))
        assert (part.thought_signature, part.function_call.args) == (b"s", {"a": 2})
        (part,) = assembled(StreamedPart(signed, 0), StreamedPart(signed, 0))
        assert part.thought_signature == b"s"


class TestAudio:
    AUDIO = [
        StreamedPart(PartDelta(whole={"inlineData": {"mimeType": "audio/pcm", "data": data}}), 0, True)
        for data in (b"ab", b"c")
    ]

    def test_deltas_of_one_type_are_joined(self) -> None:
        (part,) = assembled(*self.AUDIO)
        assert part.inline_data == types.Blob(mime_type="audio/pcm", data=b"abc")

    def test_or_dropped(self) -> None:
        assert assembled(*self.AUDIO, keep_audio=False) == []


class TestDrain:
    def test_gives_each_part_once_in_order_and_keeps_what_comes_later(self) -> None:
        assembler = PartAssembler()
        assembler.add(text("a", 0), "r")
        assembler.add(whole(1, executableCode={"code": "x"}), "r")
        first = assembler.drain()
        assembler.add(text("b", 2), "r")
        assert [part.text for part in first] == ["a", None]
        assert texts(assembler.drain()) == ["b"]
        assert assembler.drain() == assembler.finish() == []

    def test_an_open_call_holds_back_what_stands_after_it(self) -> None:
        assembler = PartAssembler()
        for part in (text("a", 0), call(1, "{", name="f"), text("b", 2)):
            assembler.add(part, "r")
        assert texts(assembler.drain()) == ["a"]
        assembler.add(call(1, "}"), "r")
        assembler.add(call(1, partial=False), "r")
        assert texts(assembler.drain()) == [None, "b"]


class TestSurrogates:
    def test_a_pair_cut_in_two_becomes_one_character(self) -> None:
        assert texts(assembled(text("a\ud83d", 0), text("\ude00b", 0))) == ["a😀b"]

    def test_a_half_that_stays_alone_is_a_replacement_character(self) -> None:
        assert texts(assembled(text("a\ud83d", 0), text("b", 0))) == ["a\ufffdb"]


class TestLimits:
    def test_number_of_parts(self) -> None:
        with pytest.raises(StreamLimitError, match="more than 2 parts"):
            assembled(*(text("a", index) for index in range(3)), limits=StreamLimits(max_parts=2))

    def test_size_of_text_and_arguments(self) -> None:
        limits = StreamLimits(max_response_bytes=10_000)
        with pytest.raises(StreamLimitError, match="more than 10000 bytes"):
            assembled(*(text("0123456789", 0) for _ in range(2000)), limits=limits)
        with pytest.raises(StreamLimitError):
            assembled(*(call(0, "0123456789") for _ in range(2000)), limits=limits)
        with pytest.raises(StreamLimitError):
            assembled(whole(0, executableCode={"code": "x" * 20_000}), limits=limits)

    def test_what_had_come_is_still_there(self) -> None:
        assembler = PartAssembler(limits=StreamLimits(max_parts=1))
        assembler.add(text("a", 0), "r")
        with pytest.raises(StreamLimitError):
            assembler.add(text("b", 1), "r")
        assert texts(assembler.finish()) == ["a"]


def test_long_texts_are_compacted_on_the_way_and_whole_at_the_end() -> None:
    parts = assembled(*(text(f"{number} ", 0) for number in range(5000)))
    assert texts(parts) == ["".join(f"{number} " for number in range(5000))]


def test_unknown_fields_of_a_part_are_kept_under_the_providers_name() -> None:
    (part,) = assembled(whole(0, executableCode={"code": "x", "new": 1}, other=2))
    assert part.executable_code.code == "x"
    assert part.part_metadata == {"gemini": {"executableCode": {"new": 1}, "other": 2}}


def test_parts_are_built_fresh_each_time() -> None:
    assembler = PartAssembler()
    slot = assembler.add(call(0, partial=False, name="f", args={"a": [1]}))
    shown = slot.build()
    shown.function_call.args["a"].append(2)
    (final,) = assembler.finish()
    assert final.function_call.args == {"a": [1]}


@pytest.mark.parametrize(
    "part",
    [
        types.Part(text="a", thought=True, thought_signature=b"s", part_metadata={"k": 1}),
        types.Part(function_call=types.FunctionCall(id="c", name="f", args={"a": 1}), thought_signature=b"s"),
        types.Part(inline_data=types.Blob(mime_type="image/png", data=b"x")),
        types.Part(executable_code=types.ExecutableCode(code="x"), thought_signature=b"s"),
        types.Part(thought_signature=b"s"),
    ],
    ids=lambda part: ",".join(sorted(part.model_fields_set)),
)
def test_a_google_genai_part_comes_out_as_it_went_in(part: types.Part) -> None:
    before = part.model_dump()
    streamed = StreamedPart(part, 0, partial=part_delta(part).whole is None and part.function_call is None)
    (out,) = assembled(streamed)
    assert out == part
    assert out is not part
    assert part.model_dump() == before
