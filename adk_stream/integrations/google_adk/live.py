"""``GeminiLlmConnection`` in the place of google-adk's own: the same way of sending, our way of receiving.

google-adk's live flow reads one thing from each response: the first of a resumption, a voice activity, a transcript, or
the content; and it leaves the connection at a go-away. So a response that says several things is given as several, and
the go-away of a message comes behind everything else in it. The flow runs calls of partial responses, too: whole parts
are given once, as complete responses (``flush="boundary"``).

What google-adk's own connection loses and this one gives: what a message brings together with ``turnComplete`` or a
transcript; text, transcripts and calls at a lost connection; signatures; code beside text; the language of transcripts;
the cancellation of a call. Calls are given as soon as they are whole, whatever the model is called.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any

from google.adk.models.gemini_llm_connection import GeminiLlmConnection as AdkGeminiLlmConnection
from google.adk.models.llm_response import LlmResponse as AdkLlmResponse
from google.genai import types

from adk_stream.aggregator import StreamingResponseAggregator
from adk_stream.response import LlmResponse

from .conversions import EXTRAS_KEY, adk_fields

__all__ = ["GeminiLlmConnection"]

#: Fields of which google-adk's flow takes one from each response, in the order in which they are given; what is left of
#: the response comes before the transcript of what the model said.
_BEFORE = ("live_session_resumption_update", "voice_activity", "input_transcription")
_AFTER = ("output_transcription",)
#: Fields that say something without any other.
_TELLING = frozenset(
    {
        "content",
        "turn_complete",
        "interrupted",
        "usage_metadata",
        "grounding_metadata",
        "error_code",
        "go_away",
        "custom_metadata",
    }
)


class GeminiLlmConnection(AdkGeminiLlmConnection):
    """A Live connection whose responses are aggregated by this package. One task at a time may receive."""

    async def receive(self) -> AsyncGenerator[AdkLlmResponse, None]:
        """The responses of one turn; the connection goes on until this gives nothing.

        At the end of the connection, and before an error of it goes on to the caller, what had come of an open turn is
        given.
        """
        aggregator = self.__aggregator()
        complete = False
        try:
            async with aclosing(self._gemini_session.receive()) as messages:
                async for message in messages:
                    content = message.server_content
                    complete = bool(content and content.turn_complete)
                    for response in self.__responses(aggregator, message):
                        yield response
        except Exception as problem:
            for response in self.__rest(aggregator.close(problem)):
                yield response
            raise
        if not complete:
            for response in self.__rest(aggregator.close()):
                yield response

    def __aggregator(self) -> StreamingResponseAggregator:
        """The one of this connection: transcripts may lag behind the end of a turn."""
        own: StreamingResponseAggregator | None = self.__dict__.get("_adk_stream_aggregator")
        if own is None:
            own = self._adk_stream_aggregator = StreamingResponseAggregator(flush="boundary")
        return own

    def __responses(
        self, aggregator: StreamingResponseAggregator, message: types.LiveServerMessage
    ) -> Iterator[AdkLlmResponse]:
        leave: list[AdkLlmResponse] = []
        for response in aggregator.process_response(message):
            for fields in _said_apart(adk_fields(response, AdkLlmResponse)):
                given = self.__response(fields)
                if given.go_away is None:
                    yield given
                else:
                    leave.append(given)
        yield from leave

    def __rest(self, final: LlmResponse | None) -> Iterator[AdkLlmResponse]:
        """What had come of an open turn. An end between turns is none of a turn: the flow connects again."""
        if final is None or not (
            final.content or final.input_transcription or final.output_transcription or final.usage_metadata
        ):
            return
        for fields in _said_apart(adk_fields(final, AdkLlmResponse)):
            yield self.__response(fields)

    def __response(self, fields: dict[str, Any]) -> AdkLlmResponse:
        return AdkLlmResponse(
            **{
                "model_version": self._model_version,
                "live_session_id": self._gemini_session.session_id,
                **fields,
            }
        )


def _said_apart(fields: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The fields of one response as those of several, each of which google-adk's flow takes in whole."""
    partial = {"partial": fields["partial"]} if "partial" in fields else {}
    apart = {name: fields.pop(name) for name in (*_BEFORE, *_AFTER) if name in fields}
    if not apart:
        yield fields
        return
    alone = len(apart) == 1 and not _tells(fields)
    for name in _BEFORE:
        if name in apart:
            yield {**(fields if alone else partial), name: apart[name]}
    if not alone and _tells(fields):
        yield fields
    for name in _AFTER:
        if name in apart:
            yield {**(fields if alone else partial), name: apart[name]}


def _tells(fields: dict[str, Any]) -> bool:
    """Is there more than how it was said?"""
    told = _TELLING & fields.keys()
    if told == {"custom_metadata"}:
        extras = fields["custom_metadata"].get(EXTRAS_KEY, {})
        return bool((extras.get("provider_metadata") or {}).keys() - {"provider"})
    return bool(told)
