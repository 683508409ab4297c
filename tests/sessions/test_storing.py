"""``store_events``: every response out as an event, the non-partial ones into the session."""

import asyncio
from contextlib import aclosing

import pytest
from google.genai import types

from adk_stream.errors import StaleSessionError
from adk_stream.response import LlmResponse
from adk_stream.sessions import Event, store_events

NAMES = {"app_name": "app", "user_id": "user"}


def said(text, partial=None, **fields):
    content = types.Content(role="model", parts=[types.Part(text=text)]) if text else None
    return LlmResponse(content=content, partial=partial, **fields)


ROUND = [
    said("a", True),
    said("b", True),
    said("ab"),
    said("c", True),
    said("c"),
    said("", status="completed"),
]


class Source:
    """An async source that remembers whether it was closed, and may break."""

    def __init__(self, responses, problem=None):
        self.closed = 0
        self.taken = 0
        self.responses = responses
        self.problem = problem

    async def __aiter__(self):
        try:
            for response in self.responses:
                await asyncio.sleep(0)
                self.taken += 1
                yield response
            if self.problem is not None:
                raise self.problem
        finally:
            self.closed += 1


async def reread(service, session):
    return await service.get_session(app_name="app", user_id="user", session_id=session.id)


@pytest.mark.parametrize("kind", ["list", "generator", "async"])
def test_all_come_out_and_the_finals_are_stored(store, kind):
    async def test(service):
        session = await service.create_session(**NAMES)
        source = {"list": ROUND, "generator": (r for r in ROUND), "async": Source(ROUND)}[kind]
        events = []
        async for event in store_events(source, service, session, author="me", invocation_id="i"):
            events.append(event)
            finals = [event for event in events if not event.partial]
            assert (await reread(service, session)).events == finals, "stored before it is given"
        assert [event.text for event in events] == ["a", "b", "ab", "c", "c", ""]
        assert {(event.author, event.invocation_id) for event in events} == {("me", "i")}
        a, b, ab, c, c_final, end = (event.id for event in events)
        assert a == b == ab
        assert c == c_final
        assert len({ab, c, end}) == 3
        assert session.events == finals
        assert session.revision == 3
        assert finals[-1].status == "completed", "a final without content bears the status"

    store.run(test)


def test_invocation_id_is_made_once(store):
    async def test(service):
        session = await service.create_session(**NAMES)
        first = {event.invocation_id async for event in store_events(ROUND, service, session)}
        second = {event.invocation_id async for event in store_events(ROUND, service, session)}
        assert len(first) == len(second) == 1
        assert first != second
        assert "" not in first | second

    store.run(test)


def test_an_error_of_the_source_goes_on_after_what_came_is_stored(store):
    async def test(service):
        session = await service.create_session(**NAMES)
        problem = ValueError("broken")
        source = Source(ROUND[:4], problem)
        with pytest.raises(ValueError, match="broken") as caught:
            async for _ in store_events(source, service, session):
                pass
        assert caught.value is problem
        assert source.closed == 1
        assert [event.text for event in (await reread(service, session)).events] == ["ab"]

    store.run(test)


def test_stale_is_the_callers_and_closes_the_source(store):
    async def test(service):
        session = await service.create_session(**NAMES)
        await service.append_event(await reread(service, session), Event(author="somebody else"))
        source = Source(ROUND)
        with pytest.raises(StaleSessionError):
            async for _ in store_events(source, service, session):
                pass
        assert (source.taken, source.closed) == (3, 1)
        assert [event.author for event in (await reread(service, session)).events] == ["somebody else"]

    store.run(test)


@pytest.mark.parametrize("kind", ["async", "generator"])
@pytest.mark.parametrize("leave_after", [1, 3, 4])
def test_leaving_closes_the_source_at_once(store, kind, leave_after):
    async def test(service):
        session = await service.create_session(**NAMES)
        source = Source(ROUND)
        closed = []

        def generator():
            try:
                yield from ROUND
            finally:
                closed.append(True)

        async with aclosing(store_events(source if kind == "async" else generator(), service, session)) as events:
            seen = 0
            async for _ in events:
                seen += 1
                if seen == leave_after:
                    break
        assert (source.closed if kind == "async" else len(closed)) == 1
        assert (await reread(service, session)).revision == (0 if leave_after < 3 else 1)

    store.run(test)


def test_cancel_closes_the_source_and_leaves_the_session_usable(store):
    async def test(service):
        session = await service.create_session(**NAMES)
        closed = []

        async def endless():
            try:
                while True:
                    yield said("x")
                    await asyncio.sleep(0)
            finally:
                closed.append(True)

        async def consume():
            async with aclosing(store_events(endless(), service, session)) as events:
                async for _ in events:
                    pass

        task = asyncio.create_task(consume())
        while session.revision < 5:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert closed == [True]
        await service.append_event(session, Event(author="cancelled"))
        assert await reread(service, session) == session

    store.run(test)


def test_events_share_nothing_with_the_responses(store):
    async def test(service):
        session = await service.create_session(**NAMES)
        response = said("right")
        async for event in store_events([response], service, session):
            event.content.parts[0].text = "wrong"
        assert response.text == "right"
        assert (await reread(service, session)).events[0].text == "right"

    store.run(test)
