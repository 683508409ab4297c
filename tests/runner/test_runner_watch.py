"""What the watch of a run is told, in which task, and in what order."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from contextvars import ContextVar

from scripted_model import Scene, calls, play, says

from adk_stream.runner import RunFacts, RunWatch

WHERE: ContextVar[str] = ContextVar("WHERE", default="outside")


class Notes(RunWatch):
    def __init__(self, facts: RunFacts, log: list) -> None:
        self.facts = facts
        self.log = log

    def __enter__(self):
        self.log.append("begins")
        return self

    def __exit__(self, kind, problem, at):
        self.log.append(("ends", kind and kind.__name__))

    def asks(self, request):
        WHERE.set("request")
        self.log.append(("asks", len(request.messages)))

    @contextmanager
    def calls(self, call):
        token = WHERE.set(call.name)
        try:
            yield lambda value: self.log.append(("returned", value))
        except Exception as problem:
            self.log.append(("raised", type(problem).__name__))
            raise
        finally:
            WHERE.reset(token)

    def stored(self, event):
        self.log.append(("stored", event.author, event.status))


def where() -> str:
    """Tell."""
    return WHERE.get()


async def fails() -> None:
    """Fail."""
    raise KeyError("x")


def test_a_run_in_order():
    log: list = []
    facts: list[RunFacts] = []

    def observer(given: RunFacts) -> RunWatch:
        facts.append(given)
        return Notes(given, log)

    scene, events, _ = play(
        [lambda: log.append(("model in", WHERE.get())), *calls("where", "fails", "nobody")],
        says("done"),
        tools=[where, fails],
        observer=observer,
        max_parallel_tools=1,
    )
    assert log == [
        "begins",
        ("stored", "user", None),
        ("asks", 1),
        ("model in", "request"),
        ("stored", "model", "completed"),
        ("returned", "where"),
        ("raised", "KeyError"),
        ("stored", "model", None),
        ("asks", 3),
        ("stored", "model", "completed"),
        ("ends", None),
    ]
    assert facts == [RunFacts("app", "u", scene.session_id, events[0].invocation_id, scene.model)]
    assert WHERE.get() == "outside"


def test_a_run_that_is_left():
    log: list = []

    async def main() -> None:
        scene = Scene(calls("stuck"), tools=[stuck], observer=lambda facts: Notes(facts, log))
        await scene.begin()
        run = scene.ask()
        async for event in run:
            if not event.partial:
                break
        await run.aclose()

    asyncio.run(main())
    assert log[-2:] == [("stored", "model", "cancelled"), ("ends", "GeneratorExit")]


async def stuck() -> None:
    """Never return."""
    await asyncio.Event().wait()


def test_nobody_watches():
    _, events, _ = play(calls("where"), says("done"), tools=[where])
    assert events[-1].text == "done"
    watch = RunWatch()
    with watch as entered, watch.calls(None) as returned:  # type: ignore[arg-type]
        returned("anything")
    assert entered is watch
