"""Runs beside one another: on one session, on many, in threads, in another process; and what is left of them."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest
from google.genai import types
from scripted_model import HANG, Scene, ScriptedModel, calls, check_history, finals, says, text, until

from adk_stream import Runner
from adk_stream.errors import SessionBusyError, StaleSessionError
from adk_stream.runner.locks import SessionLocks
from adk_stream.sessions import Event, InMemorySessionService, SqlSessionService


async def quick() -> dict:
    return {"quick": True}


# ----------------------------------------------------------------- one session, two runs


def test_runs_on_one_session_wait_for_one_another_in_order():
    async def main():
        scene = Scene([text("a"), 0.01, *says("b")])
        await scene.begin()
        await asyncio.gather(*(scene.run(f"message {n}") for n in range(4)))
        return await scene.stored()

    stored = asyncio.run(main())
    assert [event.text for event in stored[::2]] == [f"message {n}" for n in range(4)]
    assert [event.text for event in stored[1::2]] == ["ab"] * 4


def test_two_runners_on_one_store_do_not_interleave_either():
    async def main():
        scene = Scene([text("a"), 0.01, *says("b")])
        await scene.begin()
        other = Runner(ScriptedModel([text("c"), 0.01, *says("d")]), session_service=scene.service, app_name="app")

        async def run_other():
            return [e async for e in other.run_async(user_id="u", session_id=scene.session_id, new_message="2")]

        await asyncio.gather(scene.run("1"), run_other())
        return await scene.stored()

    assert [event.text for event in asyncio.run(main())] == ["1", "ab", "2", "cd"]


def test_waiting_has_a_limit_if_asked():
    async def main():
        scene = Scene([text("a"), HANG], session_timeout=0.02)
        await scene.begin()
        first = scene.ask()
        await anext(first)
        with pytest.raises(SessionBusyError, match="still in use"):
            await scene.run("second")
        await first.aclose()
        assert not scene.runner._settings.locks
        return await scene.stored()

    assert [event.text for event in asyncio.run(main())] == ["hi", "a"]


def test_cancel_reaches_those_that_wait_too():
    async def main():
        scene = Scene([text("a"), HANG])
        await scene.begin()
        readers = [asyncio.create_task(scene.run(f"{n}")) for n in range(3)]
        await until(lambda: scene.model.given)
        await scene.runner.cancel(session_id=scene.session_id)
        results = await asyncio.gather(*readers)
        assert not scene.runner._settings.locks
        return results, await scene.stored()

    results, stored = asyncio.run(main())
    assert [len(events) for events in results[1:]] == [0, 0]
    assert [event.text for event in stored] == ["0", "a"]


def test_locks_are_passed_on_whoever_gives_up():
    async def main():
        locks = SessionLocks()
        held: list[int] = []
        key = ("app", "u", "s")

        async def use(n: int) -> None:
            await locks.acquire(key, None)
            try:
                held.append(n)
                await asyncio.sleep(0.002)
            finally:
                locks.release(key)

        tasks = [asyncio.create_task(use(n)) for n in range(20)]
        await asyncio.sleep(0)
        for n in range(0, 20, 3):
            tasks[n].cancel()
        await asyncio.wait(tasks)
        assert not locks
        return held

    held = asyncio.run(main())
    assert [n for n in held if n % 3] == [n for n in range(20) if n % 3]


def test_locks_hold_between_threads():
    locks, inside, most = SessionLocks(), 0, 0
    guard = threading.Lock()

    async def use() -> None:
        nonlocal inside, most
        for _ in range(20):
            await locks.acquire(("app", "u", "s"), None)
            with guard:
                inside += 1
                most = max(most, inside)
            await asyncio.sleep(0.0005)
            with guard:
                inside -= 1
            locks.release(("app", "u", "s"))

    threads = [threading.Thread(target=lambda: asyncio.run(use())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert most == 1
    assert not locks


def test_another_writer_of_the_store_ends_the_run_clearly():
    async def main():
        scene = Scene([text("a"), *calls("meddle")], says("never"), tools=[])
        ran = []

        async def meddle() -> None:
            ran.append(1)
            session = await scene.service.get_session(app_name="app", user_id="u", session_id=scene.session_id)
            await scene.service.append_event(session, Event(author="user", content=types.Content(role="user")))

        scene = Scene([text("a"), *calls("meddle")], says("never"), tools=[meddle])
        with pytest.raises(StaleSessionError):
            await scene.run()
        assert len(asyncio.all_tasks()) == 1
        return ran, await scene.stored(), scene

    ran, stored, scene = asyncio.run(main())
    assert ran == [1]
    assert [event.author for event in stored] == ["user", "model", "user"]
    assert len(scene.model.requests) == 1


# ----------------------------------------------------------------- many sessions at once


def test_runs_at_once_give_what_they_give_one_after_another():
    """One runner, one model object; each session's script is in its message."""

    class Echo(ScriptedModel):
        async def stream(self, request):
            said = request.messages[-1]
            word = said.text or "again"
            for letter in word:
                await asyncio.sleep(0)
                yield text(letter)
            for item in calls("quick") if said.text else says("!"):
                yield item

    async def main():
        service = InMemorySessionService()
        runner = Runner(Echo([]), [quick], session_service=service, app_name="app")

        async def one(n: int):
            session = await service.create_session(app_name="app", user_id="u")
            run = runner.run_async(user_id="u", session_id=session.id, new_message=f"word {n}")
            events = [event async for event in run]
            session = await service.get_session(app_name="app", user_id="u", session_id=session.id)
            check_history(session.events)
            return [event.text for event in finals(events)], [event.text for event in session.events]

        results = await asyncio.gather(*map(one, range(30)))
        for n, (came, stored) in enumerate(results):
            assert came == [f"word {n}", "", "again!"]
            assert stored == [f"word {n}", *came]

    asyncio.run(main())


