"""The relay: running streams, followed live by any number of readers, in this process or over Redis.

::

    async with open_relay("redis://127.0.0.1:6379", reload=session_service) as relay:
        async with await relay.open(run_id, session=session) as producer:   # the owner, a task of its own
            async for event in runner.run_async(...):
                await producer.publish(event)

        async for item in relay.subscribe(run_id, after=last_event_id):    # anybody, anywhere, as often as wished
            match item:
                case Delivery(): show(item.response, item.cursor)
                case Gap(): ...                                            # partials are lost, finals follow
                case End(): ...                                            # how it ended

Every name is loaded on first use; redis-py only with a ``RedisRelay``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adk_stream.lazily import lazy_names

if TYPE_CHECKING:
    from .carrying import carry
    from .memory import MemoryRelay
    from .opening import open_relay
    from .protocol import Delivery, End, Gap, Item, Producer, Relay, RelayOptions, StreamStatus
    from .redis_streams import RedisRelay
    from .reload import Reload

__all__ = [
    "Delivery",
    "End",
    "Gap",
    "Item",
    "MemoryRelay",
    "Producer",
    "RedisRelay",
    "Relay",
    "RelayOptions",
    "Reload",
    "StreamStatus",
    "carry",
    "open_relay",
]

_HOMES = {
    "Delivery": "protocol",
    "End": "protocol",
    "Gap": "protocol",
    "Item": "protocol",
    "MemoryRelay": "memory",
    "Producer": "protocol",
    "RedisRelay": "redis_streams",
    "Relay": "protocol",
    "RelayOptions": "protocol",
    "Reload": "reload",
    "StreamStatus": "protocol",
    "carry": "carrying",
    "open_relay": "opening",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
