"""``StreamingResponseAggregator`` in the place of google-adk's own, with its surface and our results.

google-adk makes one for each call of a model, hands it chunk after chunk (``process_response``, an async generator)
and asks it for the final (``close``). Its feature flag ``PROGRESSIVE_SSE_STREAMING`` chooses between two manners:

- *progressive* (the default): every chunk that has something to show gives one partial, ``close()`` everything;
- *classic*: runs of text come out as soon as they end, each as a complete response.

In the classic manner google-adk runs the calls of a complete response at once, while the model is still speaking, and
ends the turn if a complete response without calls comes after. So the newest complete response is held back until more
comes, and from the first call on everything waits for ``close()``: the turn's last response is the one that decides.

Almost all chunks of almost all streams are one piece of text and nothing else. These take a short way that does the
same: the flag, too, makes no difference to them, and is read with the first other chunk.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any
from uuid import uuid4

from google.adk.features import FeatureName, is_feature_enabled
from google.adk.models.llm_response import LlmResponse as AdkLlmResponse
from google.genai import types

from adk_stream.aggregator import StreamingResponseAggregator as Core
from adk_stream.parts import MADE_ID_PREFIX, PartDelta, StreamChunk
from adk_stream.providers.gemini import GeminiReader
from adk_stream.response import LlmResponse

from .conversions import adk_fields
from .private import JSON_PATH_NAMES, json_path_name
from .short_way import ShortWay
from .usage import Usage

__all__ = ["StreamingResponseAggregator"]


class StreamingResponseAggregator:
    """Aggregates the chunks of one model call into google-adk's responses. Not thread-safe.

    Chunks are read as they are and never changed; no two responses share anything that can be changed.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._reader = GeminiReader()
        self._core: Core | None = None
        self._progressive = True
        self._seen = False
        self._short = ShortWay()
        self._usage = Usage()
        self._call_ids: dict[int, str] = {}
        self._open_calls: dict[int, tuple[str, str | None]] = {}  # id and name by the call's index
        self._held: list[types.Part] = []  # classic: the newest complete response, or everything from the first call on
        self._holds_calls = False

    async def process_response(self, response: types.GenerateContentResponse) -> AsyncGenerator[AdkLlmResponse, None]:
        """Take a chunk in, and give the responses it leads to.

        Raises:
            adk_stream.errors.StreamLimitError: the response is larger than the limits allow.
        """
        if response.usage_metadata is not None:
            self._usage.add(response.usage_metadata)
        shown = self._short.take(response)
        if shown is not None:
            yield shown
            return
        for ready in self._take(response):
            yield ready

    def close(self) -> AdkLlmResponse | None:
        """The final: how the stream ended, usage, and the content no earlier response carried; None if nothing came."""
        if not self._seen:
            return None
        self._end_run()
        final = self._the_core().close()
        if final is None:
            return None
        if self._held:
            role = final.content.role if final.content else "model"
            final.content = types.Content(role=role, parts=self._held + final.parts)
        final.usage_metadata = self._usage.result()
        response = self._final(final)
        self._begin()
        return response

    # ------------------------------------------------------------- one piece and nothing else

    def _end_run(self) -> None:
        """Tell the core of what took the short way, as one piece; it was shown already."""
        part = self._short.end_run()
        if part is not None:
            self._tell_core(part)

    def _tell_core(self, part: dict[str, Any]) -> None:
        for chunk in self._reader.read({"candidates": [{"content": {"parts": [part]}}]}):
            self._name_calls(chunk)
            self._the_core().take(chunk)

    # ------------------------------------------------------------- any other chunk

    def _take(self, response: types.GenerateContentResponse) -> list[AdkLlmResponse]:
        self._seen = True
        self._end_run()
        core = self._the_core()
        responses: list[AdkLlmResponse] = []
        for chunk in self._reader.read_object(response):
            chunk.usage_metadata = None
            self._name_calls(chunk)
            for each in core.take(chunk):
                responses += self._partial(each) if each.partial else self._hold(each)
        self._open_short_way(response)
        return responses

    def _open_short_way(self, response: types.GenerateContentResponse) -> None:
        open_call = next(iter(self._open_calls.values())) if len(self._open_calls) == 1 else None
        self._short.open(response.response_id, response.model_version, open_call)

    def _the_core(self) -> Core:
        if self._core is None:
            self._progressive = is_feature_enabled(FeatureName.PROGRESSIVE_SSE_STREAMING)
            self._core = Core(flush="close" if self._progressive else "boundary")
            self._core.speaks("gemini")
        return self._core

    def _name_calls(self, chunk: StreamChunk) -> None:
        """Give each call an id with its first fragment, so that all that is shown of it bears one."""
        for streamed in chunk.parts:
            delta, index = streamed.part, streamed.index
            if index is None or type(delta) is not PartDelta or delta.function_call is None:
                continue
            call = delta.function_call
            call.id = call.id or self._call_ids.get(index) or f"{MADE_ID_PREFIX}{uuid4()}"
            self._call_ids[index] = call.id
            if streamed.partial:
                _, name = self._open_calls.get(index, (None, None))
                self._open_calls[index] = call.id, call.name or name
            else:
                self._open_calls.pop(index, None)

    def _partial(self, response: LlmResponse) -> list[AdkLlmResponse]:
        if not response.parts:
            return []
        return [AdkLlmResponse(content=response.content, partial=True, model_version=response.model_version)]

    def _hold(self, response: LlmResponse) -> list[AdkLlmResponse]:
        """Classic: hold a complete response back, and give the one before it, unless calls have come."""
        ready: list[AdkLlmResponse] = []
        if self._held and not self._holds_calls:
            content = types.Content(role=response.content.role if response.content else "model", parts=self._held)
            ready.append(AdkLlmResponse(content=content, partial=False, model_version=response.model_version))
            self._held = []
        self._held += response.parts
        self._holds_calls = self._holds_calls or any(part.function_call for part in response.parts)
        return ready

    # ------------------------------------------------------------- the final

    def _final(self, final: LlmResponse) -> AdkLlmResponse:
        fields = adk_fields(final, AdkLlmResponse)
        if final.finish_reason is types.FinishReason.STOP and fields.get("content") is None:
            # google-adk passes over a response that has neither content nor error: a silent end, its usage lost
            fields["content"] = types.Content(role="model", parts=[])
        return AdkLlmResponse(**fields)

    def _set_value_by_json_path(self, json_path: str, value: Any) -> None:
        """Put a value into the arguments of the open call, as one more fragment would. google-adk's tests call it."""
        kind = next((name for cls, name in _VALUE_KINDS if isinstance(value, cls)), None)
        if kind is None or not self._open_calls:
            return
        fragment = {"jsonPath": json_path, kind: "NULL_VALUE" if value is None else value}
        self._end_run()
        self._tell_core({"functionCall": {"partialArgs": [fragment], "willContinue": True}})


_VALUE_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "boolValue"),
    (int, "numberValue"),
    (float, "numberValue"),
    (str, "stringValue"),
    (type(None), "nullValue"),
)


def __getattr__(name: str) -> Any:
    value = json_path_name(name) if name in JSON_PATH_NAMES else None
    if value is not None:
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
