"""adk_stream inside google-adk: its stream aggregator, its sessions and its models, replaced by ours.

::

    from adk_stream.integrations.google_adk import AdkSessionService, install

    install()                                   # every Gemini model of this process now aggregates with adk_stream
    runner = Runner(agent=agent, session_service=AdkSessionService("sqlite:///sessions.db"), ...)

Nothing else in this package imports google-adk. It is the extra ``adk``.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from adk_stream.lazily import lazy_names

if TYPE_CHECKING:
    from .aggregator import StreamingResponseAggregator
    from .conversions import from_adk_event, from_adk_response, to_adk_event, to_adk_response
    from .installation import Installation, install, uninstall
    from .live import GeminiLlmConnection
    from .model import AdkStreamLlm
    from .sessions import AdkSessionService
    from .strict import StrictStreamingResponseAggregator

__all__ = [
    "AdkSessionService",
    "AdkStreamLlm",
    "GeminiLlmConnection",
    "Installation",
    "StreamingResponseAggregator",
    "StrictStreamingResponseAggregator",
    "from_adk_event",
    "from_adk_response",
    "install",
    "to_adk_event",
    "to_adk_response",
    "uninstall",
]

_HOMES = {
    "AdkSessionService": "sessions",
    "AdkStreamLlm": "model",
    "GeminiLlmConnection": "live",
    "Installation": "installation",
    "StreamingResponseAggregator": "aggregator",
    "StrictStreamingResponseAggregator": "strict",
    "from_adk_event": "conversions",
    "from_adk_response": "conversions",
    "install": "installation",
    "to_adk_event": "conversions",
    "to_adk_response": "conversions",
    "uninstall": "installation",
}


def _is_installed() -> bool:
    try:
        return find_spec("google.adk") is not None
    except ModuleNotFoundError:
        return False


if not _is_installed():
    raise ImportError("adk_stream.integrations.google_adk needs google-adk: pip install 'adk-stream[adk]'")


__getattr__, __dir__ = lazy_names(__name__, _HOMES)
