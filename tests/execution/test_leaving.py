"""However the consumer leaves: the connection closes within the bound, nothing comes after, what had come is kept."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from contextlib import aclosing

import pytest
from sources import HANG, HELLO, ROLE, Source, Starts, chat, run, run_really

from adk_stream import StreamExecutionOptions, execute

OPTIONS = StreamExecutionOptions(close_timeout=2)
SCRIPT = [ROLE, chat("Hel"), HANG]


def started(*script, close=0.0):
    source = Source(*script, close=close)
    return source, execute(lambda: source, OPTIONS, provider="openai-chat")


async def read_all(execution):
    return [response async for response in execution]


def check_left(execution, source, text="Hel"):
    assert (execution.final.status, execution.final.error_code) == ("cancelled", "STREAM_CANCELLED")
    assert execution.final.text == text
    assert source.closed
    assert source.closes == 1


def test_cancel_from_another_task():
    async def leave():
        source, execution = started(*SCRIPT)
        reader = asyncio.create_task(read_all(execution))
        await asyncio.sleep(1)
        execution.cancel()
        assert execution.final.status == "cancelled"  # at once
        responses = await reader
        check_left(execution, source)
        assert [response.text for response in responses] == ["Hel"]
        execution.cancel()
        await execution.aclose()
        await execution.aclose()
        assert await read_all(execution) == []
        check_left(execution, source)

    run(leave())


def test_cancel_from_another_thread():
    async def leave():
        source, execution = started(*SCRIPT)
        thread = threading.Timer(0.05, execution.cancel)
        thread.start()
        responses = await read_all(execution)
        thread.join()
        check_left(execution, source)
        assert len(responses) == 1

    run_really(leave())


def test_cancel_when_nobody_waits_closes_the_connection():
    async def leave():
        source, execution = started(*SCRIPT)
        assert (await anext(execution)).text == "Hel"
        execution.cancel()
        await asyncio.sleep(0.1)
        check_left(execution, source)
        with pytest.raises(StopAsyncIteration):
            await anext(execution)

    run(leave())


def test_cancel_before_the_start_never_starts():
    async def leave():
        starts = Starts(HELLO)
        execution = execute(starts, provider="openai-chat")
        execution.cancel()
        assert await read_all(execution) == []
        await execution.aclose()
        assert (starts.count, execution.final, execution.attempts) == (0, None, 0)

    run(leave())


def test_cancel_from_the_consumers_own_loop():
    async def leave():
        source, execution = started(*HELLO)
        texts = []
        async for response in execution:
            texts.append(response.text)
            execution.cancel()
        assert texts == ["Hel"]
        check_left(execution, source)

    run(leave())


def test_cancel_after_the_end_changes_nothing():
    async def leave():
        source, execution = started(*HELLO)
        responses = await read_all(execution)
        execution.cancel()
        await execution.aclose()
        assert execution.final is responses[-1]
        assert execution.final.status == "completed"
        assert source.closes == 1

    run(leave())


def test_task_cancel_goes_on_unchanged_and_closes_first():
    async def leave():
        source, execution = started(*SCRIPT)
        reader = asyncio.create_task(read_all(execution))
        await asyncio.sleep(1)
        reader.cancel("mine")
        with pytest.raises(asyncio.CancelledError, match="mine"):
            await reader
        check_left(execution, source)

    run(leave())


def test_a_timeout_of_the_consumers_own():
    async def leave():
        source, execution = started(*SCRIPT)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await read_all(execution)
        check_left(execution, source)

    run(leave())


def test_aclose_while_a_part_is_open():
    async def leave():
        source, execution = started(*SCRIPT)
        async with aclosing(execution):
            await anext(execution)
        check_left(execution, source)

    run(leave())


def test_aclose_from_another_task():
    async def leave():
        source, execution = started(*SCRIPT)
        reader = asyncio.create_task(read_all(execution))
        await asyncio.sleep(1)
        await execution.aclose()
        assert source.closed
        assert len(await reader) == 1
        check_left(execution, source)

    run(leave())


def test_an_error_of_the_consumers_own():
    async def leave():
        source, execution = started(*HELLO)
        with pytest.raises(KeyError, match="mine"):
            async with aclosing(execution):
                async for _ in execution:
                    raise KeyError("mine")
        check_left(execution, source)

    run(leave())


def test_break_closes_when_the_iterator_is_let_go():
    async def leave():
        source, execution = started(*[ROLE, chat("a"), *[0.01, chat("b")] * 5000])
        async for _ in execution:
            break
        del execution
        await asyncio.sleep(0.1)
        assert source.closed
        assert source.given <= 2 + 16 + 10

    run(leave())


def test_only_a_little_is_read_ahead():
    async def leave():
        source, execution = started(*[chat("a")] * 5000)
        async with aclosing(execution):
            await anext(execution)
            await asyncio.sleep(100)
            assert source.given <= 20
            await anext(execution)

    run(leave())


@pytest.mark.parametrize("how", ["cancel", "aclose", "task", "limit"])
@pytest.mark.parametrize("close", [1.5, HANG])
def test_the_bound_holds_although_closing_hangs(how, close):
    async def leave():
        source = Source(*SCRIPT, close=close)
        options = StreamExecutionOptions(close_timeout=2, idle_timeout=1)
        execution = execute(lambda: source, options, provider="openai-chat")
        reader = asyncio.create_task(read_all(execution))
        await asyncio.sleep(0.5)
        clock = asyncio.get_running_loop().time
        began = clock()
        if how == "cancel":
            execution.cancel()
            await reader
        elif how == "aclose":
            await execution.aclose()
            await reader
        elif how == "task":
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
        else:
            with pytest.raises(TimeoutError):
                await reader
            began += 0.5
        assert clock() - began == pytest.approx(min(close, 2), abs=0.15)
        assert source.closed is (close != HANG)

    run(leave())


def test_a_source_that_hangs_in_its_own_finally():
    async def source():
        try:
            yield chat("Hel")
            await asyncio.Event().wait()
        finally:
            await asyncio.Event().wait()

    async def leave():
        execution = execute(source, OPTIONS, provider="openai-chat")
        async with aclosing(execution):
            await anext(execution)
        assert asyncio.get_running_loop().time() == pytest.approx(2, abs=0.15)
        assert execution.final.status == "cancelled"

    run(leave())


def test_cancelled_twice_it_does_not_wait_for_the_close():
    async def leave():
        _source, execution = started(*SCRIPT, close=HANG)
        reader = asyncio.create_task(read_all(execution))
        await asyncio.sleep(1)
        reader.cancel()
        await asyncio.sleep(0.5)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert asyncio.get_running_loop().time() == pytest.approx(1.5)
        assert execution.final.status == "cancelled"
        await asyncio.sleep(3)

    run(leave())


def test_the_source_is_opened_read_and_closed_in_one_task():
    tasks = set()

    async def source():
        try:
            async with asyncio.TaskGroup():
                for piece in HELLO:
                    tasks.add(asyncio.current_task())
                    yield piece
                await asyncio.sleep(9)
        finally:
            tasks.add(asyncio.current_task())

    async def leave():
        execution = execute(source, OPTIONS, provider="openai-chat")
        first = await anext(execution)
        await asyncio.create_task(execution.aclose())  # by another task than the one that reads
        assert first.text == "Hel"
        assert len(tasks) == 1

    run(leave())


def test_a_source_that_was_cancelled_from_inside():
    async def leave():
        _source, execution = started(chat("Hel"), asyncio.CancelledError("inner"))
        assert (await anext(execution)).text == "Hel"
        with pytest.raises(asyncio.CancelledError, match="inner"):
            await anext(execution)
        assert execution.final.status == "cancelled"

    run(leave())


def test_two_tasks_may_not_read_at_once():
    async def leave():
        _source, execution = started(*SCRIPT)
        async with aclosing(execution):
            reader = asyncio.create_task(read_all(execution))
            await asyncio.sleep(1)
            with pytest.raises(RuntimeError, match="two tasks"):
                await anext(execution)
            execution.cancel()
            await reader

    run(leave())


def test_the_loop_ends_while_a_stream_is_open():
    source = Source(*SCRIPT)

    async def leave():
        execution = execute(lambda: source, OPTIONS, provider="openai-chat")
        await anext(execution)
        return execution

    execution = asyncio.run(leave())
    assert source.closed  # with the loop's other tasks
    execution.cancel()
    assert execution.final.status == "cancelled"
    del execution
    gc.collect()


def test_executions_do_not_meet():
    async def one(number):
        script = [ROLE, *(step for _ in range(20) for step in (0.01 * (1 + number % 3), chat(f"{number},")))]
        execution = execute(lambda: Source(*script, chat(finish="stop")), provider="openai-chat")
        return [response async for response in execution][-1].text

    async def all_of_them():
        return await asyncio.gather(*map(one, range(20)))

    assert run(all_of_them()) == [f"{number}," * 20 for number in range(20)]


def test_the_cost_of_an_event_is_small():
    """Waiting makes no task and no timer for each event."""
    from adk_stream import aggregate_async

    async def source():
        for _ in range(4000):
            await asyncio.sleep(0)
            yield chat("a")
        yield chat(finish="stop")

    async def measure(make):
        began = time.perf_counter()
        async for _ in make():
            pass
        return time.perf_counter() - began

    async def compare():
        plain = [await measure(lambda: aggregate_async(source(), "openai-chat")) for _ in range(3)]
        timed = [await measure(lambda: execute(source, provider="openai-chat")) for _ in range(3)]
        return (min(timed) - min(plain)) / 4000

    assert asyncio.run(compare()) < 100e-6
