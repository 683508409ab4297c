"""Cases of streams that need more than bytes: attempts, silence, consumers that leave; ``ADK_STREAM_CASES`` names them.

No case of these kinds contradicts the design; none is left out. Cases of live sessions belong to the live path.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from adk_stream import LlmResponse, StreamExecutionOptions, execute

CASES = os.environ.get("ADK_STREAM_CASES")
pytestmark = pytest.mark.skipif(not CASES, reason="ADK_STREAM_CASES names no folder of cases")

DIRECTIVES = {"$attempts", "$hang", "$wait_ms", "$cancel", "$status", "$error", "$close", "$consumer"}
LINES = {
    "openai_chat": "openai-chat",
    "openai_responses": "openai-responses",
    "anthropic": "anthropic",
    "gemini_sse": "gemini",
}

#: Keys that need a session or a runner, and are checked there.
ELSEWHERE = {"session_model_parts", "session_flag", "next_request_valid", "on_finish_called", "final_events"}


def directives(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {key for key in value if key.startswith("$")}.union(*map(directives, value.values()))
    return set().union(*map(directives, value)) if isinstance(value, list) else set()


def cases() -> list[Any]:
    if not CASES:
        return []
    lines = Path(CASES, "streams.jsonl").read_text(encoding="utf-8").splitlines()
    loaded = [json.loads(line) for line in lines if line.strip()]
    ours = [case for case in loaded if case["line"] in LINES and len(used := directives(case["events"])) > 0
            and used <= DIRECTIVES]  # fmt: skip
    return [pytest.param(case, id=case["id"]) for case in ours]


#: Every time of a case is stretched, so that a busy machine does not look like a silent server.
STRETCH = 3


class TransportError(ConnectionError):
    """What the transport raises at ``$error``."""


class Refused(Exception):
    """What a client raises for an answer that is no stream."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(f"status {status}")
        self.status_code, self.body = status, body


class Wire:
    """One answer of the server; each item becomes one read of the socket."""

    def __init__(self, events: list[Any], cancel: Any) -> None:
        self.events = iter(events)
        self.cancel = cancel
        self.closed = False
        self.reads = 0

    def __aiter__(self) -> Wire:
        return self

    async def __anext__(self) -> bytes:
        for event in self.events:
            told = event if isinstance(event, dict) else {}
            if "$hang" in told:
                await asyncio.Event().wait()
            elif "$wait_ms" in told:
                await asyncio.sleep(told["$wait_ms"] / 1000 * STRETCH)
            elif "$cancel" in told:
                await asyncio.sleep(0.01)  # what came before was seen
                self.cancel()
            elif "$error" in told:
                raise TransportError(told["$error"])
            elif "$status" in told:
                raise Refused(told["$status"], next(self.events, None))
            elif "$close" in told:
                break
            else:
                self.reads += 1
                return b"data: " + (event if isinstance(event, str) else json.dumps(event)).encode() + b"\n\n"
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.closed = True


def options_of(case: dict[str, Any]) -> StreamExecutionOptions:
    given = case.get("options") or {}
    seconds = {"idle_timeout_ms": "idle_timeout", "first_event_timeout_ms": "first_token_timeout"}
    fields = {name: given[key] / 1000 * STRETCH for key, name in seconds.items() if key in given}
    return StreamExecutionOptions(max_retries=given.get("max_retries", 0), retry_backoff=0.001, end_grace=0.2, **fields)


class Run:
    """A case, run."""

    def __init__(self, case: dict[str, Any]) -> None:
        first = case["events"][0]
        told = first if isinstance(first, dict) else {}
        self.consumer = told.get("$consumer", "reads to the end")
        self.attempts = told.get("$attempts") or [told.get("events") if "$consumer" in told else case["events"]]
        self.line, self.options = LINES[case["line"]], options_of(case)
        self.wires: list[Wire] = []
        self.responses: list[LlmResponse] = []
        self.raised: BaseException | None = None
        began = time.monotonic()
        asyncio.run(self._run())
        self.ms = (time.monotonic() - began) * 1000

    def _start(self) -> Wire:
        self.wires.append(Wire(self.attempts[len(self.wires)], self._cancel))
        return self.wires[-1]

    def _cancel(self) -> None:
        self.execution.cancel()

    async def _run(self) -> None:
        self.execution = execute(self._start, self.options, provider=self.line)
        try:
            await _CONSUMERS[self.consumer](self)
        except BaseException as problem:
            self.raised = problem
        if self.consumer.startswith("break"):
            del self.execution
            await asyncio.sleep(0.05)
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []

    @property
    def final(self) -> LlmResponse:
        assert self.execution.final is not None
        return self.execution.final


