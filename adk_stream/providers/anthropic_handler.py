"""The live view of one Messages stream: callbacks, for people who work at the level of Anthropic's events.

Fed by the same reader as everything else, so no wire format is read twice: the chunks that the callbacks tell
of can go on to an aggregator, which makes the responses of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from adk_stream.errors import ProviderError, StreamError
from adk_stream.parts import CallSlot, PartDelta, StreamChunk, StreamedPart, StreamLimits
from adk_stream.providers.line import Line

if TYPE_CHECKING:
    from adk_stream.response import LlmResponse

__all__ = ["MessagesStream", "MessagesStreamHandler"]


class MessagesStreamHandler:
    """Override what you want to see; every method does nothing by default.

    When the stream has ended, ``on_complete`` or ``on_error`` is called, once, and nothing after it. An
    exception of a callback goes on to whoever feeds the stream.

    Attributes:
        final: The final response, set by ``execution.read_messages_stream``; also after an error, with what
            had come.
    """

    final: LlmResponse | None = None

    def on_start(self, message_id: str, model: str | None) -> None:
        """A message has begun."""

    def on_usage(self, usage: dict[str, Any]) -> None:
        """Anthropic's own usage object, with the last value of each counter so far."""

    def on_delta_text(self, text: str) -> None:
        """Text went on."""

    def on_thinking_delta(self, thinking: str) -> None:
        """Thinking went on."""

    def on_tool_use_start(self, call_id: str | None, name: str | None) -> None:
        """A call to one of the client's tools has begun."""

    def on_tool_use_delta(self, call_id: str | None, partial_json: str) -> None:
        """A fragment of the call's JSON arguments: for display only."""

    def on_tool_use_complete(
        self, call_id: str | None, name: str | None, args: dict[str, Any] | None, raw_arguments: str | None
    ) -> None:
        """A call is whole. Arguments that are no JSON object come as None and their raw text."""

    def on_stop_reason(self, stop_reason: str) -> None:
        """Anthropic's word for why the model stopped."""

    def on_complete(self) -> None:
        """The message came to its ``message_stop``; the stop reason tells whether the answer is whole."""

    def on_error(self, error: BaseException) -> None:
        """The stream failed.

        Args:
            error: A ``ProviderError`` that came inside the stream; a ``StreamError`` with code ``STREAM_CUT``
                if it ended too early, or one that tells what could not be read; or the source's exception.
        """


class MessagesStream:
    """Feeds one stream to a handler. Not thread-safe.

    Args:
        handler: Told of everything in the order of the stream.
        sink: Given each chunk before the handler is told of it; such as an aggregator's ``process_response``.
        on_malformed: ``"raise"``, or ``"skip"`` to pass over events that cannot be read.
        limits: Bounds on what is held.

    Attributes:
        ended: The message was told to be over, or failed: nothing more needs to be fed.
    """

    def __init__(
        self,
        handler: MessagesStreamHandler,
        sink: Callable[[StreamChunk], object] | None = None,
        *,
        on_malformed: str = "raise",
        limits: StreamLimits | None = None,
    ) -> None:
        self.handler = handler
        self.ended = False
        self._sink = sink
        self._line = Line("anthropic", on_malformed=on_malformed, limits=limits)
        self._message_id: str | None = None
        self._calls: dict[int, CallSlot] = {}  # those that are open, by their part's index
        self._came = False
        self._terminal = False
        self._closed = False

    def feed(self, piece: Any) -> None:
        """Take the next piece in: bytes or str cut anywhere, a decoded event, or an object of the SDK.

        After the end, pieces are let pass.

        Raises:
            MalformedStreamError: an event cannot be read; ``on_error`` has been told.
        """
        if not self._closed:
            self._take(lambda: self._line.feed(piece))

    def close(self, error: BaseException | None = None) -> None:
        """End the stream, and tell the handler how it ended; again, it does nothing.

        Args:
            error: Why the stream ends, if it does not end by itself.

        Raises:
            MalformedStreamError: the stream ends inside an event; ``on_error`` has been told.
        """
        if self._closed:
            return
        if error is None:
            self._take(self._line.close)
        if self._came and not self._terminal and error is None:
            error = StreamError("the stream ended without a message_stop")
            error.code = "STREAM_CUT"
        self._end(error)

    def _take(self, read: Callable[[], Iterable[Iterable[StreamChunk]]]) -> None:
        try:
            for chunks in read():
                for chunk in chunks:
                    if self._sink is not None:
                        self._sink(chunk)
                    self._tell(chunk)
                    if self._closed:
                        return
        except StreamError as problem:
            self._end(problem)
            raise

    def _end(self, error: BaseException | None) -> None:
        if self._closed:
            return
        self._closed = self.ended = True
        if error is not None:
            self.handler.on_error(error)
        elif self._came:
            self.handler.on_complete()

    def _tell(self, chunk: StreamChunk) -> None:
        self._came = True
        if chunk.response_id and chunk.response_id != self._message_id:
            self._message_id = chunk.response_id
            self._calls = {}
            self.handler.on_start(chunk.response_id, chunk.model_version)
        usage = (chunk.provider_metadata or {}).get("usage")
        if usage:
            self.handler.on_usage(usage)
        for streamed in chunk.parts:
            if isinstance(streamed.part, PartDelta):
                self._tell_of_part(streamed, streamed.part)
        if chunk.native_finish_reason:
            self.handler.on_stop_reason(chunk.native_finish_reason)
        if chunk.terminal:
            self._terminal = self.ended = True
        if chunk.error is not None:
            self._end(ProviderError(chunk.error.code, chunk.error.message))

    def _tell_of_part(self, streamed: StreamedPart, delta: PartDelta) -> None:
        if delta.function_call is not None:
            self._tell_of_call(streamed, delta)
        elif delta.text:
            (self.handler.on_thinking_delta if delta.thought else self.handler.on_delta_text)(delta.text)

    def _tell_of_call(self, streamed: StreamedPart, delta: PartDelta) -> None:
        index, fragment = streamed.index or 0, streamed.arguments_delta
        slot = self._calls.get(index)
        begins = slot is None
        if slot is None:
            slot = self._calls[index] = CallSlot()
        if streamed.partial:
            slot.append(delta, fragment)
        else:
            slot.close(delta, fragment)
            del self._calls[index]
        if begins:
            self.handler.on_tool_use_start(slot.id, slot.name)
        if not streamed.partial:
            args, raw, _ = slot.arguments()
            self.handler.on_tool_use_complete(slot.id, slot.name, args, raw)
        elif fragment:
            self.handler.on_tool_use_delta(slot.id, fragment)
