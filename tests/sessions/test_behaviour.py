"""What every store holds, whichever it is."""

import asyncio

import pytest
from google.genai import types

from adk_stream.errors import (
    PartialEventError,
    SessionError,
    SessionExistsError,
    SessionNotFoundError,
    StaleSessionError,
)
from adk_stream.sessions import Event, EventActions, GetSessionConfig, Session, SessionService

NAMES = {"app_name": "app", "user_id": "user"}


def said(text, **fields):
    return Event(author="model", content=types.Content(role="model", parts=[types.Part(text=text)]), **fields)


def changing(delta, **fields):
    return Event(author="model", actions=EventActions(state_delta=delta), **fields)


async def reread(service, session, config=None):
    return await service.get_session(
        app_name=session.app_name, user_id=session.user_id, session_id=session.id, config=config
    )


def test_is_a_session_service(store):
    assert isinstance(store.open(), SessionService)


def test_create_and_get(store):
    async def test(service):
        session = await service.create_session(**NAMES, state={"a": 1, "app:b": 2, "user:c": 3, "temp:d": 4})
        assert session.state == {"a": 1, "app:b": 2, "user:c": 3}
        assert (session.app_name, session.user_id, session.revision, session.events) == ("app", "user", 0, [])
        assert await reread(service, session) == session
        named = await service.create_session(**NAMES, session_id="mine")
        assert named.id == "mine"
        assert named.state == {"app:b": 2, "user:c": 3}
        with pytest.raises(SessionExistsError):
            await service.create_session(**NAMES, session_id="mine", state={"app:b": "lost"})
        assert (await reread(service, named)).state["app:b"] == 2
        assert await service.get_session(**NAMES, session_id="none") is None

    store.run(test)


def test_append_brings_the_session_object_up_to_date(store):
    async def test(service):
        session = await service.create_session(**NAMES)
        event = said("one", timestamp=123.5)
        assert await service.append_event(session, event) is event
        assert session.events == [event]
        assert (session.revision, session.last_update_time) == (1, 123.5)
        assert await reread(service, session) == session

    store.run(test)


@pytest.mark.parametrize("stamps", [[5.0] * 6, [6.0, 5.0, 4.0, 3.0, 2.0, 1.0], [1.0, 1e12, -3.0, 0.0, 2.0, 1.0]])
def test_order_is_the_order_of_appending(store, stamps):
    async def test(service):
        session = await service.create_session(**NAMES)
        for number, stamp in enumerate(stamps):
            # ids that sort the other way round, so that no order but the right one comes out by chance
            await service.append_event(session, said(str(number), id=f"id-{9 - number}", timestamp=stamp))
        assert [event.text for event in (await reread(service, session)).events] == list("012345")

    store.run(test)


def test_stale_write_is_refused_and_changes_nothing(store):
    async def test(service):
        first = await service.create_session(**NAMES)
        second = await reread(service, first)
        await service.append_event(first, said("a", timestamp=1.0))
        late = changing({"x": 1, "app:x": 1, "user:x": 1, "temp:x": 1}, timestamp=1.0)
        with pytest.raises(StaleSessionError):
            await service.append_event(second, late)
        assert (second.state, second.events, second.revision) == ({}, [], 0)
        assert await reread(service, first) == first
        fresh = await reread(service, first)
        await service.append_event(fresh, late)
        assert [event.id for event in (await reread(service, first)).events] == [first.events[0].id, late.id]

    store.run(test)


def test_a_revision_from_the_future_is_stale_too(store):
    async def test(service):
        session = await service.create_session(**NAMES)
        session.revision = 7
        with pytest.raises(StaleSessionError):
            await service.append_event(session, said("a"))

    store.run(test)


def test_appending_an_id_again_changes_nothing(store):
    async def test(service):
        session = await service.create_session(**NAMES)
        stale = await reread(service, session)
        event = changing({"n": 1, "app:n": 1})
        await service.append_event(session, event)
        await service.append_event(session, said("next"))
        for holder in (session, stale):
            before = holder.model_copy(deep=True)
            again = await service.append_event(holder, changing({"n": 2, "app:n": 2}, id=event.id))
            assert again == event
            assert holder == before
        assert await reread(service, session) == session
        other = await service.create_session(**NAMES)
        await service.append_event(other, said("same id, another session", id=event.id))
        assert (await reread(service, other)).revision == 1

    store.run(test)


