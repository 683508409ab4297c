"""Written cases that need a runner; ``ADK_STREAM_CASES`` names their folder.

Of the streams: every case whose events say what a consumer, a session, a tool or a second attempt does, or that speaks
of what a session holds. Of the Gemini cases: those of mode ``runner``, and ``runner_classic`` with
``flush="boundary"``. None is left out, and none is contradicted by the design; one word is read in its light:

- ``final_events`` counts finals that are answers (``completed``). The design stores what had come of a failed answer
  too, marked, so that session-error-not-stored-as-answer has a ``failed`` event and no answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from scripted_model import Scene, check_history, finals

from adk_stream import LlmResponse, StreamExecutionOptions, to_native
from adk_stream.models.history import turns
from adk_stream.models.request import ModelRequest
from adk_stream.sessions import Event

CASES = os.environ.get("ADK_STREAM_CASES")
pytestmark = pytest.mark.skipif(not CASES, reason="ADK_STREAM_CASES names no folder of cases")

PROVIDERS = {"openai_chat": "openai-chat", "openai_responses": "openai-responses", "anthropic": "anthropic"}
DIRECTIVES = {"$consumer", "$cancel", "$session", "$tool", "$streams", "$rounds", "$attempts", "$hang"}
OF_SESSIONS = {"session_flag", "session_model_parts", "final_events", "next_request_valid", "second_request_assistant"}


def load(name: str) -> list[dict]:
    if not CASES:
        return []
    return [json.loads(line) for line in Path(CASES, name).read_text(encoding="utf-8").splitlines() if line.strip()]


def needs_a_runner(case: dict) -> bool:
    return case["line"] in PROVIDERS and bool(
        _keys(case["events"]) & DIRECTIVES or OF_SESSIONS & case["expected"].keys()
    )


def _keys(value: Any) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(_keys, value))
    return set(value) | _keys(list(value.values())) if isinstance(value, dict) else set()


# ----------------------------------------------------------------- the model


class WireModel:
    """Plays the events of a case as bytes; each answer is the next script."""

    def __init__(self, provider: str, *scripts: list) -> None:
        self.name = "wire"
        self.provider = provider
        self.scripts = scripts
        self.requests: list[ModelRequest] = []
        self.open = 0
        self.given = 0
        self.cancel: Any = None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[bytes, None]:
        script = self.scripts[min(len(self.requests), len(self.scripts) - 1)]
        self.requests.append(request)
        self.open += 1
        try:
            for event in script:
                if event == {"$close": True}:
                    return
                if event == {"$hang": True}:
                    await asyncio.Event().wait()
                if event == {"$cancel": True}:
                    await self.cancel()
                    continue
                if isinstance(event, dict) and "$error" in event:
                    raise ConnectionError(event["$error"])
                self.given += 1
                yield frame(event)
        finally:
            self.open -= 1


def frame(event: Any) -> bytes:
    if isinstance(event, str):
        return f"data: {event}\n\n".encode()
    kind = f"event: {event['type']}\n" if isinstance(event.get("type"), str) else ""
    return f"{kind}data: {json.dumps(event)}\n\n".encode()


def scene_for(provider: str, *scripts: list, options: dict | None = None, **arguments: Any) -> Scene:
    limits = {"retry_backoff": 0.0}
    for name, value in (options or {}).items():
        seconds = name.endswith("_ms")
        limits[OPTIONS.get(name, name.removesuffix("_ms"))] = value / 1000 if seconds else value
    model = arguments.pop("model", WireModel)(provider, *scripts)
    return Scene(model=model, execution=StreamExecutionOptions(**limits), **arguments)


OPTIONS = {"first_event_timeout_ms": "first_token_timeout"}

END = [{"id": "x", "choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]}, "[DONE]"]


# ----------------------------------------------------------------- one run of a case


class Outcome:
    """What a run gave."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.events: list[Event] = []
        self.raised: BaseException | None = None
        self.open = 0
        self.seconds = 0.0
        self.stored: list[Event] = []

    @property
    def final(self) -> Event:
        """The last of the model: it tells how the run ended."""
        return next(event for event in reversed(self.stored) if event.content is None or event.content.role == "model")


async def aread(run: Any, events: list[Event], pause: float = 0.0) -> None:
    async for event in run:
        events.append(event)
        if pause:
            await asyncio.sleep(pause)