async def _to_the_end(run: Run, pause: float = 0.0) -> None:
    async for response in run.execution:
        run.responses.append(response)
        await asyncio.sleep(pause)


async def _slowly(run: Run) -> None:
    await _to_the_end(run, 0.2 * STRETCH)


async def _break(run: Run) -> None:
    async for _ in run.execution:
        break


async def _aclose(run: Run) -> None:
    async with aclosing(run.execution):
        await anext(run.execution)


async def _cancel_from_elsewhere(run: Run) -> None:
    asyncio.get_running_loop().call_later(0.05, run.execution.cancel)
    await _to_the_end(run)


async def _cancel_the_task(run: Run) -> None:
    task = asyncio.create_task(_to_the_end(run))
    asyncio.get_running_loop().call_later(0.05, task.cancel)
    await task


_CONSUMERS = {
    "reads to the end": _to_the_end,
    "sleeps 200 ms after each event": _slowly,
    "break after the first text event": _break,
    "call aclose() while a reasoning or text part is open": _aclose,
    "task A iterates, task B calls cancel()": _cancel_from_elsewhere,
    "asyncio.Task.cancel() during a read": _cancel_the_task,
}

# ----------------------------------------------------------------- what is expected

_ENDS = {
    "stop": ("completed", None),
    "incomplete": ("incomplete", "STREAM_CUT"),
    "cancelled": ("cancelled", "STREAM_CANCELLED"),
    "timeout": ("failed", "STREAM_TIMEOUT"),
}


def parts(final: LlmResponse) -> list[dict[str, Any]]:
    return [{"type": "reasoning" if part.thought else "text", "text": part.text} for part in final.parts]


def check_finish(run: Run, want: str) -> None:
    assert run.final.status == "failed" if want == "error" else (run.final.status, run.final.error_code) == _ENDS[want]


def check_error(run: Run, want: dict[str, Any] | None) -> None:
    if want is None:
        assert run.raised is None
        assert run.final.error_code in (None, "STREAM_CANCELLED")
        return
    kind = want["kind"]
    if kind == "transport":
        assert isinstance(run.raised.__cause__, TransportError)
    elif kind == "idle_timeout":
        assert run.raised.limit == "idle"
    else:
        assert kind == "truncated_stream"
        assert run.final.error_code == "STREAM_CUT"
    assert want.get("message", "") in str(run.raised)


def check_usage(run: Run, want: dict[str, int]) -> None:
    usage = run.final.usage_metadata
    have = {
        "input": usage.prompt_token_count,
        "output": usage.candidates_token_count,
        "total": usage.total_token_count,
    }
    assert {key: have[key] for key in want} == want


def check_raises(run: Run, want: str | None) -> None:
    assert (None if run.raised is None else type(run.raised).__name__) == want


def check_streamed_text(run: Run, want: str) -> None:
    assert "".join(response.text for response in run.responses if response.partial) == want


def check_parts(run: Run, want: list[dict[str, Any]]) -> None:
    assert parts(run.final) == want


def check_complete(run: Run, want: bool) -> None:
    assert (run.final.status == "completed") is want


def check_attempts(run: Run, want: int) -> None:
    assert len(run.wires) == want


def check_connection_closed(run: Run, want: bool) -> None:
    assert all(wire.closed for wire in run.wires) is want


def check_returns_within(run: Run, want: int) -> None:
    assert run.ms < want


def check_reads(run: Run, want: str) -> None:
    assert want == "at most those already buffered"
    assert run.wires[0].reads <= 16


def check_executable(run: Run, want: list[str]) -> None:
    assert [call.id for call in run.final.executable_function_calls()] == want


CHECKS = {
    "parts": check_parts,
    "finish": check_finish,
    "complete": check_complete,
    "error": check_error,
    "usage": check_usage,
    "raises": check_raises,
    "attempts": check_attempts,
    "requests_sent": check_attempts,
    "streamed_text": check_streamed_text,
    "connection_closed": check_connection_closed,
    "returns_within_ms": check_returns_within,
    "events_read_from_wire": check_reads,
    "executable_tool_calls": check_executable,
}


@pytest.mark.parametrize("case", cases())
def test_case(case):
    run = Run(case)
    for key, want in case["expected"].items():
        if key not in ELSEWHERE:
            CHECKS[key](run, want)
