"""Every way out of a run: what had come is stored and marked, calls are answered, and nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_model import HANG, Scene, answers, call, calls, check_history, finals, says, text, thought, until

SLOW = 0.05


async def quick() -> dict:
    return {"quick": True}


async def never() -> None:
    await asyncio.Event().wait()


# ----------------------------------------------------------------- one by one


async def leave_by_aclose(scene, run, events):
    async with contextlib.aclosing(run):
        async for event in run:
            events.append(event)
            break


async def leave_by_letting_go(scene, run, events):
    async for event in run:
        events.append(event)
        break
    del run
    gc.collect()


async def leave_by_error(scene, run, events):
    with pytest.raises(ZeroDivisionError):
        async with contextlib.aclosing(run):
            async for event in run:
                events.append(event)
                raise ZeroDivisionError


async def leave_by_cancel(scene, run, events):
    async for event in run:
        events.append(event)
        if len(events) == 1:
            assert await scene.runner.cancel(session_id=scene.session_id)


@pytest.mark.parametrize("leave", [leave_by_aclose, leave_by_letting_go, leave_by_error, leave_by_cancel])
def test_what_had_come_is_stored_and_marked(leave):
    async def main():
        scene = Scene([text("one "), text("two"), HANG])
        await scene.begin()
        events = []
        await leave(scene, scene.ask(), events)
        if leave is leave_by_letting_go:
            await until(lambda: not scene.runner._running)
        stored = await scene.stored()
        assert scene.model.open == 0
        assert len(asyncio.all_tasks()) == 1
        await asyncio.sleep(0.02)
        assert await scene.stored() == stored
        return events, stored

    events, stored = asyncio.run(main())
    assert events[0].text == "one "
    assert [event.author for event in stored] == ["user", "model"]
    assert stored[1].text in ("one ", "one two")
    assert (stored[1].status, stored[1].error_code) == ("cancelled", "STREAM_CANCELLED")
    assert stored[1].id == events[0].id


def test_a_waiting_reader_gets_the_cancelled_event_and_then_the_end():
    async def main():
        scene = Scene([text("one "), HANG])
        await scene.begin()
        reader = asyncio.create_task(scene.run())
        await until(lambda: scene.model.given)
        await asyncio.sleep(0.01)
        began = time.monotonic()
        assert await scene.runner.cancel(session_id=scene.session_id)
        assert time.monotonic() - began < 1
        stored = await scene.stored()
        events = await reader
        assert not reader.cancelled()
        assert not await scene.runner.cancel(session_id=scene.session_id)
        return events, stored

    events, stored = asyncio.run(main())
    assert [(event.text, event.status) for event in events] == [("one ", "in_progress"), ("one ", "cancelled")]
    assert stored[-1] == events[-1]


def test_a_reader_is_not_cancelled_for_good():
    async def main():
        scene = Scene([text("one "), HANG])
        await scene.begin()

        async def read():
            async with asyncio.timeout(5):  # a scope that counts cancellations
                events = [event async for event in scene.ask()]
                await asyncio.sleep(0.01)
                return events, asyncio.current_task().cancelling()

        reader = asyncio.create_task(read())
        await until(lambda: scene.model.given)
        await scene.runner.cancel(session_id=scene.session_id)
        return await reader

    events, cancelling = asyncio.run(main())
    assert events[-1].status == "cancelled"
    assert cancelling == 0


def test_aclose_from_another_task_ends_the_reading():
    async def main():
        scene = Scene([text("one "), HANG])
        await scene.begin()
        run = scene.ask()

        async def read():
            return [event async for event in run]

        reader = asyncio.create_task(read())
        await until(lambda: scene.model.given)
        await asyncio.sleep(0.01)
        await asyncio.gather(run.aclose(), run.aclose())
        stored = await scene.stored()
        await run.aclose()
        return await reader, stored

    events, stored = asyncio.run(main())
    assert [event.status for event in events] == ["in_progress"]
    assert stored[-1].status == "cancelled"


@pytest.mark.parametrize("times", [1, 3])
def test_cancelling_the_task_stores_first_and_then_goes_on(times):
    async def main():
        scene = Scene([text("one "), HANG])
        await scene.begin()
        reader = asyncio.create_task(scene.run())
        await until(lambda: scene.model.given)
        await asyncio.sleep(0.01)
        for _ in range(times):
            reader.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert scene.model.open == 0
        return await scene.stored()

    stored = asyncio.run(main())
    assert (stored[-1].text, stored[-1].status) == ("one ", "cancelled")


def test_a_scope_of_anyio_that_cancels_again_and_again_does_not_stop_the_storing():
    async def main():
        scene = Scene([*calls("quick", "never")], tools=[quick, never])
        await scene.begin()
        with anyio.move_on_after(SLOW):
            await scene.run()
        return await scene.stored()

    stored = asyncio.run(main())
    check_history(stored)
    assert answers(stored[-1])[0] == {"quick": True}


def test_a_timeout_around_the_run_leaves_it_as_any_cancellation():
    async def main():
        scene = Scene([text("one "), HANG])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(scene.run(), SLOW)
        return await scene.stored()

    assert asyncio.run(main())[-1].status == "cancelled"


def test_tools_that_run_are_cancelled_and_calls_without_a_result_get_an_error():
    state = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            state.append("stopped")

    async def main():
        scene = Scene(calls("quick", "slow"), says("never said"), tools=[quick, slow])
        await scene.begin()
        reader = asyncio.create_task(scene.run())
        await until(lambda: scene.model.requests and not scene.model.open)
        await asyncio.sleep(SLOW)
        await scene.runner.cancel(session_id=scene.session_id)
        assert state == ["stopped"]
        assert len(asyncio.all_tasks() - {reader}) == 1
        return await reader, await scene.stored(), scene

    events, stored, scene = asyncio.run(main())
    check_history(stored)
    assert answers(stored[-1])[0] == {"quick": True}
    assert "cancelled" in answers(stored[-1])[1]["error"]
    assert (stored[-1].status, stored[-1].error_code) == ("cancelled", "STREAM_CANCELLED")
    assert finals(events)[-1] == stored[-1]
    assert len(scene.model.requests) == 1


def test_a_tool_that_will_not_stop_does_not_hold_the_run(monkeypatch):
    monkeypatch.setattr("adk_stream.runner.tools._LAST_WORDS", 0.05)
    let_go = asyncio.Event()

    async def stubborn() -> None:
        while not let_go.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await let_go.wait()

    async def main():
        scene = Scene(calls("stubborn"), tools=[stubborn])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(scene.run(), SLOW)
        stored = await scene.stored()
        let_go.set()
        await asyncio.sleep(0.01)
        assert len(asyncio.all_tasks()) == 1
        return stored

    check_history(asyncio.run(main()))


def test_a_function_in_a_thread_does_not_hold_the_run():
    let_go = threading.Event()

    def blocked() -> None:
        let_go.wait(5)

    async def main():
        scene = Scene(calls("blocked"), tools=[blocked])
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(scene.run(), SLOW)
        assert time.monotonic() - began < 1
        stored = await scene.stored()
        let_go.set()
        return stored

    check_history(asyncio.run(main()))


def test_a_tool_may_cancel_its_own_run():
    scene = Scene(calls("stop"), says("never said"), tools=[])

    async def stop() -> None:
        await scene.runner.cancel(session_id=scene.session_id)

    async def main():
        nonlocal scene
        scene = Scene(calls("stop"), says("never said"), tools=[stop])
        began = time.monotonic()
        events = await scene.run()
        assert time.monotonic() - began < 1
        return events, await scene.stored()

    events, stored = asyncio.run(main())
    check_history(stored)
    assert events[-1].status == "cancelled"


def test_leaving_at_the_last_event_adds_nothing():
    async def main():
        scene = Scene(says("a"))
        await scene.begin()
        run = scene.ask()
        async with contextlib.aclosing(run):
            async for event in run:
                if event.is_final_response():
                    break
        stored = await scene.stored()
        return stored, await scene.run(), run

    stored, again, _ = asyncio.run(main())
    assert [event.status for event in stored] == [None, "completed"]
    assert again[-1].status == "completed"


def test_a_run_left_at_its_last_event_and_never_closed_holds_up_nobody():
    async def main():
        scene = Scene(says("a"))
        await scene.begin()
        first = scene.ask()
        async for event in first:
            if event.is_final_response():
                break
        async with asyncio.timeout(1):
            return await scene.run(), first

    events, _ = asyncio.run(main())
    assert events[-1].status == "completed"


def test_a_run_that_was_never_read_does_nothing():
    async def main():
        scene = Scene(says("a"))
        await scene.begin()
        run = scene.ask()
        await run.aclose()
        assert [event async for event in run] == []
        return await scene.stored(), scene.model.requests

    assert asyncio.run(main()) == ([], [])


def test_a_run_that_is_still_held_when_its_loop_ends_is_left_by_the_loop(caplog):
    kept = []

    async def main():
        scene = Scene([text("one "), HANG])
        await scene.begin()
        kept.append(scene.ask())
        await anext(kept[0])
        return scene

    scene = asyncio.run(main())
    assert asyncio.run(scene.stored())[-1].status == "cancelled"
    assert not scene.runner._running
    assert not scene.runner._settings.locks
    assert not caplog.records


def test_two_tasks_cannot_read_one_run():
    async def main():
        scene = Scene([text("a"), HANG])
        await scene.begin()
        run = scene.ask()
        reader = asyncio.create_task(anext(run))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="another task"):
            await anext(run)
        await reader
        await run.aclose()

    asyncio.run(main())


def test_a_half_call_is_not_stored():
    async def main():
        script = [text("Let me look. "), call("read", '{"p":', id="call_a"), HANG]
        scene = Scene(script, says("ok"), tools=[])
        await scene.begin()
        reader = asyncio.create_task(scene.run())
        await until(lambda: scene.model.given == 2)
        await asyncio.sleep(0.01)
        await scene.runner.cancel(session_id=scene.session_id)
        await reader
        stored = await scene.stored()
        again = await scene.run("go on")
        return stored, again

    stored, again = asyncio.run(main())
    assert [part.text for part in stored[-1].parts] == ["Let me look. "]
    assert stored[-1].provider_metadata["unfinished_calls"] == [
        {"id": "call_a", "name": "read", "raw_arguments": '{"p":'}
    ]
    assert again[-1].text == "ok"


def test_a_callback_that_waits_is_cancelled_too():
    async def before(request):
        await asyncio.Event().wait()

    async def main():
        scene = Scene(says("a"), before_model=before)
        await scene.begin()
        reader = asyncio.create_task(scene.run())
        await asyncio.sleep(0.01)
        await scene.runner.cancel(session_id=scene.session_id)
        return await reader, await scene.stored()

    events, stored = asyncio.run(main())
    assert [(event.status, event.content) for event in events] == [("cancelled", None)]
    assert stored[-1] == events[-1]


def test_what_after_model_takes_out_is_not_stored_when_the_run_is_left():
    def after(response):
        for part in response.parts:
            part.text = part.text.replace("secret", "***")

    async def main():
        scene = Scene([text("the secret"), HANG], after_model=after)
        await scene.begin()
        events = []
        await leave_by_aclose(scene, scene.ask(), events)
        return await scene.stored()

    assert asyncio.run(main())[-1].text == "the ***"


# ----------------------------------------------------------------- anywhere, by any way

ROUNDS = (
    [thought("hm"), text("Let me "), text("look. "), *calls("quick", "quick")],
    [text("More. "), *calls("quick", arguments='{"wrong": 1}')],
    says("That is it."),
)
#: At least as many as the whole run has events.
LENGTH = 16

WAYS = ["aclose", "task", "error", "cancel", "cancel elsewhere", "timeout", "let go"]


async def _leave(scene: Scene, at: int, way: str) -> list:
    events: list = []
    run = scene.ask()

    async def read(run) -> None:
        async for event in run:
            events.append(event)
            if len(events) < at:
                continue
            if way == "error":
                raise ZeroDivisionError
            if way == "cancel":
                await scene.runner.cancel(session_id=scene.session_id)
                continue
            if way in ("aclose", "let go"):
                return
            reached.set()
            await asyncio.sleep(0)

    reached = asyncio.Event()
    if way == "let go":
        await read(run)
        del run
        await until(lambda: not scene.runner._running)
    elif way in ("aclose", "error"):
        with contextlib.suppress(ZeroDivisionError):
            async with contextlib.aclosing(run):
                await read(run)
    else:
        reader = asyncio.create_task(read(run))
        await asyncio.wait([reader, asyncio.ensure_future(reached.wait())], return_when="FIRST_COMPLETED")
        reached.set()
        if way == "task":
            reader.cancel()
        elif way == "cancel elsewhere":
            await scene.runner.cancel(session_id=scene.session_id)
        elif way == "timeout":
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader, 0)
        await asyncio.wait([reader])
        # what struck the consumer in its own code reaches the run when the consumer lets go of it
        del reader, run
        await until(lambda: not scene.runner._running)
    return events


@settings(max_examples=60, deadline=None)
@given(at=st.integers(1, LENGTH + 1), way=st.sampled_from(WAYS), flush=st.sampled_from(["close", "boundary"]))
def test_wherever_a_run_is_left_the_history_can_be_sent(at, way, flush):
    async def main():
        threads = threading.active_count()
        scene = Scene(*ROUNDS, says("Again."), tools=[quick], flush=flush)
        await scene.begin()
        events = await _leave(scene, at, way)
        stored = await scene.stored()
        assert scene.model.open == 0
        assert len(asyncio.all_tasks()) == 1
        assert threading.active_count() == threads
        assert not scene.runner._running
        assert not scene.runner._settings.locks
        check_history(stored)
        assert stored[-1].status in ("completed", "cancelled")
        kept = {event.id for event in stored}
        assert {event.id for event in events} <= kept
        await asyncio.sleep(0.005)
        assert await scene.stored() == stored
        await scene.run("and now?")
        check_history(await scene.stored())

    asyncio.run(main())


@settings(max_examples=60, deadline=None)
@given(ticks=st.integers(1, 150), way=st.sampled_from(["task", "cancel", "aclose", "scope"]))
def test_whatever_a_run_waits_for_when_it_is_left_the_history_can_be_sent(ticks, way):
    async def main():
        scene = Scene(*ROUNDS, says("Again."), tools=[quick])
        await scene.begin()
        run = scene.ask()

        async def read():
            with anyio.CancelScope() as own:
                scope.append(own)
                async with contextlib.aclosing(run):
                    return [event async for event in run]

        scope: list[anyio.CancelScope] = []
        reader = asyncio.create_task(read())
        for _ in range(ticks):
            await asyncio.sleep(0)
        ended = reader.done()
        if way == "task":
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reader
        elif way == "scope":
            for one in scope:
                one.cancel()
            await reader
        elif way == "cancel":
            await scene.runner.cancel(session_id=scene.session_id)
        else:
            await run.aclose()
        stored = await scene.stored()
        check_history(stored)
        assert not stored or ended or stored[-1].status in ("cancelled", "completed")
        assert scene.model.open == 0
        await asyncio.wait([reader])
        assert await scene.stored() == stored
        assert len(asyncio.all_tasks()) == 1
        assert not scene.runner._running
        assert not scene.runner._settings.locks
        await scene.run("and now?")
        check_history(await scene.stored())

    asyncio.run(main())


def test_the_length_is_what_the_law_above_takes_it_for():
    async def main():
        return await Scene(*ROUNDS, tools=[quick]).run()

    assert 12 <= len(asyncio.run(main())) <= LENGTH