async def by_break(scene: Scene, run: Any, events: list[Event]) -> None:
    async with contextlib.aclosing(run):
        async for event in run:
            events.append(event)
            if event.text:
                break


async def by_aclose(scene: Scene, run: Any, events: list[Event]) -> None:
    events.append(await anext(run))
    assert events[0].thought_text or events[0].text
    await run.aclose()


async def by_another_task(scene: Scene, run: Any, events: list[Event]) -> None:
    reader = asyncio.create_task(aread(run, events))
    await asyncio.sleep(0.02)
    await scene.runner.cancel(session_id=scene.session_id)
    await reader


async def by_task_cancel(scene: Scene, run: Any, events: list[Event]) -> None:
    reader = asyncio.create_task(aread(run, events))
    while not events:
        await asyncio.sleep(0.002)
    reader.cancel()
    await reader


async def slowly(scene: Scene, run: Any, events: list[Event]) -> None:
    await aread(run, events, pause=0.2)


async def all_of_it(scene: Scene, run: Any, events: list[Event]) -> None:
    await aread(run, events)


CONSUMERS = {
    "break after the first text event": by_break,
    "call aclose() while a reasoning or text part is open": by_aclose,
    "task A iterates, task B calls cancel()": by_another_task,
    "asyncio.Task.cancel() during a read": by_task_cancel,
    "sleeps 200 ms after each event": slowly,
    None: all_of_it,
}


async def play(case: dict) -> Outcome:
    events = case["events"]
    whole = events[0] if len(events) == 1 and isinstance(events[0], dict) and "events" in events[0] else {}
    events = whole.get("events", events)
    scripts = events[0]["$attempts"] if isinstance(events[0], dict) and "$attempts" in events[0] else [events, END]
    tools = [_tool(name, answer) for name, answer in _tools(events, whole).items()]
    scene = scene_for(PROVIDERS[case["line"]], *scripts, options=case.get("options"), tools=tools)
    await scene.begin()
    cancels: list[asyncio.Task] = []

    async def cancel() -> None:
        await asyncio.sleep(0.01)  # what was given before has arrived
        cancels.append(asyncio.create_task(scene.runner.cancel(session_id=scene.session_id)))
        await asyncio.sleep(0)

    scene.model.cancel = cancel
    message = await _begin_session(scene, whole.get("$session"))
    outcome, began = Outcome(scene), time.monotonic()
    try:
        await CONSUMERS[whole.get("$consumer")](scene, scene.ask(message), outcome.events)
    except (Exception, asyncio.CancelledError) as problem:
        outcome.raised = problem
    await asyncio.gather(*cancels)
    outcome.seconds = time.monotonic() - began
    outcome.open = scene.model.open
    outcome.stored = await scene.stored()
    return outcome


def _tools(events: list, whole: dict) -> dict[str, Any]:
    """Results by the name of the tool; a case may name the call's id instead."""
    names = {}
    for event in events:
        for choice in event.get("choices") or () if isinstance(event, dict) else ():
            for call in choice["delta"].get("tool_calls") or ():
                if call.get("id"):
                    names[call["id"]] = call["function"]["name"]
    return {names.get(key, key): result for key, result in whole.get("$tool", {}).items()}


def _tool(name: str, answer: Any) -> Any:
    def tool(**arguments: Any) -> Any:
        return answer

    tool.__name__ = name
    return tool


async def _begin_session(scene: Scene, history: list | None) -> str:
    if not history:
        return "hi"
    session = await scene.service.get_session(app_name="app", user_id="u", session_id=scene.session_id)
    for turn in history[:-1]:
        role = "model" if turn["role"] == "assistant" else "user"
        content = {"role": role, "parts": [{"text": turn["text"]}]}
        await scene.service.append_event(session, Event.model_validate({"author": role, "content": content}))
    return history[-1]["text"]


# ----------------------------------------------------------------- what is expected of it


def said(events: list[Event]) -> list[dict]:
    parts = [part for event in events if event.content and event.content.role == "model" for part in event.parts]
    return [_plain(part) for part in parts]


def _plain(part: Any) -> dict:
    if part.function_call:
        call = part.function_call
        return {"type": "tool_call", "id": call.id, "name": call.name, "args": call.args}
    return {"type": "reasoning" if part.thought else "text", "text": part.text}


