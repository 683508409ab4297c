"""Scripts: what is sent for a recording, and what each fault makes of it. No server, no clock."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import pytest
import wire_streams as streams

from adk_stream.recording import Piece, Recording, load_recording
from adk_stream.testing.dialects import DIALECTS
from adk_stream.testing.faults import FAULTS, Fault, FaultError, as_faults
from adk_stream.testing.script import Script, replay_script
from adk_stream.wire import BytesDecoder, WireEvent, decode_json

CORPUS = os.environ.get("ADK_STREAM_CORPUS")
LINES = list(DIALECTS)
STYLES = [(line, False) for line in LINES] + [("gemini", True)]


def script(line: str, as_array: bool = False, data: bytes | None = None) -> Script:
    recording = Recording.from_bytes(streams.wire(line) if data is None else data, line, interval=1.0)
    return replay_script(recording, DIALECTS[line], as_array=as_array, pace=1.0, by_event=True)


def body(given: Script) -> bytes:
    return b"".join(step.data for step in given.steps) + given.end.data


def events(given: Script) -> list[WireEvent]:
    decoder = BytesDecoder()
    return [*decoder.feed(body(given)), *decoder.close()]


def payloads(given: Script) -> list[object]:
    return ["[DONE]" if event.data == b"[DONE]" else decode_json(event.data) for event in events(given)]


# ----------------------------------------------------------------- framing


@pytest.mark.parametrize("line", ["openai-chat", "openai-responses", "anthropic"])
@pytest.mark.parametrize("by_event", [True, False])
def test_server_sent_events_pass_unchanged(line: str, by_event: bool) -> None:
    data = b": hello\r\n\r\n" + streams.wire(line).replace(b"\n", b"\r\n") + b"retry: 5\n\n"
    recording = Recording.from_bytes(data)
    assert body(replay_script(recording, DIALECTS[line], by_event=by_event)) == data


def test_reads_pass_as_they_were() -> None:
    data = streams.wire("anthropic")
    reads = tuple(Piece(n / 100, data[n : n + 11]) for n in range(0, len(data), 11))
    played = replay_script(Recording(reads, "anthropic"), DIALECTS["anthropic"], pace=2.0)
    assert [(step.at, step.data) for step in played.steps] == [(read.at * 2, read.data) for read in reads]


@pytest.mark.parametrize(("line", "as_array"), STYLES)
def test_payloads_alone_are_framed(line: str, as_array: bool) -> None:
    data = streams.lines(streams.PAYLOADS[line])
    given = script(line, as_array, data)
    assert payloads(given) == streams.PAYLOADS[line]
    if not as_array and line != "gemini":
        assert body(given) == streams.wire(line).replace("\u2028".encode(), b"\\u2028")


def test_a_json_array_is_framed_for_any_line() -> None:
    for line, events_of_line in streams.PAYLOADS.items():
        data = json.dumps([event for event in events_of_line if event != "[DONE]"], indent=2).encode()
        assert payloads(script(line, data=data)) == events_of_line


def test_an_end_mark_is_not_invented_for_a_cut_stream() -> None:
    cut = streams.chat()[:-2]
    assert payloads(script("openai-chat", data=streams.lines(cut))) == cut


def test_an_end_mark_is_not_doubled() -> None:
    data = streams.lines(streams.chat()) + b"[DONE]\n"
    assert payloads(script("openai-chat", data=data)) == streams.chat()


def test_gemini_is_framed_in_the_one_form_its_client_reads() -> None:
    payload = streams.dumps(streams.gemini()[1])
    data = f': note\n\nid: 7\nevent: x\ndata:{payload[:20]}\ndata:{payload[20:]}\r\n\r\n{{"a":\n1}}\n\n'
    lines = body(script("gemini", data=data.encode())).decode().split("\n")
    assert [line for line in lines if line] == [
        "data: " + (payload[:20] + " " + payload[20:]).replace("\u2028", "\\u2028"),
        'data: {"a": 1}',
    ]


def test_a_gemini_array_passes_unchanged_or_is_made() -> None:
    data = b" [ " + b"\n,\r\n".join(json.dumps(event, indent=1).encode() for event in streams.gemini()) + b"]\n"
    recording = Recording.from_bytes(data)
    assert body(replay_script(recording, DIALECTS["gemini"], as_array=True)) == data
    for source in (data, streams.wire("gemini"), streams.lines(streams.gemini())):
        assert json.loads(body(script("gemini", True, source))) == streams.gemini()


def test_a_recorded_http_error_is_served_as_it_was() -> None:
    error = b'{\n "error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}\n}'
    recording = Recording((Piece(0.0, error),), "gemini", metadata={"status": 429, "content_type": "text/json"})
    played = replay_script(recording, DIALECTS["gemini"])
    assert (played.status, played.content_type, body(played)) == (429, "text/json", error)


def test_a_name_in_a_payload_cannot_forge_a_header_line() -> None:
    data = json.dumps({"type": "message_start\ndata: {}\n\nevent: x"}).encode()
    assert len(events(script("anthropic", data=data))) == 1


@pytest.mark.skipif(not CORPUS, reason="ADK_STREAM_CORPUS names no folder of recorded streams")
def test_every_recorded_stream_says_the_same_in_every_style() -> None:
    assert CORPUS
    checked = 0
    with (Path(CORPUS) / "INDEX.tsv").open(encoding="utf-8") as index:
        for row in csv.DictReader(index, delimiter="\t", quoting=csv.QUOTE_NONE):
            line = row["line"].replace("_", "-")
            if line not in DIALECTS:
                continue
            recording = load_recording(Path(CORPUS) / row["path"], line)
            recorded = [tolerant(event) for _, event in recording.events()]
            for as_array in (False, True) if line == "gemini" else (False,):
                for by_event in (False, True):
                    given = replay_script(recording, DIALECTS[line], as_array=as_array, by_event=by_event)
                    sent = [tolerant(event) for event in events(given)]
                    if None not in recorded:  # broken JSON has no meaning that a frame could keep
                        assert sent in (recorded, [*recorded, "[DONE]"]), row["path"]
                    if by_event and not as_array:
                        assert sum(step.event is not None for step in given.steps) == len(recorded), row["path"]
            checked += 1
    assert checked > 300


def tolerant(event: WireEvent) -> object:
    try:
        return "[DONE]" if event.data == b"[DONE]" else decode_json(event.data)
    except ValueError:
        return None


# ----------------------------------------------------------------- faults


@pytest.mark.parametrize(("line", "as_array"), STYLES)
@pytest.mark.parametrize("after", [0, 1, 2, 99])
def test_cut_and_drop_keep_whole_events(line: str, as_array: bool, after: int) -> None:
    whole = script(line, as_array)
    for name, dropped in (("cut", False), ("drop", True)):
        cut = Fault(name, after=after).apply(whole)
        assert cut.dropped is dropped
        assert payloads(cut) == streams.PAYLOADS[line][:after]
        assert not body(cut).rstrip().endswith(b"]") or after == 99 or not as_array
        assert body(whole).startswith(body(cut))


@pytest.mark.parametrize(("line", "as_array"), STYLES)
@pytest.mark.parametrize("after", [0, 1, 2, 99])
def test_cut_in_event_leaves_a_broken_one(line: str, as_array: bool, after: int) -> None:
    cut = Fault("cut_in_event", after=after).apply(script(line, as_array))
    kept = min(after, len(streams.PAYLOADS[line]) - 1)
    *before, last = events(cut)
    assert [event.data for event in before] == [event.data for event in events(script(line, as_array))[:kept]]
    with pytest.raises(ValueError, match="JSON"):
        decode_json(last.data)


@pytest.mark.parametrize(("line", "as_array"), STYLES)
def test_cut_in_character_leaves_half_of_one(line: str, as_array: bool) -> None:
    cut = Fault("cut_in_character", after=0).apply(script(line, as_array))
    assert len(cut.steps) == streams.LEAD[line] + 2
    with pytest.raises(UnicodeDecodeError, match="unexpected end"):
        body(cut).decode()
    with pytest.raises(FaultError, match="no character"):
        Fault("cut_in_character", after=streams.LEAD[line] + 2 + (line == "openai-responses") * 2).apply(
            script(line, as_array)
        )


@pytest.mark.parametrize(("line", "as_array"), STYLES)
def test_stall_and_slow_first_move_times_alone(line: str, as_array: bool) -> None:
    whole = script(line, as_array)
    stalled = Fault("stall", after=2, seconds=5.0).apply(whole)
    assert [b.at - a.at for a, b in zip(whole.steps, stalled.steps, strict=True)] == [0, 0] + [5] * (
        len(whole.steps) - 2
    )
    slow = Fault("slow_first", seconds=5.0).apply(whole)
    assert [b.at - a.at for a, b in zip(whole.steps, slow.steps, strict=True)] == [5] * len(whole.steps)
    assert (stalled.begin, slow.begin) == (0, 5)
    assert body(stalled) == body(slow) == body(whole)
    assert Fault("stall", after=99, seconds=5.0).apply(whole).end.at == whole.end.at + 5


@pytest.mark.parametrize(("line", "as_array"), STYLES)
@pytest.mark.parametrize("after", [0, 2, 99])
def test_an_error_event_is_the_last(line: str, as_array: bool, after: int) -> None:
    failed = Fault("error_event", after=after).apply(script(line, as_array))
    *before, error = payloads(failed)
    assert before == streams.PAYLOADS[line][:after]
    expected = {
        "gemini": {"error": {"code": 503, "status": "UNAVAILABLE"}},
        "openai-chat": {"error": {"type": "server_error", "code": "server_error"}},
        "openai-responses": {"type": "error", "code": "server_error", "sequence_number": len(before)},
        "anthropic": {"type": "error", "error": {"type": "overloaded_error"}},
    }[line]
    assert {key: error[key] for key in expected if key != "error"} == {
        key: value for key, value in expected.items() if key != "error"
    }
    assert expected.get("error", {}).items() <= error.get("error", {}).items()
    if as_array:
        json.loads(body(failed))
    limited = Fault("error_event", status=429).apply(script(line, as_array))
    told = json.dumps(payloads(limited)[-1])
    assert any(word in told for word in ("RESOURCE_EXHAUSTED", "rate_limit_exceeded", "rate_limit_error"))


@pytest.mark.parametrize(("line", "as_array"), STYLES)
@pytest.mark.parametrize("after", [0, 1, 99])
def test_one_event_is_malformed(line: str, as_array: bool, after: int) -> None:
    whole = script(line, as_array)
    broken = Fault("malformed", after=after).apply(whole)
    place = min(after, len(whole.steps) - 1)
    assert [n for n, (a, b) in enumerate(zip(whole.steps, broken.steps, strict=True)) if a != b] == [place]
    if not as_array:
        found, expected = events(broken), events(whole)
        assert found[:place] + found[place + 1 :] == expected[:place] + expected[place + 1 :]
        assert found[place].name == expected[place].name
        with pytest.raises(ValueError, match="JSON"):
            decode_json(found[place].data)
    else:
        with pytest.raises(json.JSONDecodeError):
            json.loads(body(broken))


@pytest.mark.parametrize("line", LINES)
def test_status_and_garbage_replace_the_answer(line: str) -> None:
    limited = Fault("status", seconds=2.5).apply(script(line))
    assert (limited.status, limited.headers) == (429, {"retry-after": "3"})
    assert "error" in json.loads(body(limited))
    refused = Fault("status", status=401).apply(script(line))
    assert (refused.status, refused.headers) == (401, {})
    page = Fault("garbage").apply(script(line))
    assert page.status == 200
    assert page.content_type.startswith("text/html")
    assert not events(page)


@pytest.mark.parametrize("line", LINES)
def test_faults_add_up(line: str) -> None:
    both = script(line)
    for fault in as_faults("stall=5@1, drop=2"):
        both = fault.apply(both)
    assert both.dropped
    assert len(both.steps) == 2
    assert both.end.at == script(line).steps[1].at + 5


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("name", list(FAULTS))
def test_every_fault_takes_any_recording_or_says_why_not(line: str, name: str) -> None:
    for data in (b"{}", b"x", b'[{"a": 1}]', b"[DONE]", b"data: [DONE]\n\n", b"data: \xff\xfe\n\n"):
        recording = Recording.from_bytes(data, line)
        for as_array in (False, True):
            for after in (0, 1, 5):
                given = replay_script(recording, DIALECTS[line], as_array=as_array, by_event=True)
                try:
                    Fault(name, after=after).apply(given)
                except FaultError as problem:
                    assert "the recording has no" in str(problem)  # noqa: PT017


def test_faults_in_words() -> None:
    assert Fault.parse("drop=3") == Fault("drop", after=3)
    assert Fault.parse(" stall=2.5@4 ") == Fault("stall", seconds=2.5, after=4)
    assert Fault.parse("slow_first=0.5") == Fault("slow_first", seconds=0.5)
    assert Fault.parse("status=503") == Fault("status", status=503)
    assert Fault.parse("garbage") == Fault("garbage")
    assert as_faults(["cut", Fault("drop"), "stall=1,cut=2"]) == (
        Fault("cut"),
        Fault("drop"),
        Fault("stall", seconds=1.0),
        Fault("cut", after=2),
    )
    assert as_faults("") == as_faults([]) == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "explode",
        "drop=x",
        "drop=1.5",
        "drop=-1",
        "garbage=1",
        "status=200",
        "stall=1.2.3",
        "drop=1@",
        "stall=nan",
    ],
)
def test_what_is_no_fault(text: str) -> None:
    with pytest.raises(FaultError):
        Fault.parse(text)


@pytest.mark.parametrize("fields", [{"after": -1}, {"seconds": -1.0}, {"seconds": float("nan")}, {"status": 302}])
def test_fault_fields_are_checked(fields: dict[str, float]) -> None:
    with pytest.raises(FaultError):
        Fault("stall", **fields)
