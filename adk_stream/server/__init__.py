"""The HTTP service: runs that outlive their requests, followed by any number of clients in the formats they speak.

::

    app = make_app(ServerConfig(models={"gemini": "gemini:gemini-3-flash"}, sessions="sqlite:///sessions.db"))

``adk-stream serve`` serves the same from the command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adk_stream.errors import MissingExtraError
from adk_stream.lazily import lazy_names

if TYPE_CHECKING:
    from .app import make_app
    from .config import ServerConfig
    from .limits import Limits
    from .observer import RunObserver
    from .serving import ServiceServer, is_loopback, listen

__all__ = ["Limits", "RunObserver", "ServerConfig", "ServiceServer", "is_loopback", "listen", "make_app"]

_HOMES = {
    "Limits": "limits",
    "RunObserver": "observer",
    "ServerConfig": "config",
    "ServiceServer": "serving",
    "is_loopback": "serving",
    "listen": "serving",
    "make_app": "app",
}


_load, __dir__ = lazy_names(__name__, _HOMES)


def __getattr__(name: str) -> Any:
    try:
        return _load(name)
    except ModuleNotFoundError as missing:
        package = (missing.name or "a package").partition(".")[0]
        raise MissingExtraError(f"the service needs {package}: pip install 'adk-stream[server]'") from missing
