import json
import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest
from command import ANSWER, CHAT_CALL, CUT, WHOLE, adk_stream, chat_chunk, gemini_event, sse

from adk_stream.recording import Recording
from adk_stream.testing import ReplayServer

pytestmark = pytest.mark.usefixtures("environment")


def session_of(err):
    return next(line.removeprefix("session ") for line in err.splitlines() if line.startswith("session "))


def events_of(session_id, *options):
    code, out, err = adk_stream("sessions", "export", session_id, *options)
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


def on_terminal(*arguments):
    """What a terminal is sent, line ends as they were written, and the exit code."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "adk_stream", *map(str, arguments)], stdout=theirs, stderr=subprocess.PIPE
    )
    os.close(theirs)
    shown = b""
    while select.select([ours], [], [], 30)[0]:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux: the other side is closed
            break
        if not piece:
            break
        shown += piece
    process.stderr.read()
    os.close(ours)
    return process.wait(20), shown.decode().replace("\r\n", "\n")


def test_to_a_pipe_the_answer_alone(tmp_path):
    path = tmp_path / "whole.sse"
    path.write_bytes(WHOLE)
    code, out, err = adk_stream("run", path)
    assert (code, out) == (0, ANSWER)
    last = err.splitlines()[-1]
    assert last.startswith("completed")
    assert "7 in" in last
    assert "3 out" in last
    assert "2 thought" in last
    assert "first token after" in last
    (event,) = events_of(session_of(err))
    assert event["author"] == "model"
    assert [part.get("text") for part in event["content"]["parts"]] == ["Let me think.", ANSWER, None]
    assert (tmp_path / "data" / "adk_stream" / "sessions.db").exists()


def test_a_cut_stream_is_kept_and_said_to_be_cut():
    code, out, err = adk_stream("run", "-", stdin=CUT)
    assert (code, out) == (1, ANSWER)
    assert err.splitlines()[-1].startswith("incomplete · STREAM_CUT")
    (event,) = events_of(session_of(err))
    assert (event["status"], event["errorCode"]) == ("incomplete", "STREAM_CUT")


def test_a_broken_stream_is_kept_and_failed():
    code, out, err = adk_stream("run", "-", stdin=CUT + b"data: {broken\n\n")
    assert (code, out) == (1, ANSWER)
    assert "event 3" in err
    assert "Traceback" not in err
    (event,) = events_of(session_of(err))
    assert event["status"] == "failed"


def test_without_a_session_nothing_is_stored(tmp_path):
    code, _, err = adk_stream("run", "-", "--no-session", stdin=WHOLE)
    assert code == 0
    assert "session" not in err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    [
        (["missing.sse"], b""),
        (["-"], b""),
        (["-"], b"only words\n"),
        (["-", "--pace", "-1"], b'{"adk_stream_recording": 1}\n{"at": 0, "text": "x"}\n'),
        (["-", "--interval", "-1"], WHOLE),
        (["-", "--base-url", "http://localhost"], WHOLE),
        (["-", "--session-db", "oracle://x"], WHOLE),
        (["-", "--session-db", "/dev/null/x.db"], WHOLE),
        (["hi", "--model", "gemini:x"], b""),  # there is no key
        (["hi", "--model", "gemini"], b""),
        (["hi", "--model", "anthropic:x"], b""),
        (["hi", "--model", "replay:missing.sse"], b""),
        (["hi", "--model", "replay:x.sse", "--base-url", "http://localhost"], b""),
        ([" ", "--model", "gemini:x"], b""),
    ],
)
def test_unusable_input_is_one_line_and_code_2(arguments, stdin):
    code, out, err = adk_stream("run", *arguments, stdin=stdin)
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    assert err.startswith("adk-stream: ")
    assert err.count("\n") == 1


def test_what_is_wrong_with_a_model_is_said():
    said = adk_stream("run", "--model", "openai:x", "hi")[2]
    assert "no provider 'openai'; there are gemini, openai-chat, openai-responses, anthropic, replay" in said
    for model, key in (
        ("gemini", "GEMINI_API_KEY"),
        ("openai-chat", "OPENAI_API_KEY"),
        ("anthropic", "ANTHROPIC_API_KEY"),
    ):
        assert f"no key: set {key}" in adk_stream("run", "--model", f"{model}:x", "hi")[2]


def test_a_client_that_is_not_installed_is_named_before_anything_is_stored(tmp_path):
    program = "import sys; sys.modules['openai'] = None; from adk_stream.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "run", "--model", "openai-chat:x", "hi"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'adk-stream[openai]'" in done.stderr
    assert not (tmp_path / "data").exists()


def test_ctrl_c_keeps_what_had_come(tmp_path):
    path = tmp_path / "slow.sse"
    path.write_bytes(sse(*[gemini_event({"text": f"word{n} "}) for n in range(40)]))
    process = subprocess.Popen(
        [sys.executable, "-m", "adk_stream", "run", str(path), "--interval", "0.5"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    shown = b""
    while b"word1 " not in shown:
        shown += os.read(process.stdout.fileno(), 1000)
    process.send_signal(signal.SIGINT)
    rest, err = process.communicate(timeout=20)
    shown = (shown + rest).decode()
    assert process.returncode == 130
    assert "Traceback" not in err.decode()
    assert err.decode().splitlines()[-1].startswith("cancelled · STREAM_CANCELLED")
    (event,) = events_of(session_of(err.decode()))
    assert event["status"] == "cancelled"
    assert event["content"]["parts"] == [{"text": shown}]


def test_ctrl_c_while_standard_input_is_silent():
    process = subprocess.Popen(
        [sys.executable, "-m", "adk_stream", "run", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdin.write(CUT)
    process.stdin.flush()
    shown = b""
    while shown.decode() != ANSWER:  # shown while the stream is still open
        shown += os.read(process.stdout.fileno(), 1000)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    (event,) = events_of(session_of(err.decode()))
    assert event["content"]["parts"] == [{"text": ANSWER}]


def test_the_pace_is_the_recordings_times_a_factor(tmp_path):
    def seconds(gap: float, pace: float) -> float:
        path = tmp_path / "timed.rec.jsonl"
        half = len(CUT) // 2
        pieces = [{"at": 0.0, "text": CUT[:half].decode()}, {"at": gap, "text": CUT[half:].decode()}]
        path.write_text("".join(json.dumps(line) + "\n" for line in [{"adk_stream_recording": 1}, *pieces]))
        start = time.monotonic()
        assert adk_stream("run", path, "--no-session", "--pace", pace)[1] == ANSWER
        return time.monotonic() - start

    assert seconds(gap=1.0, pace=2) >= 2
    assert seconds(gap=3600.0, pace=0) < 600


def test_on_a_terminal_thoughts_are_dim_and_calls_fill_in(tmp_path):
    path = tmp_path / "s.sse"
    path.write_bytes(WHOLE)
    code, shown = on_terminal("run", path)
    assert code == 0
    assert "\x1b[2mLet me \x1b[0m\x1b[2mthink.\x1b[0m\nHello, wörld\n" in shown
    assert 'look_up \x1b[0m{"city": "Köln"}\n' in shown
    path.write_bytes(CHAT_CALL)
    code, shown = on_terminal("run", path)
    assert shown == 'Looking.\n\x1b[36m→ look_up \x1b[0m{"city":"Oslo"}\n'


def test_what_a_model_says_does_not_reach_the_terminal_as_commands(tmp_path):
    evil = "\x1b]0;owned\x07 \x9b31m \r gone\x7f\ttab\nline"
    path = tmp_path / "s.sse"
    path.write_bytes(
        sse(
            gemini_event({"text": evil, "thought": True}),
            gemini_event({"text": evil}, {"functionCall": {"name": evil, "args": {"a": evil}}}, finish=evil),
        )
    )
    _, shown = on_terminal("run", path)
    for style in ("\x1b[2m", "\x1b[36m", "\x1b[0m"):
        shown = shown.replace(style, "")
    assert not set(shown) & {*map(chr, range(32)), "\x7f", *map(chr, range(0x80, 0xA0))} - {"\n", "\t"}
    assert shown.count("␛]0;owned␇ \\x9b31m ␍ gone␡\ttab\nline") >= 3
    _, out, err = adk_stream("run", path)
    assert "\x1b" not in err
    assert out == evil  # a pipe is given the text as it is
    _, out, _ = adk_stream("sessions", "show", session_of(err))
    assert "\x1b" not in out


def test_a_model_is_asked_and_the_question_kept():
    recording = Recording.from_bytes(WHOLE)
    with ReplayServer([recording]) as server:
        code, out, err = adk_stream("run", "--model", "gemini:x", "--base-url", server.url, "hi there")
        asked = server.requests[0]
    assert (code, out) == (0, ANSWER), err
    assert asked.path.endswith("/models/x:streamGenerateContent")
    assert asked.body["contents"][0]["parts"] == [{"text": "hi there"}]
    question, answer = events_of(session_of(err))
    assert (question["author"], question["content"]["parts"]) == ("user", [{"text": "hi there"}])
    assert answer["status"] == "completed"
    assert question["invocationId"] == answer["invocationId"]


def anthropic_answer():
    message = {"id": "m1", "type": "message", "role": "assistant", "model": "x", "content": [], "usage": {}}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ANSWER}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]


def responses_answer():
    text = {"type": "output_text", "text": ANSWER, "annotations": []}
    message = {"id": "m1", "type": "message", "role": "assistant", "status": "completed", "content": [text]}
    response = {"id": "r1", "object": "response", "status": "completed", "output": [message]}
    return [
        {"type": "response.output_item.done", "sequence_number": 0, "output_index": 0, "item": message},
        {"type": "response.completed", "sequence_number": 1, "response": response},
    ]


@pytest.mark.parametrize(
    ("provider", "events", "asked_of"),
    [
        ("openai-chat", [chat_chunk({"content": ANSWER}, finish="stop"), "[DONE]"], "/chat/completions"),
        ("openai-responses", responses_answer(), "/responses"),
        ("anthropic", anthropic_answer(), "/v1/messages"),
    ],
)
def test_every_provider_is_asked_by_its_own_client(provider, events, asked_of):
    named = "".join(
        f"data: {event}\n\n"
        if isinstance(event, str)
        else f"event: {event.get('type', 'message')}\n{sse(event).decode()}"
        for event in events
    )
    with ReplayServer([Recording.from_bytes(named.encode(), provider)]) as server:
        code, out, err = adk_stream("run", "--model", f"{provider}:x", "--base-url", server.url, "hi there")
        (asked,) = server.requests
    assert (code, out) == (0, ANSWER), err
    assert asked.path.endswith(asked_of)
    assert asked.body["model"] == "x"
    assert "hi there" in json.dumps(asked.body)
    question, answer = events_of(session_of(err))
    assert (question["author"], answer["status"]) == ("user", "completed")


def test_a_recording_stands_in_for_a_model(tmp_path):
    path = tmp_path / "whole.sse"
    path.write_bytes(WHOLE)
    code, out, err = adk_stream("run", "--model", f"replay:{path}", "hi there")
    assert (code, out) == (0, ANSWER), err
    assert [event["author"] for event in events_of(session_of(err))] == ["user", "model"]


def test_a_model_that_refuses_to_answer_is_a_failed_run():
    with ReplayServer([Recording.from_bytes(WHOLE)], faults="status=400") as server:
        code, out, err = adk_stream("run", "--model", "gemini:x", "--base-url", server.url, "hi")
    assert (code, out) == (1, "")
    assert "Traceback" not in err
    question, answer = events_of(session_of(err))
    assert question["author"] == "user"
    assert answer["status"] == "failed"