def test_partial_events_are_refused(store):
    async def test(service):
        session = await service.create_session(**NAMES)
        with pytest.raises(PartialEventError):
            await service.append_event(session, said("half", partial=True))
        assert (await reread(service, session)).revision == 0

    store.run(test)


def test_unknown_and_deleted_sessions(store):
    async def test(service):
        session = await service.create_session(**NAMES, state={"own": 1, "app:shared": 1})
        await service.append_event(session, said("a"))
        await service.delete_session(**NAMES, session_id=session.id)
        await service.delete_session(**NAMES, session_id=session.id)
        assert await reread(service, session) is None
        with pytest.raises(SessionNotFoundError):
            await service.append_event(session, said("b"))
        with pytest.raises(SessionNotFoundError):
            await service.append_event(Session(id="x", **NAMES), said("b"))
        again = await service.create_session(**NAMES, session_id=session.id)
        assert (again.events, again.revision, again.state) == ([], 0, {"app:shared": 1})

    store.run(test)


def test_state_prefixes(store):
    async def test(service):
        one = await service.create_session(app_name="app", user_id="ann")
        two = await service.create_session(app_name="app", user_id="ann")
        three = await service.create_session(app_name="app", user_id="bob")
        four = await service.create_session(app_name="other", user_id="ann")
        event = changing({"own": 1, "user:lang": "de", "app:theme": "dark", "temp:draft": object()})
        stored = await service.append_event(one, event)
        assert stored.actions.state_delta == {"own": 1, "user:lang": "de", "app:theme": "dark"}
        assert "temp:draft" in event.actions.state_delta, "the caller's event is left alone"
        assert one.state.pop("temp:draft") is event.actions.state_delta["temp:draft"]
        assert one.state == {"own": 1, "user:lang": "de", "app:theme": "dark"}
        assert await reread(service, one) == one
        assert (await reread(service, two)).state == {"user:lang": "de", "app:theme": "dark"}
        assert (await reread(service, three)).state == {"app:theme": "dark"}
        assert (await reread(service, four)).state == {}

    store.run(test)


def test_shared_state_of_concurrent_sessions_is_all_kept(store):
    async def test(service):
        sessions = [await service.create_session(**NAMES) for _ in range(10)]
        await asyncio.gather(
            *(
                service.append_event(session, changing({f"app:{n}": n, f"user:{n}": n, "app:last": n}))
                for n, session in enumerate(sessions)
            )
        )
        state = (await reread(service, sessions[0])).state
        assert state.pop("app:last") in range(10)
        assert state == {f"{scope}:{n}": n for scope in ("app", "user") for n in range(10)}

    store.run(test)


def test_appends_at_once_through_one_session_object_take_turns(store):
    async def test(service):
        session = await service.create_session(**NAMES)
        await asyncio.gather(*(service.append_event(session, said(str(n))) for n in range(20)))
        assert [event.text for event in session.events] == [str(n) for n in range(20)]
        assert await reread(service, session) == session

    store.run(test)


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, b"bytes", float("nan"), [float("inf")], {"deep": [object()]}],
    ids=["object", "set", "bytes", "nan", "inf", "deep"],
)
@pytest.mark.parametrize("prefix", ["", "app:", "user:"])
def test_state_without_json_form_is_refused_whole(store, value, prefix):
    async def test(service):
        with pytest.raises(SessionError, match="bad"):
            await service.create_session(**NAMES, session_id="s", state={"fine": 1, f"{prefix}bad": value})
        assert await service.get_session(**NAMES, session_id="s") is None
        session = await service.create_session(**NAMES)
        with pytest.raises(SessionError, match="bad"):
            await service.append_event(session, changing({"app:fine": 1, f"{prefix}bad": value}))
        assert (session.state, session.events) == ({}, [])
        assert (await reread(service, session)) == session
        await service.append_event(session, said("goes on"))

    store.run(test)


