"""Deterministic streams in each provider's wire format, as the frames that a network would give, one a read.

Each function takes the number of deltas and gives ``Stream``: the frames and the content they come to.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Stream:
    """Frames of one response, and what an accumulator must make of them."""

    frames: list[bytes]
    text: str = ""
    thought: str = ""
    arguments: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        return sum(map(len, self.frames))


def _word(number: int) -> str:
    return f"word {number} "


def _data(event: dict[str, Any], end: bytes = b"\n\n") -> bytes:
    return b"data: " + json.dumps(event, separators=(",", ":")).encode() + end


def _named(event: dict[str, Any]) -> bytes:
    return b"event: " + event["type"].encode() + b"\n" + _data(event)


def _words(first: int, last: int) -> str:
    return "".join(map(_word, range(first, last)))


def _argument_fragments(n: int) -> list[str]:
    """The JSON of a call to an editing tool, a list of edits, in ``n`` fragments of about 12 characters."""
    edits = [{"line": i, "text": f'row[{i}] = "word {i}"\n'} for i in range(n // 4)]
    text = json.dumps({"path": "table.py", "edits": edits})
    size = -(-len(text) // n)
    return [text[at : at + size] for at in range(0, len(text), size)]


def gemini_text(n: int, usage_on_every_chunk: bool = False) -> Stream:
    """Text, a fifth of it thoughts; usage on the last chunk or, as AI Studio sends it, on every chunk."""
    thoughts = n // 5
    frames = []
    for number in range(n):
        part: dict[str, Any] = {"text": _word(number)}
        if number < thoughts:
            part["thought"] = True
        candidate: dict[str, Any] = {"content": {"parts": [part], "role": "model"}, "index": 0}
        event: dict[str, Any] = {
            "candidates": [candidate],
            "modelVersion": "gemini-3-flash",
            "responseId": "bench-1",
        }
        if number == n - 1:
            candidate["finishReason"] = "STOP"
        if usage_on_every_chunk or number == n - 1:
            event["usageMetadata"] = {
                "promptTokenCount": 12,
                "candidatesTokenCount": number,
                "totalTokenCount": 12 + number,
            }
        frames.append(_data(event, b"\r\n\r\n"))
    return Stream(frames, _words(thoughts, n), _words(0, thoughts))


def gemini_usage(n: int) -> Stream:
    """``gemini_text`` with usage on every chunk."""
    return gemini_text(n, usage_on_every_chunk=True)


def gemini_arguments(n: int) -> Stream:
    """One call whose only argument, a long string, is streamed by JSONPath."""
    frames = []
    for number in range(n):
        call: dict[str, Any] = {
            "partialArgs": [{"jsonPath": "$.content", "stringValue": _word(number)}],
            "willContinue": number < n - 1,
        }
        if number == 0:
            call |= {"name": "write", "id": "call-1"}
        content = {"parts": [{"functionCall": call}], "role": "model"}
        candidate: dict[str, Any] = {"content": content, "index": 0}
        if number == n - 1:
            candidate["finishReason"] = "STOP"
        frames.append(_data({"candidates": [candidate], "responseId": "bench-2"}, b"\r\n\r\n"))
    return Stream(frames, arguments=[json.dumps({"content": _words(0, n)})])


#: Of a live session: 20 ms of audio in each message, and a word for every fifteenth of them.
_AUDIO = base64.b64encode(bytes(range(240)) * 4).decode()
_MESSAGES_A_WORD = 15
_MESSAGES_A_TURN = 500


def live_audio(n: int) -> Stream:
    """A live session, as websocket messages: audio, the words in it, and a turn's end every ten seconds."""
    audio: dict[str, Any] = {"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": _AUDIO}}
    messages: list[dict[str, Any]] = [{"setupComplete": {}}]
    words, pieces = [], 0
    for number in range(n):
        if number % _MESSAGES_A_WORD:
            messages.append({"serverContent": {"modelTurn": {"parts": [audio]}}})
            pieces += 1
        else:
            words.append(_word(number))
            messages.append({"serverContent": {"outputTranscription": {"text": words[-1]}}})
        if number % _MESSAGES_A_TURN == _MESSAGES_A_TURN - 1 or number == n - 1:
            messages.append({"serverContent": {"generationComplete": True}})
            usage = {"promptTokenCount": 12, "totalTokenCount": number}
            messages.append({"serverContent": {"turnComplete": True}, "usageMetadata": usage})
    frames = [json.dumps(message).encode() for message in messages]
    return Stream(frames, "".join(words), arguments=[str(pieces * len(base64.b64decode(_AUDIO)))])


def _chat(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    head = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1700000000, "model": "gpt-bench"}
    return head | {"service_tier": "default", "system_fingerprint": "fp_1", "choices": [choice]}


