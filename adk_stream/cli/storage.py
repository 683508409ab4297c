"""Which session store the commands use, and the names they store under."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adk_stream.response import LlmResponse
    from adk_stream.sessions import Session, SessionService

__all__ = ["APP_NAME", "USER_ID", "SessionKeeper", "open_store", "store_url"]

APP_NAME = "adk-stream"
USER_ID = "local"

#: Where the store is when no option says so: a database URL, or the path of an SQLite file.
VARIABLE = "ADK_STREAM_SESSION_DB"


def open_store(url: str | None) -> SessionService:
    """The store of ``url``, else of ``$ADK_STREAM_SESSION_DB``, else the file in the user's data folder.

    Raises:
        SessionError: no store for that URL, or SQLAlchemy is missing.
    """
    from adk_stream.sessions import open_session_service

    return open_session_service(store_url(url))


def store_url(url: str | None) -> str:
    """The URL that ``open_store`` opens."""
    return _as_url(url or os.environ.get(VARIABLE) or _default_path())


class SessionKeeper:
    """Appends what one run gave to a new session, which is created when the first thing comes.

    Attributes:
        session: None until something came.
    """

    def __init__(self, service: SessionService) -> None:
        from adk_stream.sessions.event import new_id

        self.session: Session | None = None
        self._service = service
        self._invocation_id = f"e-{new_id()}"

    async def open(self) -> Session:
        """The session. Opening it early finds a store that does not work before the model has spoken."""
        if self.session is None:
            self.session = await self._service.create_session(app_name=APP_NAME, user_id=USER_ID)
        return self.session

    async def keep(self, response: LlmResponse, author: str = "model") -> None:
        """Append a non-partial response."""
        from adk_stream.sessions import Event

        event = Event.from_response(response, author=author, invocation_id=self._invocation_id)
        await self._service.append_event(await self.open(), event)

    async def close(self) -> None:
        """Close the store."""
        await self._service.close()


def _as_url(given: str) -> str:
    """A path is the SQLite file there."""
    if "://" in given or given == "memory:":
        return given
    return f"sqlite:///{Path(given).expanduser().absolute()}"


def _default_path() -> str:
    folder = _data_folder() / "adk_stream"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # conversations are the user's own
    return str(folder / "sessions.db")


def _data_folder() -> Path:
    if xdg := os.environ.get("XDG_DATA_HOME"):
        return Path(xdg)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    return Path.home() / ".local" / "share"
