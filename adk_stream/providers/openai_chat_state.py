"""The live view of one Chat Completions stream, for people who work at the level of its chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from adk_stream.arguments import dump_arguments
from adk_stream.parts import CallSlot, PartDelta, StreamChunk, StreamFault, StreamLimits
from adk_stream.providers.live_view import LiveView

__all__ = ["ChatStreamState"]


class ChatStreamState(LiveView):
    """What the first choice of a stream has come to so far. Not thread-safe.

    Args:
        choice: The index of the choice that is watched.
        keep_events: Keep every chunk (as decoded) in ``events``.
        on_malformed: ``"raise"``, or ``"skip"`` to pass over events that cannot be read.
        limits: Bounds on what is held.

    Attributes:
        text: What the current chunk added to the output or the reasoning; empty when it added neither.
        is_reasoning: The current text is reasoning.
        tool_name: The name of the call that the current chunk speaks of; None when it speaks of none.
        usage: The provider's own usage object, as last told and not all zero.
        finish_reason: The provider's word, once it came.
        error: What the provider says went wrong, once it does.
        status: ``in_progress``, ``completed``, ``incomplete`` or ``failed``.
    """

    def __init__(
        self,
        *,
        choice: int = 0,
        keep_events: bool = False,
        on_malformed: str = "raise",
        limits: StreamLimits | None = None,
    ) -> None:
        super().__init__("openai-chat", keep_events=keep_events, on_malformed=on_malformed, limits=limits)
        self.choice = choice
        self.text = ""
        self.is_reasoning = False
        self.tool_name: str | None = None
        self.usage: dict[str, Any] | None = None
        self.finish_reason: str | None = None
        self.error: StreamFault | None = None
        self.status = "in_progress"
        self._current: CallSlot | None = None

    def close(self) -> None:
        """The stream has ended; without a terminal sign it counts as cut.

        Raises:
            MalformedStreamError: the stream ends inside an event.
        """
        super().close()
        if self.status == "in_progress":
            self.status = "incomplete"

    @property
    def output(self) -> str:
        """Everything said so far, refusals aside."""
        return self._said()

    @property
    def refusal(self) -> str:
        """What was said to refuse."""
        return self._said(refusal=True)

    @property
    def reasoning_output(self) -> str:
        """Everything thought aloud so far."""
        return self._said(thought=True)

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        """Every call so far as Chat spells it; the arguments are the text that came, whole or not."""
        return [_native(slot) for slot in self._slots() if isinstance(slot, CallSlot)]

    @property
    def tool_call(self) -> dict[str, Any] | None:
        """The call that the newest fragment belongs to; None before the first."""
        return None if self._current is None else _native(self._current)

    @property
    def data(self) -> Any:
        """The current chunk as it came, decoded."""
        return deepcopy(self.event)

    def _take(self, chunks: Sequence[StreamChunk]) -> None:
        self.text, self.is_reasoning, self.tool_name = "", False, None
        for chunk in chunks:
            usage = (chunk.provider_metadata or {}).get("usage")
            if isinstance(usage, Mapping):
                self.usage = dict(usage)
            if chunk.error is not None:
                self.error = self.error or chunk.error
                self.status, self.ended = "failed", True
            if chunk.candidate_index == self.choice:
                self._take_choice(chunk)

    def _take_choice(self, chunk: StreamChunk) -> None:
        for streamed in chunk.parts:
            slot = self._assembler.add(streamed, chunk.response_id)
            delta = streamed.part
            if isinstance(slot, CallSlot):
                self._current, self.tool_name = slot, slot.name
            elif isinstance(delta, PartDelta) and delta.text:
                self.text += delta.text
                self.is_reasoning = delta.thought
        self.finish_reason = chunk.native_finish_reason or self.finish_reason
        if chunk.terminal and self.status == "in_progress":
            self.status = "completed" if chunk.finish_reason == "STOP" and not self.refusal else "incomplete"
            self.ended = True


def _native(slot: CallSlot) -> dict[str, Any]:
    arguments = slot.text.join() if slot.args is None else dump_arguments(slot.args)
    return {"id": slot.id, "type": "function", "function": {"name": slot.name, "arguments": arguments}}
