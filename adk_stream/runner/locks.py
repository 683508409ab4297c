"""One run at a time on a session: within this process runs wait for one another, in the order they came.

A lock belongs to a session of a store, not to a runner: two runners on one store do not interleave either. Runs may
live in different threads and event loops. Between processes nobody waits; there the store's revision check refuses
the second writer (``StaleSessionError``).
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from adk_stream.errors import SessionBusyError

__all__ = ["SessionLocks", "locks_of"]

Key: TypeAlias = tuple[str, str, str]  # application, user, session
_Ticket: TypeAlias = "Future[None]"


class SessionLocks:
    """The locks of one store's sessions. A session that nobody uses takes no memory."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: dict[Key, deque[_Ticket]] = {}  # a key is here while somebody holds its lock

    async def acquire(self, key: Key, patience: float | None) -> None:
        """Take the session's lock; ``release`` gives it back.

        Not an async context manager: an event loop that ends closes all async generators at once, these too.

        Args:
            key: Application, user and session.
            patience: Seconds to wait for it; None: as long as it takes.

        Raises:
            SessionBusyError: another run still held it when the time was over.
        """
        ticket = self._ask(key)
        if ticket is None:
            return
        try:
            async with asyncio.timeout(patience):
                await asyncio.wrap_future(ticket)
        except BaseException as problem:
            if not ticket.cancel():  # it became ours at the same moment
                self.release(key)
            if isinstance(problem, TimeoutError):
                raise SessionBusyError(f"session {key[2]!r} is still in use after {patience:g} s") from None
            raise

    def __len__(self) -> int:
        return len(self._waiting)

    def _ask(self, key: Key) -> _Ticket | None:
        with self._guard:
            if key not in self._waiting:
                self._waiting[key] = deque()
                return None
            ticket: _Ticket = Future()
            self._waiting[key].append(ticket)
            return ticket

    def release(self, key: Key) -> None:
        """Pass the session's lock on to whoever has waited longest."""
        with self._guard:
            waiting = self._waiting[key]
            while waiting:
                ticket = waiting.popleft()
                if ticket.set_running_or_notify_cancel():
                    ticket.set_result(None)
                    return
            del self._waiting[key]


_OF_STORE: WeakKeyDictionary[Any, SessionLocks] = WeakKeyDictionary()
_OF_STORE_GUARD = threading.Lock()


def locks_of(store: Any) -> SessionLocks:
    """The locks of that store's sessions, the same for everybody in this process."""
    with _OF_STORE_GUARD:
        return _OF_STORE.setdefault(store, SessionLocks())
