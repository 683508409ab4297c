"""Responses out in the wire formats that front ends speak.

One encoder object serves one stream: ``encode(response)`` for each response, partial and final, then
``finish(error)`` once. Both give events; ``frame(event)`` gives an event's bytes in a ``text/event-stream``, and
``headers`` what that HTTP response should say. Encoders wait for nothing and know no server.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .adk import AdkEncoder
    from .ag_ui import AgUiEncoder
    from .native import NativeEncoder, NativeEvent
    from .openai_chat import OpenAIChatEncoder
    from .protocol import Encoder
    from .vercel import VercelEncoder

__all__ = [
    "AdkEncoder",
    "AgUiEncoder",
    "Encoder",
    "NativeEncoder",
    "NativeEvent",
    "OpenAIChatEncoder",
    "VercelEncoder",
]

_MODULES = {
    "AdkEncoder": "adk",
    "AgUiEncoder": "ag_ui",
    "Encoder": "protocol",
    "NativeEncoder": "native",
    "NativeEvent": "native",
    "OpenAIChatEncoder": "openai_chat",
    "VercelEncoder": "vercel",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
