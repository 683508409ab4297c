"""What every relay promises."""

import asyncio
import gc
import time
from contextlib import aclosing

import pytest
from google.genai import types
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from relay_material import collect, collect_in_pieces, final, said, texts, until

from adk_stream.errors import (
    CursorError,
    RelayError,
    RelayUnavailableError,
    StreamEndedError,
    StreamOwnedError,
    UnknownStreamError,
)
from adk_stream.relay import End, Gap, carry
from adk_stream.response import LlmResponse
from adk_stream.sessions import Event, EventActions, InMemorySessionService


def test_followers_get_each_response_once_and_in_order(relays):
    words = [str(number) for number in range(200)]

    async def test(relays):
        here, there = await relays.open(), await relays.open()
        producer = await here.open("s")
        followers = [
            asyncio.create_task(collect(here)),
            asyncio.create_task(collect(there)),
            asyncio.create_task(collect_in_pieces(there, 7)),
        ]
        for number, word in enumerate(words):
            await producer.publish(said(word, partial=number % 10 != 9))
            await asyncio.sleep(0.001)
            if number == 100:
                followers.append(asyncio.create_task(collect(there)))
        await producer.finish("completed")
        followers.append(asyncio.create_task(collect(here)))
        return await asyncio.gather(*followers)

    for items in relays.run(test):
        assert texts(items) == [*words, "completed"]
        assert len({item.cursor for item in items}) == len(items)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 12), st.booleans()),
        st.tuples(st.just("join"), st.sampled_from("ab"), st.integers(1, 9)),
        st.tuples(st.just("rejoin"), st.integers(0, 9), st.integers(1, 9)),
        st.tuples(st.just("pause"), st.integers(0, 2), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, status=st.sampled_from(["completed", "failed", "incomplete", "cancelled"]))
def test_however_followers_drop_and_join(relays, steps, status):
    stream_ids = iter(range(10**9))

    async def test(relays):
        stream_id = f"s{id(steps)}-{next(stream_ids)}"
        both = {"a": await relays.open(), "b": await relays.open()}
        producer = await both["a"].open(stream_id)
        published, followers, number = [], [], 0
        for step, first, second in steps:
            if step == "publish":
                for _ in range(first):
                    published.append(str(number))
                    await producer.publish(said(str(number), partial=second))
                    number += 1
            elif step == "join":
                followers.append(asyncio.create_task(collect_in_pieces(both[first], second, stream_id)))
            elif step == "rejoin":
                followers.append(asyncio.create_task(_leave_and_come_back(both["b"], stream_id, first, second)))
            else:
                await asyncio.sleep(first / 1000)
        await producer.finish(status)
        for items in await asyncio.gather(*followers):
            assert texts(items) == [*published, status]

    relays.run(test)


async def _leave_and_come_back(relay, stream_id, first, size):
    """Leaves after the first few, and in the middle of waiting for one that does not come in time."""
    items, after = [], None
    async with aclosing(relay.subscribe(stream_id)) as source:
        try:
            async with asyncio.timeout(0.005 * first):
                async for item in source:
                    items.append(item)
        except TimeoutError:
            pass
    if items and isinstance(items[-1], End):
        return items
    after = items[-1].cursor if items else None
    return items + await collect_in_pieces(relay, size, stream_id, after)


# ----------------------------------------------------------------- gaps


async def _with_session(relays, count, **options):
    """A stream of which the beginning is trimmed, its finals (every tenth response) stored."""
    store = InMemorySessionService()
    session = await store.create_session(app_name="a", user_id="u")
    relay = await relays.open(reload=store, **options)
    producer = await relay.open("s", session=session)
    cursors = []
    for number in range(count):
        response = said(str(number), partial=number % 10 != 9)
        if not response.partial:
            await store.append_event(session, response)
        cursors.append(await producer.publish(response))
    return relay, producer, cursors


def test_what_was_trimmed_is_marked_and_its_finals_come_from_the_session(relays):
    async def test(relays):
        relay, producer, cursors = await _with_session(relays, 1000, max_entries=50)
        await producer.finish("completed")
        return await collect(relay), await collect(relay, after=cursors[24]), await collect(relay, after=cursors[998])

    whole, later, end = relays.run(test)
    for items, first in (whole, 0), (later, 25):
        assert [type(item) for item in items].count(Gap) == 1
        got = texts(items)
        gap = got.index("…")
        assert items[gap].lost_finals == 0
        numbers = [int(text) for text in got[gap + 1 : -1]]
        finals = [number for number in numbers if number % 10 == 9]
        assert finals == [number for number in range(first, 1000) if number % 10 == 9], "each final once, in order"
        kept = next(at for at, number in enumerate(numbers) if number % 10 != 9)
        assert numbers[kept:] == list(range(numbers[kept], 1000))
        assert 40 <= len(numbers[kept:]) <= 250, "bounded"
        assert items[-1].status == "completed"
    assert texts(end) == ["999", "completed"]


