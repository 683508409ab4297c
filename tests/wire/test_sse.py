from __future__ import annotations

import re
import time
from functools import partial

import pytest
from feeding import decode, decode_with_snapshots, in_all_cuts, pieces
from hypothesis import given
from hypothesis import strategies as st

from adk_stream.errors import SnapshotError, StreamLimitError
from adk_stream.wire import SseDecoder, WireEvent

MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        # The forms that the WHATWG standard shows.
        pytest.param(b"data: one\n\ndata: two\n\n", [WireEvent(b"one"), WireEvent(b"two")], id="two messages"),
        pytest.param(b"data: first\ndata: second\n\n", [WireEvent(b"first\nsecond")], id="two data lines"),
        pytest.param(
            b"event: add\ndata: 7\n\nevent: remove\ndata: 21\n\n",
            [WireEvent(b"7", "add"), WireEvent(b"21", "remove")],
            id="named events",
        ),
        pytest.param(
            b": a comment\n\ndata: a\nid: 1\n\ndata:b\nid\n\ndata:  c\n\n",
            [WireEvent(b"a", None, "1"), WireEvent(b"b"), WireEvent(b" c")],
            id="comment, id, id reset, second space kept",
        ),
        pytest.param(b"data\n\ndata\ndata\n\ndata:", [], id="no data but line ends"),
        pytest.param(b"data:x\n\ndata: x\n\n", [WireEvent(b"x"), WireEvent(b"x")], id="one optional space"),
        # Line ends.
        pytest.param(b"data: a\r\n\r\ndata: b\r\n\r\n", [WireEvent(b"a"), WireEvent(b"b")], id="CRLF"),
        pytest.param(b"data: a\r\rdata: b\r\r", [WireEvent(b"a"), WireEvent(b"b")], id="CR"),
        pytest.param(b"data: a\n\rdata: b\r\n\ndata: c\r\r\n", [WireEvent(b"a"), WireEvent(b"b"), WireEvent(b"c")]),
        pytest.param(b"\n\n\n\r\r\n\ndata: a\n\n\n\n\n", [WireEvent(b"a")], id="blank lines"),
        pytest.param(b"data: a\rdata: b\n\r\n", [WireEvent(b"a\nb")], id="CR inside a block"),
        pytest.param(b"event: x\rid: 5\r\ndata: {}\r\n\r\n", [WireEvent(b"{}", "x", "5")], id="CR, then CRLF"),
        pytest.param(
            "data: a\u2028b\u2029c\u0085d\x0be\x0cf\n\n".encode(),
            [WireEvent("a\u2028b\u2029c\u0085d\x0be\x0cf".encode())],
            id="nothing else ends a line",
        ),
        # The byte order mark.
        pytest.param(MARK + b"data: a\n\n", [WireEvent(b"a")], id="mark"),
        pytest.param(MARK + MARK + b"data: a\n\ndata: b\n\n", [WireEvent(b"b")], id="only one mark"),
        pytest.param(b"data: b\n\n" + MARK + b"data: a\n\n", [WireEvent(b"b")], id="mark only first"),
        # Fields.
        pytest.param(b"id: 1\n\ndata: a\n\ndata: b\nid: 2\n\n", [WireEvent(b"a", None, "1"), WireEvent(b"b", None, "2")]),
        pytest.param(b"id: 1\0\ndata: a\n\n", [WireEvent(b"a")], id="id with NUL"),
        pytest.param(b"retry: 10\nfoo: bar\nbaz\ndata: a\n\n", [WireEvent(b"a")], id="retry and unknown fields"),
        pytest.param(b"event:\ndata: a\n\nevent: x\n\ndata: b\n\n", [WireEvent(b"a"), WireEvent(b"b")], id="event ends"),
        pytest.param(b"event: x\nevent: y\ndata: a\n\n", [WireEvent(b"a", "y")], id="last event field counts"),
        pytest.param(b"Data: a\n data: b\n\n", [], id="field names are exact"),
        pytest.param("event: größe\ndata: ü\nid: ✓\n\n".encode(), [WireEvent("ü".encode(), "größe", "✓")]),
        pytest.param(b"data: : a:b: c\n\n", [WireEvent(b": a:b: c")], id="colons in the data"),
        pytest.param(b"data:   \n\ndata:\t\n\n", [], id="white space is no data"),
        # The end of the input.
        pytest.param(b"data: a\n\ndata: b", [WireEvent(b"a"), WireEvent(b"b")], id="no line end"),
        pytest.param(b"event: x\r\ndata: b\r\n", [WireEvent(b"b", "x")], id="no blank line"),
        pytest.param(b"event: x\ndata: b\r", [WireEvent(b"b", "x")], id="no blank line, CR"),
        pytest.param(b"", []),
        pytest.param(MARK, []),
        pytest.param(MARK[:2], []),
        pytest.param(b": only a comment", []),
        # Errors dropped into the stream.
        pytest.param(
            b'data: a\n\n{"error": {"code": 503}}\n\ndata: b\n\n',
            [WireEvent(b"a"), WireEvent(b'{"error": {"code": 503}}'), WireEvent(b"b")],
            id="bare JSON",
        ),
        pytest.param(
            b'data: a\r\n\r\n{\r\n  "error": {\r\n    "data": "x: y"\r\n  }\r\n}\r\n',
            [WireEvent(b"a"), WireEvent(b'{\n  "error": {\n    "data": "x: y"\n  }\n}')],
            id="bare JSON over lines",
        ),
        pytest.param(b'{"error": {\n"id": 1,\n"event": "x"}}\n\n', [WireEvent(b'{"error": {\n"id": 1,\n"event": "x"}}')]),
        pytest.param(b'[{"error": 1}]\n\n', [WireEvent(b'[{"error": 1}]')], id="bare array"),
        pytest.param(b'error: {"code": 1}\n\n', [WireEvent(b'{"code": 1}', "error")], id="error line"),
        pytest.param(
            b'data: {"a": 1}\nerror: {"code": 1}\n\n',
            [WireEvent(b'{"a": 1}'), WireEvent(b'{"code": 1}', "error")],
            id="error line beside data",
        ),
        pytest.param(
            b'{"error": 1}\ndata: [DONE]\n\n', [WireEvent(b'{"error": 1}'), WireEvent(b"[DONE]")], id="bare JSON, then data"
        ),
        pytest.param(b"<html>\n<body>\n\n502\n\n", [], id="no JSON, no event"),
    ],
)
def test_event_stream(stream: bytes, expected: list[WireEvent]) -> None:
    assert in_all_cuts(SseDecoder, stream) == expected


