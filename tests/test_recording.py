"""Recordings: files of every kind and back, recording while a stream passes, playing at a pace."""

from __future__ import annotations

import asyncio
import base64
import csv
import json
import os
from contextlib import aclosing, closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_stream.errors import RecordingError
from adk_stream.recording import (
    Piece,
    Recorder,
    Recording,
    load_recording,
    play,
    play_async,
    redact_secrets,
    save_recording,
)

CORPUS = os.environ.get("ADK_STREAM_CORPUS")

SSE = (
    b'event: message_start\ndata: {"type": "message_start"}\n\n: ping\n\n'
    b'event: message_stop\r\ndata: {"type": "message_stop"}\r\n\r\n'
)
LINES = b'{"choices": [], "a": {"b": 1}}\n{"choices": [{"delta": {"content": "}{"}}]}\n'
ARRAY = b'[{"candidates": [{"a": "}"}]},\n{"candidates": []}\n, {"modelVersion": "x"}]\n'
ERROR = b'{\n  "error": {\n    "code": 503,\n    "status": "UNAVAILABLE"\n  }\n}\n'


class Clock:
    """A clock that moves when it is told to, or when somebody sleeps."""

    def __init__(self, now: float = 100.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)


# ----------------------------------------------------------------- plain wire files


@pytest.mark.parametrize(
    ("data", "provider", "wire_format", "count"),
    [
        (SSE, "anthropic", "sse", 2),
        (LINES, "openai-chat", "json-lines", 2),
        (ARRAY, "gemini", "json-array", 3),
        (ARRAY.replace(b"\n", b""), "gemini", "json-array", 3),
        (ERROR, "gemini", "json-lines", 1),
        (b"\xef\xbb\xbf" + SSE, "anthropic", "sse", 2),
        (SSE.removesuffix(b"\r\n\r\n"), "anthropic", "sse", 2),
        (b'data: {"choices": []}\r\rdata: [DONE]\r\r', "openai-chat", "sse", 2),
        (b"<html>what is this?</html>", None, "sse", 1),
    ],
)
def test_a_plain_file_is_cut_into_its_events(data: bytes, provider: str | None, wire_format: str, count: int) -> None:
    recording = Recording.from_bytes(data, interval=0.5)
    assert recording.provider == provider
    assert recording.wire_format == wire_format
    assert recording.data == data
    assert [piece.at for piece in recording.pieces] == [n * 0.5 for n in range(count)]
    if provider:
        assert len(recording.events()) == count


def test_each_piece_is_the_bytes_of_one_event() -> None:
    assert [piece.data for piece in Recording.from_bytes(ARRAY).pieces] == [
        b'[{"candidates": [{"a": "}"}]}',
        b',\n{"candidates": []}',
        b'\n, {"modelVersion": "x"}]\n',
    ]
    assert [piece.data for piece in Recording.from_bytes(SSE).pieces] == [SSE[:54], SSE[54:]]


@pytest.mark.parametrize("size", [1, 2, 7])
def test_reads_cut_anywhere_give_the_same_events(size: int) -> None:
    for data in (SSE, LINES, ARRAY, ERROR):
        whole = Recording.from_bytes(data)
        cut = Recording(tuple(Piece(n * 0.1, data[n : n + size]) for n in range(0, len(data), size)))
        assert [event for _, event in cut.events()] == [event for _, event in whole.events()]
        by_event = cut.by_event()
        assert [piece.data for piece in by_event.pieces] == [piece.data for piece in whole.pieces]
        ends = [at for at, _ in cut.events()]
        assert all(end <= piece.at for end, piece in zip(ends, by_event.pieces, strict=True))
        assert by_event.pieces[-1].at == cut.pieces[-1].at


def test_the_caller_may_name_the_provider() -> None:
    assert Recording.from_bytes(ERROR, "anthropic").provider == "anthropic"


def test_a_name_loses_known_endings_only(tmp_path: Path) -> None:
    for file, name in (("m-1.5.sse", "m-1.5"), ("m-1.5", "m-1.5"), ("a.b.rec.jsonl", "a.b"), ("x.JSON", "x")):
        (tmp_path / file).write_bytes(SSE)
        assert load_recording(tmp_path / file).name == name


