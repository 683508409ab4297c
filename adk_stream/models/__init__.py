"""The request side: one module for each provider, on its official client, behind one small protocol.

The names are loaded on first use; OpenAI's and Anthropic's clients are extras (``openai``, ``anthropic``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from adk_stream.lazily import lazy_names

if TYPE_CHECKING:
    from adk_stream.models.anthropic import AnthropicModel
    from adk_stream.models.gemini import GeminiModel
    from adk_stream.models.openai_chat import OpenAIChatModel
    from adk_stream.models.openai_responses import OpenAIResponsesModel
    from adk_stream.models.replay import ReplayModel
    from adk_stream.models.request import Model, ModelRequest

__all__ = [
    "MODELS",
    "AnthropicModel",
    "GeminiModel",
    "Model",
    "ModelRequest",
    "OpenAIChatModel",
    "OpenAIResponsesModel",
    "ReplayModel",
    "model_from_name",
]

_HOMES = {
    "AnthropicModel": "anthropic",
    "GeminiModel": "gemini",
    "Model": "request",
    "ModelRequest": "request",
    "OpenAIChatModel": "openai_chat",
    "OpenAIResponsesModel": "openai_responses",
    "ReplayModel": "replay",
}

#: What stands before the colon of a model's name on the command line: the class that asks there. ``replay`` takes
#: the path of a recording in the place of a name.
MODELS: Mapping[str, str] = {
    "gemini": "GeminiModel",
    "openai-chat": "OpenAIChatModel",
    "openai-responses": "OpenAIResponsesModel",
    "anthropic": "AnthropicModel",
    "replay": "ReplayModel",
}


def model_from_name(name: str) -> Model:
    """The model that ``PROVIDER:NAME`` stands for, with a client from the environment.

    Raises:
        ValueError: it is no such name.
        RecordingError: ``replay:FILE``, and the file cannot be read.
    """
    provider, _, own = name.partition(":")
    if not own:
        raise ValueError(f"a model is PROVIDER:NAME, not {name!r}")
    if provider not in MODELS:
        raise ValueError(f"no provider {provider!r}; there are {', '.join(MODELS)}")
    model: Model = __getattr__(MODELS[provider])(own)
    return model


__getattr__, __dir__ = lazy_names(__name__, _HOMES)
