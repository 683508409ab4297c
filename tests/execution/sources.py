"""Scripted sources, and an event loop whose clock jumps over every wait."""

from __future__ import annotations

import asyncio
import json
import selectors
import threading
import time
from contextlib import aclosing

from adk_stream.execution import execute


def chat(content=None, finish=None, **fields):
    delta = {} if content is None else {"content": content}
    event = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "model": "test",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        **fields,
    }
    return b"data: " + json.dumps(event).encode() + b"\n\n"


ROLE = chat("")
FINISH = chat(finish="stop")
DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"
HELLO = [ROLE, chat("Hel"), chat("lo"), FINISH, DONE]

HANG = float("inf")


class Source:
    """Gives pieces, sleeps where a number stands, raises exceptions, and knows whether it is closed."""

    def __init__(self, *steps, close=0.0):
        self.steps = iter(steps)
        self.close = close
        self.given = 0
        self.closes = 0
        self.closed = False

    def __aiter__(self):
        return self

    async def __anext__(self):
        for step in self.steps:
            if isinstance(step, BaseException):
                raise step
            if isinstance(step, (int, float)):
                await (asyncio.Event().wait() if step == HANG else asyncio.sleep(step))
                continue
            self.given += 1
            return step
        raise StopAsyncIteration

    async def aclose(self):
        self.closes += 1
        if self.close:
            await (asyncio.Event().wait() if self.close == HANG else asyncio.sleep(self.close))
        self.closed = True


class BlockingSource:
    """The same for threads; ``close`` wakes a read that hangs, as shutting a socket down does."""

    def __init__(self, *steps):
        self.steps = iter(steps)
        self.given = 0
        self._closed = threading.Event()

    @property
    def closed(self):
        return self._closed.is_set()

    def __iter__(self):
        return self

    def __next__(self):
        for step in self.steps:
            if isinstance(step, BaseException):
                raise step
            if isinstance(step, (int, float)):
                if self._closed.wait(20 if step == HANG else step):
                    raise ConnectionError("closed")
                continue
            self.given += 1
            return step
        raise StopIteration

    def close(self):
        self._closed.set()


class Starts:
    """Opens one source after the other, and keeps them."""

    def __init__(self, *scripts, kind=Source):
        self.sources = [kind(*script) for script in scripts]
        self.count = 0

    def __call__(self):
        self.count += 1
        return self.sources[self.count - 1]


class Outcome:
    """Everything that an execution gave."""

    def __init__(self, execution, responses, raised, seconds):
        self.execution = execution
        self.final = execution.final
        self.partials = [response for response in responses if response.partial]
        self.finals = [response for response in responses if not response.partial]
        self.shown = "".join(response.text for response in self.partials)
        self.raised = raised
        self.seconds = seconds
        self.attempts = execution.attempts

    @property
    def end(self):
        return self.final.status, self.final.error_code


async def collect(start, options=None, between=0.0, **arguments):
    """Iterate to the end; ``between`` is how long the consumer takes over each response."""
    clock = asyncio.get_running_loop().time
    began, responses, raised = clock(), [], None
    execution = execute(start, options, provider=arguments.pop("provider", "openai-chat"), **arguments)
    async with aclosing(execution):
        try:
            async for response in execution:
                responses.append(response)
                if between:
                    await asyncio.sleep(between)
        except BaseException as problem:
            raised = problem
    return Outcome(execution, responses, raised, clock() - began)


class _Jumps(selectors.DefaultSelector):
    """Waits for nothing: time goes on at once to when the next timer is due."""

    now = 0.0

    def select(self, timeout=None):
        if timeout is None:
            ready = super().select(0.2)
            assert ready, "everybody waits, and nothing is due"
            return ready
        ready = super().select(0)
        if not ready:
            self.now += max(timeout, 0)
        return ready


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self):
        self.jumps = _Jumps()
        super().__init__(self.jumps)

    def time(self):
        return self.jumps.now


def run(coroutine):
    """Run on a clock that jumps; no task is left at the end."""

    async def checked():
        result = await coroutine
        for _ in range(3):
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(checked())


def run_really(coroutine, at_most=5.0):
    """Run on the real clock; no task is left at the end."""

    async def checked():
        result = await coroutine
        for _ in range(3):
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return result

    began = time.monotonic()
    result = asyncio.run(checked())
    assert time.monotonic() - began < at_most
    return result
