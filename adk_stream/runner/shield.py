"""Work that is finished once it was begun, whoever cancels the task that waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio

__all__ = ["to_the_end"]

_T = TypeVar("_T")


async def to_the_end(work: Coroutine[Any, Any, _T] | asyncio.Task[_T]) -> _T:
    """Await ``work`` in a task of its own. A cancellation that comes meanwhile is raised when the work is done."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    # anyio's scopes (every Starlette server has them) cancel again and again, until the task has left: the shield
    # keeps them away. asyncio's own cancel() comes through, once for each call.
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as problem:
                cancelled = problem
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # the cancellation matters more
    raise cancelled