def test_circular_and_endlessly_deep_state(store):
    async def test(service):
        session = await service.create_session(**NAMES)
        circle = []
        circle.append(circle)
        deep = []
        for _ in range(100_000):
            deep = [deep]
        for value in (circle, deep):
            with pytest.raises(SessionError):
                await service.append_event(
                    session,
                    Event(
                        actions=EventActions.model_construct(
                            state_delta={"bad": value},
                            artifact_delta={},
                            requested_auth_configs={},
                            requested_tool_confirmations={},
                        )
                    ),
                )
        while deep:  # taken apart by hand: the interpreter's own stack may not be deep enough
            deep = deep[0]
        assert (await reread(service, session)).revision == 0

    store.run(test)


def test_too_large_an_event(store):
    async def test(service):
        session = await service.create_session(**NAMES)
        with pytest.raises(SessionError, match="too large"):
            await service.append_event(session, changing({"app:big": "x" * 2000}))
        assert (await reread(service, session)) == session
        await service.append_event(session, changing({"app:big": "x" * 100}))

    store.run(test, max_event_size=1000)


def test_state_is_what_everybody_will_read(store):
    async def test(service):
        session = await service.create_session(**NAMES)
        await service.append_event(session, changing({"pair": (1, 2), "keys": {1: "one"}, "none": None}))
        assert session.state == {"pair": [1, 2], "keys": {"1": "one"}, "none": None}
        assert (await reread(service, session)).state == session.state

    store.run(test)


@pytest.mark.parametrize("bad", ["nul\0", "half\ud83d", 7], ids=["nul", "surrogate", "number"])
def test_names_no_database_can_hold(store, bad):
    async def test(service):
        with pytest.raises(SessionError):
            await service.create_session(app_name="app", user_id=bad)
        with pytest.raises(SessionError):
            await service.get_session(**NAMES, session_id=bad)
        session = await service.create_session(**NAMES)
        if isinstance(bad, str):
            with pytest.raises(SessionError):
                await service.append_event(session, said("a", id=bad))
            with pytest.raises(SessionError):
                await service.append_event(session, changing({bad: 1}))
        assert (await reread(service, session)).revision == 0

    store.run(test)


def test_newest_events_and_events_after(store):
    async def test(service):
        session = await service.create_session(**NAMES)
        stamps = [1.0, 5.0, 2.0, 4.0, 3.0]
        for number, stamp in enumerate(stamps):
            await service.append_event(session, said(str(number), timestamp=stamp))

        async def texts(**config):
            read = await reread(service, session, GetSessionConfig(**config))
            assert read.revision >= 5, "the revision is the session's, whatever was read of it"
            return "".join(event.text for event in read.events)

        assert await texts() == "01234"
        assert await texts(num_recent_events=2) == "34"
        assert await texts(num_recent_events=9) == "01234"
        assert await texts(num_recent_events=10**30) == "01234"
        assert await texts(num_recent_events=0) == ""
        assert await texts(after_timestamp=3.0) == "134"
        assert await texts(after_timestamp=3.0, num_recent_events=2) == "34"
        assert await texts(after_timestamp=99.0) == ""
        part = await reread(service, session, GetSessionConfig(num_recent_events=1))
        await service.append_event(part, said("5"))
        assert [event.text for event in part.events] == ["4", "5"]
        assert (await texts(), session.revision) == ("012345", 5)

    store.run(test)
    with pytest.raises(ValueError, match="num_recent_events"):
        GetSessionConfig(num_recent_events=-1)


def test_list(store):
    async def test(service):
        made = {}
        for user, name, stamp in [("ann", "a1", 3.0), ("ann", "a2", 1.0), ("bob", "b1", 2.0)]:
            session = await service.create_session(
                app_name="app", user_id=user, session_id=name, state={"own": name, "user:name": user}
            )
            await service.append_event(session, said("x", timestamp=stamp))
            made[name] = session
        await service.create_session(app_name="other", user_id="ann", state={"app:a": 1})
        everyone = (await service.list_sessions(app_name="app")).sessions
        assert [session.id for session in everyone] == ["a2", "b1", "a1"]
        assert everyone == [made[name].model_copy(update={"events": []}) for name in ("a2", "b1", "a1")]
        assert [s.id for s in (await service.list_sessions(app_name="app", user_id="ann")).sessions] == [
            "a2",
            "a1",
        ]
        assert (await service.list_sessions(app_name="app", user_id="ann")).sessions[0] == everyone[0]
        assert (await service.list_sessions(app_name="app", user_id="eve")).sessions == []
        assert (await service.list_sessions(app_name="none")).sessions == []

    store.run(test)


