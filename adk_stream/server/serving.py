"""The service on a socket: uvicorn, with an end that lets the runs end first."""

from __future__ import annotations

import asyncio
import socket
import sys

import uvicorn
from starlette.applications import Starlette

from .service import Service

__all__ = ["ServiceServer", "is_loopback", "listen"]


class ServiceServer(uvicorn.Server):
    """Serves ``app`` until it is told to stop (SIGINT, SIGTERM, ``should_exit``).

    Then it takes no further run, gives those that go on ``Limits.drain_seconds``, cancels the rest, and closes when
    every follower has seen the end of its run. A second signal ends it at once.

    Args:
        app: What ``make_app`` gave.
        log_level: Of uvicorn's own log.
        access_log: Log each request.
    """

    def __init__(self, app: Starlette, *, log_level: str = "warning", access_log: bool = False) -> None:
        self.service: Service = app.state.service
        limits = self.service.config.limits
        super().__init__(
            uvicorn.Config(
                app,
                log_level=log_level,
                access_log=access_log,
                server_header=False,
                timeout_graceful_shutdown=int(limits.drain_seconds) + _LAST_WORDS,
                # The header of a request that is not read to its end, and idle connections.
                timeout_keep_alive=30,
                ws_max_size=limits.max_body_bytes,
                ws_per_message_deflate=False,  # audio does not get smaller
                h11_max_incomplete_event_size=64 * 1024,
            )
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain the runs while uvicorn waits for the open answers."""
        draining = asyncio.ensure_future(self.service.runs.drain(self.service.config.limits.drain_seconds))
        try:
            await super().shutdown(sockets)
        finally:
            await draining


#: Seconds for followers to read the end of a run that was cancelled.
_LAST_WORDS = 10


def listen(host: str, port: int, *, client_patience: float) -> socket.socket:
    """A listening socket.

    Args:
        host: An address or a name of this machine.
        port: 0 takes a free one.
        client_patience: Seconds after which a connection is dropped whose client accepts no bytes, where the
            system can do that (Linux): the buffers of one that is left would otherwise stay until it is gone.

    Raises:
        OSError: the address cannot be listened on.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=2048)
    # asyncio does this only for sockets that name their protocol; those that are accepted inherit it.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sys.platform == "linux":
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(client_patience * 1000))
    return listener


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    return host in ("localhost", "::1") or host.startswith("127.")