def test_whoever_leaves_inside_a_gap_comes_back_there(relays):
    async def test(relays):
        relay, producer, _ = await _with_session(relays, 1000, max_entries=50)
        await producer.finish("completed")
        return await collect(relay), await collect_in_pieces(relay, 3)

    whole, pieces = relays.run(test)
    assert texts(item for item in pieces if not isinstance(item, Gap)) == texts(
        item for item in whole if not isinstance(item, Gap)
    )


def test_a_slow_follower_meets_a_gap_and_holds_nothing(relays):
    async def test(relays):
        options = {"max_entries": 50, "max_tail_bytes": 5_000}
        relay, producer, _ = await _with_session(relays, 20, **options)
        slow = relay.subscribe("s")
        first = await anext(slow)
        for number in range(20, 1500):
            await producer.publish(said(str(number)))
            if number % 100 == 0:
                await asyncio.sleep(0.02)
        await producer.finish("completed")
        return [first, *[item async for item in slow]]

    got = texts(relays.run(test))
    assert got[0] == "0"
    assert "…" in got
    numbers = [int(text) for text in got if text.isdigit()]
    assert numbers == sorted(set(numbers))
    assert {9, 19} <= set(numbers)
    assert len(numbers) < 800
    assert got[-2:] == ["1499", "completed"]


def test_finals_that_nobody_stored_are_told_as_lost(relays):
    async def test(relays):
        relay = await relays.open(max_entries=50)
        producer = await relay.open("s")
        for number in range(500):
            await producer.publish(said(str(number), partial=number >= 3))
        await producer.finish("completed")
        return await collect(relay)

    items = relays.run(test)
    assert isinstance(items[0], Gap)
    assert items[0].lost_finals == 3
    assert texts(items)[-2:] == ["499", "completed"]


def test_old_age_and_size_bound_what_is_kept(relays):
    async def test(relays):
        old = await relays.open(max_age=0.2)
        producer = await old.open("old")
        for number in range(300):
            await producer.publish(said(str(number)))
        await until(lambda: _has(old, "old", 300))
        await asyncio.sleep(0.3)
        await producer.publish(said("new"))
        await producer.finish("completed")
        return texts(await collect(old, "old"))

    async def large(relays):
        relay = await relays.open(max_bytes=100_000)
        producer = await relay.open("large")
        for number in range(400):
            await producer.publish(said(f"{number:01000}"))
        await producer.finish("completed")
        return texts(await collect(relay, "large"))

    got = relays.run(test)
    assert got[0] == "…"
    assert got[-2:] == ["new", "completed"]
    assert len(got) < 120
    got = relays.run(large)
    assert got[0] == "…"
    assert len(got) < 250


async def _has(relay, stream_id, number):
    return int((await relay.status(stream_id)).last.split("-")[1]) >= number


# ----------------------------------------------------------------- ends


@pytest.mark.parametrize(
    ("last", "outcome", "end"),
    [
        (None, None, ("incomplete", "STREAM_CUT")),
        (final("x", status="completed"), None, ("completed", None)),
        (final("x", status="incomplete", error_code="MAX_TOKENS"), None, ("incomplete", "MAX_TOKENS")),
        (final("x", status="in_progress"), None, ("incomplete", "STREAM_CUT")),
        (final("x", status="completed"), "cancelled", ("cancelled", None)),
        (None, ValueError("no"), ("failed", "ValueError")),
        (None, asyncio.CancelledError(), ("cancelled", "STREAM_CANCELLED")),
        (None, TimeoutError(), ("failed", "STREAM_TIMEOUT")),
    ],
)
def test_how_a_stream_ended_is_told(relays, last, outcome, end):
    async def test(relays):
        relay = await relays.open()
        producer = await relay.open("s")
        if last is not None:
            await producer.publish(last)
        await producer.finish(outcome)
        await producer.finish("failed")
        with pytest.raises(StreamEndedError):
            await producer.publish(said("late"))
        return (await collect(relay))[-1], await relay.status("s")

    told, status = relays.run(test)
    assert (told.status, told.error_code) == end == (status.state, status.error_code)
    assert status.ended
    assert status.last == told.cursor