def test_nothing_is_left_of_five_hundred_runs():
    async def main():
        scene = Scene(says("word " * 50))

        async def one() -> None:
            session = await scene.service.create_session(app_name="app", user_id="u")
            run = scene.runner.run_async(user_id="u", session_id=session.id, new_message="hi")
            refs.append(weakref.ref(run))
            refs.append(weakref.ref(run._loop))
            async for _ in run:
                pass
            await scene.service.delete_session(app_name="app", user_id="u", session_id=session.id)
            scene.model.requests.clear()

        async def many(n: int) -> int:
            await asyncio.gather(*(one() for _ in range(n)))
            await asyncio.sleep(0.1)
            refs.clear()
            gc.collect()
            return len(gc.get_objects())

        refs: list[weakref.ref] = []
        gc.disable()
        try:
            await one()
            await asyncio.sleep(0.1)
            assert [ref() for ref in refs] == [None] * len(refs), "a run is part of a reference cycle"
        finally:
            gc.enable()
        before = await many(20)
        after = await many(500)
        assert not scene.runner._running
        assert not scene.runner._settings.locks
        assert len(asyncio.all_tasks()) == 1
        assert after - before < 100

    asyncio.run(main())


# ----------------------------------------------------------------- the blocking form


def make_session(service) -> str:
    async def make():
        return (await service.create_session(app_name="app", user_id="u")).id

    return asyncio.run(make())


def read_session(service, session_id):
    return asyncio.run(service.get_session(app_name="app", user_id="u", session_id=session_id)).events


def test_the_blocking_form_gives_the_same_and_leaves_no_thread():
    scene = Scene([text("a"), *calls("quick")], says("b"), tools=[quick])
    session_id = make_session(scene.service)
    threads = threading.active_count()
    events = list(scene.runner.run(user_id="u", session_id=session_id, new_message="hi"))
    assert [event.text for event in finals(events)] == ["a", "", "b"]
    assert threading.active_count() == threads
    assert read_session(scene.service, session_id)[1:] == finals(events)
    assert [event.text for event in scene.runner.run(user_id="u", session_id=session_id, new_message="hi")][-1] == "b"


