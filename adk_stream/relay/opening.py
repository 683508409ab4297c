"""``open_relay``: the relay that a URL names."""

from __future__ import annotations

from adk_stream.sessions.service import SessionService

from .protocol import Relay, RelayOptions
from .reload import Reload

__all__ = ["open_relay"]


def open_relay(
    url: str | None = None, *, reload: SessionService | Reload | None = None, options: RelayOptions | None = None
) -> Relay:
    """A relay: within this process without a URL or for ``memory:``, else over the Redis server that it names.

    Args:
        url: ``memory:``, ``redis://host:port/db``, ``rediss://…`` or ``unix://…``.
        reload: Where finals are that the relay no longer holds: a session store, or a function.
        options: Bounds.

    Raises:
        RelayError: no relay is known for that URL.
        MissingExtraError: redis-py is not installed.
    """
    if url is None or url in ("memory:", "memory://"):
        from .memory import MemoryRelay

        return MemoryRelay(reload=reload, options=options)
    from .redis_streams import RedisRelay

    return RedisRelay(url, reload=reload, options=options)