def test_an_end_must_be_one(relays):
    async def test(relays):
        producer = await (await relays.open()).open("s")
        with pytest.raises(ValueError, match="in_progress"):
            await producer.finish("in_progress")
        await producer.finish("completed")

    relays.run(test)


def test_a_block_ends_its_stream(relays):
    async def test(relays):
        relay = await relays.open()
        async with await relay.open("good") as producer:
            await producer.publish(final("x", status="completed"))
        with pytest.raises(ZeroDivisionError):
            async with await relay.open("bad"):
                raise ZeroDivisionError("no")
        return (await collect(relay, "good"))[-1], (await collect(relay, "bad"))[-1]

    good, bad = relays.run(test)
    assert good.status == "completed"
    assert (bad.status, bad.error_code, bad.error_message) == ("failed", "ZeroDivisionError", "no")


def test_whoever_has_seen_the_end_is_told_it_again(relays):
    async def test(relays):
        relay = await relays.open()
        producer = await relay.open("s")
        await producer.publish(said("x"))
        await producer.finish("completed")
        items = await collect(relay)
        return items, await collect(relay, after=items[-1].cursor)

    items, again = relays.run(test)
    assert again == items[-1:]


def test_streams_are_forgotten_some_time_after_their_end(relays):
    async def test(relays):
        relay = await relays.open(retention=0.2, lease=0.2)
        producer = await relay.open("s")
        await producer.finish("completed")
        assert (await relay.status("s")).ended
        await until(lambda: _is_forgotten(relay))
        with pytest.raises(UnknownStreamError):
            await collect(relay)

    relays.run(test)


async def _is_forgotten(relay):
    return await relay.status("s") is None


# ----------------------------------------------------------------- names, cursors, states


@pytest.mark.parametrize("cursor", ["", "x", "1-1-0", "1-1-0-00000000", "0-0", "1-1-0-" + "f" * 8, "9" * 500, "1\n"])
def test_a_cursor_that_is_none_is_refused(relays, cursor):
    async def test(relays):
        relay = await relays.open()
        producer = await relay.open("s")
        await producer.publish(said("x"))
        with pytest.raises(CursorError, match="no cursor of stream 's'"):
            await collect(relay, after=cursor)

    relays.run(test)


def test_a_cursor_of_another_stream_is_refused(relays):
    async def test(relays):
        relay = await relays.open()
        cursor = await (await relay.open("one")).publish(said("x"))
        other = await relay.open("other")
        await other.publish(said("x"))
        assert cursor.replace("-", "").isalnum()
        with pytest.raises(CursorError):
            await collect(relay, "other", after=cursor)

    relays.run(test)


def test_a_name_belongs_to_one_stream(relays):
    async def test(relays):
        here, there = await relays.open(), await relays.open()
        producer = await here.open("s")
        for relay in here, there:
            with pytest.raises(StreamOwnedError):
                await relay.open("s")
        await producer.finish("completed")
        for relay in here, there:
            with pytest.raises((StreamOwnedError, StreamEndedError)):
                await relay.open("s")

    relays.run(test)


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", None, 7])
def test_names_are_checked(relays, name):
    async def test(relays):
        with pytest.raises(RelayError):
            await (await relays.open()).open(name)

    relays.run(test)


def test_streams_that_run_are_listed_with_their_session(relays):
    async def test(relays):
        store = InMemorySessionService()
        session = await store.create_session(app_name="a", user_id="u")
        here, there = await relays.open(), await relays.open()
        one, two = await here.open("one", session=session), await here.open("two {x}:*")
        assert sorted(await there.running()) == ["one", "two {x}:*"]
        status = await there.status("one")
        assert (status.state, status.ended) == ("in_progress", False)
        assert status.session == ("a", "u", session.id)
        await one.finish("completed")
        assert await there.running() == ["two {x}:*"]
        await two.finish("failed")
        assert await there.running() == []
        assert (await there.status("two {x}:*")).state == "failed"
        assert await there.status("three") is None

    relays.run(test)


def test_nobody_can_follow_what_there_is_not(relays):
    async def test(relays):
        relay = await relays.open()
        with pytest.raises(UnknownStreamError):
            await collect(relay, "nothing")

    relays.run(test)


def test_a_closed_relay_lets_its_followers_go(relays):
    async def test(relays):
        relay = await relays.open()
        producer = await relay.open("s")
        follower = asyncio.create_task(collect(relay))
        await producer.publish(said("x"))
        await asyncio.sleep(0.05)
        await relay.close()
        await relay.close()
        with pytest.raises(RelayUnavailableError):
            await follower
        with pytest.raises(RelayUnavailableError):
            await relay.status("s")

    relays.run(test)