def test_blocking_runs_share_one_loop_so_that_a_client_keeps_its_connections():
    loops = []

    class Looking(ScriptedModel):
        async def stream(self, request):
            loops.append(asyncio.get_running_loop())
            for item in says("a"):
                yield item

    service = InMemorySessionService()
    runners = [Runner(Looking([]), session_service=service, app_name="app")]
    sessions = [make_session(service) for _ in range(4)]

    def run(session_id: str) -> None:
        list(runners[0].run(user_id="u", session_id=session_id, new_message="hi"))

    run(sessions[0])
    threads = [threading.Thread(target=run, args=(session_id,)) for session_id in sessions[1:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(loops) == 4
    assert len(set(loops)) == 1
    loop = loops.pop()
    assert not loop.is_running()
    loops.clear()
    runners.clear()
    gc.collect()
    assert loop.is_closed()


def test_leaving_the_blocking_form_early_stores_what_had_come():
    scene = Scene([text("one "), text("two"), HANG])
    session_id = make_session(scene.service)
    threads = threading.active_count()
    for event in scene.runner.run(user_id="u", session_id=session_id, new_message="hi"):
        assert event.text
        break
    stored = read_session(scene.service, session_id)
    assert stored[-1].status == "cancelled"
    assert threading.active_count() == threads
    assert scene.model.open == 0


def test_a_blocking_run_may_be_cancelled_from_another_loop():
    scene = Scene([text("one "), HANG])
    session_id = make_session(scene.service)
    events: list[Event] = []

    def read() -> None:
        events.extend(scene.runner.run(user_id="u", session_id=session_id, new_message="hi"))

    reader = threading.Thread(target=read)
    reader.start()

    async def cancel():
        await until(lambda: scene.model.given)
        await asyncio.sleep(0.02)
        assert await scene.runner.cancel(session_id=session_id)
        return (await scene.service.get_session(app_name="app", user_id="u", session_id=session_id)).events

    stored = asyncio.run(cancel())
    reader.join(5)
    assert not reader.is_alive()
    assert stored[-1].status == "cancelled"
    assert events[-1] == stored[-1]


def test_an_error_comes_out_of_the_blocking_form():
    scene = Scene([text("a"), ValueError("broken")])
    session_id = make_session(scene.service)
    events = []
    with pytest.raises(ValueError, match="broken"):
        for event in scene.runner.run(user_id="u", session_id=session_id, new_message="hi"):
            events.append(event)
    assert events[-1].status == "failed"


def test_the_blocking_form_works_where_a_loop_is_running():
    async def main():
        scene = Scene(says("a"))
        session_id = await scene.begin()
        return list(scene.runner.run(user_id="u", session_id=session_id, new_message="hi"))

    assert asyncio.run(main())[-1].text == "a"


def test_a_blocking_run_within_one_of_the_same_runner_is_refused():
    def nested() -> list:
        return list(scene.runner.run(user_id="u", session_id=session_id, new_message="again"))

    async def nested_async() -> list:
        return nested()

    nested_async.__name__ = "nested"
    scene = Scene(calls("nested"), says("ok"), tools=[nested_async])
    session_id = make_session(scene.service)
    events = list(scene.runner.run(user_id="u", session_id=session_id, new_message="hi"))
    [response] = finals(events)[1].get_function_responses()
    assert "from within another" in response.response["error"]


def test_an_interrupt_of_the_readers_thread_leaves_the_run():
    scene = Scene([text("one "), HANG])
    session_id = make_session(scene.service)
    timer = threading.Timer(0.1, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        list(scene.runner.run(user_id="u", session_id=session_id, new_message="hi"))
    timer.join()
    assert read_session(scene.service, session_id)[-1].status == "cancelled"
    assert scene.model.open == 0


FORGOTTEN = """
import sys
sys.path.insert(0, sys.argv[1])
from scripted_model import HANG, Scene, text
from test_runner_sessions import make_session
from adk_stream.sessions import SqlSessionService
scene = Scene([text("one "), HANG], service=SqlSessionService(sys.argv[2]))
events = scene.runner.run(user_id="u", session_id=make_session(scene.service), new_message="hi")
print(next(events).text)
"""


def test_a_blocking_run_that_nobody_closed_is_left_when_the_process_ends(tmp_path):
    url = f"sqlite:///{tmp_path / 'sessions.db'}"
    arguments = [sys.executable, "-c", FORGOTTEN, str(Path(__file__).parent), url]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "one \n", "")

    async def read():
        async with SqlSessionService(url) as service:
            [session] = (await service.list_sessions(app_name="app", user_id="u")).sessions
            return (await service.get_session(app_name="app", user_id="u", session_id=session.id)).events

    assert [(event.text, event.status) for event in asyncio.run(read())] == [("hi", None), ("one ", "cancelled")]


# ----------------------------------------------------------------- another process


def test_a_run_left_by_a_dead_process_is_made_good_by_the_next():
    async def main():
        scene = Scene(says("ok"), tools=[quick])
        await scene.begin()
        session = await scene.service.get_session(app_name="app", user_id="u", session_id=scene.session_id)
        for role, part in (
            ("user", types.Part(text="hi")),
            ("model", types.Part(function_call=types.FunctionCall(id="c0", name="quick", args={}))),
        ):
            event = Event(author=role, content=types.Content(role=role, parts=[part]), status="completed")
            await scene.service.append_event(session, event)
        await scene.run("still there?")
        return await scene.stored()

    stored = asyncio.run(main())
    check_history(stored)
    assert [event.content.role for event in stored] == ["user", "model", "user", "user", "model"]


# ----------------------------------------------------------------- cost


def test_a_partial_event_costs_little():
    from adk_stream.aggregator import aggregate
    from adk_stream.runner.showing import EventMaker

    n = 2000
    partials = [each for each in aggregate([text("word ")] * n, provider="openai-chat") if each.partial]
    maker = EventMaker(id="x", author="model", invocation_id="e")
    best = min(_time(lambda: [maker.show(each) for each in partials]) for _ in range(5))
    slow = min(
        _time(lambda: [Event.from_response(each, author="model", invocation_id="e", id="x") for each in partials])
        for _ in range(2)
    )
    assert best < slow / 2, f"{best / n * 1e6:.1f} us, against {slow / n * 1e6:.1f} us of from_response"


def _time(work) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


@pytest.mark.parametrize("script", [[text("a")], calls("f"), says("a", 3, 2)])
def test_a_shown_event_equals_what_from_response_gives(script):
    from adk_stream.aggregator import aggregate
    from adk_stream.runner.showing import EventMaker, stored_form

    for response in aggregate(script, provider="openai-chat"):
        copied = Event.from_response(response, author="model", invocation_id="e", id="x")
        shown = EventMaker(id="x", author="model", invocation_id="e").show(response)
        copied.timestamp = shown.timestamp
        assert shown == copied
        assert stored_form(shown) == shown
        for dumped in ("model_dump", "model_dump_json"):
            assert getattr(shown, dumped)() == getattr(copied, dumped)()
            given = {"exclude_unset": True, "exclude": {"timestamp"}}
            assert getattr(shown, dumped)(**given) == getattr(copied, dumped)(**given)
        assert shown.model_copy(deep=True) == shown
        assert Event.model_validate_json(shown.model_dump_json(by_alias=True)) == shown
        shown.extra_field = 1
        assert shown.model_dump()["extra_field"] == 1
