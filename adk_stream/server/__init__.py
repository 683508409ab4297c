"""The HTTP service: runs that outlive their requests, followed by any number of clients in the formats they speak.

::

    app = make_app(ServerConfig(models={"gemini": "gemini:gemini-3-flash"}, sessions="sqlite:///sessions.db"))

``adk-stream serve`` serves the same from the command line.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from adk_stream.errors import MissingExtraError

if TYPE_CHECKING:
    from .app import make_app
    from .config import ServerConfig
    from .limits import Limits
    from .observer import RunObserver
    from .serving import ServiceServer, is_loopback, listen

__all__ = ["Limits", "RunObserver", "ServerConfig", "ServiceServer", "is_loopback", "listen", "make_app"]

_MODULES = {
    "Limits": "limits",
    "RunObserver": "observer",
    "ServerConfig": "config",
    "ServiceServer": "serving",
    "is_loopback": "serving",
    "listen": "serving",
    "make_app": "app",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f".{_MODULES[name]}", __name__)
    except ModuleNotFoundError as missing:
        package = (missing.name or "a package").partition(".")[0]
        raise MissingExtraError(f"the service needs {package}: pip install 'adk-stream[server]'") from missing
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
