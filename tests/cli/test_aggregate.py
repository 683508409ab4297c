import base64
import json
import subprocess
import sys

import pytest
from command import ANSWER, CHAT_CALL, CUT, SIGNATURE, WHOLE, adk_stream, gemini_event, sse

from adk_stream import LlmResponse
from adk_stream.cli.json_lines import json_of_model


@pytest.fixture
def whole(tmp_path):
    path = tmp_path / "whole.sse"
    path.write_bytes(WHOLE)
    return path


@pytest.fixture
def cut(tmp_path):
    path = tmp_path / "cut.sse"
    path.write_bytes(CUT)
    return path


def objects(out):
    return [json.loads(line) for line in out.splitlines()]


def test_a_whole_stream_is_one_final(whole):
    code, out, err = adk_stream("aggregate", whole)
    (final,) = objects(out)
    assert (code, err) == (0, "")
    assert final["status"] == "completed"
    thought, text, call = final["content"]["parts"]
    assert thought == {"text": "Let me think.", "thought": True}
    assert text == {"text": ANSWER}
    assert call["functionCall"]["args"] == {"city": "Köln"}
    assert base64.b64decode(call["thoughtSignature"], validate=True) == SIGNATURE


def test_with_boundaries_the_finals_hold_the_same_and_with_partials_everything_comes(whole):
    _, out, _ = adk_stream("aggregate", whole, "--flush", "boundary", "--partials")
    responses = objects(out)
    partials = [response for response in responses if response["partial"]]
    finals = [response for response in responses if not response["partial"]]
    assert len(finals) > 1
    shown = [part["text"] for response in partials for part in response["content"]["parts"] if "text" in part]
    assert shown == ["Let me ", "think.", "Hello", ", wörld"]
    parts = [part for final in finals for part in final.get("content", {}).get("parts", ())]
    assert [part.get("text") for part in parts] == ["Let me think.", ANSWER, None]


def test_native_is_the_providers_own_message(tmp_path):
    path = tmp_path / "chat.sse"
    path.write_bytes(CHAT_CALL)
    code, out, _ = adk_stream("aggregate", path, "--native")
    (message,) = objects(out)
    assert code == 0
    assert message["role"] == "assistant"
    assert message["content"] == "Looking."
    assert message["tool_calls"][0]["function"] == {"name": "look_up", "arguments": '{"city":"Oslo"}'}


def test_each_file_is_tried_and_the_worst_code_wins(whole, cut, tmp_path):
    code, out, err = adk_stream("aggregate", cut, whole)
    assert code == 1
    assert [final["status"] for final in objects(out)] == ["incomplete", "completed"]
    assert err == ""
    code, out, err = adk_stream("aggregate", tmp_path / "missing.sse", whole, cut)
    assert code == 2
    assert len(objects(out)) == 2
    assert err.count("\n") == 1
    assert "missing.sse" in err


def test_standard_input_is_read_whatever_it_holds(whole):
    code, out, _ = adk_stream("aggregate", "-", stdin=WHOLE)
    assert (code, len(objects(out))) == (0, 1)
    own = b'{"adk_stream_recording": 1, "provider": "gemini"}\n'
    own += json.dumps({"at": 0.0, "text": WHOLE.decode()}).encode() + b"\n"
    assert adk_stream("aggregate", "-", stdin=own)[:2] == (code, out)


@pytest.mark.parametrize(
    ("data", "provider"),
    [
        (b"", "auto"),
        (b"  \n", "gemini"),
        (b"just words\n", "auto"),
        (b": nothing but a comment\n\n", "gemini"),
        (b"data: {broken\n\n", "auto"),
        (b"data: {broken\n\n", "gemini"),
    ],
)
def test_input_that_says_nothing_is_unusable(data, provider):
    code, out, err = adk_stream("aggregate", "-", "--provider", provider, stdin=data)
    assert (code, out) == (2, "")
    assert err.startswith("adk-stream: ")
    assert "Traceback" not in err


def test_what_came_before_a_broken_event_is_printed():
    code, out, err = adk_stream("aggregate", "-", stdin=CUT + b"data: {broken\n\n" + WHOLE)
    (final,) = objects(out)
    assert code == 1
    assert (final["status"], final["errorCode"]) == ("failed", "MALFORMED_STREAM")
    assert final["content"]["parts"] == [{"text": ANSWER}]
    assert err.count("\n") == 1
    assert "event 3" in err


def test_an_error_body_is_a_failed_stream():
    body = b'{"error": {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}}'
    code, out, _ = adk_stream("aggregate", "-", stdin=body)
    assert (code, objects(out)[0]["status"]) == (1, "failed")


@pytest.mark.parametrize(
    "options", [["--flush", "later"], ["--provider", "nobody"], ["--native", "--partials"], ["-x"]]
)
def test_arguments_that_make_no_sense(whole, options):
    code, out, err = adk_stream("aggregate", whole, *options)
    assert (code, out) == (2, "")
    assert "Traceback" not in err


def test_half_a_surrogate_pair_is_no_error():
    call = {"functionCall": {"name": "f", "args": {"key\ud83d": "value\ud83d"}}}
    stream = sse(gemini_event({"text": "a\ud83d b"}, call, finish="STOP"))
    for options in (["--partials"], ["--native"]):
        code, out, err = adk_stream("aggregate", "-", *options, stdin=stream)
        assert (code, err) == (0, "")
        assert all(objects(out))


def test_what_has_no_encoding_is_escaped_and_what_json_lacks_is_null():
    from google.genai import types

    args = {"key\ud83d": "value\ud83d", "number": float("inf"), "none": None}
    part = types.Part(function_call=types.FunctionCall(name="f", args=args), thought_signature=b"\xff\xfe")
    line = json_of_model(LlmResponse(content=types.Content(parts=[part])))
    line.encode()
    assert json.loads(line)["content"]["parts"] == [
        {"functionCall": {"name": "f", "args": args | {"number": None}}, "thoughtSignature": "//4="}
    ]


def test_a_reader_that_leaves_is_no_error(tmp_path):
    path = tmp_path / "long.sse"
    path.write_bytes(sse(*[gemini_event({"text": "x" * 200})] * 3000))
    process = subprocess.Popen(
        [sys.executable, "-m", "adk_stream", "aggregate", str(path), "--partials"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(20) == 0


def test_debug_shows_where(tmp_path):
    _, _, err = adk_stream("aggregate", "-", "-", "--debug")
    assert "Traceback" in err
    _, _, err = adk_stream("aggregate", "-", "-")
    assert "Traceback" not in err
