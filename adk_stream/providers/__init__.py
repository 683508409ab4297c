"""Events of each provider to StreamChunks, and finished responses back to the provider's own message.

One module for each of the five lines. Each holds a *reader* (a struct that turns the line's events into
StreamChunks; all its state is in its fields) and a function ``to_native``. Nothing outside a line's module knows
its quirks.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from adk_stream.parts import StreamChunk

if TYPE_CHECKING:
    from adk_stream.response import LlmResponse

__all__ = ["DONE", "LINES", "Reader", "open_reader", "reader_type", "to_native"]

#: What a reader is given in the place of an event where the wire says ``data: [DONE]``.
DONE = "[DONE]"

#: Each line's module and the name of its reader there.
LINES = {
    "gemini": ("gemini", "GeminiReader"),
    "gemini-live": ("gemini_live", "LiveReader"),
    "openai-chat": ("openai_chat", "ChatReader"),
    "openai-responses": ("openai_responses", "ResponsesReader"),
    "anthropic": ("anthropic", "AnthropicReader"),
}


class Reader(Protocol):
    """Turns the events of one stream into StreamChunks. One reader serves one stream; it is not thread-safe."""

    __struct_fields__: ClassVar[tuple[str, ...]]

    @property
    def ended(self) -> bool:
        """The line's own end mark came: there is nothing more to wait for."""
        ...

    def read(self, event: Any, name: str | None = None) -> Sequence[StreamChunk]:
        """The chunks of one decoded event; ``name`` is the SSE event's name. Neutral events give none.

        An event of a shape that the format does not allow may raise TypeError, ValueError, KeyError or
        AttributeError; the caller makes a MalformedStreamError of it, which knows the event's number.
        """
        ...

    # A reader may also have methods for its commonest events, which cost less. They give None for any other event, of
    # which they have taken in nothing:
    # ``grow_bytes(data: bytes) -> ShortChunk | None``: what ``read`` gives for an event with this payload;
    # ``grow_object(event: Any) -> ShortChunk | None``: what ``read_object`` gives.

    def read_object(self, event: Any) -> Sequence[StreamChunk]:
        """The chunks of one object of the official SDK, read as it is."""
        ...

    def close(self) -> Sequence[StreamChunk]:
        """What the end of the stream sets free, if anything."""
        ...

    def snapshot(self) -> bytes:
        """The reader's state."""
        ...

    @classmethod
    def restore(cls, data: bytes) -> Reader:
        """The reader whose state this is."""
        ...


def open_reader(provider: str, **options: Any) -> Reader:
    """A fresh reader for ``provider``; options that this line has no use for are left out.

    Raises:
        ValueError: there is no such line.
    """
    reader = reader_type(provider)
    return reader(**{name: value for name, value in options.items() if name in reader.__struct_fields__})


def reader_type(provider: str) -> type[Reader]:
    """The class of the readers of ``provider``.

    Raises:
        ValueError: there is no such line.
    """
    return cast("type[Reader]", getattr(_module(provider), LINES[provider][1]))


def to_native(response: LlmResponse | Sequence[LlmResponse], provider: str) -> Any:
    """The provider's own assistant message, to be sent back as history, with every opaque value in place.

    Args:
        response: One non-partial response, or the finals of one stream in order.
        provider: ``"gemini"`` gives a Content dict, ``"openai-chat"`` a message dict, ``"openai-responses"``
            the list of output items, ``"anthropic"`` a message dict with content blocks.

    Raises:
        NativeError: a response is partial.
        ValueError: there is no such line.
    """
    responses = list(response) if isinstance(response, Sequence) else [response]
    return _module(provider).to_native(responses)


def _module(provider: str) -> Any:
    if provider not in LINES:
        raise ValueError(f"no provider {provider!r}; there are {', '.join(LINES)}")
    return import_module(f"{__name__}.{LINES[provider][0]}")
