"""StreamingPartIndexer: each rule of its docstring."""

from __future__ import annotations

import pytest
from google.genai import types

from adk_stream import StreamingPartIndexer

TEXT = types.Part(text="a")
THOUGHT = types.Part(text="t", thought=True)


def call(call_id: str | None, **fields: object) -> types.Part:
    return types.Part(function_call=types.FunctionCall(id=call_id, name="f", **fields))


def stamps(*parts: types.Part) -> list[tuple[int | None, bool]]:
    indexer = StreamingPartIndexer()
    return [(stamped.index, stamped.partial) for stamped in map(indexer.stamp, parts)]


def test_one_kind_shares_an_index_and_another_takes_the_next() -> None:
    assert stamps(TEXT, TEXT, THOUGHT, THOUGHT, TEXT) == [(0, True), (0, True), (1, True), (1, True), (2, True)]


def test_a_signed_delta_takes_an_index_of_its_own_and_ends_the_run() -> None:
    signed = types.Part(text="b", thought_signature=b"s")
    assert stamps(TEXT, signed, TEXT) == [(0, True), (1, True), (2, True)]
    alone = types.Part(thought_signature=b"s")
    assert stamps(TEXT, alone, TEXT) == [(0, True), (1, True), (2, True)]


def test_any_other_part_is_complete_and_ends_the_run() -> None:
    image = types.Part(inline_data=types.Blob(mime_type="image/png", data=b"x"))
    assert stamps(TEXT, image, TEXT, image) == [(0, True), (1, False), (2, True), (3, False)]


def test_an_empty_text_is_unstamped_and_ends_nothing() -> None:
    assert stamps(TEXT, types.Part(text=""), TEXT) == [(0, True), (None, False), (0, True)]


def test_an_empty_thought_is_stamped_since_a_signature_may_follow() -> None:
    assert stamps(types.Part(text="", thought=True)) == [(0, True)]


def test_an_empty_text_with_a_payload_is_stamped() -> None:
    assert stamps(types.Part(text="", thought_signature=b"s")) == [(0, True)]


def test_the_part_itself_is_unchanged() -> None:
    part = types.Part(text="a", part_metadata={"k": "v"})
    before = part.model_dump()
    assert StreamingPartIndexer().stamp(part).part is part
    assert part.model_dump() == before


def test_a_call_delta_keeps_its_index_and_does_not_end_the_run_while_the_whole_call_does() -> None:
    indexer = StreamingPartIndexer()
    assert indexer.stamp(TEXT).index == 0
    first = indexer.stamp_tool_call_delta(call("c1"), '{"a":')
    assert (first.index, first.partial, first.arguments_delta) == (1, True, '{"a":')
    assert indexer.stamp(TEXT).index == 0
    assert indexer.stamp_tool_call_delta(call("c2"), "{").index == 2
    assert indexer.stamp_tool_call_delta(call("c1"), "1}").index == 1
    whole = indexer.stamp(call("c1", args={"a": 1}))
    assert (whole.index, whole.partial) == (1, False)
    assert indexer.stamp(TEXT).index == 3


def test_a_signed_thought_between_thoughts() -> None:
    signed = types.Part(text="", thought=True, thought_signature=b"s")
    assert stamps(THOUGHT, signed, signed, THOUGHT) == [(0, True), (1, True), (2, True), (3, True)]


def test_another_complete_call_ends_the_run_and_the_ids_of_calls_never_meet_those_made_up() -> None:
    assert stamps(TEXT, call("c"), TEXT, call("#1"), call(None), call("c")) == [
        (0, True),
        (1, False),
        (2, True),
        (3, False),
        (4, False),
        (1, False),
    ]


def test_a_call_without_an_id_is_not_the_call_of_that_name() -> None:
    assert stamps(call("#1"), call(None)) == [(0, False), (1, False)]


def test_calls_without_an_id_are_calls_of_their_own() -> None:
    assert stamps(call(None), call(None), call("c")) == [(0, False), (1, False), (2, False)]


@pytest.mark.parametrize(
    ("part", "fragment"),
    [(TEXT, None), (call(None), None), (call(""), None), ("no part", None), (None, None), (call("c"), b"{")],
)
def test_what_is_no_call_delta_raises_before_the_state_changes(part: object, fragment: object) -> None:
    indexer = StreamingPartIndexer()
    indexer.stamp(TEXT)
    with pytest.raises(TypeError):
        indexer.stamp_tool_call_delta(part, fragment)  # type: ignore[arg-type]
    assert indexer.stamp(TEXT).index == 0
    assert indexer.stamp(THOUGHT).index == 1