def test_what_callers_change_does_not_reach_the_store(store):
    async def test(service):
        state = {"list": [1]}
        session = await service.create_session(**NAMES, state=state)
        event = changing({"user:dict": {"a": [1]}})
        event.content = types.Content(role="model", parts=[types.Part(text="said")])
        await service.append_event(session, event)
        right = (await reread(service, session)).model_copy(deep=True)
        state["list"].append(2)
        event.actions.state_delta["user:dict"]["a"].append(2)
        assert session.state["user:dict"] == {"a": [1]}, "the session's state is its own"
        event.content.parts[0].text = "changed"
        read = await reread(service, session)
        read.state["list"].append(3)
        read.state["user:dict"]["b"] = 1
        read.events[0].content.parts.clear()
        (await service.list_sessions(app_name="app")).sessions[0].state["list"].append(4)
        assert await reread(service, session) == right

    store.run(test)


def rich_event():
    call = types.FunctionCall(id="c", name="f", args={"big": 2**70, "small": -(2**63) - 1, "none": None, "empty": {}})
    return Event(
        author="model",
        invocation_id="i",
        branch="a.b",
        long_running_tool_ids={"c", "b"},
        content=types.Content(
            role="model",
            parts=[
                types.Part(text="thought", thought=True, thought_signature=bytes(range(256))),
                types.Part(text="half an emoji \ud83d, a whole one 😀, a separator \u2028, nul \0"),
                types.Part(function_call=call, thought_signature=b"\xfb\xff\xfe"),
                types.Part(inline_data=types.Blob(mime_type="image/png", data=b"\x89PNG\xff")),
                types.Part(function_response=types.FunctionResponse(id="c", name="f", response={"x": None})),
            ],
        ),
        provider_metadata={"usage": {"n": 2**65, "none": None}, "text": "\udc00"},
        finish_reason=types.FinishReason.STOP,
        status="completed",
        actions=EventActions(state_delta={"s": "\ud83d"}, transfer_to_agent="other", later_field={"a": 1}),
        field_of_a_newer_version=[1],
    )


def test_everything_in_an_event_comes_back(store):
    async def test(service):
        session = await service.create_session(**NAMES)
        event = rich_event()
        await service.append_event(session, event)
        read = await reread(service, session)
        assert read == session
        assert read.events[0] == event
        assert read.events[0].content.parts[0].thought_signature == bytes(range(256))
        assert read.events[0].actions.model_extra == {"later_field": {"a": 1}}

    store.run(test)


def test_floats_that_are_no_numbers_do_not_lose_an_event(store):
    async def test(service):
        session = await service.create_session(**NAMES)
        call = types.FunctionCall(name="f", args={"x": float("nan")})
        parts = [types.Part(function_call=call)]
        await service.append_event(session, Event(content=types.Content(parts=parts), avg_logprobs=float("-inf")))
        [event] = (await reread(service, session)).events
        assert event.content.parts[0].function_call.args == {"x": None}

    store.run(test)


def test_costs_of_append_and_of_reading_the_newest_do_not_grow(store):
    import time

    async def test(service):
        session = await service.create_session(**NAMES)
        newest = GetSessionConfig(num_recent_events=5)

        async def best(times=60):
            appends, reads = [], []
            for _ in range(times):
                event = said("x" * 300)
                start = time.perf_counter()
                await service.append_event(session, event)
                middle = time.perf_counter()
                assert len((await reread(service, session, newest)).events) == min(5, session.revision)
                appends.append(middle - start)
                reads.append(time.perf_counter() - middle)
            return sorted(appends)[times // 4], sorted(reads)[times // 4]

        await best(10)
        few = await best()
        for _ in range(2000):
            await service.append_event(session, said("x" * 300))
        many = await best()
        assert many[0] < 4 * few[0] + 0.0002
        assert many[1] < 4 * few[1] + 0.0002

    store.run(test, **({} if store.kind == "memory" else {"synchronous": "NORMAL"}))
