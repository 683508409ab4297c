"""The live view of one Responses stream, for people who work at the level of OpenAI's own events.

Fed by the same reader and assembler as everything else, so no wire format is read twice, and what it shows
agrees with the final response. It needs no google-genai.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from adk_stream.parts import CallSlot, StreamChunk, StreamFault, StreamLimits, TextSlot
from adk_stream.providers.live_view import LiveView
from adk_stream.providers.openai_responses_native import PROVIDER, dump_arguments

__all__ = ["ResponsesStreamState"]


class ResponsesStreamState(LiveView):
    """What one stream has come to so far. Everything is joined when it is asked for. Not thread-safe.

    Args:
        keep_events: Keep every event (as decoded) in ``events``; off, since that holds the stream in memory.
        on_malformed: ``"raise"``, or ``"skip"`` to pass over events that cannot be read.
        limits: Bounds on what is held.

    Attributes:
        error: What the provider says went wrong, once it does.
        finish_reason: How the response ended, in the provider's word (``"completed"``,
            ``"max_output_tokens"``, …); None before the end.
        usage: The provider's own usage object, as last told.
        ended: ``close`` was called, or the terminal event came.

    Raises:
        ValueError: ``on_malformed`` is neither.
    """

    def __init__(
        self, *, keep_events: bool = False, on_malformed: str = "raise", limits: StreamLimits | None = None
    ) -> None:
        super().__init__(PROVIDER, keep_events=keep_events, on_malformed=on_malformed, limits=limits)
        self.error: StreamFault | None = None
        self.finish_reason: str | None = None
        self.usage: dict[str, Any] | None = None
        self._status = "in_progress"
        self._response: dict[str, Any] = {}
        self._response_id: str | None = None

    def close(self) -> None:
        """The stream has ended; without a terminal event it counts as cut.

        Raises:
            MalformedStreamError: the stream ends inside an event.
        """
        super().close()
        if self._status == "in_progress":
            self._status = "incomplete"

    def _take(self, chunks: Sequence[StreamChunk]) -> None:
        event = self.event
        response = event.get("response") if isinstance(event, Mapping) else None
        if isinstance(response, Mapping):
            self._response.update({key: value for key, value in response.items() if value is not None})
        for chunk in chunks:
            self._response_id = chunk.response_id or self._response_id
            for streamed in chunk.parts:
                self._assembler.add(streamed, self._response_id)
            self.usage = (chunk.provider_metadata or {}).get("usage") or self.usage
            self.finish_reason = chunk.native_finish_reason or self.finish_reason
            if chunk.terminal:
                self._end("completed" if chunk.finish_reason == "STOP" else "incomplete")
            if chunk.error is not None:
                self.error = self.error or chunk.error
                self._end(chunk.error.status)

    def _end(self, status: str) -> None:
        self._status, self.ended = status, True

    @property
    def response(self) -> dict[str, Any]:
        """The response object: each field as last told and not null."""
        return deepcopy(self._response)

    @property
    def response_id(self) -> str | None:
        """The response's id, once it is known."""
        return self._response_id

    @property
    def status(self) -> str:
        """``in_progress``, ``completed``, ``incomplete``, ``failed`` or ``cancelled``."""
        return self._status

    @property
    def output_text(self) -> str:
        """Everything said so far, refusals aside."""
        return self._said()

    @property
    def refusal(self) -> str:
        """What was said to refuse."""
        return self._said(refusal=True)

    @property
    def reasoning_text(self) -> str:
        """The reasoning itself, where the provider shows it."""
        return "".join(slot.text.join() for slot in self._texts(thought=True) if "summary_index" not in _own(slot))

    @property
    def reasoning_summary(self) -> str:
        """The summaries of the reasoning, one after the other."""
        return "".join(self.reasoning_summaries)

    @property
    def reasoning_summaries(self) -> list[str]:
        """Each summary of the reasoning."""
        return [slot.text.join() for slot in self._texts(thought=True) if "summary_index" in _own(slot)]

    @property
    def function_arguments(self) -> dict[int, str]:
        """The arguments of each call so far, or a custom tool's input, by the output index of its item."""
        calls = [slot for slot in self._slots() if isinstance(slot, CallSlot)]
        return {_own(slot).get("output_index", number): _arguments(slot) for number, slot in enumerate(calls)}


def _arguments(slot: CallSlot) -> str:
    return slot.text.join() if slot.args is None else dump_arguments(slot.args)


def _own(slot: TextSlot | CallSlot) -> dict[str, Any]:
    own = (slot.metadata or {}).get(PROVIDER)
    return own if isinstance(own, dict) else {}
