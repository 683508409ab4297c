"""google-adk's session service over our stores: its semantics, and no update lost."""

from __future__ import annotations

import asyncio
import multiprocessing

import pytest

pytest.importorskip("google.adk", reason="google-adk is not installed")

from adk_runs import model_at, recordings, run_agent
from counting import count
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions import InMemorySessionService as AdkInMemorySessionService
from google.adk.sessions import Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types
from releases import as_observed

from adk_stream.errors import SessionError
from adk_stream.integrations.google_adk import AdkSessionService, install
from adk_stream.sessions import InMemorySessionService, SqlSessionService
from adk_stream.testing import ReplayServer

USER = {"app_name": "app", "user_id": "u"}
KEY = {**USER, "session_id": "s"}


@pytest.fixture(params=[pytest.param("google-adk", marks=as_observed), "memory", "sqlite"])
def service(request, tmp_path):
    """Ours, and google-adk's own store in memory as the measure."""
    if request.param == "google-adk":
        return AdkInMemorySessionService()
    return AdkSessionService("memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/s.db")


@pytest.fixture(params=["memory", "sqlite"])
def ours(request, tmp_path):
    return AdkSessionService("memory:" if request.param == "memory" else f"sqlite:///{tmp_path}/s.db")


def run(service, main):
    async def closing():
        try:
            return await main()
        finally:
            if isinstance(service, AdkSessionService):
                await service.close()

    return asyncio.run(closing())


def event(text="", *, state=None, **fields):
    content = types.Content(role="model", parts=[types.Part(text=text)]) if text else None
    actions = EventActions(state_delta=state or {})
    return Event(author="a", invocation_id="i", content=content, actions=actions, **fields)


def texts(session):
    return [each.content.parts[0].text for each in session.events]


# ----------------------------------------------------------------- google-adk's semantics


def test_create_get_list_delete(service):
    async def main():
        made = await service.create_session(**USER, state={"k": 1, "app:a": 2, "user:u": 3, "temp:t": 4})
        named = await service.create_session(**USER, session_id="  s ")
        with pytest.raises(AlreadyExistsError):
            await service.create_session(**KEY)
        other = await service.create_session(app_name="app", user_id="v")
        assert made.state == {"k": 1, "app:a": 2, "user:u": 3}
        assert (named.id, named.state) == ("s", {"app:a": 2, "user:u": 3})
        assert other.state == {"app:a": 2}
        assert (await service.get_session(**KEY)).id == "s"
        assert await service.get_session(**USER, session_id="none") is None
        listed = (await service.list_sessions(**USER)).sessions
        assert {each.id for each in listed} == {made.id, "s"}
        assert len((await service.list_sessions(app_name="app")).sessions) == 3
        assert await service.get_user_state(**USER) == {"u": 3}
        await service.delete_session(**KEY)
        await service.delete_session(**KEY)
        assert await service.get_session(**KEY) is None
        with pytest.raises(SessionNotFoundError):
            await service.append_event(named, event("x"))

    run(service, main)


def test_events_and_state(service):
    async def main():
        session = await service.create_session(**KEY)
        given = event("x", state={"k": 1, "app:a": 2, "user:u": 3, "temp:t": 4})
        stored = await service.append_event(session, given)
        assert stored.actions.state_delta == {"k": 1, "app:a": 2, "user:u": 3}
        assert session.state == {"k": 1, "app:a": 2, "user:u": 3, "temp:t": 4}
        assert session.events == [stored]
        assert session.last_update_time == given.timestamp
        again = await service.get_session(**KEY)
        assert again.state == {"k": 1, "app:a": 2, "user:u": 3}
        assert again.events == [stored]
        partial = event("p", state={"k": 9}, partial=True)
        assert await service.append_event(session, partial) is partial
        assert (session.state["k"], len(session.events)) == (1, 1)
        await service.append_event(session, stored)
        assert len(session.events) == 1
        assert len((await service.get_session(**KEY)).events) == 1

    run(service, main)


def test_which_events_are_read(service):
    async def main():
        session = await service.create_session(**KEY)
        for number in range(5):
            await service.append_event(session, event(str(number), timestamp=100.0 + number))

        async def read(**config):
            return texts(await service.get_session(**KEY, config=GetSessionConfig(**config)))

        assert await read() == ["0", "1", "2", "3", "4"]
        assert await read(num_recent_events=2) == ["3", "4"]
        assert await read(num_recent_events=0) == []
        assert await read(after_timestamp=103.0) == ["3", "4"]
        assert await read(after_timestamp=101.0, num_recent_events=2) == ["3", "4"]

    run(service, main)


# ----------------------------------------------------------------- better than google-adk's


def test_a_missed_write_is_refused_whatever_the_clock_says(ours):
    async def main():
        await ours.create_session(**KEY)
        first, second = await ours.get_session(**KEY), await ours.get_session(**KEY)
        await ours.append_event(first, event("a", timestamp=100.0))
        with pytest.raises(StaleSessionError):
            await ours.append_event(second, event("b", timestamp=100.0))
        assert second.events == []
        again = await ours.get_session(**KEY)
        await ours.append_event(again, event("b", timestamp=50.0))
        assert texts(await ours.get_session(**KEY)) == ["a", "b"]

    run(ours, main)


def test_branches_that_share_a_session_object_do_not_hinder_each_other(ours):
    async def main():
        session = await ours.create_session(**KEY)
        await asyncio.gather(*[ours.append_event(session, event(str(n), state={f"k{n}": n})) for n in range(10)])
        stored = await ours.get_session(**KEY)
        assert texts(stored) == texts(session)
        assert stored.state == session.state == {f"k{n}": n for n in range(10)}

    run(ours, main)


