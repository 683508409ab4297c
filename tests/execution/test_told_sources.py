"""A source that wants to know is told, once, what became of its answer."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from typing import Any

import pytest

from adk_stream import StreamExecutionOptions, execute
from adk_stream.errors import ConnectionLostError, ProviderError

HANG = object()


def chunk(said: str, finish: str | None = None) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": {"content": said}, "finish_reason": finish}]}


class Source:
    """Plays a script, and notes what it is told."""

    def __init__(self, script: Sequence[Any], told: list[tuple[Any, Any]]) -> None:
        self._script = iter(script)
        self._told = told

    def follow_outcome(self) -> Any:
        return lambda final, problem: self._told.append((final, problem))

    def __aiter__(self) -> Source:
        return self

    async def __anext__(self) -> Any:
        for item in self._script:
            if item is HANG:
                await asyncio.Event().wait()
            if isinstance(item, Exception):
                raise item
            return item
        raise StopAsyncIteration


def outcomes(*scripts: Sequence[Any], **options: Any) -> list[tuple[str | None, str]]:
    """Of each attempt: the final's status and what kind of error it was told of."""
    told: list[tuple[Any, Any]] = []
    sources = iter([Source(script, told) for script in scripts])

    async def main() -> None:
        execution = execute(
            lambda: next(sources), StreamExecutionOptions(retry_backoff=0, **options), provider="openai-chat"
        )
        try:
            async for _ in execution:
                pass
        except Exception:
            pass

    asyncio.run(main())
    return [(final and final.status, type(problem).__name__) for final, problem in told]


ERROR = {"error": {"message": "no", "code": "overloaded", "type": "server_error"}}


@pytest.mark.parametrize(
    ("scripts", "options", "told"),
    [
        ([[chunk("a", "stop"), "[DONE]"]], {}, [("completed", "NoneType")]),
        ([[chunk("a", "stop"), ConnectionResetError()]], {}, [("completed", "NoneType")]),
        ([[chunk("a")]], {}, [("incomplete", "NoneType")]),
        ([[chunk("a"), ConnectionResetError()]], {}, [("failed", ConnectionLostError.__name__)]),
        ([[chunk("a"), ERROR]], {}, [("failed", ProviderError.__name__)]),
        ([[]], {}, [(None, "StreamCutError")]),
        ([[chunk("a"), HANG]], {"idle_timeout": 0.02}, [("failed", "StreamTimeoutError")]),
        (
            [[ConnectionResetError()], [ERROR], [chunk("a", "stop"), "[DONE]"]],
            {"max_retries": 2},
            [(None, "ConnectionLostError"), (None, "ProviderError"), ("completed", "NoneType")],
        ),
    ],
)
def test_each_attempt_is_told_once(scripts, options, told):
    assert outcomes(*scripts, **options) == told


@pytest.mark.parametrize("way", ["aclose", "cancel", "let go", "read to its end and let go"])
def test_who_is_left_is_told(way):
    told: list[tuple[Any, Any]] = []

    async def main() -> None:
        whole = way.startswith("read")
        source = Source([chunk("a", "stop" if whole else None), *(["[DONE]"] if whole else [HANG])], told)
        execution = execute(lambda: source, provider="openai-chat")
        await anext(execution)
        if way == "aclose":
            await execution.aclose()
        elif way == "cancel":
            execution.cancel()
        else:
            await asyncio.sleep(0.01)
            del execution
            gc.collect()
            await asyncio.sleep(0.01)

    asyncio.run(main())
    ((final, problem),) = told
    assert isinstance(problem, (asyncio.CancelledError, GeneratorExit))
    assert (final and final.status) in (None, "cancelled")
