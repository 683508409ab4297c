"""AG-UI 1.0 events, as the models of ``ag-ui-protocol`` (https://docs.ag-ui.com/concepts/events)."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from typing import Any, Literal

from .narrator import Call, Ending, Kind, Narrator, Usage
from .protocol import EVENT_STREAM, dumps, frame_data

try:
    from ag_ui.core import (
        BaseEvent,
        CustomEvent,
        ReasoningEncryptedValueEvent,
        ReasoningEndEvent,
        ReasoningMessageContentEvent,
        ReasoningMessageEndEvent,
        ReasoningMessageStartEvent,
        ReasoningStartEvent,
        RunErrorEvent,
        RunFinishedEvent,
        RunStartedEvent,
        TextMessageContentEvent,
        TextMessageEndEvent,
        TextMessageStartEvent,
        ToolCallArgsEvent,
        ToolCallEndEvent,
        ToolCallResultEvent,
        ToolCallStartEvent,
    )
    from ag_ui.core.events import RunFinishedCancelledOutcome, RunFinishedSuccessOutcome, TokenUsage
    from ag_ui.encoder import EventEncoder
except ImportError as missing:
    raise ImportError("AG-UI events need ag-ui-protocol: pip install 'adk-stream[ag-ui]'") from missing

__all__ = ["AgUiEncoder"]


class AgUiEncoder(Narrator[BaseEvent]):
    """One run of an agent. Each run of text is a message of its own, and the parent of the calls that follow it.

    A run of the agent that was cancelled ends as ``RUN_FINISHED`` with that outcome; one that failed, or was cut
    for whatever reason but the length, as ``RUN_ERROR``. Files, server-side tools and sources are ``CUSTOM``.

    Args:
        thread_id: The conversation, as the client named it.
        run_id: The run, as the client named it; made when missing.
    """

    headers: Mapping[str, str] = EVENT_STREAM

    def __init__(self, thread_id: str, run_id: str | None = None) -> None:
        super().__init__(run_id)
        self._thread_id = thread_id
        self._frames = EventEncoder()
        self._parent: str | None = None

    def frame(self, event: BaseEvent) -> bytes:
        """See ``Encoder``."""
        if (key := _DELTAS.get(type(event))) is not None:
            # What pydantic writes, ten times faster; there is one for each word of the model.
            values = event.__dict__
            return frame_data({"type": values["type"], key[1]: values[key[0]], "delta": values["delta"]})
        return self._frames.encode(event).encode()

    def _id(self, run: int) -> str:
        return f"{self.message_id}-{run}"

    def _begin(self) -> None:
        self._out.append(RunStartedEvent(thread_id=self._thread_id, run_id=self.message_id))

    def _round_begins(self) -> None:
        self._parent = None

    def _run_begins(self, kind: Kind, run: int) -> None:
        name = self._id(run)
        if kind == "text":
            self._parent = name
            self._out.append(TextMessageStartEvent(message_id=name, role="assistant"))
        else:
            self._out += [ReasoningStartEvent(message_id=name), ReasoningMessageStartEvent(message_id=name)]

    def _run_grows(self, kind: Kind, run: int, text: str) -> None:
        event = TextMessageContentEvent if kind == "text" else ReasoningMessageContentEvent
        self._out.append(event(message_id=self._id(run), delta=_whole(text)))

    def _run_ends(self, kind: Kind, run: int) -> None:
        name = self._id(run)
        if kind == "text":
            self._out.append(TextMessageEndEvent(message_id=name))
        else:
            self._out += [ReasoningMessageEndEvent(message_id=name), ReasoningEndEvent(message_id=name)]

    def _thought_is_signed(self, run: int, signature: bytes) -> None:
        self._sign("message", self._id(run), signature)

    def _call_is_signed(self, call: Call, signature: bytes) -> None:
        self._sign("tool-call", call.id, signature)

    def _sign(self, subtype: Literal["message", "tool-call"], entity: str, signature: bytes) -> None:
        value = base64.b64encode(signature).decode()
        self._out.append(ReasoningEncryptedValueEvent(subtype=subtype, entity_id=entity, encrypted_value=value))

    def _call_begins(self, call: Call) -> None:
        self._out.append(
            ToolCallStartEvent(tool_call_id=call.id, tool_call_name=call.name, parent_message_id=self._parent)
        )

    def _call_grows(self, call: Call, text: str) -> None:
        self._out.append(ToolCallArgsEvent(tool_call_id=call.id, delta=_whole(text)))

    def _call_is_ready(self, call: Call) -> None:
        self._out.append(ToolCallEndEvent(tool_call_id=call.id))

    _call_is_broken = _call_is_ready  # the protocol has no other end; how the run ended tells it apart

    def _result(self, call: Call, response: Mapping[str, Any]) -> None:
        self._out.append(
            ToolCallResultEvent(
                message_id=uuid.uuid4().hex, tool_call_id=call.id, content=dumps(dict(response)), role="tool"
            )
        )

    def _file(self, mime_type: str, data: bytes | None, uri: str | None) -> None:
        content = {"uri": uri} if uri else {"data": base64.b64encode(data or b"").decode()}
        self._extra("file", {"mimeType": mime_type, **content})

    def _source(self, uri: str, title: str | None) -> None:
        self._extra("source", {"uri": uri, "title": title} if title else {"uri": uri})

    def _extra(self, name: str, value: Mapping[str, Any]) -> None:
        self._out.append(CustomEvent(name=name, value=dict(value)))

    def _end(self, ending: Ending) -> None:
        usage = [_token_usage(ending.usage)] if ending.usage.known else None
        if ending.outcome in ("failed", "filtered"):
            self._out.append(RunErrorEvent(message=ending.sentence, code=ending.code, usage=usage))
            return
        outcome: Any
        if ending.outcome == "cancelled":
            outcome = RunFinishedCancelledOutcome()
        else:
            outcome = RunFinishedSuccessOutcome(pending_tool_call_ids=[call.id for call in ending.waiting] or None)
        self._out.append(
            RunFinishedEvent(thread_id=self._thread_id, run_id=self.message_id, outcome=outcome, usage=usage)
        )


#: The name and the key of what a delta belongs to.
_DELTAS: Mapping[type[BaseEvent], tuple[str, str]] = {
    TextMessageContentEvent: ("message_id", "messageId"),
    ReasoningMessageContentEvent: ("message_id", "messageId"),
    ToolCallArgsEvent: ("tool_call_id", "toolCallId"),
}


def _whole(text: str) -> str:
    """``text`` with U+FFFD for each half of a surrogate pair, which the models refuse."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _token_usage(usage: Usage) -> TokenUsage:
    return TokenUsage(
        input_tokens=usage.prompt,
        output_tokens=usage.output,
        total_tokens=usage.total,
        reasoning_tokens=usage.thoughts,
        cached_input_tokens=usage.cached,
    )
