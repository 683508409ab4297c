"""Tools that are generators: what they yield, one by one as it comes, and all of it as their result."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from typing import Any, TypeAlias

import anyio.to_thread
from google.genai import types

__all__ = ["Told", "yielded"]

#: Given a value at the moment when a generator yields it.
Told: TypeAlias = "Callable[[Any], Awaitable[None]]"


async def yielded(result: Any, told: Told | None = None) -> Any:
    """Everything that a generator yields, as a list; any other result as it is.

    A generator that is not read to its end is closed. A plain generator runs in a thread.
    """
    if inspect.isasyncgen(result):
        values: AsyncIterator[Any] = result
        closing: contextlib.AbstractAsyncContextManager[Any] = contextlib.aclosing(result)
    elif inspect.isgenerator(result):
        values = _in_thread(result)
        closing = contextlib.aclosing(values)
    else:
        return result
    collected: list[Any] = []
    async with closing:
        async for value in values:
            collected.append(value.response if isinstance(value, types.FunctionResponse) else value)
            if told is not None:
                await told(value)
    return collected


async def _in_thread(generator: Generator[Any, Any, Any]) -> AsyncGenerator[Any, None]:
    step = functools.partial(next, generator, _END)
    try:
        while (value := await anyio.to_thread.run_sync(step, abandon_on_cancel=True)) is not _END:
            yield value
    finally:
        with contextlib.suppress(ValueError):  # it is at work in a thread that was left behind
            generator.close()


_END: Any = object()
