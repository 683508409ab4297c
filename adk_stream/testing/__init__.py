"""For tests, ours and users': servers that speak the providers' wire, and faults on demand.

Needs the extra ``testing`` (starlette and uvicorn; trustme and websockets for Live). Every name is loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_stream.lazily import lazy_names

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


__getattr__, __dir__ = lazy_names(__name__, _HOMES)