# ----------------------------------------------------------------- cancelling, and the task that owns a stream


def test_a_wish_for_the_end_reaches_the_owner(relays):
    async def test(relays):
        here, there = await relays.open(), await relays.open()
        producer = await here.open("s")
        assert not producer.cancel_requested
        assert await there.cancel("s")
        await asyncio.wait_for(producer.wait_cancelled(), 1)
        assert producer.cancel_requested
        await producer.finish("cancelled")
        assert not await there.cancel("s")
        assert not await there.cancel("nothing")

    relays.run(test)


def test_an_owner_carries_its_source_to_the_end_whoever_leaves(relays):
    async def source():
        for number in range(30):
            await asyncio.sleep(0.001)
            yield said(str(number))
        yield final("all", status="completed")

    async def test(relays):
        relay = await relays.open()
        owner = asyncio.create_task(carry(source(), await relay.open("s")))
        await collect(relay, limit=3)
        await owner
        return texts(await collect(relay))

    assert relays.run(test) == [*map(str, range(30)), "all", "completed"]


def test_an_owner_that_is_asked_to_ends_its_source(relays):
    closed = []

    async def source():
        try:
            while True:
                yield said("x")
                await asyncio.sleep(0.001)
        finally:
            closed.append(True)

    async def test(relays):
        relay = await relays.open()
        owner = asyncio.create_task(carry(source(), await relay.open("s")))
        await collect(relay, limit=3)
        await relay.cancel("s")
        await owner
        return texts(await collect(relay))[-1]

    assert relays.run(test) == "cancelled"
    assert closed == [True]


def test_an_owner_whose_source_can_cancel_shows_what_that_gives(relays):
    class Source:
        def __init__(self):
            self.cancelled = asyncio.Event()

        async def cancel(self):
            self.cancelled.set()

        async def __aiter__(self):
            yield said("x")
            await self.cancelled.wait()
            yield final("so far", status="cancelled", error_code="STREAM_CANCELLED")

    async def test(relays):
        relay = await relays.open()
        owner = asyncio.create_task(carry(Source(), await relay.open("s")))
        await collect(relay, limit=1)
        await relay.cancel("s")
        await owner
        return await collect(relay)

    items = relays.run(test)
    assert texts(items) == ["x", "so far", "cancelled"]
    assert items[-1].error_code == "STREAM_CANCELLED"


def test_an_error_of_the_source_is_told_and_goes_on(relays):
    async def source():
        yield said("x")
        raise ConnectionResetError("gone")

    async def test(relays):
        relay = await relays.open()
        with pytest.raises(ConnectionResetError):
            await carry(source(), await relay.open("s"))
        return await collect(relay)

    items = relays.run(test)
    assert texts(items) == ["x", "failed"]
    assert items[-1].error_code == "ConnectionResetError"


# ----------------------------------------------------------------- what is carried

RESPONSES = [
    LlmResponse(partial=True, content=types.Content(role="model", parts=[types.Part(text="plain")])),
    LlmResponse(status="completed", provider_metadata={"big": 2**80, "half": "\ud83d"}),
    said("half an emoji \ud83d"),
    final("", actions=EventActions(state_delta={"a": [1, {"b": None}]}), long_running_tool_ids={"b", "a"}),
    Event(
        author="model",
        content=types.Content(
            role="model",
            parts=[
                types.Part(text="x\u2028\n\0", thought=True, thought_signature=b"\xff\xfe\0?>"),
                types.Part(function_call=types.FunctionCall(id="1", name="f", args={"n": 2**70, "deep": [[{}]]})),
                types.Part(inline_data=types.Blob(data=bytes(range(256)), mime_type="audio/pcm")),
            ],
        ),
    ),
]


@pytest.mark.parametrize("response", RESPONSES, ids=range(len(RESPONSES)))
def test_a_response_arrives_as_it_was(relays, response):
    async def test(relays):
        relay = await relays.open()
        producer = await relay.open("s")
        await producer.publish(response)
        await producer.finish("completed")
        return (await collect(relay))[0]

    delivery = relays.run(test)
    assert type(delivery.response) is type(response)
    assert delivery.response == response
    assert delivery.partial is bool(response.partial)
    assert delivery.is_event is isinstance(response, Event)
    assert b"\n" not in delivery.json


