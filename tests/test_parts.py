"""The assembler: parts merged by index and response id, built fresh each time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.genai import types

from adk_stream.errors import StreamLimitError
from adk_stream.parts import CallDelta, PartAssembler, PartDelta, StreamedPart, StreamLimits, Text, part_delta


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


class TestCallsByPaths:
    @staticmethod
    def fragment(*partial_args: dict[str, Any], more: bool | None, **fields: Any) -> StreamedPart:
        delta = PartDelta(function_call=CallDelta(partial_args=list(partial_args), will_continue=more, **fields))
        return StreamedPart(delta, 0, bool(more))

    def test_fragments_of_one_path_are_joined_when_the_call_is_complete(self) -> None:
        (part,) = assembled(
            self.fragment({"jsonPath": "$.a.b", "stringValue": "x", "willContinue": True}, more=True, name="f", id="c"),
            self.fragment({"jsonPath": "$.a.b", "stringValue": "y"}, more=True),
            self.fragment({"jsonPath": "$.n[0]", "numberValue": 3}, {"jsonPath": "$.t", "boolValue": True}, more=False),
        )
        assert part == types.Part(
            function_call=types.FunctionCall(id="c", name="f", args={"a": {"b": "xy"}, "n": [3], "t": True})
        )

    def test_a_call_that_was_cut_keeps_the_json_of_what_had_come_and_no_args(self) -> None:
        (part,) = assembled(
            self.fragment({"jsonPath": "$.a", "stringValue": "x", "willContinue": True}, more=True, name="f", id="c")
        )
        assert part.function_call.args is None
        assert json.loads(part.part_metadata.pop("raw_arguments")) == {"a": "x"}
        assert part.part_metadata == {"unfinished": True}

    def test_a_whole_copy_counts_in_the_place_of_its_fragments(self) -> None:
        (part,) = assembled(
            self.fragment({"jsonPath": "$.a", "stringValue": "x", "willContinue": True}, more=True, name="f", id="c"),
            call(0, partial=False, id="c", name="f", args={"a": "xyz"}),
        )
        assert (part.function_call.args, part.part_metadata) == ({"a": "xyz"}, None)

    @pytest.mark.parametrize("path", ["$.a[", "a", "", "$..a", "$.a[-1]", "$.a[99999999]"])
    def test_a_path_that_cannot_be_read_makes_no_call_to_run(self, path: str) -> None:
        (part,) = assembled(self.fragment({"jsonPath": path, "stringValue": "x"}, more=False, name="f", id="c"))
        assert part.function_call.args is None
        assert part.part_metadata["arguments_error"]
        assert "raw_arguments" in part.part_metadata


class TestFreeText:
    CUSTOM = {"custom_tool": True}

    def test_is_the_input_of_a_custom_tool(self) -> None:
        deltas = [
            StreamedPart(PartDelta(function_call=CallDelta("c", "f"), part_metadata=self.CUSTOM), 0, True, fragment)
            for fragment in ("print(", "1)")
        ]
        (part,) = assembled(*deltas, call(0, partial=False))
        assert part.function_call.args == {"input": "print(1)"}
        (cut,) = assembled(*deltas)
        assert cut.function_call.args is None
        assert cut.part_metadata == {"custom_tool": True, "raw_arguments": "print(1)", "unfinished": True}


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

    def test_another_type_is_another_part(self) -> None:
        (_, last) = self.AUDIO
        other = StreamedPart(PartDelta(whole={"inlineData": {"mimeType": "audio/ogg", "data": b"o"}}), 1, True)
        parts = assembled(*self.AUDIO, other, StreamedPart(last.part, 2, True))
        assert [part.inline_data.data for part in parts] == [b"abc", b"o", b"c"]


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

    def test_a_copy_of_a_call_that_was_given_out_counts_once(self) -> None:
        assembler = PartAssembler()
        whole_call = call(0, partial=False, id="c", name="f", args={})
        assembler.add(whole_call, "r")
        assert len(assembler.drain()) == 1
        assert assembler.add(whole_call, "r") is None
        assert assembler.finish() == []

    def test_groups_are_given_in_order_and_an_open_call_holds_back_the_later_ones(self) -> None:
        assembler = PartAssembler()
        assembler.add(call(0, "{", id="c", name="f"), "m1")
        assembler.add(text("b", 0), "m2")
        assert assembler.drain() == []
        assembler.add(call(0, "}", partial=False), "m1")
        assert texts(assembler.drain()) == [None, "b"]


class TestSurrogates:
    def test_a_pair_cut_in_two_becomes_one_character(self) -> None:
        assert texts(assembled(text("a\ud83d", 0), text("\ude00b", 0))) == ["a😀b"]

    def test_a_half_that_stays_alone_is_a_replacement_character(self) -> None:
        assert texts(assembled(text("a\ud83d", 0), text("b", 0))) == ["a\ufffdb"]

    @pytest.mark.parametrize(
        "pieces", [["a\ud83d", "\ude00b"], ["\ud83d", "", "\ude00"], ["\ude00", "x"], ["\ud83d", "z"]]
    )
    def test_what_is_shown_is_what_the_final_holds(self, pieces: list[str]) -> None:
        shown, whole = Text(), Text()
        for piece in pieces:
            whole.append(piece)
        assert "".join(map(shown.visible, pieces)) == whole.join()

    def test_nowhere_in_a_part_is_half_a_character_left(self) -> None:
        half = "\ud83d"
        parts = assembled(
            StreamedPart(PartDelta(f"a{half}", part_metadata={half: [half]}), 0, True),
            call(1, f'{{"{half}": "{half}"}}', id=f"c{half}", name=half),
            call(1, partial=False),
            call(2, f"{{{half}", id="d", name="f"),
            whole(3, executableCode={"code": half, "new": {half: half}}),
            StreamedPart(types.Part(executable_code=types.ExecutableCode(code=half)), 4),
            call(5, partial=False, id="e", name="f", args={half: [half]}),
        )
        assert len(parts) == 6
        for part in parts:
            assert "\ufffd" in part.model_dump_json()


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
