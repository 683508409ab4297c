"""For tests, ours and users': servers that speak the providers' wire, and faults on demand.

Needs the extra ``testing`` (starlette, uvicorn). Every name is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adk_stream.testing.faults import FAULTS, Fault
    from adk_stream.testing.replay import ReplayServer, SeenRequest

__all__ = ["FAULTS", "Fault", "ReplayServer", "SeenRequest"]

_HOMES = {"FAULTS": "faults", "Fault": "faults", "ReplayServer": "replay", "SeenRequest": "replay"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