def test_unusable_files(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="nowhere"):
        load_recording(tmp_path / "nowhere.sse")
    with pytest.raises(RecordingError):
        load_recording(tmp_path)
    (tmp_path / "empty.sse").write_bytes(b" \n")
    with pytest.raises(RecordingError, match="empty"):
        load_recording(tmp_path / "empty.sse")
    (tmp_path / "large.sse").write_bytes(SSE)
    with pytest.raises(RecordingError, match=r"large\.sse: larger than 10 bytes"):
        load_recording(tmp_path / "large.sse", max_bytes=10)
    assert load_recording(tmp_path / "large.sse", max_bytes=len(SSE)).data == SSE


@pytest.mark.parametrize("interval", [-1.0, float("nan"), float("inf")])
def test_an_interval_is_a_time(interval: float) -> None:
    with pytest.raises(ValueError, match="interval"):
        Recording.from_bytes(SSE, interval=interval)


@pytest.mark.skipif(not CORPUS, reason="ADK_STREAM_CORPUS names no folder of recorded streams")
def test_every_recorded_stream() -> None:
    assert CORPUS
    checked = 0
    with (Path(CORPUS) / "INDEX.tsv").open(encoding="utf-8") as index:
        for row in csv.DictReader(index, delimiter="\t", quoting=csv.QUOTE_NONE):
            path = Path(CORPUS) / row["path"]
            recording = load_recording(path)
            assert recording.data == path.read_bytes()
            assert len(recording.pieces) == len(recording.events()), path
            assert recording.provider in (row["line"].replace("_", "-"), None), path
            checked += 1
    assert checked > 300


# ----------------------------------------------------------------- our own files


def own(*lines: object, **header: object) -> bytes:
    objects = ({"adk_stream_recording": 1, **header}, *lines)
    return "".join(json.dumps(line) + "\n" for line in objects).encode()


def test_our_own_file_keeps_bytes_and_times() -> None:
    data = own({"at": 0.5, "text": "data: é"}, {"at": 1, "base64": "8J+Y"}, provider="gemini", status=200, model="m")
    recording = Recording.from_bytes(data)
    assert recording.pieces == (Piece(0.5, "data: é".encode()), Piece(1.0, b"\xf0\x9f\x98"))
    assert recording.provider == "gemini"
    assert recording.metadata == {"status": 200, "model": "m"}
    assert Recording.from_bytes(data, "openai-chat").provider == "openai-chat"


def test_the_header_is_known_wherever_its_mark_stands() -> None:
    data = b'{"provider": "gemini", "adk_stream_recording": 1}\r\n{"at": 0, "text": "x"}\r\n'
    assert Recording.from_bytes(b"\xef\xbb\xbf" + data).pieces == (Piece(0.0, b"x"),)


def test_a_stream_that_only_speaks_of_recordings_is_none_of_ours() -> None:
    data = b'{"choices": [{"delta": {"content": "adk_stream_recording"}}]}\n'
    assert Recording.from_bytes(data).data == data


def test_without_a_provider_in_the_header_the_events_tell() -> None:
    assert Recording.from_bytes(own({"at": 0, "text": SSE.decode()})).provider == "anthropic"


def test_a_last_line_that_was_cut_is_passed_over() -> None:
    data = own({"at": 0.5, "text": "a"}, {"at": 1.5, "text": "b"})
    assert len(Recording.from_bytes(data.removesuffix(b"\n")).pieces) == 2
    assert len(Recording.from_bytes(data[:-4]).pieces) == 1


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (own().replace(b"1", b"2"), "version"),
        (own({"at": 0, "text": "x"}).replace(b'"x"}', b'"x'), "line 2"),
        (own({"at": -1, "text": "x"}), "line 2: 'at'"),
        (own({"at": True, "text": "x"}), "line 2: 'at'"),
        (own({"at": float("nan"), "text": "x"}), "line 2: 'at'"),
        (own({"at": float("inf"), "text": "x"}), "line 2: 'at'"),
        (own({"at": 10**400, "text": "x"}), "line 2"),
        (own({"at": 0, "text": "x"}, {"at": 0}), "line 3: a piece has"),
        (own({"at": 0, "text": "x", "base64": "eA=="}), "line 2: a piece has"),
        (own({"at": 0, "text": 5}), "line 2: a piece has"),
        (own({"at": 0, "base64": "!"}), "line 2"),
        (own({"at": 0, "text": "\ud83d"}), "line 2"),
        (own([1]), "line 2: not a JSON object"),
        (own({"at": 2, "text": "x"}, {"at": 1, "text": "y"}), "line 3: it arrived before"),
        (own(status="200"), "status"),
        (own(status=7), "status"),
        (own(provider=7), "provider"),
        (own(content_type=7), "content_type"),
    ],
)
def test_a_damaged_file_tells_where(data: bytes, reason: str) -> None:
    with pytest.raises(RecordingError, match=reason):
        Recording.from_bytes(data, name="turn")


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1e4),
            st.binary(min_size=1) | st.text(min_size=1).map(lambda t: t.encode("utf-8", "replace")),
        )
    ),
    st.sampled_from([None, "gemini", "anthropic"]),
)
def test_saved_and_loaded_is_the_same(pieces: list[tuple[float, bytes]], provider: str | None) -> None:
    import tempfile

    ordered = tuple(Piece(round(at, 6), data) for at, data in sorted(pieces, key=lambda piece: piece[0]))
    recording = Recording(ordered, provider, "it", {"path": "/v1/é", "status": 429, "headers": {"a": "b"}})
    with tempfile.TemporaryDirectory() as folder:
        save_recording(recording, Path(folder) / "it.rec.jsonl")
        loaded = load_recording(Path(folder) / "it.rec.jsonl")
    assert loaded.pieces == ordered
    assert loaded.metadata == recording.metadata
    assert provider is None or loaded == recording