FINISHES = {
    "stop": ("completed", None),
    "tool_calls": ("completed", None),
    "cancelled": ("cancelled", "STREAM_CANCELLED"),
    "timeout": ("failed", "STREAM_TIMEOUT"),
}


def first_final(outcome: Outcome) -> Event:
    """Of the first answer of the run."""
    mine = outcome.stored[-1].invocation_id
    return next(e for e in outcome.stored if e.invocation_id == mine and e.author == "model")


def check_finish(outcome: Outcome, expected: str) -> None:
    final = first_final(outcome)
    if expected == "error":
        assert final.status == "failed"
    else:
        assert (final.status, final.error_code) == FINISHES[expected]


def check_error(outcome: Outcome, expected: dict | None) -> None:
    final = first_final(outcome)
    if expected is None:
        assert final.status != "failed"
        return
    assert final.error_code
    assert expected.get("message", "") in (final.error_message or "")


def check_raises(outcome: Outcome, expected: str | None) -> None:
    assert (type(outcome.raised).__name__ if outcome.raised else None) == expected


def check_usage(outcome: Outcome, expected: dict) -> None:
    usage = first_final(outcome).usage_metadata
    counts = {
        "input": usage.prompt_token_count,
        "output": usage.candidates_token_count,
        "total": usage.total_token_count,
    }
    assert {name: counts[name] for name in expected} == expected


def check_second_request(outcome: Outcome, expected: dict) -> None:
    message = outcome.scene.model.requests[1].messages[1]
    assert isinstance(message, LlmResponse)
    native = to_native(message, provider="openai-chat")
    native["tool_calls"] = [call["id"] for call in native["tool_calls"]]
    assert {key: native[key] for key in expected} == expected


def check_session_after(outcome: Outcome, expected: list[str]) -> None:
    roles = {"user": "user", "model": "assistant"}
    assert [f"{roles[event.content.role]}:{event.text}" for event in outcome.stored] == expected


FLAGS = {"interrupted": ("cancelled",), "error": ("failed",)}


def is_answer(event: Event) -> bool:
    return event.status == "completed" and event.author == "model"


CHECKS = {
    "parts": lambda o, want: _same(said([first_final(o)]), want),
    "finish": check_finish,
    "complete": lambda o, want: _same(first_final(o).status == "completed", want),
    "error": check_error,
    "raises": check_raises,
    "connection_closed": lambda o, want: _same(o.open == 0, want),
    "returns_within_ms": lambda o, want: _true(o.seconds * 1000 < want),
    "events_read_from_wire": lambda o, want: _true(o.scene.model.given <= 5),  # it is read ahead by a few, no more
    "session_after": check_session_after,
    "session_model_parts": lambda o, want: _same(said(o.stored), want),
    "session_flag": lambda o, want: _true(o.final.status in FLAGS[want]),
    "executable_tool_calls": lambda o, want: _same([c.id for c in first_final(o).executable_function_calls()], want),
    "next_request_valid": lambda o, want: _true(turns(o.stored)),
    "on_finish_called": lambda o, want: _same(len(finals(o.events)), want),
    "final_events": lambda o, want: _same(len([e for e in finals(o.events) if is_answer(e)]), want),
    "partial_events_in_session": lambda o, want: _same(len([e for e in o.stored if e.partial]), want),
    "second_request_assistant": check_second_request,
    "attempts": lambda o, want: _same(len(o.scene.model.requests), want),
    "streamed_text": lambda o, want: _same("".join(e.text for e in o.events if e.partial), want),
    "usage": check_usage,
}


def _same(got: Any, want: Any) -> None:
    assert got == want


def _true(got: Any) -> None:
    assert got


STREAM_CASES = [case for case in load("streams.jsonl") if needs_a_runner(case)]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in STREAM_CASES])
def test_a_stream_through_the_runner(case):
    if "$streams" in case["events"][0]:
        asyncio.run(two_at_once(case))
        return

    async def main() -> Outcome:
        outcome = await play(case)
        check_history(outcome.stored)
        assert len(asyncio.all_tasks()) == 1
        return outcome

    outcome = asyncio.run(main())
    for key, expected in case["expected"].items():
        CHECKS[key](outcome, expected)


