"""One question to a model, and one conversation with an agent, each with everything that it came to."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from google.genai import types

from adk_stream import LlmResponse, Runner, StreamExecutionOptions, execute
from adk_stream.models.request import Model, ModelRequest
from adk_stream.sessions import Event, InMemorySessionService

__all__ = ["QUICK", "Answer", "Talk", "ask", "finals", "nothing_stays", "question", "talk", "with_model"]

T = TypeVar("T")

#: Patient enough for a loaded machine, and no waits but those that a server asks for.
QUICK = StreamExecutionOptions(first_token_timeout=10, idle_timeout=10, retry_backoff=0.01, retry_jitter=0)


@dataclass
class Answer:
    """What one execution came to."""

    responses: list[LlmResponse] = field(default_factory=list)
    final: LlmResponse | None = None
    raised: Exception | None = None
    attempts: int = 0
    seconds: float = 0.0

    @property
    def end(self) -> tuple[str | None, str | None]:
        assert self.final is not None
        return self.final.status, self.final.error_code

    @property
    def shown(self) -> str:
        return "".join(response.text for response in self.responses if response.partial)

    @property
    def kept(self) -> str:
        return "".join(response.text for response in self.responses if not response.partial)


async def ask(model: Model, options: StreamExecutionOptions = QUICK, *, message: str = "hi", **asked: Any) -> Answer:
    """Ask once."""
    request = ModelRequest(messages=[user(message)], **asked)
    answer = Answer()
    began = time.monotonic()
    async with aclosing(execute(lambda: model.stream(request), options, provider=model.provider)) as stream:
        try:
            async for response in stream:
                answer.responses.append(response)
        except Exception as problem:
            answer.raised = problem
    answer.final, answer.attempts, answer.seconds = stream.final, stream.attempts, time.monotonic() - began
    return answer


def with_model(make: Callable[[], Model], work: Callable[[Model], Awaitable[T]]) -> T:
    """Do that work in an event loop of its own, with a model of its own, of which nothing may stay behind."""

    async def main() -> T:
        async with a_model(make) as model:
            return await work(model)

    return asyncio.run(main())


def question(make: Callable[[], Model], options: StreamExecutionOptions = QUICK, **asked: Any) -> Answer:
    """``ask``, with a model of its own."""
    return with_model(make, lambda model: ask(model, options, **asked))


@dataclass
class Talk:
    """What the runs of one session came to."""

    runs: list[list[Event]] = field(default_factory=list)
    raised: list[Exception | None] = field(default_factory=list)
    stored: list[Event] = field(default_factory=list)


async def talk(model: Model, messages: Sequence[str], *, tools: Sequence[Any] = (), **options: Any) -> Talk:
    """Runs of one session, one after the other, whatever becomes of them; the history can be sent in the end."""
    service = InMemorySessionService()
    options.setdefault("execution", QUICK)
    runner = Runner(model, tools, session_service=service, app_name="app", **options)
    await service.create_session(app_name="app", user_id="u", session_id="s")
    told = Talk()
    for message in messages:
        told.runs.append([])
        told.raised.append(None)
        try:
            async for event in runner.run_async(user_id="u", session_id="s", new_message=message):
                told.runs[-1].append(event)
        except Exception as problem:
            told.raised[-1] = problem
    session = await service.get_session(app_name="app", user_id="u", session_id="s")
    assert session is not None
    told.stored = session.events
    check_history(told.stored)
    return told


# ----------------------------------------------------------------- what may stay behind: nothing


@asynccontextmanager
async def a_model(make: Callable[[], Model]) -> AsyncIterator[Model]:
    """A model whose client is closed at the end; then no task is left."""
    model = make()
    try:
        yield model
    finally:
        await close(model)
        deadline = time.monotonic() + 2
        while len(asyncio.all_tasks()) > 1 and time.monotonic() < deadline:
            await asyncio.sleep(0.005)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def close(model: Any) -> None:
    """Close the client that the model uses."""
    if model.provider == "gemini":
        client = model._client()
        await client.aio.aclose()
        client.close()
    else:
        await model._clients.current().close()


def connections_to(url: str) -> int:
    """Connections to a server that are open on the client's side; 0 where the system does not tell."""
    port = urlsplit(url).port or 0
    table = Path("/proc/net/tcp")
    rows = [line.split() for line in table.read_text().splitlines()[1:]] if table.exists() else []
    return sum(row[2].endswith(f":{port:04X}") and row[3] in (_ESTABLISHED, _CLOSE_WAIT) for row in rows)


_ESTABLISHED, _CLOSE_WAIT = "01", "08"


def our_threads() -> set[threading.Thread]:
    """All threads but the pool of a server in this process."""
    return {thread for thread in threading.enumerate() if not thread.name.startswith("AnyIO worker")}


@contextmanager
def nothing_stays(url: str) -> Iterator[None]:
    """No connection to that server is left open in this block, and no thread."""
    threads, connections = our_threads(), connections_to(url)
    yield
    deadline = time.monotonic() + 5
    while connections_to(url) > connections and time.monotonic() < deadline:
        time.sleep(0.005)
    assert connections_to(url) <= connections
    assert our_threads() <= threads


# ----------------------------------------------------------------- events


def user(text: str) -> types.Content:
    return types.Content(role="user", parts=[types.Part(text=text)])


def finals(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if not event.partial]


def check_history(events: Sequence[Event]) -> None:
    """Fails unless every provider would take these events for a conversation."""
    waiting: list[Any] = []
    for event in events:
        assert not event.partial, "a partial event is stored"
        if event.content is None:
            continue
        assert event.parts, "a message without parts"
        results = [(response.id, response.name) for response in event.get_function_responses()]
        assert results == waiting, "each call has one result, in order, directly after it"
        waiting = [(call.id, call.name) for call in event.get_function_calls()]
    assert not waiting, "calls without results at the end"
