"""Calls of a live session, each run by itself and answered as soon as it can be.

The model goes on talking meanwhile, and may take a call back. A generator is answered piece by piece: each value with
``will_continue``, and an empty answer at its end (https://ai.google.dev/api/live, FunctionResponse).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

from google.genai import types

from adk_stream.runner.tools import Toolbox, as_result, stop_calls

__all__ = ["Answered", "LiveTools"]

_log = logging.getLogger("adk_stream.live")

#: Told of every answer on its way to the model: what goes out, and what the call's whole answer is, once it is there.
Answered: TypeAlias = "Callable[[types.FunctionResponse, types.FunctionResponse | None], Awaitable[None]]"


class LiveTools:
    """The calls that run now.

    Args:
        toolbox: What runs them.
        answered: Told of each answer.
        parallel: Calls that run at once.
    """

    def __init__(self, toolbox: Toolbox, answered: Answered, *, parallel: int) -> None:
        self._toolbox = toolbox
        self._answered = answered
        self._slots = asyncio.Semaphore(parallel)
        self._running: dict[asyncio.Task[None], str | None] = {}

    def __len__(self) -> int:
        return len(self._running)

    def start(self, call: types.FunctionCall) -> None:
        """Run a call."""
        task = asyncio.create_task(self._run(call.model_copy(deep=True)), name=f"adk-stream-call-{call.name}")
        self._running[task] = call.id
        task.add_done_callback(self._ended)

    def cancel(self, ids: Iterable[str]) -> None:
        """Stop the calls that the model has taken back; they are not answered."""
        wanted = set(ids)
        for task, call_id in self._running.items():
            if call_id in wanted:
                task.cancel()

    async def aclose(self, seconds: float) -> None:
        """Stop all calls, within that time."""
        await stop_calls(self._running, seconds, _log)

    async def _run(self, call: types.FunctionCall) -> None:
        pieces = 0

        async def told(value: Any) -> None:
            nonlocal pieces
            pieces += 1
            await self._answered(_piece(call, value), None)

        async with self._slots:
            whole = await self._toolbox.answer(call, told)
        await self._answered(_last(call, whole) if pieces else whole, whole)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        problem = None if task.cancelled() else task.exception()
        if problem is not None:
            _log.warning("the answer of a tool call could not be sent: %r", problem)


def _piece(call: types.FunctionCall, value: Any) -> types.FunctionResponse:
    """A value that a generator yielded; one that is a FunctionResponse brings its own scheduling and parts."""
    if isinstance(value, types.FunctionResponse):
        more = value.will_continue is None or value.will_continue
        return value.model_copy(update={"id": call.id, "name": call.name, "will_continue": more})
    return types.FunctionResponse(id=call.id, name=call.name, response=as_result(call.name, value), will_continue=True)


def _last(call: types.FunctionCall, whole: types.FunctionResponse) -> types.FunctionResponse:
    """What ends a generator's answers: its error, or nothing, which is nothing to talk about."""
    failed = "error" in (whole.response or {})
    return types.FunctionResponse(
        id=call.id,
        name=call.name,
        response=whole.response if failed else {},
        will_continue=False,
        scheduling=None if failed else types.FunctionResponseScheduling.SILENT,
    )
