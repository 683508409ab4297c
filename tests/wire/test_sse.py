from __future__ import annotations

import re
import time
from functools import partial

import pytest
from feeding import decode, decode_with_snapshots, in_all_cuts, outcome, pieces, single_bytes
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
        pytest.param(
            b"id: 1\n\ndata: a\n\ndata: b\nid: 2\n\n",
            [WireEvent(b"a", None, "1"), WireEvent(b"b", None, "2")],
        ),
        pytest.param(b"id: 1\0\ndata: a\n\n", [WireEvent(b"a")], id="id with NUL"),
        pytest.param(b"retry: 10\nfoo: bar\nbaz\ndata: a\n\n", [WireEvent(b"a")], id="retry and unknown fields"),
        pytest.param(
            b"event:\ndata: a\n\nevent: x\n\ndata: b\n\n", [WireEvent(b"a"), WireEvent(b"b")], id="event ends"
        ),
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
        pytest.param(
            b'{"error": {\n"id": 1,\n"event": "x"}}\n\n',
            [WireEvent(b'{"error": {\n"id": 1,\n"event": "x"}}')],
        ),
        pytest.param(b'[{"error": 1}]\n\n', [WireEvent(b'[{"error": 1}]')], id="bare array"),
        pytest.param(b'error: {"code": 1}\n\n', [WireEvent(b'{"code": 1}', "error")], id="error line"),
        pytest.param(
            b'data: {"a": 1}\nerror: {"code": 1}\n\n',
            [WireEvent(b'{"a": 1}'), WireEvent(b'{"code": 1}', "error")],
            id="error line beside data",
        ),
        pytest.param(
            b'{"error": 1}\ndata: [DONE]\n\n',
            [WireEvent(b'{"error": 1}'), WireEvent(b"[DONE]")],
            id="bare JSON, then data",
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


# ------------------------------------------------------------------------------- properties

line_ends = st.sampled_from([b"\n", b"\r\n", b"\r"])
texts = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=("Cs",)), max_size=20)
payloads = st.lists(texts, min_size=1, max_size=3).map("\n".join).filter(lambda text: text.encode().strip())
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
        for extra in draw(
            st.lists(st.sampled_from([b": ping", b":", b"retry: 3", b"unknown: x", b"word"]), max_size=2)
        ):
            lines.insert(draw(st.integers(0, len(lines))), extra)
        lines += [b""] * draw(st.integers(1, 3))
        for line in lines:
            end = draw(line_ends)
            # CR, then LF for the blank line that follows, would be a single CRLF.
            out += [line, b"\r" if not line and end == b"\n" and out[-1] == b"\r" else end]
        events.append(WireEvent(payload.encode(), name, last_id or None))
    return b"".join(out), events


@given(framed(), cut_lists)
def test_any_framing_and_any_cut_gives_the_payloads(stream: tuple[bytes, list[WireEvent]], cuts: list[int]) -> None:
    data, expected = stream
    parts = pieces(data, cuts)
    assert decode(SseDecoder, [data]) == expected
    assert decode(SseDecoder, parts) == expected
    assert decode_with_snapshots(SseDecoder, parts) == expected


FIELDS = [
    b"data",
    b"event",
    b"id",
    b":",
    b" ",
    b"{",
    b'"x"',
    b"}",
    b"[",
    b"error",
    b"\0",
    b"a",
    b"\xff",
    MARK,
]
LINE_ENDS = [b"\n", b"\r", b"\r\n"]
FRAMES = [
    b"data: {1}\n\n",
    b"data: {2}\r\n\r\n",
    b"event: e\ndata: {3}\n\n",
    b"event: e\r\ndata: {4}\r\n\r\n",
]
NEARLY_FRAMES = [
    b"data: {1}\rdata: 5\n\n",
    b"event: e\rid: 7\ndata: {6}\n\n",
    b"data: {1}\r\r",
    b"data: {8}\n",
]
fragments = st.lists(st.sampled_from([*FIELDS, *LINE_ENDS, *FRAMES, *NEARLY_FRAMES]), max_size=30)


@given(fragments, cut_lists, st.integers(1, 30))
def test_hostile_bytes_give_the_same_however_they_are_cut(reads: list[bytes], cuts: list[int], limit: int) -> None:
    data = b"".join(reads)
    for make in (SseDecoder, partial(SseDecoder, limit)):
        whole = outcome(make, [data])
        for parts in (reads, pieces(data, cuts), single_bytes(data)):
            assert outcome(make, parts) == whole


@pytest.mark.parametrize("read", [*FRAMES, *NEARLY_FRAMES])
def test_a_read_that_is_a_frame_or_nearly_one(read: bytes) -> None:
    """The way of a whole frame is taken only after the first read: it must give what the long way gives."""
    for after in (b"", b"\n", *FRAMES, *NEARLY_FRAMES):
        for last in (b"", b"\n", b"\ndata: {9}\n\n"):
            parts = [b":\n\n", read, after, last]
            assert decode(SseDecoder, parts) == decode(SseDecoder, [b"".join(parts)])
            assert decode(SseDecoder, parts) == decode(SseDecoder, single_bytes(b"".join(parts)))


@given(framed(), cut_lists)
def test_agrees_with_httpx_sse(stream: tuple[bytes, list[WireEvent]], cuts: list[int]) -> None:
    decoders = pytest.importorskip("httpx_sse._decoders")
    data = stream[0].removeprefix(MARK)
    sse, events = decoders.SSEDecoder(), []
    for line in [*re.split(r"\r\n|\n|\r", data.decode()), ""]:
        event = sse.decode(line)
        if event is not None and event.data:
            events.append((event.data, event.event, event.id))
    ours = decode(SseDecoder, pieces(data, cuts))
    assert [(event.data.decode(), event.name or "message", event.id or "") for event in ours] == events


# ------------------------------------------------------------------------------- bounds and cost


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_a_larger_event_is_refused_after_those_before_it(size: int) -> None:
    stream = b"data: {1}\n\n" + b"data: {" + b"x" * 200 + b"}\n\n" + b"data: {3}\n\n"
    reads = [*(stream[i : i + size] for i in range(0, len(stream), size)), b"data: {4}\n\n"]
    assert outcome(partial(SseDecoder, max_event_bytes=50), reads) == ([WireEvent(b"{1}")], True)


def test_after_the_limit_every_call_fails() -> None:
    decoder = SseDecoder(max_event_bytes=50)
    decoder.feed(b"data: {1}\n\n")
    for call in (partial(decoder.feed, b"x" * 60), partial(decoder.feed, b"data: {5}\n\n"), decoder.close):
        with pytest.raises(StreamLimitError, match="50 bytes"):
            call()


def test_the_limit_counts_the_event_exactly() -> None:
    frame = b"event: x\ndata: {12345}"
    event = WireEvent(b"{12345}", "x")
    at_limit, below = partial(SseDecoder, len(frame)), partial(SseDecoder, len(frame) - 1)
    for end in (b"", b"\n", b"\r\n", b"\n\n"):
        assert in_all_cuts(at_limit, frame + b"\n\n" + frame + end) == [event] * 2
        assert outcome(below, [b":\n\n", frame + end]) == ([], True)
        assert outcome(below, single_bytes(frame + end)) == ([], True)


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
