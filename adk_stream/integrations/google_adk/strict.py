"""google-adk's exact results, where its own tests hold what this project wants otherwise.

These are all of the differences; everything else is ``StreamingResponseAggregator``:

- every chunk gives a response, also one that has nothing to show, and it tells what the chunk tells (usage, finish
  reason, error) as ``LlmResponse.create`` reads it;
- neighbouring texts are one part whether signed or not, and of their signatures the first is kept;
- an end that no finish reason told is no error;
- a value of a streamed call that conflicts with an earlier one replaces it or is passed over, and the call is run;
- the usage of the final is the last usage object as it came;
- the final bears no field and no metadata beyond google-adk's own, and no content if no part came;
- classic: a complete response is given at once, whatever may come after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from google.adk.models.llm_response import LlmResponse as AdkLlmResponse
from google.genai import types

from adk_stream.parts import StreamChunk
from adk_stream.response import LlmResponse

from .aggregator import StreamingResponseAggregator
from .conversions import adk_fields
from .private import json_path_name
from .usage import LastUsage

__all__ = ["StrictStreamingResponseAggregator"]

#: What google-adk's aggregator puts on its final.
_FINAL_FIELDS = (
    "content",
    "grounding_metadata",
    "citation_metadata",
    "error_code",
    "error_message",
    "usage_metadata",
    "finish_reason",
    "partial",
    "model_version",
)


class StrictStreamingResponseAggregator(StreamingResponseAggregator):
    """The drop-in that passes google-adk's own tests; see the module."""

    def _begin(self) -> None:
        super()._begin()
        self._usage = LastUsage()
        self._ids_in_chunk: list[str | None] = []
        self._fragments: dict[str, list[dict[str, Any]]] = {}  # by the call's id

    def _open_short_way(self, response: types.GenerateContentResponse) -> None:
        """Every chunk is read in full."""

    def _take(self, response: types.GenerateContentResponse) -> list[AdkLlmResponse]:
        self._ids_in_chunk = []
        shown = AdkLlmResponse.create(response.model_copy(deep=True))
        complete = [each for each in super()._take(response) if not each.partial]
        calls = shown.get_function_calls()
        if len(calls) == len(self._ids_in_chunk):
            for call, call_id in zip(calls, self._ids_in_chunk, strict=True):
                call.id = call_id
        parts = shown.content.parts if shown.content else None
        if self._progressive or (parts and parts[0].text):
            shown.partial = True
            return [shown, *complete]
        return complete if parts else [*complete, shown]

    def _name_calls(self, chunk: StreamChunk) -> None:
        super()._name_calls(chunk)
        for streamed in chunk.parts:
            call = streamed.part.function_call
            if call is not None:
                self._ids_in_chunk.append(call.id)
                self._fragments.setdefault(call.id, []).extend(call.partial_args or ())

    def _hold(self, response: LlmResponse) -> list[AdkLlmResponse]:
        content = types.Content(role="model", parts=self._as_theirs(response.parts))
        return [AdkLlmResponse(content=content, partial=False, model_version=response.model_version)]

    def _final(self, final: LlmResponse) -> AdkLlmResponse:
        if final.content is not None:
            final.content = types.Content(role="model", parts=self._as_theirs(final.parts))
        fields = {name: value for name, value in adk_fields(final, AdkLlmResponse).items() if name in _FINAL_FIELDS}
        if final.finish_reason is None and final.error_code == "STREAM_CUT":
            del fields["error_code"], fields["error_message"]
        return AdkLlmResponse(**fields)

    def _as_theirs(self, parts: list[types.Part]) -> list[types.Part]:
        return _joined([self._with_conflicts_resolved(part) for part in parts])

    def _with_conflicts_resolved(self, part: types.Part) -> types.Part:
        call, metadata = part.function_call, part.part_metadata or {}
        if call is None or "arguments_error" not in metadata or "unfinished" in metadata:
            return part
        args = _adk_arguments(self._fragments.get(call.id or "", ()))
        if args is None:
            return part
        return part.model_copy(update={"function_call": call.model_copy(update={"args": args}), "part_metadata": None})


def _adk_arguments(fragments: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The arguments as google-adk's aggregator reads them: the newest kind of value at a path wins.

    None: the release that is installed reads them in a way of its own.
    """
    parse_path, set_value = json_path_name("_parse_json_path"), json_path_name("_set_value_by_json_path")
    if parse_path is None or set_value is None:
        return None
    values: dict[str, Any] = {}
    for fragment in fragments:
        path, value = str(fragment.get("jsonPath")), fragment.get("stringValue")
        if value is not None:
            old = values.get(path)
            value = old + value if isinstance(old, str) else value
        else:
            value = fragment.get("numberValue", fragment.get("boolValue"))
        values[path] = value
    args: dict[str, Any] = {}
    for path, value in values.items():
        set_value(args, parse_path(path), value)
    return args


def _joined(parts: list[types.Part]) -> list[types.Part]:
    """Neighbouring texts of one kind as one part, with the first signature among them."""
    joined: list[types.Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if last is not None and last.text and part.text and bool(last.thought) is bool(part.thought):
            signature = last.thought_signature or part.thought_signature
            joined[-1] = last.model_copy(update={"text": last.text + part.text, "thought_signature": signature})
        else:
            joined.append(part)
    return joined
