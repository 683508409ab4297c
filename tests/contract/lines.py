"""One message in the words of each line, so that a law is written once and held by all of them.

A *message* is what a model means to say: runs of text, thought and calls, each already cut into deltas. A
``LineUnderTest`` writes it as that line's events. A new line joins by one entry in ``LINES``.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gemini_streams import cut, event, words
from hypothesis import strategies as st

from adk_stream.providers import DONE


@dataclass(frozen=True)
class Said:
    """One part of a message: ``kind`` is text, thought or call; ``pieces`` are its deltas (a call's: of its JSON)."""

    kind: str
    pieces: tuple[str, ...]
    id: str = ""
    name: str = ""

    @property
    def whole(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True)
class LineUnderTest:
    """How one line says a message.

    Attributes:
        events: The events of a message up to its end.
        end: The events of a natural end, usage with them; the first of them that counts is ``terminal``.
        terminal: How many events of ``end`` must have come for the stream to count as ended.
        neutral: Events that say nothing, wherever they stand.
        error: An error event that says ``oops`` and ``it broke``.
        merges: A call does not break the run of text or thought it stands in.
    """

    events: Callable[[list[Said]], list[Any]]
    end: Callable[[list[Said]], list[Any]]
    terminal: int
    neutral: tuple[Any, ...]
    error: Any
    merges: bool = False

    def stream(self, message: list[Said]) -> list[Any]:
        return [*self.events(message), *self.end(message)]

    def agrees(self, parts: list[dict[str, Any]], message: list[Said], flush: str) -> bool:
        """Are these the parts that must come out?

        A run that a boundary gave out cannot be gone on with, so where calls stand inside of runs the pieces of one
        run may be several parts there: then the content counts, kind by kind.
        """
        wanted = self.expected(message)
        if self.merges and flush == "boundary":
            return by_kind(parts) == by_kind(wanted)
        return parts == wanted

    def expected(self, message: list[Said]) -> list[dict[str, Any]]:
        """The parts that must come out."""
        parts: list[dict[str, Any]] = []
        run: dict[str, Any] | None = None  # the part that a delta of the same kind may continue
        for said in message:
            if said.kind == "call":
                parts.append({"call": said.name, "id": said.id, "args": json.loads(said.whole)})
                run = run if self.merges else None
            elif run is not None and said.kind in run:
                run[said.kind] += said.whole
            else:
                run = {said.kind: said.whole}
                parts.append(run)
        return parts


def by_kind(parts: list[dict[str, Any]]) -> tuple[str, str, list[dict[str, Any]]]:
    """All text, all thought, all calls in order."""
    text, thought = ("".join(part.get(kind) or "" for part in parts) for kind in ("text", "thought"))
    return text, thought, [part for part in parts if "call" in part]


def described(parts: Any) -> list[dict[str, Any]]:
    """Parts of a response in the words of ``expected``."""
    result: list[dict[str, Any]] = []
    for part in parts:
        call = part.function_call
        if call is None:
            result.append({"thought" if part.thought else "text": part.text})
        else:
            result.append({"call": call.name, "id": call.id, "args": call.args})
    return result


def sse(events: list[Any], newline: str = "\n") -> bytes:
    """The events as a server frames them."""
    frames = []
    for each in events:
        name = f"event: {each['type']}{newline}" if isinstance(each, dict) and "type" in each else ""
        data = each if each == DONE else json.dumps(each, ensure_ascii=False)
        frames.append(f"{name}data: {data}{newline}{newline}")
    return "".join(frames).encode()


@st.composite
def messages(draw: Any, kinds: tuple[str, ...] = ("text", "thought", "call"), max_size: int = 4) -> list[Said]:
    """Any message; neighbours differ in kind, since on a line with numbered parts two of a kind would be two."""
    message: list[Said] = []
    for number in range(draw(st.integers(1, max_size))):
        last = message[-1].kind if message else ""
        kind = draw(st.sampled_from([each for each in kinds if each == "call" or each != last] or ["call"]))
        if kind == "call":
            given = draw(st.dictionaries(words, words | st.integers() | st.none() | st.lists(words), max_size=2))
            text = json.dumps(given, ensure_ascii=draw(st.booleans()))
            message.append(Said("call", tuple(cut(draw, text)), f"call-{number}", draw(st.sampled_from("fg"))))
        else:
            message.append(Said(kind, tuple(cut(draw, draw(words)))))
    return message


# ----------------------------------------------------------------- the lines


def _gemini(message: list[Said]) -> list[Any]:
    events = []
    for said in message:
        if said.kind == "call":
            call = {"name": said.name, "id": said.id, "args": json.loads(said.whole)}
            events.append(event([{"functionCall": call}]))
        else:
            about = {"thought": True} if said.kind == "thought" else {}
            events += [event([{"text": piece, **about}]) for piece in said.pieces]
    return events


def _gemini_end(message: list[Said]) -> list[Any]:
    usage = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}
    return [{"candidates": [{"finishReason": "STOP"}], "usageMetadata": usage}]


