"""Calls that leave the run, and how it goes on."""

from __future__ import annotations

import asyncio

import pytest
from google.genai import types
from scripted_model import Scene, answers, calls, check_history, finals, says, text


def own() -> dict:
    return {"own": True}


def theirs() -> dict:
    raise AssertionError("the caller runs this")


DECLARED = types.FunctionDeclaration(name="theirs", description="what the caller runs")


def results(*given: tuple[str | None, str, dict], say: str = "") -> types.Content:
    parts = [
        types.Part(function_response=types.FunctionResponse(id=id, name=name, response=response))
        for id, name, response in given
    ]
    return types.Content(role="user", parts=parts + ([types.Part(text=say)] if say else []))


def scene_of(first, *, tools=(own, theirs), **options):
    options.setdefault("pass_through_tool_calls", ["theirs"])
    return Scene(first, says("done"), tools=tools, **options)


@pytest.mark.parametrize(
    ("tools", "pass_through"),
    [
        ([own, theirs], ["theirs"]),
        ([own, theirs], True),
        ([own, DECLARED], False),
        ([{"name": "theirs"}], False),
        ([{"type": "custom", "name": "theirs"}], False),
        ([{"type": "custom", "custom": {"name": "theirs"}}], False),
        ([types.Tool(function_declarations=[DECLARED]), types.Tool(google_search=types.GoogleSearch())], False),
    ],
)
def test_the_calls_are_the_last_thing_stored_and_the_caller_goes_on(tools, pass_through):
    async def main():
        scene = scene_of([text("I ask. "), *calls("theirs")], tools=tools, pass_through_tool_calls=pass_through)
        events = await scene.run()
        stored = await scene.stored()
        check_history(stored, calls_may_wait=True)
        assert stored[-1] == events[-1]
        assert events[-1].long_running_tool_ids == {"c0"}
        assert events[-1].is_final_response()
        assert [call.name for call in events[-1].executable_function_calls()] == ["theirs"]
        more = await scene.run(results(("c0", "theirs", {"mine": 1})))
        return scene, more, await scene.stored()

    scene, more, stored = asyncio.run(main())
    check_history(stored)
    assert [event.text for event in finals(more)] == ["done"]
    assert answers(stored[2]) == [{"mine": 1}]
    assert stored[2].author == "user"
    assert len(scene.model.requests[1].messages) == 3


def test_a_mixed_round_runs_its_own_calls_when_the_caller_goes_on():
    async def main():
        scene = scene_of(calls("own", "theirs", "own"))
        first = await scene.run()
        assert first[-1].long_running_tool_ids == {"c1"}
        check_history(await scene.stored(), calls_may_wait=True)
        more = await scene.run(results(("c1", "theirs", {"mine": 1})))
        return more, await scene.stored()

    more, stored = asyncio.run(main())
    check_history(stored)
    assert answers(stored[2]) == [{"own": True}, {"mine": 1}, {"own": True}]
    assert finals(more)[0] == stored[2]
    assert len(stored) == 4


def test_the_caller_may_answer_calls_of_ours_too():
    async def main():
        scene = scene_of(calls("own", "theirs"))
        await scene.run()
        more = await scene.run(results((None, "theirs", {"t": 1}), (None, "own", {"o": 1})))
        return more, await scene.stored()

    more, stored = asyncio.run(main())
    assert answers(stored[2]) == [{"o": 1}, {"t": 1}]
    assert [event.text for event in finals(more)] == ["done"]


def test_a_call_that_the_caller_leaves_out_gets_an_error():
    async def main():
        scene = scene_of(calls("theirs", "theirs"))
        await scene.run()
        await scene.run(results(("c1", "theirs", {"t": 1}), say="that is all"))
        return scene, await scene.stored()

    scene, stored = asyncio.run(main())
    check_history(stored)
    assert answers(stored[2]) == [{"error": "nobody answered this call"}, {"t": 1}]
    assert [event.text for event in stored[3:]] == ["that is all", "done"]
    assert len(scene.model.requests[1].messages) == 4


def test_text_in_place_of_results_answers_all_with_errors():
    async def main():
        scene = scene_of(calls("own", "theirs"))
        await scene.run()
        await scene.run("never mind")
        return await scene.stored()

    stored = asyncio.run(main())
    check_history(stored)
    assert answers(stored[2]) == [{"error": "nobody answered this call"}] * 2
    assert stored[3].text == "never mind"


@pytest.mark.parametrize("given", [("c7", "theirs", {}), (None, "nosuch", {})])
def test_a_result_without_its_call_is_refused_and_nothing_is_stored(given):
    async def main():
        scene = scene_of(calls("theirs"))
        await scene.run()
        before = await scene.stored()
        with pytest.raises(ValueError, match="no call waits"):
            await scene.run(results(given))
        assert await scene.stored() == before
        await scene.run(results(("c0", "theirs", {"t": 1})))
        return await scene.stored()

    check_history(asyncio.run(main()))


def test_a_result_where_no_call_waits_is_refused():
    async def main():
        scene = scene_of(says("a"))
        await scene.run()
        with pytest.raises(ValueError, match="no call waits"):
            await scene.run(results(("c0", "theirs", {})))

    asyncio.run(main())


def test_calls_of_a_cut_round_do_not_leave_the_run():
    async def main():
        scene = scene_of(calls("theirs", "theirs")[:2])  # the second call opens, so the first is whole; no finish
        events = await scene.run()
        return events, await scene.stored()

    events, stored = asyncio.run(main())
    check_history(stored)
    assert events[-1].error_code == "STREAM_CUT"
    assert stored[1].long_running_tool_ids is None


def test_another_process_may_go_on(tmp_path):
    from adk_stream.sessions import SqlSessionService

    url = f"sqlite:///{tmp_path / 'sessions.db'}"

    async def first():
        async with SqlSessionService(url) as service:
            scene = scene_of(calls("own", "theirs"), service=service)
            await scene.run()
            return scene.session_id

    async def second(session_id):
        async with SqlSessionService(url) as service:
            scene = Scene(says("done"), tools=[own, theirs], service=service, pass_through_tool_calls=["theirs"])
            scene.session_id = session_id
            await scene.run(results(("c1", "theirs", {"t": 1})))
            return await scene.stored()

    stored = asyncio.run(second(asyncio.run(first())))
    check_history(stored)
    assert answers(stored[2]) == [{"own": True}, {"t": 1}]
