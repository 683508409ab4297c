"""``carry``: the task that owns a running stream, from its source to the relay."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable
from typing import Any

from adk_stream.response import LlmResponse

from .protocol import Producer

__all__ = ["carry"]


async def carry(responses: AsyncIterable[LlmResponse], producer: Producer) -> None:
    """Publish everything that comes, and finish the stream as its last final says, whoever follows or leaves.

    When somebody asks for the end (``Relay.cancel``), ``responses.cancel()`` is called where there is one, as runs
    and executions have it, and what that still gives is published; any other source is closed. The source is closed
    in every case. To be run as a task of its own: ``asyncio.create_task(carry(...))``.

    Raises:
        Exception: whatever came out of ``responses``; followers have been told.
    """
    async with producer:
        reading = asyncio.ensure_future(_publish(responses, producer))
        asked = asyncio.ensure_future(producer.wait_cancelled())
        try:
            await asyncio.wait((reading, asked), return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                await _cancel(responses, reading)
            await asyncio.wait((reading,))
        finally:
            asked.cancel()
            reading.cancel()
            await asyncio.gather(reading, asked, return_exceptions=True)
        await producer.finish("cancelled" if reading.cancelled() else reading.exception())
    if not reading.cancelled():
        reading.result()


async def _cancel(responses: Any, reading: asyncio.Future[None]) -> None:
    cancel = getattr(responses, "cancel", None)
    if cancel is None:
        reading.cancel()
        return
    answer = cancel()
    if inspect.isawaitable(answer):
        await answer


async def _publish(responses: AsyncIterable[LlmResponse], producer: Producer) -> None:
    source = aiter(responses)
    try:
        async for response in source:
            await producer.publish(response)
    finally:
        close = getattr(source, "aclose", None)
        if close is not None:
            await close()
