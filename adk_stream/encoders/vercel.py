"""The UI message stream of Vercel's AI SDK, version 1.

Chunk types and the order they must keep are those of ``ai`` 6 and 7 (npm), ``readUIMessageStream``.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from .narrator import Call, Ending, Kind, Narrator, Outcome
from .protocol import DONE, EVENT_STREAM, frame_data

__all__ = ["VercelEncoder"]

_NAMES: Mapping[Kind, str] = {"text": "text", "thought": "reasoning"}

_REASONS: Mapping[Outcome, str] = {
    "stop": "stop",
    "calls": "tool-calls",
    "length": "length",
    "filtered": "content-filter",
    "cancelled": "other",
    "failed": "error",
}


class VercelEncoder(Narrator[dict[str, Any] | str]):
    """One assistant message, a step for each round; events are the chunks, the last one ``"[DONE]"``.

    Args:
        message_id: The message's id in the front end; made when missing.
    """

    headers: Mapping[str, str] = {**EVENT_STREAM, "x-vercel-ai-ui-message-stream": "v1"}

    def frame(self, event: dict[str, Any] | str) -> bytes:
        """See ``Encoder``."""
        return frame_data(event)

    def _begin(self) -> None:
        self._out.append({"type": "start", "messageId": self.message_id})

    def _round_begins(self) -> None:
        self._out.append({"type": "start-step"})

    def _run_begins(self, kind: Kind, run: int) -> None:
        self._out.append({"type": f"{_NAMES[kind]}-start", "id": str(run)})

    def _run_grows(self, kind: Kind, run: int, text: str) -> None:
        self._out.append({"type": f"{_NAMES[kind]}-delta", "id": str(run), "delta": text})

    def _run_ends(self, kind: Kind, run: int) -> None:
        self._out.append({"type": f"{_NAMES[kind]}-end", "id": str(run)})

    def _call_begins(self, call: Call) -> None:
        self._out.append({"type": "tool-input-start", "toolCallId": call.id, "toolName": call.name})

    def _call_grows(self, call: Call, text: str) -> None:
        self._out.append({"type": "tool-input-delta", "toolCallId": call.id, "inputTextDelta": text})

    def _call_is_ready(self, call: Call) -> None:
        told = {"type": "tool-input-available", "toolCallId": call.id, "toolName": call.name}
        self._out.append({**told, "input": dict(call.args or {})})

    def _call_is_broken(self, call: Call) -> None:
        told = {"type": "tool-input-error", "toolCallId": call.id, "toolName": call.name}
        self._out.append({**told, "input": call.raw_arguments or "", "errorText": "the call did not come whole"})

    def _result(self, call: Call, response: Mapping[str, Any]) -> None:
        told = {"toolCallId": call.id}
        if set(response) == {"error"}:
            self._out.append({"type": "tool-output-error", **told, "errorText": str(response["error"])})
        else:
            self._out.append({"type": "tool-output-available", **told, "output": dict(response)})

    def _file(self, mime_type: str, data: bytes | None, uri: str | None) -> None:
        url = uri or f"data:{mime_type};base64,{base64.b64encode(data or b'').decode()}"
        self._out.append({"type": "file", "url": url, "mediaType": mime_type})

    def _source(self, uri: str, title: str | None) -> None:
        source = {"type": "source-url", "sourceId": uri, "url": uri}
        self._out.append({**source, "title": title} if title else source)

    def _extra(self, name: str, value: Mapping[str, Any]) -> None:
        self._out.append({"type": f"data-{name.replace('_', '-')}", "data": dict(value)})

    def _round_ends(self) -> None:
        self._out.append({"type": "finish-step"})

    def _end(self, ending: Ending) -> None:
        if ending.outcome == "cancelled":
            self._out.append({"type": "abort", "reason": ending.code})
        elif ending.outcome == "failed":
            self._out.append({"type": "error", "errorText": ending.sentence})
        finish: dict[str, Any] = {"type": "finish", "finishReason": _REASONS[ending.outcome]}
        if ending.usage.known:
            usage = ending.usage
            finish["messageMetadata"] = {
                "usage": {
                    "inputTokens": usage.prompt,
                    "outputTokens": usage.output,
                    "totalTokens": usage.total,
                    "reasoningTokens": usage.thoughts,
                    "cachedInputTokens": usage.cached,
                }
            }
        self._out += [finish, DONE]