def _chat_event(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "r-1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}


def _chat(message: list[Said]) -> list[Any]:
    events = [_chat_event({"role": "assistant", "content": ""})]
    numbers = itertools.count()
    for said in message:
        if said.kind == "call":
            number = next(numbers)
            begin = {"id": said.id, "type": "function", "function": {"name": said.name, "arguments": ""}}
            events.append(_chat_event({"tool_calls": [{"index": number, **begin}]}))
            for piece in said.pieces:
                events.append(_chat_event({"tool_calls": [{"index": number, "function": {"arguments": piece}}]}))
        else:
            field = "content" if said.kind == "text" else "reasoning_content"
            events += [_chat_event({field: piece}) for piece in said.pieces]
    return events


def _chat_end(message: list[Said]) -> list[Any]:
    finish = "tool_calls" if any(said.kind == "call" for said in message) else "stop"
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    return [_chat_event({}, finish), {"id": "r-1", "choices": [], "usage": usage}, DONE]


def _anthropic(message: list[Said]) -> list[Any]:
    start = {"id": "r-1", "type": "message", "role": "assistant", "content": [], "model": "m", "usage": _IN}
    events: list[Any] = [{"type": "message_start", "message": start}]
    for index, said in enumerate(message):
        kind, delta = {
            "text": ({"type": "text", "text": ""}, ("text_delta", "text")),
            "thought": ({"type": "thinking", "thinking": "", "signature": ""}, ("thinking_delta", "thinking")),
            "call": (
                {"type": "tool_use", "id": said.id, "name": said.name, "input": {}},
                ("input_json_delta", "partial_json"),
            ),
        }[said.kind]
        events.append({"type": "content_block_start", "index": index, "content_block": kind})
        for piece in said.pieces:
            told = {"type": delta[0], delta[1]: piece}
            events.append({"type": "content_block_delta", "index": index, "delta": told})
        events.append({"type": "content_block_stop", "index": index})
    return events


_IN = {"input_tokens": 3, "output_tokens": 0}


def _anthropic_end(message: list[Said]) -> list[Any]:
    reason = "tool_use" if any(said.kind == "call" for said in message) else "end_turn"
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [{"type": "message_delta", "delta": delta, "usage": {"output_tokens": 2}}, {"type": "message_stop"}]


def _item(index: int, said: Said, done: bool) -> dict[str, Any]:
    status = "completed" if done else "in_progress"
    if said.kind == "call":
        arguments = said.whole if done else ""
        call = {"type": "function_call", "call_id": said.id, "name": said.name, "arguments": arguments}
        return {"id": f"fc-{index}", "status": status, **call}
    if said.kind == "thought":
        summary = [{"type": "summary_text", "text": said.whole}] if done else []
        return {"id": f"rs-{index}", "type": "reasoning", "summary": summary}
    content = [{"type": "output_text", "text": said.whole, "annotations": []}] if done else []
    return {"id": f"msg-{index}", "type": "message", "role": "assistant", "status": status, "content": content}


def _responses(message: list[Said]) -> list[Any]:
    events: list[Any] = [{"type": "response.created", "response": _response("in_progress")}]
    for index, said in enumerate(message):
        item = _item(index, said, False)
        at = {"item_id": item["id"], "output_index": index}
        kind, more = {
            "text": ("output_text", {"content_index": 0}),
            "thought": ("reasoning_summary_text", {"summary_index": 0}),
            "call": ("function_call_arguments", {}),
        }[said.kind]
        events.append({"type": "response.output_item.added", "output_index": index, "item": item})
        events += [{"type": f"response.{kind}.delta", **at, **more, "delta": piece} for piece in said.pieces]
        whole = "arguments" if said.kind == "call" else "text"
        events.append({"type": f"response.{kind}.done", **at, **more, whole: said.whole})
        done = _item(index, said, True)
        events.append({"type": "response.output_item.done", "output_index": index, "item": done})
    return events


def _response(status: str, **fields: Any) -> dict[str, Any]:
    return {"id": "r-1", "object": "response", "model": "m", "status": status, "output": [], **fields}


def _responses_end(message: list[Said]) -> list[Any]:
    usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    output = [_item(index, said, True) for index, said in enumerate(message)]
    return [{"type": "response.completed", "response": _response("completed", usage=usage, output=output)}]


LINES = {
    "gemini": LineUnderTest(
        _gemini,
        _gemini_end,
        1,
        ({}, {"candidates": []}, {"candidates": [{"content": {"parts": [{"text": ""}]}}]}, {"usageMetadata": None}),
        {"error": {"status": "oops", "message": "it broke"}},
    ),
    "openai-chat": LineUnderTest(
        _chat,
        _chat_end,
        1,
        (
            {"choices": []},
            {"choices": None},
            _chat_event({}),
            _chat_event({"content": None, "tool_calls": [], "role": "assistant", "reasoning_content": ""}),
            {"id": "r-1", "choices": [{"index": 0, "delta": None}]},
        ),
        {"error": {"code": "oops", "message": "it broke"}},
        merges=True,
    ),
    "anthropic": LineUnderTest(
        _anthropic,
        _anthropic_end,
        2,
        ({"type": "ping"}, {"type": "of_tomorrow", "index": 0}),
        {"type": "error", "error": {"type": "oops", "message": "it broke"}},
    ),
    "openai-responses": LineUnderTest(
        _responses,
        _responses_end,
        1,
        ({"type": "response.in_progress", "response": _response("in_progress")}, {"type": "response.of_tomorrow"}),
        {"type": "error", "code": "oops", "message": "it broke"},
    ),
}
