"""A model whose answers are written down, the events they are made of, and what a history must hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

from adk_stream import Runner
from adk_stream.models.request import ModelRequest
from adk_stream.sessions import Event, InMemorySessionService, Session

HANG = object()  # nothing more comes, and the connection stays open

Item = Any  # an event of the wire; an exception to raise; seconds to be silent; HANG; a function to call


class ScriptedModel:
    """Answers each request with the next script; the last one again and again."""

    def __init__(self, *rounds: Sequence[Item], provider: str = "openai-chat") -> None:
        self.name = "scripted"
        self.provider = provider
        self.rounds = rounds
        self.requests: list[ModelRequest] = []
        self.open = 0  # connections
        self.given = 0  # events read, of all answers

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Any, None]:
        script = self.rounds[min(len(self.requests), len(self.rounds) - 1)]
        self.requests.append(request)
        self.open += 1
        try:
            for item in script:
                if isinstance(item, BaseException):
                    raise item
                if item is HANG:
                    await asyncio.Event().wait()
                elif isinstance(item, (int, float)):
                    await asyncio.sleep(item)
                elif callable(item):
                    item()
                else:
                    self.given += 1
                    yield item
        finally:
            self.open -= 1


def chunk(delta: dict[str, Any], finish: str | None = None, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": [choice], **fields}


def text(said: str) -> dict[str, Any]:
    return chunk({"content": said})


def thought(said: str) -> dict[str, Any]:
    return chunk({"reasoning_content": said})


def call(name: str, arguments: str = "{}", *, id: str, index: int = 0) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return chunk({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]})


def end(reason: str = "stop", prompt: int = 0, output: int = 0) -> list[Any]:
    usage = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
    return (
        [chunk({}, reason), {**chunk({}), "choices": [], "usage": usage}, "[DONE]"]
        if prompt
        else [
            chunk({}, reason),
            "[DONE]",
        ]
    )


def says(said: str, prompt: int = 0, output: int = 0) -> list[Any]:
    """An answer of text."""
    return [text(said), *end("stop", prompt, output)]


def calls(*names: str, prompt: int = 0, output: int = 0, arguments: str = "{}") -> list[Any]:
    """An answer that calls tools; the ids are c0, c1, …"""
    made = [call(name, arguments, id=f"c{place}", index=place) for place, name in enumerate(names)]
    return [*made, *end("tool_calls", prompt, output)]


class Scene:
    """A model, a store with one session, and a runner over them."""

    def __init__(self, *rounds: Sequence[Item], tools: Sequence[Any] = (), service: Any = None, **options: Any) -> None:
        self.model = options.pop("model", None) or ScriptedModel(*rounds)
        self.service = service or InMemorySessionService()
        self.runner = Runner(self.model, tools, session_service=self.service, app_name="app", **options)
        self.session_id = ""

    async def begin(self) -> str:
        session = await self.service.create_session(app_name="app", user_id="u")
        self.session_id = session.id
        return session.id

    def ask(self, message: Any = "hi") -> Any:
        return self.runner.run_async(user_id="u", session_id=self.session_id, new_message=message)

    async def stored(self) -> list[Event]:
        session = await self.service.get_session(app_name="app", user_id="u", session_id=self.session_id)
        assert isinstance(session, Session)
        return session.events

    async def run(self, message: Any = "hi") -> list[Event]:
        if not self.session_id:
            await self.begin()
        return [event async for event in self.ask(message)]


def play(*rounds: Sequence[Item], message: Any = "hi", **options: Any) -> tuple[Scene, list[Event], list[Event]]:
    """One run from beginning to end: the scene, the events that came, and what the session holds."""

    async def main() -> tuple[Scene, list[Event], list[Event]]:
        scene = Scene(*rounds, **options)
        events = await scene.run(message)
        return scene, events, await scene.stored()

    return asyncio.run(main())


def finals(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if not event.partial]


def answers(event: Event) -> list[dict[str, Any] | None]:
    return [response.response for response in event.get_function_responses()]


def check_history(events: Sequence[Event], *, calls_may_wait: bool = False) -> None:
    """Fails unless every provider would take these events for a conversation."""
    said = [event for event in events if event.content is not None]
    assert all(event.parts for event in said), "a message without parts"
    assert not any(event.partial for event in events), "a partial event is stored"
    waiting: list[Any] = []
    goes_on = False  # the model's message has a further piece (flush="boundary")
    for event in said:
        responses = event.get_function_responses()
        if responses:
            assert [(response.id, response.name) for response in responses] == waiting, "answers without their calls"
            assert event.content is not None
            assert event.content.role == "user"
            waiting = []
            continue
        assert goes_on or not waiting, "calls without answers"
        goes_on = event.status == "in_progress"
        waiting += [(each.id, each.name) for each in event.get_function_calls()]
        assert all(name for _, name in waiting), "a call without a name"
    assert calls_may_wait or not waiting, "calls without answers at the end"


def until(condition: Callable[[], bool], seconds: float = 2.0) -> Any:
    async def wait() -> None:
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.002)

    return wait()
