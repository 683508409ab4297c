from __future__ import annotations

import json
import time
from functools import partial

import pytest
from feeding import decode, decode_with_snapshots, in_all_cuts, outcome, pieces, single_bytes
from hypothesis import given
from hypothesis import strategies as st

from adk_stream.errors import SnapshotError, StreamLimitError
from adk_stream.wire import JsonArrayDecoder, JsonLinesDecoder, WireEvent

MARK = b"\xef\xbb\xbf"
BODY = b'{\n  "error": {\n    "code": 400,\n    "message": "no {\\"k\\"} [",\n    "of": [\n      {}\n    ]\n  }\n}'
SPREAD = b'{"error": {\n  "code": 1,\n  "of": [{"x": 2},\n   {}]\n}}'


def data_of(make, stream: bytes) -> list[bytes]:
    return [event.data for event in in_all_cuts(make, stream)]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b'{"a":1}\n{"a":2}\n', [b'{"a":1}', b'{"a":2}']),
        (b'{"a":1}\r\n\r\n \n{"a":2}', [b'{"a":1}', b'{"a":2}']),
        (MARK + b'{"a":"}\\"{"}\n', [b'{"a":"}\\"{"}']),
        (BODY, [BODY]),
        (b"\n" + BODY + b"\n" + BODY.replace(b"\n", b"\r\n"), [BODY, BODY.replace(b"\n", b"\r\n")]),
        # The head of a body on the line of its first bracket.
        (SPREAD + b'\n{"a":1}\n', [SPREAD, b'{"a":1}']),
        # Not indented, but begun with the bracket alone.
        (b'{\n"a": [\n{\n"b": 1\n},\n{}\n]\n}\n{"a":1}', [b'{\n"a": [\n{\n"b": 1\n},\n{}\n]\n}', b'{"a":1}']),
        (b'[\n{"a":1}\n]\n{"a":2}\n', [b'[\n{"a":1}\n]', b'{"a":2}']),
        (b'{"a":1}{"b":2} {"c":3}\n', [b'{"a":1}', b'{"b":2}', b'{"c":3}']),
        (b'[1,2]\n[{"a":1}]\n', [b"[1,2]", b'[{"a":1}]']),
        (
            b'1\n"a{b"\nnull\n[DONE]\nwhat is {this}\n',
            [b"1", b'"a{b"', b"null", b"[DONE]", b"what is {this}"],
        ),
        # A line cut inside a string, between tokens, after an escape: the lines after it are whole.
        (b'{"a":"b\n{"a":1}\n{"a":2}\n', [b'{"a":"b', b'{"a":1}', b'{"a":2}']),
        (b'{"a":[{"b":\n{"a":1}\n{"a":2}\n', [b'{"a":[{"b":', b'{"a":1}', b'{"a":2}']),
        (b'{"a":"b\\\n{"a":1}\n', [b'{"a":"b\\', b'{"a":1}']),
        (b'{"a":1}}\n{"a":2}\n', [b'{"a":1}', b"}", b'{"a":2}']),
        (b'{"a":1}\n{"a":', [b'{"a":1}', b'{"a":']),
        (b'{"a":"\\u00', [b'{"a":"\\u00']),
        (b'{"a":NaN}\n{"a":"\\ud83d"}\n', [b'{"a":NaN}', b'{"a":"\\ud83d"}']),
        ('{"a":"\u2028\u0085"}\n'.encode(), ['{"a":"\u2028\u0085"}'.encode()]),
        (b"", []),
        (b" \r\n\t", []),
    ],
)
def test_values_one_after_another(stream: bytes, expected: list[bytes]) -> None:
    assert data_of(JsonLinesDecoder, stream) == expected


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b'[{"a":1},\n{"a":2}]', [b'{"a":1}', b'{"a":2}']),
        (b"[" + BODY + b"\n,\r\n" + BODY + b"\n]\n", [BODY, BODY]),
        (MARK + b' [ {"a":"],["} , {"a":[{}]}]', [b'{"a":"],["}', b'{"a":[{}]}']),
        (b"[]", []),
        (b'[{"a":1},', [b'{"a":1}']),
        (b'[{"a":1},{"a":', [b'{"a":1}', b'{"a":']),
        (b'[{"a":1},{"a":"x\\', [b'{"a":1}', b'{"a":"x\\']),
        (b'[{"a":1}]\nInternal error', [b'{"a":1}', b"Internal error"]),
        (b'[1, true,{"a":1}]', [b"1", b"true", b'{"a":1}']),
        (b'[{"a":"cut\n,\n{"a":1}\n]', [b'{"a":"cut', b'{"a":1}']),
    ],
)
def test_array(stream: bytes, expected: list[bytes]) -> None:
    assert data_of(JsonArrayDecoder, stream) == expected