async def two_at_once(case: dict) -> None:
    """Two runs through one model and one runner, their events given in the order of the case."""
    streams, order = case["events"][0]["$streams"], list(case["events"][0]["$order"])

    class Shared(WireModel):
        async def stream(self, request: ModelRequest) -> AsyncGenerator[bytes, None]:
            name = request.messages[0].text
            if len(request.messages) > 1:
                for event in END:
                    yield frame(event)
                return
            for event in streams[name]:
                while order[0] != name:
                    await asyncio.sleep(0)
                yield frame(event)
                order.pop(0)

    scene = scene_for(PROVIDERS[case["line"]], tools=[_tool("read", "R")], model=Shared)

    async def one(name: str) -> None:
        session = await scene.service.create_session(app_name="app", user_id="u")
        run = scene.runner.run_async(user_id="u", session_id=session.id, new_message=name)
        events = [event async for event in run]
        session = await scene.service.get_session(app_name="app", user_id="u", session_id=session.id)
        check_history(session.events)
        final = finals(events)[0]
        assert said([final]) == case["expected"][name]["parts"]
        assert final.status == "completed"

    await asyncio.gather(*map(one, streams))


# ----------------------------------------------------------------- Gemini, in google-adk's terms


def upper(response: LlmResponse) -> LlmResponse | None:
    if not response.text:
        return None
    return LlmResponse.model_validate({"content": {"role": "model", "parts": [{"text": response.text.upper()}]}})


async def play_gemini(case: dict) -> dict[str, Any]:
    executed: list[dict] = []

    def make(name: str) -> Any:
        def tool(**args: Any) -> dict:
            executed.append({"name": name, "args": args})
            return {"ok": True}

        tool.__name__ = name
        return tool

    scene = scene_for(
        "gemini",
        *(case.get("turns") or [case["chunks"]]),
        tools=[make(name) for name in case.get("tools", ())],
        flush="boundary" if case["mode"] == "runner_classic" else "close",
        output_key=case.get("output_key"),
        after_model=upper if case.get("after_model_callback") == "replace_text" else None,
        max_rounds=6,
    )
    await scene.begin()
    events: list[Event] = []
    async with contextlib.aclosing(scene.ask()) as run:
        async for event in run:
            events.append(event)
            if len(events) == case.get("stop_after"):
                break
    session = await scene.service.get_session(app_name="app", user_id="u", session_id=scene.session_id)
    check_history(session.events)
    return {"events": events, "stored": session.events, "state": session.state, "executed": executed}


def dump(event: Event) -> dict:
    return event.model_dump(mode="json", exclude_none=True)


def holds(part: Any, whole: Any) -> bool:
    """Is ``part`` a subset of ``whole``? A list has the same length."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and holds(part[key], whole[key]) for key in part)
    if isinstance(part, list):
        return isinstance(whole, list) and len(part) == len(whole) and all(map(holds, part, whole))
    return part == whole


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if event.content and event.content.role == "model")


def total_of(events: list[Event]) -> int:
    return sum(event.usage_metadata.total_token_count or 0 for event in events if event.usage_metadata)


GEMINI_CHECKS = {
    "session_model_text": lambda r, want: text_of(r["stored"]) == want,
    "partial_text": lambda r, want: text_of([e for e in r["events"] if e.partial]) == want,
    "session_has": lambda r, want: all(any(holds(w, dump(e)) for e in r["stored"]) for w in want),
    "last_event_is_final": lambda r, want: r["events"][-1].is_final_response() == want,
    "executed": lambda r, want: r["executed"] == want,
    "error": lambda r, want: want is None and not any(e.error_code for e in r["events"]),
    "count_of": lambda r, want: all(
        sum(holds(w["match"], dump(e)) for e in finals(r["events"])) == w["n"] for w in want
    ),
    "session_usage_total": lambda r, want: total_of(r["stored"]) == want,
    "state": lambda r, want: r["state"] == want,
    "not": lambda r, want: not any(holds(w, dump(e)) for w in want for e in r["events"]),
}

GEMINI_CASES = [case for case in load("gemini.jsonl") if case["mode"] in ("runner", "runner_classic")]


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{case['id']}-{case['mode']}") for case in GEMINI_CASES])
def test_a_gemini_case_through_the_runner(case):
    result = asyncio.run(play_gemini(case))
    for key, expected in case["expected"].items():
        assert GEMINI_CHECKS[key](result, expected), key


def test_the_cases_are_all_there():
    assert len(STREAM_CASES) >= 20
    assert len(GEMINI_CASES) >= 13
