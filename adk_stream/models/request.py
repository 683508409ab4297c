"""What a model is asked, and the one small protocol that every model keeps."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from google.genai import types

    from adk_stream.response import LlmResponse

__all__ = ["Message", "Model", "ModelRequest", "ToolLike"]

#: One entry of a conversation: a Content, or a response (a session's Event is one), which also knows its provider.
Message: TypeAlias = "types.Content | LlmResponse"

#: A tool as people have it: a function, google-genai's declaration or Tool, or a JSON schema as a mapping.
ToolLike: TypeAlias = "Callable[..., Any] | types.FunctionDeclaration | types.Tool | Mapping[str, Any]"


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One round: the conversation so far, and how to go on with it.

    Attributes:
        messages: Oldest first. What the model itself said earlier is best given as the non-partial responses, for
            they hold what must return to the provider unchanged (signatures, reasoning items, ids).
        system_instruction: What the model is told before the conversation; None: nothing.
        tools: What the model may call.
        config: Generation settings (temperature, output limit, thinking, response schema, …) in google-genai's
            words; each model translates those that its provider knows.
    """

    messages: Sequence[Message]
    system_instruction: str | None = None
    tools: Sequence[ToolLike] = ()
    config: types.GenerateContentConfig | None = None


@runtime_checkable
class Model(Protocol):
    """A model behind its provider's own client. One object serves any number of streams at once.

    Attributes:
        name: The provider's name of the model.
        provider: The line it answers on (``"gemini"``, ``"openai-chat"``, …), as ``aggregate`` takes it.
    """

    @property
    def name(self) -> str:
        """The provider's name of the model."""
        ...

    @property
    def provider(self) -> str:
        """The line it answers on, as ``aggregate`` takes it."""
        ...

    def stream(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
        """Ask once, and yield the raw answer: bytes cut anywhere, or the client's own events.

        Nothing is sent before the first item is asked for. Closing the generator closes the connection. The client's
        own retries are off: ``execute`` decides on those. Faults come out as the client raises them.
        """
        ...