def test_nobody_shares_objects(relays):
    async def test(relays):
        relay = await relays.open()
        producer = await relay.open("s")
        response = said("as it was")
        await producer.publish(response)
        response.content.parts[0].text = "changed"
        await producer.finish("completed")
        one, other = (await collect(relay))[0], (await collect(relay))[0]
        one.response.content.parts[0].text = "changed too"
        assert one.response is one.response
        return other.response.text

    assert relays.run(test) == "as it was"


def test_what_is_too_large_or_no_json_is_refused_and_the_stream_goes_on(relays):
    async def test(relays):
        relay = await relays.open(max_event_bytes=2000)
        producer = await relay.open("s")
        await producer.publish(said("one"))
        with pytest.raises(RelayError, match="too large"):
            await producer.publish(said("x" * 3000))
        with pytest.raises(RelayError, match="JSON"):
            await producer.publish(said("x", custom_metadata={"object": object()}))
        await producer.publish(said("two"))
        await producer.finish("completed")
        return texts(await collect(relay))

    assert relays.run(test) == ["one", "two", "completed"]


# ----------------------------------------------------------------- producers that die


async def _die(relays, relay):
    """The process of that relay is gone: nothing renews its leases. In memory, nobody holds the producer."""
    if relays.kind == "redis":
        await relay.close()
    gc.collect()


def test_the_end_of_a_dead_producer_comes_within_the_lease(relays):
    lease = 1.0

    async def test(relays):
        here, there = await relays.open(lease=lease), await relays.open(lease=lease)
        producer = await here.open("s")
        follower = asyncio.create_task(collect(there))
        await producer.publish(said("x"))
        await asyncio.sleep(0.3)
        assert not follower.done()
        del producer
        await _die(relays, here)
        start = asyncio.get_running_loop().time()
        items = await follower
        took = asyncio.get_running_loop().time() - start
        return items, took, await there.status("s"), await there.running()

    items, took, status, running = relays.run(test)
    assert texts(items) == ["x", "failed"]
    assert items[-1].error_code == "PRODUCER_LOST" == status.error_code
    assert took <= lease
    assert running == []


def test_a_lease_is_renewed_while_nothing_is_said(relays):
    async def test(relays):
        here, there = await relays.open(lease=0.3), await relays.open(lease=0.3)
        producer = await here.open("s")
        await asyncio.sleep(0.7)
        assert (await there.status("s")).state == "in_progress"
        await producer.publish(said("x"))
        await producer.finish("completed")
        return texts(await collect(there))

    assert relays.run(test) == ["x", "completed"]


def test_a_stream_is_taken_over_from_its_snapshot(relays):
    async def test(relays):
        here, there = await relays.open(lease=0.6), await relays.open(lease=0.6)
        producer = await here.open("s", takeover=10)
        follower = asyncio.create_task(collect(there))
        for number in range(5):
            await producer.publish(said(str(number), partial=number != 2))
        await producer.save(b"\0state after five")
        for number in range(5, 8):
            await producer.publish(said(str(number)))
        await until(lambda: _has(there, "s", 8))
        with pytest.raises(StreamOwnedError):
            await there.take_over("s")
        del producer
        await _die(relays, here)
        async with asyncio.timeout(3):
            while True:
                try:
                    heir = await there.take_over("s")
                    break
                except StreamOwnedError:
                    await asyncio.sleep(0.02)
        with pytest.raises(StreamOwnedError):
            await there.take_over("s")
        assert heir.snapshot == b"\0state after five"
        assert heir.repeats == 3
        for number in range(5, 12):
            await heir.publish(said(str(number), partial=number != 11))
        assert heir.repeats == 0
        await heir.finish("completed")
        with pytest.raises(StreamEndedError):
            await there.take_over("s")
        with pytest.raises(UnknownStreamError):
            await there.take_over("other")
        return await follower, await collect_in_pieces(there, 3)

    for items in relays.run(test):
        assert texts(items) == [*map(str, range(12)), "completed"]


def test_a_stream_that_nobody_takes_over_is_given_up_in_the_end(relays):
    async def test(relays):
        here, there = await relays.open(lease=0.3), await relays.open(lease=0.3)
        producer = await here.open("s", takeover=0.5)
        await producer.publish(said("x"))
        await until(lambda: _has(there, "s", 1))
        follower = asyncio.create_task(collect(there))
        del producer
        died = time.monotonic()
        await _die(relays, here)
        told = texts(await asyncio.wait_for(follower, 10))
        assert time.monotonic() - died >= 0.5, "it may still be taken over"
        return told

    assert relays.run(test) == ["x", "failed"]
