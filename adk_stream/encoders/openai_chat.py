"""OpenAI's ``chat.completion.chunk`` stream, as the official clients and the many that imitate them read it.

Reasoning goes into ``reasoning_content``, which DeepSeek began and most servers and clients now know
(https://platform.openai.com/docs/api-reference/chat-streaming has no field for it).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from .narrator import Call, Ending, Kind, Narrator, Outcome, Usage
from .protocol import DONE, EVENT_STREAM, frame_data

__all__ = ["OpenAIChatEncoder"]

_FIELDS: Mapping[Kind, str] = {"text": "content", "thought": "reasoning_content"}

_REASONS: Mapping[Outcome, str] = {
    "stop": "stop",
    "calls": "tool_calls",
    "length": "length",
    "filtered": "content_filter",
}


class OpenAIChatEncoder(Narrator[dict[str, Any] | str]):
    """One chat completion; events are the chunks, the last one ``"[DONE]"``.

    All rounds of an agent make up one answer: the format has no place for results of tools. An end that the format
    has no word for is an error object, which official clients raise; no ``finish_reason`` and no ``[DONE]``, which
    would call it a natural end, come with it.

    Args:
        model: The model's name in every chunk.
        tools: The names of the tools whose calls the client runs; the others are not shown. None: all are shown.
        include_usage: Send a chunk with the usage before the end (``stream_options.include_usage``).
        message_id: The completion's id; made when missing.
        clock: Gives the time of creation, in seconds since the epoch.
    """

    headers: Mapping[str, str] = EVENT_STREAM

    def __init__(
        self,
        model: str,
        *,
        tools: Collection[str] | None = None,
        include_usage: bool = False,
        message_id: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(message_id)
        self._frame = {
            "id": f"chatcmpl-{self.message_id}" if message_id is None else message_id,
            "object": "chat.completion.chunk",
            "created": int(clock()),
            "model": model,
        }
        self._tools = tools
        self._include_usage = include_usage
        self._indices: dict[str, int] = {}

    def frame(self, event: dict[str, Any] | str) -> bytes:
        """See ``Encoder``."""
        return frame_data(event)

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        self._out.append({**self._frame, "choices": [choice]})

    def _begin(self) -> None:
        self._chunk({"role": "assistant", "content": ""})

    def _run_grows(self, kind: Kind, run: int, text: str) -> None:
        self._chunk({_FIELDS[kind]: text})

    def _call_begins(self, call: Call) -> None:
        if self._tools is None or call.name in self._tools:
            index = self._indices[call.id] = len(self._indices)
            function = {"name": call.name, "arguments": ""}
            self._chunk({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]})

    def _call_grows(self, call: Call, text: str) -> None:
        index = self._indices.get(call.id)
        if index is not None:
            self._chunk({"tool_calls": [{"index": index, "function": {"arguments": text}}]})

    def _end(self, ending: Ending) -> None:
        reason = _REASONS.get(ending.outcome)
        if reason is None:
            code = ending.code or ending.status
            self._out.append(
                {"error": {"message": ending.sentence, "type": "stream_error", "param": None, "code": code}}
            )
            return
        if reason == "tool_calls" and not any(call.id in self._indices for call in ending.waiting):
            reason = "stop"
        self._chunk({}, reason)
        if self._include_usage and ending.usage.known:
            self._out.append({**self._frame, "choices": [], "usage": _usage(ending.usage)})
        self._out.append(DONE)


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.thoughts},
    }
