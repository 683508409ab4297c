"""Small streams of each line, written for these tests: what they say, and what they are on the wire."""

from __future__ import annotations

import json

from adk_stream.recording import Recording

#: What each of these streams says, in three pieces. The second holds a character of four bytes, and one that
#: some readers take for a line end.
WORDS = ("Hello", " 🌍\u2028", "world")
TEXT = "".join(WORDS)


def dumps(payload: object) -> str:
    return json.dumps(payload, ensure_ascii=False)


def sse(payloads: list[object], named: bool = False) -> bytes:
    frames = []
    for payload in payloads:
        name = f"event: {payload['type']}\n" if named and isinstance(payload, dict) else ""
        frames.append(f"{name}data: {payload if isinstance(payload, str) else dumps(payload)}\n\n")
    return "".join(frames).encode()


def lines(payloads: list[object]) -> bytes:
    return "".join(dumps(payload) + "\n" for payload in payloads if payload != "[DONE]").encode()


def gemini() -> list[object]:
    return [
        {
            "candidates": [
                {
                    "content": {"role": "model", "parts": [{"text": word}]},
                    "index": 0,
                    **({"finishReason": "STOP"} if word == WORDS[-1] else {}),
                }
            ],
            "modelVersion": "gemini-test",
            "responseId": "r1",
        }
        for word in WORDS
    ]


def _choice(delta: dict[str, str], finish_reason: str | None = None) -> dict[str, object]:
    return {
        "id": "c1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "chat-test",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }


def chat() -> list[object]:
    return [
        *(_choice({"role": "assistant", "content": word}) for word in WORDS),
        _choice({}, "stop"),
        "[DONE]",
    ]


def responses() -> list[object]:
    response = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "responses-test",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": TEXT, "annotations": []}],
    }
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "logprobs": []}
    events = [
        {"type": "response.created", "response": {**response, "status": "in_progress"}},
        *({"type": "response.output_text.delta", "delta": word, **place} for word in WORDS),
        {"type": "response.completed", "response": {**response, "status": "completed", "output": [message]}},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def anthropic() -> list[object]:
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "anthropic-test",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 1},
    }
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": word}} for word in WORDS),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 3},
        },
        {"type": "message_stop"},
    ]


PAYLOADS = {
    "gemini": gemini(),
    "openai-chat": chat(),
    "openai-responses": responses(),
    "anthropic": anthropic(),
}
#: The number of events of each stream before the first word.
LEAD = {"gemini": 0, "openai-chat": 0, "openai-responses": 1, "anthropic": 2}


def wire(line: str) -> bytes:
    """The line's stream as server-sent events."""
    return sse(PAYLOADS[line], named=line in ("openai-responses", "anthropic"))


def recording(line: str, **options: object) -> Recording:
    return Recording.from_bytes(wire(line), **options)


def all_recordings() -> list[Recording]:
    return [recording(line, name=line) for line in PAYLOADS]