def test_metadata_cannot_change_the_version_or_the_provider(tmp_path: Path) -> None:
    path = tmp_path / "x.rec.jsonl"
    save_recording(Recording((), "gemini", metadata={"adk_stream_recording": 9, "provider": "x", "a": 1}), path)
    assert load_recording(path).provider == "gemini"
    assert load_recording(path).metadata == {"a": 1}


def test_metadata_must_be_json(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="JSON"):
        save_recording(Recording((), metadata={"a": object()}), tmp_path / "x")
    with pytest.raises(RecordingError, match="nowhere"):
        save_recording(Recording(()), tmp_path / "nowhere" / "x")


# ----------------------------------------------------------------- recording


def test_a_stream_is_written_while_it_passes(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "turn.rec.jsonl"
    pieces = [b"data: \xf0\x9f", b"\x98\x80\n\n", b"", b"end"]

    def stream():
        for piece in pieces:
            clock.now += 0.25
            yield piece

    with Recorder(path, provider="gemini", metadata={"status": 200}, clock=clock) as recorder:
        clock.now += 1  # the request
        passed = []
        for piece in recorder.tap(stream()):
            passed.append(piece)
            assert load_recording(path).data == b"".join(passed)  # valid at any time, and nothing held back
    assert passed == pieces
    recording = load_recording(path)
    assert recording.pieces == (Piece(1.25, pieces[0]), Piece(1.5, pieces[1]), Piece(2.0, b"end"))
    assert recording.metadata == {"status": 200}
    recorder.close()


class Source:
    def __init__(self, pieces: list[bytes], problem: Exception | None = None) -> None:
        self.pieces, self.problem, self.closed = pieces, problem, 0

    def __iter__(self):
        yield from self.pieces
        if self.problem:
            raise self.problem

    def close(self) -> None:
        self.closed += 1

    async def __aiter__(self):
        for piece in self.pieces:
            yield piece
        if self.problem:
            raise self.problem

    async def aclose(self) -> None:
        self.closed += 1


def test_leaving_early_keeps_what_had_come_and_closes_the_source(tmp_path: Path) -> None:
    source = Source([b"a", b"b", b"c"])
    with Recorder(tmp_path / "x", clock=Clock()) as recorder, closing(recorder.tap(source)) as stream:
        assert next(stream) == b"a"
        assert next(stream) == b"b"
    assert source.closed == 1
    assert load_recording(tmp_path / "x").data == b"ab"


def test_an_error_of_the_source_goes_on_unchanged(tmp_path: Path) -> None:
    problem = ConnectionResetError("gone")
    source = Source([b"a"], problem)
    with Recorder(tmp_path / "x") as recorder, pytest.raises(ConnectionResetError) as caught:
        list(recorder.tap(source))
    assert caught.value is problem
    assert source.closed == 1
    assert load_recording(tmp_path / "x").data == b"a"


def test_an_asynchronous_stream(tmp_path: Path) -> None:
    async def record() -> Source:
        source = Source([b"a", b"b", b"c"])
        with Recorder(tmp_path / "x") as recorder:
            async with aclosing(recorder.tap_async(source)) as stream:
                assert [await anext(stream), await anext(stream)] == [b"a", b"b"]
        with Recorder(tmp_path / "y") as recorder:
            assert [piece async for piece in recorder.tap_async(Source([b"a", b"b"]))] == [b"a", b"b"]
        return source

    assert asyncio.run(record()).closed == 1
    assert load_recording(tmp_path / "x").data == b"ab"
    assert load_recording(tmp_path / "y").data == b"ab"


def test_redact_changes_the_file_and_not_the_stream(tmp_path: Path) -> None:
    with Recorder(tmp_path / "x", redact=lambda piece: piece.replace(b"Ada", b"***")) as recorder:
        assert list(recorder.tap([b"I am Ada."])) == [b"I am Ada."]
    assert load_recording(tmp_path / "x").data == b"I am ***."


def test_secrets_in_metadata_are_masked(tmp_path: Path) -> None:
    key = "AIza" + "Sy0123456789abcdefghij"
    metadata = {
        "path": f"/v1beta/models/m:streamGenerateContent?alt=sse&key={key}",
        "headers": {
            "Authorization": "Bearer abc.def",
            "x-goog-api-key": "whatever",
            "Set-Cookie": ["a=b"],
            "x-request-id": "r-1",
        },
        "note": f"sent Bearer abc.def with sk-ant-0123456789 and {key}",
        "status": 200,
    }
    with Recorder(tmp_path / "x", metadata=metadata) as recorder:
        recorder.write(b"sk-ant-0123456789")
    text = (tmp_path / "x").read_text()
    header = json.loads(text.splitlines()[0])
    assert header["path"] == "/v1beta/models/m:streamGenerateContent?alt=sse&key=[redacted]"
    assert header["headers"] == {
        "Authorization": "[redacted]",
        "x-goog-api-key": "[redacted]",
        "Set-Cookie": ["[redacted]"],
        "x-request-id": "r-1",
    }
    assert header["note"] == "sent Bearer [redacted] with sk-[redacted] and AIza[redacted]"
    assert header["status"] == 200
    assert "sk-ant-0123456789" in text  # the stream itself is the caller's to redact


def test_text_without_secrets_stays() -> None:
    for text in ("monkey=1", "a bearer of news", "risk-free", "/v1/messages?beta=true", "sk-"):
        assert redact_secrets(text) == text


def test_a_recorder_that_cannot_write_says_so(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="nowhere"):
        Recorder(tmp_path / "nowhere" / "x")
    recorder = Recorder(tmp_path / "x")
    recorder.close()
    with pytest.raises(RecordingError, match="x: "):
        recorder.write(b"late")


# ----------------------------------------------------------------- playing

PLAYED = Recording((Piece(1.0, b"a"), Piece(1.5, b"b"), Piece(4.0, b"c")))


@pytest.mark.parametrize(("pace", "slept"), [(1.0, [1.0, 0.5, 2.5]), (2.0, [2.0, 1.0, 5.0]), (0.0, [])])
def test_playing_keeps_the_pace(pace: float, slept: list[float]) -> None:
    clock = Clock()
    assert list(play(PLAYED, pace, clock=clock, sleep=clock.sleep)) == [b"a", b"b", b"c"]
    assert clock.slept == slept

    async def consume() -> list[bytes]:
        return [piece async for piece in play_async(PLAYED, pace, clock=clock, sleep=clock.sleep_async)]

    clock = Clock()
    assert asyncio.run(consume()) == [b"a", b"b", b"c"]
    assert clock.slept == slept


def test_a_slow_consumer_finds_what_is_due() -> None:
    clock = Clock()
    for _ in play(PLAYED, clock=clock, sleep=clock.sleep):
        clock.now += 1.0
    assert clock.slept == [1.0, 1.0]


@pytest.mark.parametrize("pace", [-1.0, float("nan")])
def test_a_pace_is_a_factor(pace: float) -> None:
    with pytest.raises(ValueError, match="pace"):
        list(play(PLAYED, pace))

    async def consume() -> None:
        async for _ in play_async(PLAYED, pace):
            pass

    with pytest.raises(ValueError, match="pace"):
        asyncio.run(consume())


def test_base64_is_the_standard_alphabet(tmp_path: Path) -> None:
    save_recording(Recording((Piece(0.0, b"\xff\xfe\xfd\xfb\xef"),)), tmp_path / "x")
    line = json.loads((tmp_path / "x").read_text().splitlines()[1])
    assert base64.b64decode(line["base64"], validate=True) == b"\xff\xfe\xfd\xfb\xef"
