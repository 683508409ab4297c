"""For tests, ours and users': servers that speak the providers' wire, and faults on demand.

Needs the extra ``testing`` (starlette and uvicorn; trustme and websockets for Live). Every name is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adk_stream.testing.faults import FAULTS, Fault
    from adk_stream.testing.live_faults import LIVE_FAULTS, LiveFault
    from adk_stream.testing.live_script import Conversation
    from adk_stream.testing.live_server import LiveServer
    from adk_stream.testing.replay import ReplayServer
    from adk_stream.testing.seen import SeenRequest

__all__ = ["FAULTS", "LIVE_FAULTS", "Conversation", "Fault", "LiveFault", "LiveServer", "ReplayServer", "SeenRequest"]

_HOMES = {
    "FAULTS": "faults",
    "LIVE_FAULTS": "live_faults",
    "Conversation": "live_script",
    "Fault": "faults",
    "LiveFault": "live_faults",
    "LiveServer": "live_server",
    "ReplayServer": "replay",
    "SeenRequest": "seen",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