def test_a_session_object_that_was_made_elsewhere(ours):
    async def main():
        session = await ours.create_session(**KEY)
        await ours.append_event(session, event("a", timestamp=100.0))
        copy = Session(**session.model_dump())
        await ours.append_event(copy, event("b", timestamp=101.0))
        assert texts(await ours.get_session(**KEY)) == ["a", "b"]
        with pytest.raises(StaleSessionError):
            await ours.append_event(Session(**KEY_OF_OLD), event("c"))
        with pytest.raises(SessionNotFoundError):
            await ours.append_event(Session(**{**KEY_OF_OLD, "id": "none"}), event("c"))

    run(ours, main)


KEY_OF_OLD = {**USER, "id": "s", "last_update_time": 1.0}


def test_a_copy_knows_its_revision(ours):
    async def main():
        session = await ours.create_session(**KEY)
        for copy in (session.model_copy(), session.model_copy(deep=True)):
            with_event = await ours.get_session(**KEY)
            await ours.append_event(with_event, event("a"))
            with pytest.raises(StaleSessionError):
                await ours.append_event(copy, event("b"))

    run(ours, main)


def test_a_refused_event_leaves_everything_as_it_was(ours):
    async def main():
        session = await ours.create_session(**KEY)
        stale = await ours.get_session(**KEY)
        await ours.append_event(session, event("a"))
        refused = event("b", state={"temp:t": 1, "k": 2})
        with pytest.raises(StaleSessionError):
            await ours.append_event(stale, refused)
        assert stale.state == {}
        assert refused.actions.state_delta == {"temp:t": 1, "k": 2}
        await ours.append_event(await ours.get_session(**KEY), refused)

    run(ours, main)


def test_state_without_a_json_form_does_not_stop_a_run(ours):
    async def main():
        session = await ours.create_session(**KEY, state={"f": len})
        await ours.append_event(session, event("a", state={"g": len}))
        assert (await ours.get_session(**KEY)).state == {"f": repr(len), "g": repr(len)}

    run(ours, main)


def test_both_sides_may_use_one_store(tmp_path):
    store = SqlSessionService(f"sqlite:///{tmp_path}/s.db")
    service = AdkSessionService(store)
    signature = bytes(range(256))
    part = types.Part(text="t", thought=True, thought_signature=signature)
    content = types.Content(role="model", parts=[part])
    custom = {"adk_stream": {"status": "completed", "response_id": "r"}, "mine": 1}

    async def main():
        session = await service.create_session(**KEY)
        await service.append_event(session, Event(author="a", content=content, custom_metadata=custom))
        own = await store.get_session(**KEY)
        assert (own.events[0].status, own.events[0].response_id) == ("completed", "r")
        assert own.events[0].parts[0].thought_signature == signature
        assert (await service.get_session(**KEY)).events == session.events

    run(service, main)


def test_an_unknown_store_is_an_error():
    with pytest.raises(SessionError):
        AdkSessionService("mongodb://nowhere")
    assert AdkSessionService(InMemorySessionService())


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system cannot fork")
def test_four_processes_lose_no_update(tmp_path):
    url = f"sqlite:///{tmp_path}/s.db"
    service = AdkSessionService(url)

    async def create():
        return await service.create_session(**KEY, state={"count": 0})

    run(service, create)
    fork = multiprocessing.get_context("fork")  # importing google-adk four times would take longer than the rest
    running = [fork.Process(target=count, args=(url, "s", 40)) for _ in range(4)]
    for process in running:
        process.start()
    for process in running:
        process.join(60)
    assert [process.exitcode for process in running] == [0, 0, 0, 0]
    service = AdkSessionService(url)

    async def read():
        return await service.get_session(**KEY)

    session = run(service, read)
    assert session.state["count"] == 160
    assert [each.actions.state_delta["count"] for each in session.events] == list(range(1, 161))


def test_a_run_of_google_adk(tmp_path):
    turns = [
        [
            {"candidates": [{"content": {"role": "model", "parts": [{"text": "Checking. "}]}}]},
            {"candidates": [{"content": {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}}]},
            {"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"totalTokenCount": 6}},
        ],
        [{"candidates": [{"content": {"role": "model", "parts": [{"text": "done"}]}, "finishReason": "STOP"}]}],
    ]
    service = AdkSessionService(f"sqlite:///{tmp_path}/s.db")
    with ReplayServer(recordings(turns, "gemini-run")) as server, install():
        done = run_agent(model_at(server, "gemini-run"), tools=("f",), service=service)
    assert done["error"] is None
    assert done["ran"] == [{"name": "f", "args": {}}]
    stored = done["session"].events
    assert [each.author for each in stored] == ["user", "a", "a", "a"]
    assert stored[1].usage_metadata.total_token_count == 6
    assert stored[1].custom_metadata["adk_stream"]["status"] == "completed"
    partial_ids = {each.id for each in done["events"] if each.partial}
    assert partial_ids == {stored[1].id, stored[3].id}
    run(service, service.flush)


def test_an_empty_answer_is_no_silent_end():
    """google-adk by itself passes over it: no event, and its tokens are not counted."""
    empty = {"candidates": [{"content": {"parts": [{"text": ""}]}, "finishReason": "STOP"}]}
    turns = [[{**empty, "usageMetadata": {"totalTokenCount": 5}}]]
    with ReplayServer(recordings(turns, "gemini-empty")) as server, install():
        done = run_agent(model_at(server, "gemini-empty"))
    [answer] = [each for each in done["session"].events if each.author == "a"]
    assert answer.usage_metadata.total_token_count == 5
    assert answer.is_final_response()
    assert answer.error_code is None