def test_an_element_is_delivered_when_it_closes() -> None:
    decoder = JsonArrayDecoder()
    assert decoder.feed(b'[{"a":{}') == []
    assert [event.data for event in decoder.feed(b"}")] == [b'{"a":{}}']
    assert decoder.feed(b"\n,\n") == decoder.close() == decoder.close() == []


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(['"', "\\", "{", "]", '\\"', ","]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
objects = st.lists(st.dictionaries(st.text(max_size=4), json_values, max_size=3), max_size=5)
cut_lists = st.lists(st.integers(0, 2000), max_size=20)


@given(objects, st.sampled_from([None, 1, 4]), st.booleans(), st.sampled_from(["\n", "\r\n", "\n\n"]), cut_lists)
def test_lines_round_trip(values: list, indent: int | None, ascii_only: bool, end: str, cuts: list[int]) -> None:
    texts = [json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode() for value in values]
    stream = b"".join(text + end.encode() for text in texts)
    parts = pieces(stream, cuts)
    assert [event.data for event in decode(JsonLinesDecoder, parts)] == texts
    assert [event.data for event in decode_with_snapshots(JsonLinesDecoder, parts)] == texts


@given(objects, st.sampled_from([None, 0, 2]), st.booleans(), cut_lists)
def test_array_round_trips(values: list, indent: int | None, ascii_only: bool, cuts: list[int]) -> None:
    stream = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode()
    for decoded in (
        decode(JsonArrayDecoder, pieces(stream, cuts)),
        decode_with_snapshots(JsonArrayDecoder, pieces(stream, cuts)),
    ):
        assert [json.loads(event.data) for event in decoded] == values


@given(objects, objects, st.dictionaries(st.text(min_size=1, max_size=4), json_values, min_size=1), st.data())
def test_a_cut_line_swallows_no_other(before: list, after: list, broken: dict, data: st.DataObject) -> None:
    dump = partial(json.dumps, separators=(",", ":"))
    line = dump(broken)
    line = line[: data.draw(st.integers(2, len(line) - 1))]
    stream = "\n".join([*map(dump, before), line, *map(dump, after)]).encode()
    events = [event.data.decode() for event in decode(JsonLinesDecoder, [stream])]
    assert events[: len(before)] == list(map(dump, before))
    assert events[len(events) - len(after) :] == list(map(dump, after))
    assert line.strip() in events


hostile = st.lists(
    st.sampled_from([*(b"%c" % byte for byte in b'{}[]"\\\n\r ,1\xff'), b'{"a":1}', b'{"a":\n', MARK]),
    max_size=40,
).map(b"".join)


@given(hostile, cut_lists, st.integers(1, 30))
def test_hostile_bytes_give_the_same_however_they_are_cut(data: bytes, cuts: list[int], limit: int) -> None:
    for kind in (JsonLinesDecoder, JsonArrayDecoder):
        for make in (kind, partial(kind, limit)):
            whole = outcome(make, [data])
            assert outcome(make, pieces(data, cuts)) == whole
            assert outcome(make, single_bytes(data)) == whole


def test_a_whole_line_may_not_exceed_the_limit() -> None:
    stream = b'[1]\n{"a":1}\n[2]\n'
    for parts in ([stream], single_bytes(stream)):
        assert [event.data for event in outcome(partial(JsonLinesDecoder, 7), parts)[0]] == stream.split()
        assert outcome(partial(JsonLinesDecoder, 6), parts) == ([WireEvent(b"[1]")], True)


@pytest.mark.parametrize("kind", [JsonLinesDecoder, JsonArrayDecoder])
def test_limit(kind) -> None:
    decoder = kind(max_event_bytes=20)
    assert len(decoder.feed(b'{"a":1}\n{"b":"' + b"x" * 40)) == 1
    restored = kind.restore(decoder.snapshot())
    for again in (partial(decoder.feed, b'"}'), decoder.close, partial(restored.feed, b"{}"), restored.close):
        with pytest.raises(StreamLimitError, match="20 bytes"):
            again()


def seconds(kind, unit: bytes, count: int, step: int) -> float:
    value = b'{"a":"' + unit * count + b'"}'
    data = b"[" + value + b"]" if kind is JsonArrayDecoder else value + b"\n"
    parts = [data[i : i + step] for i in range(0, len(data), step)]
    best = 9e9
    for _ in range(3):
        decoder, start = kind(), time.perf_counter()
        assert sum(len(decoder.feed(part)) for part in parts) == 1
        best = min(best, time.perf_counter() - start)
    return best


@pytest.mark.parametrize("kind", [JsonLinesDecoder, JsonArrayDecoder])
@pytest.mark.parametrize("unit", [b"xxxx", b'\\"\\n'])
def test_one_long_value_in_small_pieces_costs_its_length(kind, unit: bytes) -> None:
    assert seconds(kind, unit, 500_000, 64) < 8 * 3 * seconds(kind, unit, 62_500, 64)


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"decoder": "sse"},
        {"decoder": "json-lines", "_position": 5},
        {"decoder": "json-lines", "_depth": -1},
    ],
)
def test_damaged_snapshot(state: dict[str, object]) -> None:
    with pytest.raises(SnapshotError):
        JsonLinesDecoder.restore(state)
