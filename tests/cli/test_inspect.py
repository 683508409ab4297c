"""``adk-stream inspect``: what it finds in streams of every line, whole and broken."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adk_stream import aggregate
from adk_stream.cli.inspect import inspect
from adk_stream.cli.inspection import inspect_recording
from adk_stream.errors import AdkStreamError, UnknownLineError
from adk_stream.recording import Piece, Recording, save_recording

RECORDINGS = Path(__file__).parents[2] / "samples" / "recordings"
FILES = sorted(RECORDINGS.glob("*.sse"))


def frames(*events, tail=b""):
    return "".join(f"data: {json.dumps(event)}\r\n\r\n" for event in events).encode() + tail


def event(*parts, finish=None, **top):
    candidate = {"index": 0, "content": {"role": "model", "parts": list(parts)}}
    return {"candidates": [candidate | ({"finishReason": finish} if finish else {})], **top}


def report_of(data, provider="auto"):
    return inspect_recording(Recording.from_bytes(data), provider)


def sample(name):
    return report_of((RECORDINGS / name).read_bytes())


def found(report):
    return {finding.code: finding for finding in report.findings}


def shape(report):
    return [(part.kind, part.name, part.first.event, part.last.event, part.complete) for part in report.parts]


# ----------------------------------------------------------------- parts and facts


@pytest.mark.parametrize(
    ("name", "provider", "parts"),
    [
        (
            "cut-stream.sse",
            "gemini",
            [("thought", None, 1, 1, True), ("text", None, 2, 3, True), ("call", "book_train", 4, 6, False)],
        ),
        (
            "code-execution.sse",
            "gemini",
            [
                ("thought", None, 1, 1, True),
                ("text", None, 2, 2, True),
                ("whole", "executableCode", 3, 3, True),
                ("whole", "codeExecutionResult", 4, 4, True),
                ("text", None, 5, 6, True),
            ],
        ),
        (
            "openai-chat-tools.sse",
            "openai-chat",
            [("text", None, 2, 4, True), ("call", "get_time", 5, 13, True), ("call", "get_rate", 13, 23, True)],
        ),
        (
            "openai-responses-reasoning.sse",
            "openai-responses",
            [("thought", None, 5, 9, True), ("text", None, 12, 18, True)],
        ),
        (
            "anthropic-thinking-tool.sse",
            "anthropic",
            [("thought", None, 4, 7, True), ("text", None, 10, 11, True), ("call", "find_rooms", 13, 20, True)],
        ),
    ],
)
def test_parts_with_the_events_that_spoke_of_them(name, provider, parts):
    report = sample(name)
    assert report.provider == provider
    assert shape(report) == parts
    assert report.bytes == report.end.byte == (RECORDINGS / name).stat().st_size


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_says_of_the_end_what_aggregate_says(file):
    *_, final = aggregate([file.read_bytes()])
    report = inspect_recording(Recording.from_bytes(file.read_bytes()))
    assert (report.status, report.error_code) == (final.status, final.error_code)
    assert bool(report.findings) is (final.status != "completed")
    assert sum(part.size for part in report.parts if part.kind == "text") == len(final.text)
    assert sum(part.size for part in report.parts if part.kind == "thought") == len(final.thought_text)
    assert sum(part.signed for part in report.parts) == sum(bool(part.thought_signature) for part in final.parts)


@settings(max_examples=60, deadline=None)
@given(file=st.sampled_from(FILES), share=st.floats(0, 1))
def test_cut_anywhere_it_agrees_with_aggregate_and_says_where(file, share):
    data = file.read_bytes()
    data = data[: int(len(data) * share)]
    if not data.strip():
        return
    responses = aggregate([data])
    try:
        for _ in responses:
            pass
    except AdkStreamError:
        pass
    try:
        report = report_of(data)
    except UnknownLineError:
        return
    final = responses.final
    assert (report.status, report.error_code) == (final.status, final.error_code)
    assert report.end.byte == len(data)
    if report.status != "completed" and report.finish_event is None:
        assert "bytes_stopped" in found(report)
    assert [finding.call_name for finding in report.findings if finding.code == "open_call"] == [
        part.function_call.name for part in final.parts if (part.part_metadata or {}).get("unfinished")
    ]


def test_times_first_token_and_gaps(tmp_path):
    first, second, third = (frames(event({"text": text})) for text in ("a", "b", "c"))
    head = frames({"usageMetadata": {"promptTokenCount": 1}, "responseId": "r"})
    pieces = (Piece(0.5, head), Piece(2.0, first[:9]), Piece(2.25, first[9:] + second), Piece(7.25, third))
    file = tmp_path / "timed.rec.jsonl"
    save_recording(Recording(pieces, "gemini"), file)
    report = inspect_recording(Recording.from_bytes(file.read_bytes()))
    assert (report.first_token.event, report.first_token.at) == (2, 2.25)
    assert [(gap.event, gap.seconds) for gap in report.gaps] == [(4, 5.0), (2, 1.75), (1, 0.5)]
    assert report.seconds == 7.25
    (part,) = report.parts
    assert (part.first.at, part.last.at, part.deltas, part.size) == (2.25, 7.25, 3, 3)


def test_plain_wire_files_have_no_times():
    report = sample("thinking-then-text.sse")
    assert report.seconds is None
    assert report.gaps == ()
    assert report.first_token.at is None


# ----------------------------------------------------------------- what went wrong


def test_arguments_that_never_closed():
    finding = found(sample("cut-stream.sse"))["open_call"]
    assert (finding.call_name, finding.call_id, finding.event) == ("book_train", "fc_5b83c1ef", 6)
    assert finding.excerpt.endswith('"date":"2026-03-"}')


def test_arguments_that_never_closed_on_another_line():
    data = (RECORDINGS / "anthropic-thinking-tool.sse").read_bytes()
    cut = data[: data.index(b'{"type":"content_block_delta"', data.index(b"projec") - 30) - len("data: ")]
    finding = found(report_of(cut.rpartition(b"event: ")[0]))["open_call"]
    assert finding.call_name == "find_rooms"
    assert "2026-02-13" in finding.excerpt


def test_arguments_that_are_no_json():
    delta = {
        "tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": "{oops"}}]
    }
    chunk = {"id": "x", "object": "chat.completion.chunk", "model": "m"}
    data = frames(
        chunk | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        chunk | {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        tail=b"data: [DONE]\n\n",
    )
    finding = found(report_of(data))["unreadable_arguments"]
    assert (finding.call_name, finding.call_id, finding.excerpt) == ("f", "c1", "{oops")


def test_reasoning_that_was_counted_and_never_came():
    usage = {"promptTokenCount": 1, "thoughtsTokenCount": 57, "totalTokenCount": 60}
    report = report_of(frames(event({"text": "x", "thoughtSignature": "AAEC"}, finish="STOP", usageMetadata=usage)))
    assert report.status == "completed"
    assert "57" in found(report)["missing_reasoning"].text
    assert "missing_reasoning" not in found(sample("thinking-then-text.sse"))


def test_a_response_that_had_ended_incomplete():
    finding = found(report_of(frames(event({"text": "x"}), event({"text": "y"}, finish="MAX_TOKENS"))))[
        "ended_incomplete"
    ]
    assert finding.event == 2
    assert "MAX_TOKENS" in finding.text


def test_bytes_that_stop_after_the_response_had_ended_incomplete():
    report = report_of(frames(event({"text": "y"}, finish="MAX_TOKENS"), tail=b'data: {"usageMet'))
    assert report.end.inside_event
    assert {"ended_incomplete", "bytes_stopped"} <= set(found(report))
    assert "MAX_TOKENS" in found(report)["ended_incomplete"].text


@pytest.mark.parametrize(
    ("tail", "inside", "events"),
    [
        (b"", False, 2),
        (b": keep-alive\r\n\r\n", False, 2),
        (b": keep-alive\r\n", False, 2),
        (b'data: {"candidates": [{"con', True, 3),
        (b"dat", True, 3),
    ],
)
def test_where_the_bytes_stop(tail, inside, events):
    data = frames(event({"text": "x"}), event({"text": "y"}), tail=tail)
    report = report_of(data)
    finding = found(report)["bytes_stopped"]
    assert report.end.inside_event is inside
    assert (finding.event, finding.byte) == (events, len(data))
    assert ("inside" in finding.text) is inside


def test_a_last_event_without_its_blank_line_is_whole():
    assert not report_of(frames(event({"text": "x"})).rstrip()).end.inside_event


def test_a_malformed_event_in_the_middle():
    good = frames(event({"text": "x"}))
    report = report_of(good + b"data: {broken}\r\n\r\n" + good)
    finding = found(report)["malformed_event"]
    assert (finding.event, finding.byte, finding.excerpt) == (2, len(good), "{broken}")
    assert report.events == 3
    assert (report.status, report.error_code) == ("failed", "MALFORMED_STREAM")


def test_an_error_inside_the_stream():
    error = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}
    report = report_of(frames(event({"text": "x"}), error, event({"text": "y"})))
    finding = found(report)["error_in_stream"]
    assert finding.event == 2
    assert "overloaded" in finding.text
    assert "1 more event" in finding.text
    assert report.status == "failed"


# ----------------------------------------------------------------- the command


@pytest.mark.parametrize(("name", "code"), [("grounding.sse", 0), ("cut-stream.sse", 1), ("blocked-prompt.sse", 1)])
def test_exit_code_tells_the_status(name, code, capsys):
    assert inspect(str(RECORDINGS / name)) == code
    assert "status" in capsys.readouterr().out


@pytest.mark.parametrize("content", [b"", b"hello\n", b'{"a": 1}\n', b"<html></html>"])
def test_unusable_input(content, tmp_path, capsys):
    file = tmp_path / "file.sse"
    file.write_bytes(content)
    assert inspect(str(file)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("adk-stream: ")
    assert len(err.splitlines()) == 1


def test_unusable_arguments(tmp_path, capsys):
    assert inspect(str(tmp_path / "none.sse")) == 2
    assert inspect(str(RECORDINGS / "grounding.sse"), provider="nobody") == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_json_has_the_whole_report(capsys):
    assert inspect(str(RECORDINGS / "cut-stream.sse"), as_json=True) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["status"] == "incomplete"
    assert report["parts"][2]["callId"] == "fc_5b83c1ef"
    assert report["end"] == {"event": 6, "byte": report["bytes"], "insideEvent": False}
    assert report["usage"]["thoughtsTokenCount"] == 41
    assert [finding["code"] for finding in report["findings"]] == ["bytes_stopped", "open_call"]


HOSTILE = "\x1b]0;owned\x07\x9b2J\r\ud83d"


@pytest.mark.parametrize("terminal", [False, True])
def test_control_characters_of_the_model_never_reach_the_terminal(terminal, tmp_path, capsys, monkeypatch):
    call = {"id": HOSTILE, "name": HOSTILE, "willContinue": True}
    parts = [{"text": HOSTILE, "thought": True}, {"functionCall": call}]
    error = {"error": {"code": 500, "message": HOSTILE, "status": HOSTILE}}
    file = tmp_path / "hostile.sse"
    file.write_bytes(frames(event(*parts, responseId=HOSTILE, modelVersion=HOSTILE), error))
    if terminal:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("TERM", "dumb")
    assert inspect(str(file)) == 1
    out = capsys.readouterr().out
    assert "owned" in out
    assert not set(out) & set("\x1b\x07\x9b\r\ud83d")


def test_two_candidates_are_told_apart(capsys, tmp_path):
    both = {
        "candidates": [{"index": n, "content": {"parts": [{"text": "ab"[n]}]}, "finishReason": "STOP"} for n in (0, 1)]
    }
    file = tmp_path / "two.sse"
    file.write_bytes(frames(both))
    assert inspect(str(file)) == 0
    assert [(part.candidate, part.size) for part in report_of(frames(both)).parts] == [(0, 1), (1, 1)]
    assert "candidate 1" in capsys.readouterr().out
