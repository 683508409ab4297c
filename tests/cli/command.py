"""The command as a process of its own, and small streams to give it."""

import atexit
import base64
import json
import subprocess
import sys

from warm import WarmCommand

SIGNATURE = b"\x00\x01signed\xff"


_warm = WarmCommand()
atexit.register(_warm.close)


def adk_stream(*arguments, stdin=b"", timeout=30):
    """Run the command in a process that has its packages loaded; its exit code, and its output as text."""
    code, out, err = _warm.run(list(map(str, arguments)), stdin, timeout)
    return code, out.decode(), err.decode()


def adk_stream_anew(*arguments, stdin=b"", timeout=30):
    """The same in a new interpreter, as a user's shell does it."""
    done = subprocess.run(
        [sys.executable, "-m", "adk_stream", *map(str, arguments)], input=stdin, capture_output=True, timeout=timeout
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def gemini_event(*parts, finish=None, usage=None):
    candidate = {"index": 0, **({"content": {"role": "model", "parts": list(parts)}} if parts else {})}
    if finish:
        candidate["finishReason"] = finish
    return {
        "candidates": [candidate],
        "modelVersion": "gemini-test",
        "responseId": "r1",
        **({"usageMetadata": usage} if usage else {}),
    }


def sse(*events):
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()


USAGE = {"promptTokenCount": 7, "candidatesTokenCount": 3, "thoughtsTokenCount": 2, "totalTokenCount": 12}

WHOLE = sse(
    gemini_event({"text": "Let me ", "thought": True}),
    gemini_event({"text": "think.", "thought": True}),
    gemini_event({"text": "Hello"}),
    gemini_event({"text": ", wörld"}),
    gemini_event(
        {
            "functionCall": {"id": "c1", "name": "look_up", "args": {"city": "Köln"}},
            "thoughtSignature": base64.b64encode(SIGNATURE).decode(),
        },
        finish="STOP",
        usage=USAGE,
    ),
)
CUT = sse(gemini_event({"text": "Hello"}), gemini_event({"text": ", wörld"}))
ANSWER = "Hello, wörld"


def chat_chunk(delta, finish=None):
    return {
        "id": "c1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "chat-test",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def call_fragment(arguments, **first):
    call = {"index": 0, "function": {"arguments": arguments}}
    if first:
        call |= {"id": first["id"], "type": "function", "function": {"name": first["name"], "arguments": arguments}}
    return chat_chunk({"tool_calls": [call]})


CHAT_CALL = sse(
    chat_chunk({"role": "assistant", "content": "Looking."}),
    call_fragment('{"ci', id="c7", name="look_up"),
    call_fragment('ty":"Oslo"}'),
    chat_chunk({}, finish="tool_calls"),
)
