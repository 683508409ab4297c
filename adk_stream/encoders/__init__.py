"""Responses out in the wire formats that front ends speak.

One encoder object serves one stream: ``encode(response)`` for each response, partial and final, then
``finish(error)`` once. Both give events; ``frame(event)`` gives an event's bytes in a ``text/event-stream``, and
``headers`` what that HTTP response should say. Encoders wait for nothing and know no server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_stream.lazily import lazy_names

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

_HOMES = {
    "AdkEncoder": "adk",
    "AgUiEncoder": "ag_ui",
    "Encoder": "protocol",
    "NativeEncoder": "native",
    "NativeEvent": "native",
    "OpenAIChatEncoder": "openai_chat",
    "VercelEncoder": "vercel",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