def chat_tools(n: int) -> Stream:
    """Text, then three parallel calls whose fragments alternate."""
    texts = n // 4
    frames = [_data(_chat({"role": "assistant", "content": ""}))]
    frames += [_data(_chat({"content": _word(number)})) for number in range(texts)]
    calls: list[list[str]] = [[], [], []]
    for index in range(3):
        function = {"name": f"tool_{index}", "arguments": ""}
        delta = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
        frames.append(_data(_chat({"tool_calls": [delta]})))
    for number in range(n - texts):
        index, turn = number % 3, number // 3
        fragment = '{"text":"' + _word(number) if turn == 0 else _word(number)
        calls[index].append(fragment)
        delta = {"index": index, "function": {"arguments": fragment}}
        frames.append(_data(_chat({"tool_calls": [delta]})))
    for index in range(3):
        calls[index].append('"}')
        frames.append(_data(_chat({"tool_calls": [{"index": index, "function": {"arguments": '"}'}}]})))
    usage = {"prompt_tokens": 12, "completion_tokens": n, "total_tokens": 12 + n}
    frames.append(_data(_chat({}, "tool_calls")))
    frames.append(_data(_chat({}) | {"choices": [], "usage": usage}))
    frames.append(b"data: [DONE]\n\n")
    return Stream(frames, _words(0, texts), arguments=["".join(call) for call in calls])


def chat_arguments(n: int) -> Stream:
    """One call with long arguments."""
    fragments = _argument_fragments(n)
    function = {"name": "write", "arguments": ""}
    frames = [_data(_chat({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}))]
    frames += [_data(_chat({"tool_calls": [{"index": 0, "function": {"arguments": f}}]})) for f in fragments]
    frames += [_data(_chat({}, "tool_calls")), b"data: [DONE]\n\n"]
    return Stream(frames, arguments=["".join(fragments)])


def anthropic_tools(n: int) -> Stream:
    """Thinking with a signature, text, and a tool call, a third each."""
    third = n // 3
    usage = {"input_tokens": 12, "output_tokens": 1}
    message = {"id": "msg_bench", "type": "message", "role": "assistant", "model": "claude-bench", "content": []}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]

    def block(index: int, start: dict[str, Any], deltas: list[dict[str, Any]]) -> None:
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events.extend({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        events.append({"type": "content_block_stop", "index": index})

    thinking = [{"type": "thinking_delta", "thinking": _word(i)} for i in range(third)]
    block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        [*thinking, {"type": "signature_delta", "signature": "c2ln"}],
    )
    text = [{"type": "text_delta", "text": _word(i)} for i in range(third, 2 * third)]
    block(1, {"type": "text", "text": ""}, text)
    fragments = _argument_fragments(third)
    call = {"type": "tool_use", "id": "toolu_1", "name": "write", "input": {}}
    block(2, call, [{"type": "input_json_delta", "partial_json": f} for f in fragments])
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    events += [{"type": "message_delta", "delta": end, "usage": {"output_tokens": n}}, {"type": "message_stop"}]
    frames = list(map(_named, events))
    return Stream(frames, _words(third, 2 * third), _words(0, third), ["".join(fragments)])


def responses_tools(n: int) -> Stream:
    """A message and a function call, half each, with the whole given again at the end as the server does."""
    half = n // 2
    text, fragments = _words(0, half), _argument_fragments(half)
    message: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "in_progress",
        "content": [],
    }
    call = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "write", "arguments": ""}
    call |= {"status": "in_progress"}
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    response: dict[str, Any] = {
        "id": "resp_bench",
        "object": "response",
        "created_at": 1700000000,
        "model": "gpt-bench",
    }
    response |= {"status": "in_progress", "output": [], "error": None, "incomplete_details": None, "instructions": None}
    response |= {"metadata": {}, "parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto", "tools": []}
    response |= {"top_p": 1.0, "usage": None}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    call_place = {"item_id": "fc_1", "output_index": 1}
    done_text = part | {"text": text}
    done_message = message | {"status": "completed", "content": [done_text]}
    done_call = call | {"status": "completed", "arguments": "".join(fragments)}
    usage = {"input_tokens": 12, "output_tokens": n, "total_tokens": 12 + n}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": response},
        {"type": "response.output_item.added", "output_index": 0, "item": message},
        {"type": "response.content_part.added", **place, "part": part},
        *({"type": "response.output_text.delta", **place, "delta": _word(i), "logprobs": []} for i in range(half)),
        {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": done_text},
        {"type": "response.output_item.done", "output_index": 0, "item": done_message},
        {"type": "response.output_item.added", "output_index": 1, "item": call},
        *({"type": "response.function_call_arguments.delta", **call_place, "delta": f} for f in fragments),
        {
            "type": "response.function_call_arguments.done",
            **call_place,
            "name": "write",
            "arguments": "".join(fragments),
        },
        {"type": "response.output_item.done", "output_index": 1, "item": done_call},
        {
            "type": "response.completed",
            "response": response | {"status": "completed", "output": [done_message, done_call], "usage": usage},
        },
    ]
    frames = [_named(event | {"sequence_number": number}) for number, event in enumerate(events)]
    return Stream(frames, text, arguments=["".join(fragments)])