def test_an_event_is_delivered_by_the_read_that_ends_it() -> None:
    for line_end in (b"\n", b"\r\n", b"\r"):
        decoder = SseDecoder()
        for number in range(4):
            data = b"%d" % number
            # A lone CR already ends its line, so the CR of a last CRLF is enough.
            assert decoder.feed(b"data: " + data + line_end) == []
            assert decoder.feed(line_end[:1]) == [WireEvent(data)]
            assert decoder.feed(line_end[1:]) == []


def test_closing_again_gives_nothing() -> None:
    decoder = SseDecoder()
    decoder.feed(b"data: a")
    assert decoder.close() == [WireEvent(b"a")]
    assert decoder.close() == []


# ---------------------------------------------------------------------------------------------- properties

line_ends = st.sampled_from([b"\n", b"\r\n", b"\r"])
texts = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=("Cs",)), max_size=20)
payloads = st.lists(texts, min_size=1, max_size=3).filter(lambda lines: "".join(lines).strip() != "").map("\n".join)
cut_lists = st.lists(st.integers(0, 2000), max_size=20)


@st.composite
def framed(draw: st.DrawFn) -> tuple[bytes, list[WireEvent]]:
    """Any payloads in any legal framing, and the events they are."""
    out, events, last_id = [MARK if draw(st.booleans()) else b""], [], None
    for payload in draw(st.lists(payloads, max_size=6)):
        name = draw(st.none() | texts.filter(bool))
        lines = [b"data:" + draw(st.sampled_from([b"", b" "])) + line.encode() for line in payload.split("\n")]
        # Without the space, a space that begins the value would be taken for it.
        lines = [
            b"data: " + text.encode() if text.startswith(" ") else line
            for line, text in zip(lines, payload.split("\n"), strict=True)
        ]
        if name is not None:
            lines.insert(draw(st.integers(0, len(lines))), b"event: " + name.encode())
        if draw(st.booleans()):
            last_id = draw(texts)
            lines.insert(draw(st.integers(0, len(lines))), b"id: " + last_id.encode())
        for extra in draw(st.lists(st.sampled_from([b": ping", b":", b"retry: 3", b"unknown: x", b"word"]), max_size=2)):
            lines.insert(draw(st.integers(0, len(lines))), extra)
        lines += [b""] * draw(st.integers(1, 3))
        out += [part for line in lines for part in (line, draw(line_ends))]
        events.append(WireEvent(payload.encode(), name, last_id or None))
    return re.sub(rb"\r\n", b"\r\n", b"".join(out)), events


def normal(events: list[WireEvent]) -> list[WireEvent]:
    """Events without those of white space in the bytes' sense."""
    return [event for event in events if event.data.strip()]


@given(framed(), cut_lists)
def test_any_framing_and_any_cut_gives_the_payloads(stream: tuple[bytes, list[WireEvent]], cuts: list[int]) -> None:
    data, expected = stream
    # CR then LF drawn for neighbouring lines is one line end: at most a blank line between events is lost.
    parts = pieces(data, cuts)
    whole = decode(SseDecoder, [data])
    assert decode(SseDecoder, parts) == whole
    assert decode_with_snapshots(SseDecoder, parts) == whole
    if b"\r\n" not in data or b"\r" not in data.replace(b"\r\n", b""):
        assert whole == normal(expected)


@given(framed(), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_one_kind_of_line_end_round_trips(stream: tuple[bytes, list[WireEvent]], line_end: bytes) -> None:
    events = stream[1]
    data = b"".join(
        (b"event: " + event.name.encode() + line_end if event.name else b"")
        + (b"id: " + (event.id or "").encode() + line_end)
        + b"".join(b"data: " + line + line_end for line in event.data.split(b"\n"))
        + line_end
        for event in events
    )
    assert decode(SseDecoder, [data]) == normal(events)
    assert decode(SseDecoder, [data[i : i + 3] for i in range(0, len(data), 3)]) == normal(events)


fragments = st.sampled_from(
    [b"data", b"event", b"id", b":", b" ", b"\n", b"\r", b"\r\n", b"{", b'"x"', b"}", b"[", b"error", b"\0", b"a", MARK]
    + [b"data: {1}\n\n", b"data: {2}\r\n\r\n", b"event: e\ndata: {3}\n\n", b"event: e\r\ndata: {4}\r\n\r\n", b"\xff"]
)


@given(st.lists(fragments, max_size=30).map(b"".join), cut_lists, st.integers(1, 30))
def test_hostile_bytes_give_the_same_however_they_are_cut(data: bytes, cuts: list[int], limit: int) -> None:
    for make in (SseDecoder, partial(SseDecoder, limit)):
        outcomes = []
        for parts in ([data], pieces(data, cuts), [data[i : i + 1] for i in range(len(data))]):
            decoder, events, failed = make(), [], False
            try:
                for part in parts:
                    events += decoder.feed(part)
                events += decoder.close()
                decoder.close()
            except StreamLimitError:
                failed = True
            outcomes.append((events, failed))
        assert outcomes[0] == outcomes[1] == outcomes[2]


@given(framed(), cut_lists)
def test_agrees_with_httpx_sse(stream: tuple[bytes, list[WireEvent]], cuts: list[int]) -> None:
    decoders = pytest.importorskip("httpx_sse._decoders")
    data = stream[0].removeprefix(MARK)
    lines = re.split(r"\r\n|\n|\r", data.decode())
    sse = decoders.SSEDecoder()
    theirs = [event for event in map(sse.decode, lines) if event is not None and event.data.encode().strip()]
    ours = decode(SseDecoder, pieces(data, cuts))
    assert [(e.data.decode(), e.name or "message", e.id or "") for e in ours] == [
        (e.data, e.event, e.id) for e in theirs
    ] + [(e.data.decode(), e.name or "message", e.id or "") for e in ours[len(theirs) :]]
    assert len(ours) - len(theirs) in (0, 1)  # the last event, when no blank line ended it


# ---------------------------------------------------------------------------------------------- bounds and cost


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_a_larger_event_is_refused_after_those_before_it(size: int) -> None:
    stream = b"data: {1}\n\n" + b"data: {" + b"x" * 200 + b"}\n\n" + b"data: {3}\n\n"
    decoder, events = SseDecoder(max_event_bytes=50), []
    with pytest.raises(StreamLimitError, match="50 bytes"):
        for part in [stream[i : i + size] for i in range(0, len(stream), size)] + [b"data: {4}\n\n"]:
            events += decoder.feed(part)
    assert events == [WireEvent(b"{1}")]
    for again in (lambda: decoder.feed(b"data: {5}\n\n"), decoder.close, lambda: decoder.feed(b"")):
        with pytest.raises(StreamLimitError):
            again()


def test_the_limit_counts_the_event_exactly() -> None:
    frame = b"event: x\ndata: {12345}"
    assert in_all_cuts(partial(SseDecoder, len(frame)), frame + b"\n\n" + frame) == [WireEvent(b"{12345}", "x")] * 2
    for stream in (frame + b"\n\n", frame):
        decoder = SseDecoder(len(frame) - 1)
        with pytest.raises(StreamLimitError):
            decoder.feed(stream)
            decoder.close()


def seconds(size: int, step: int) -> float:
    data = b"data: {" + b"x" * size + b"}\n\n"
    parts = [data[i : i + step] for i in range(0, len(data), step)]
    best = 9e9
    for _ in range(3):
        decoder, start = SseDecoder(), time.perf_counter()
        events = [event for part in parts for event in decoder.feed(part)]
        best = min(best, time.perf_counter() - start)
        assert len(events[0].data) == size + 2
    return best


def test_one_long_line_in_small_pieces_costs_its_length() -> None:
    assert seconds(4_000_000, 64) < 8 * 3 * seconds(500_000, 64)


@pytest.mark.parametrize(
    "state",
    [{}, {"decoder": "json-lines"}, {"decoder": "sse", "_buffer": 5}, {"decoder": "sse", "_buffer": "***"}],
)
def test_damaged_snapshot(state: dict[str, object]) -> None:
    with pytest.raises(SnapshotError):
        SseDecoder.restore(state)
