"""The loop: rounds, their events, what is stored, how a run ends."""

from __future__ import annotations

import asyncio

import pytest
from google.genai import types
from scripted_model import Scene, answers, call, calls, check_history, end, finals, play, says, text, thought

from adk_stream import LlmResponse
from adk_stream.errors import SessionNotFoundError
from adk_stream.models.request import ModelRequest


def lookup(city: str = "Oslo") -> dict:
    return {"city": city}


def test_an_answer_without_calls_is_one_round():
    scene, events, stored = play([text("Hel"), text("lo"), *end(prompt=3, output=2)])
    assert [event.text for event in events] == ["Hel", "lo", "Hello"]
    assert [bool(event.partial) for event in events] == [True, True, False]
    assert [event.author for event in stored] == ["user", "model"]
    assert stored[-1] == events[-1]
    assert events[-1].status == "completed"
    assert events[-1].usage_metadata.total_token_count == 5
    assert len(scene.model.requests) == 1


def test_events_of_a_round_share_an_id_and_of_a_run_the_invocation():
    _, events, stored = play([text("a"), *calls("lookup")], says("b"), tools=[lookup])
    final, results, answer = finals(events)
    by_round = [[event.id for event in events if event.id == one.id] for one in (final, answer)]
    assert len(by_round[0]) == 4  # the text, the call twice (as it comes and whole), and the final
    assert len(by_round[1]) == 2
    assert len({final.id, results.id, answer.id}) == 3
    assert {event.invocation_id for event in [*events, *stored]} == {events[0].invocation_id}
    assert events[0].invocation_id


def test_each_run_has_an_invocation_id_of_its_own():
    async def main():
        scene = Scene(says("a"))
        first, second = await scene.run(), await scene.run()
        assert first[0].invocation_id != second[0].invocation_id
        return scene

    scene = asyncio.run(main())
    assert len(scene.model.requests[1].messages) == 3


def test_calls_run_and_their_answers_are_one_event_in_call_order():
    async def slow() -> str:
        await asyncio.sleep(0.02)
        return "slow"

    def fast() -> str:
        return "fast"

    scene, events, stored = play(calls("slow", "fast"), says("done"), tools=[slow, fast])
    check_history(stored)
    assert [event.author for event in stored] == ["user", "model", "model", "model"]
    assert answers(stored[2]) == [{"result": "slow"}, {"result": "fast"}]
    assert finals(events)[1] == stored[2]
    assert [message.id for message in scene.model.requests[1].messages] == [event.id for event in stored[:3]]


def test_text_and_thoughts_stay_with_their_calls():
    scene, _, stored = play([thought("hm"), text("Look. "), *calls("lookup")], says("ok"), tools=[lookup])
    message = stored[1]
    assert (message.thought_text, message.text, len(message.get_function_calls())) == ("hm", "Look. ", 1)
    assert scene.model.requests[1].messages[1] is not None
    assert scene.model.requests[1].messages[1].thought_text == "hm"


def test_usage_is_the_sum_over_rounds_and_each_event_keeps_its_own():
    async def main():
        scene = Scene(calls("lookup", prompt=3, output=2), says("b", 6, 2), tools=[lookup])
        await scene.begin()
        run = scene.ask()
        events = [event async for event in run]
        return run, events

    run, events = asyncio.run(main())
    assert run.usage.total_token_count == 13
    assert run.usage.prompt_token_count == 9
    assert [event.usage_metadata and event.usage_metadata.total_token_count for event in finals(events)] == [5, None, 8]


def test_calls_of_a_round_that_did_not_complete_get_an_error():
    cut = [text("a"), call("lookup", '{"city": "Rome"}', id="c0"), call("lookup", '{"ci', id="c1", index=1)]
    for script, status, code in (
        ([*cut, *end("length")], "incomplete", "MAX_TOKENS"),
        (cut, "incomplete", "STREAM_CUT"),
        ([*cut, {"error": {"code": "overloaded", "message": "busy"}}], "failed", "overloaded"),
    ):
        ran = []
        scene, events, stored = play(script, tools=[lambda_named("lookup", ran.append)])
        check_history(stored)
        assert ran == []
        assert stored[1].status == status
        assert stored[1].error_code == code
        assert [each.id for each in stored[1].get_function_calls()] == ["c0"]
        assert [result["error"] for result in answers(stored[2])]
        assert (stored[2].status, stored[2].error_code) == (status, code)
        assert [event.id for event in finals(events)] == [event.id for event in stored[1:]]
        assert len(scene.model.requests) == 1
        [rest] = stored[1].provider_metadata["unfinished_calls"]
        assert rest == {"id": "c1", "name": "lookup", "raw_arguments": '{"ci'}


def lambda_named(name, function):
    def tool(city: str = "") -> None:
        function(city)

    tool.__name__ = name
    return tool


def test_a_call_whose_arguments_are_no_json_is_answered_and_the_model_goes_on():
    scene, _, stored = play(calls("lookup", arguments='{"city": nonsense}'), says("sorry"), tools=[lookup])
    check_history(stored)
    assert "not a JSON object" in answers(stored[2])[0]["error"]
    assert len(scene.model.requests) == 2


def test_an_unknown_tool_is_answered_with_an_error():
    _, _, stored = play(calls("nosuch"), says("sorry"), tools=[lookup])
    assert answers(stored[2]) == [{"error": "there is no tool 'nosuch'; there are: lookup"}]


def test_the_limit_of_rounds_is_a_marked_end():
    ran = []
    scene, events, stored = play(calls("f"), tools=[lambda_named("f", ran.append)], max_rounds=3)
    check_history(stored)
    assert len(scene.model.requests) == 3
    assert len(ran) == 2
    assert (events[-1].status, events[-1].error_code) == ("incomplete", "MAX_ROUNDS")
    assert "3 rounds" in answers(events[-1])[0]["error"]
    assert events[-1].is_final_response()


def test_the_limit_of_tokens_is_a_marked_end():
    scene, events, stored = play(calls("lookup", prompt=40, output=10), tools=[lookup], max_tokens=100)
    check_history(stored)
    assert len(scene.model.requests) == 2
    assert (events[-1].status, events[-1].error_code) == ("incomplete", "MAX_RUN_TOKENS")


def test_a_final_without_content_still_tells_status_and_usage():
    _, events, stored = play(end(prompt=3, output=0), says("b"))
    assert [(event.status, event.content) for event in events] == [("completed", None)]
    assert stored[-1].usage_metadata.total_token_count == 3
    check_history(stored)


def test_a_model_that_gives_nothing_at_all_is_no_silent_end():
    _, events, stored = play([])
    assert [(event.content, event.error_code) for event in events] == [(None, "STREAM_CUT")]
    assert stored[-1] == events[-1]


def test_an_exception_of_the_source_comes_after_the_failed_event():
    async def main():
        broken = [text("a"), call("lookup", id="c0"), call("lookup", id="c1", index=1), ValueError("broken")]
        scene = Scene(broken, says("again"), tools=[lookup])
        await scene.begin()
        events = []
        with pytest.raises(Exception, match="broken"):
            async for event in scene.ask():
                events.append(event)
        again = await scene.run("go on")
        return scene, events, again, await scene.stored()

    scene, events, again, stored = asyncio.run(main())
    assert [event.status for event in finals(events)] == ["failed", "failed"]
    assert events[-2].text == "a"
    check_history(stored)
    assert again[-1].text == "again"
    assert scene.model.open == 0


def test_an_error_in_the_data_raises_nothing():
    _, events, stored = play([text("a"), {"error": {"code": "overloaded", "message": "busy"}}])
    assert (events[-1].status, events[-1].error_code, events[-1].text) == ("failed", "overloaded", "a")
    assert stored[-1] == events[-1]


def test_what_the_consumer_does_to_an_event_changes_nothing_else():
    async def main():
        scene = Scene([text("a"), *calls("lookup", arguments='{"city": "Rome"}')], says("b"), tools=[lookup])
        await scene.begin()
        async for event in scene.ask():
            for part in event.parts:
                part.text = "changed"
                if part.function_call and part.function_call.args:
                    part.function_call.args["city"] = "changed"
                if part.function_response:
                    part.function_response.response["city"] = "changed"
            event.actions.state_delta["x"] = 1
        return scene, await scene.stored()

    scene, stored = asyncio.run(main())
    assert stored[1].text == "a"
    assert answers(stored[2]) == [{"city": "Rome"}]
    sent = scene.model.requests[1].messages
    assert sent[1].get_function_calls()[0].args == {"city": "Rome"}
    assert answers(sent[2]) == [{"city": "Rome"}]


# ----------------------------------------------------------------- requests and callbacks


def test_the_request_holds_instruction_tools_and_settings():
    config = types.GenerateContentConfig(temperature=0.5)
    scene, _, _ = play(says("a"), tools=[lookup], instruction="be kind", config=config)
    [request] = scene.model.requests
    assert request.system_instruction == "be kind"
    assert request.tools == (lookup,)
    assert request.config is config
    assert [message.text for message in request.messages] == ["hi"]


@pytest.mark.parametrize("is_async", [False, True])
def test_before_model_may_take_the_place_of_asking(is_async):
    def before(request):
        return LlmResponse(content=types.Content(role="model", parts=[types.Part(text="cached")]))

    async def before_async(request):
        return before(request)

    scene, events, stored = play(says("never"), before_model=before_async if is_async else before)
    assert scene.model.requests == []
    assert [(event.text, event.status, event.partial) for event in events] == [("cached", "completed", False)]
    assert stored[-1].text == "cached"


def test_before_model_may_ask_something_else():
    def before(request):
        return ModelRequest(messages=request.messages[-1:], system_instruction="other")

    scene, _, _ = play(says("a"), before_model=before)
    assert scene.model.requests[0].system_instruction == "other"


def test_a_response_of_after_model_keeps_what_it_does_not_say():
    def after(response):
        return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=response.text.upper())]))

    _, events, stored = play([text("ab"), text("cd"), *end(prompt=3, output=1)], after_model=after)
    assert [(event.text, bool(event.partial)) for event in events] == [("AB", True), ("CD", True), ("ABCD", False)]
    assert len({event.id for event in events}) == 1
    assert (stored[-1].text, stored[-1].status, stored[-1].usage_metadata.total_token_count) == ("ABCD", "completed", 4)


def test_what_after_model_changes_in_place_counts():
    async def after(response):
        for part in response.parts:
            part.text = part.text.upper()

    _, events, stored = play([text("ab"), *end()], after_model=after)
    assert [event.text for event in events] == ["AB", "AB"]
    assert stored[-1].text == "AB"


def test_a_callback_that_fails_ends_the_run_as_failed_and_its_error_goes_on():
    def after(response):
        if response.text == "cd":
            raise ValueError("callback")

    async def main():
        scene = Scene([text("ab"), text("cd"), *end()], after_model=after)
        await scene.begin()
        events = []
        with pytest.raises(ValueError, match="callback"):
            async for event in scene.ask():
                events.append(event)
        return scene, events, await scene.stored()

    scene, events, stored = asyncio.run(main())
    assert (events[-1].status, events[-1].error_code, events[-1].text) == ("failed", "ValueError", "abcd")
    assert stored[-1] == events[-1]
    assert scene.model.open == 0


def test_output_key_holds_the_text_of_the_run():
    async def main():
        scene = Scene([text("Looking. "), *calls("lookup")], says("done"), tools=[lookup], output_key="k")
        await scene.run()
        session = await scene.service.get_session(app_name="app", user_id="u", session_id=scene.session_id)
        return session.state

    assert asyncio.run(main()) == {"k": "Looking. done"}


def test_boundary_gives_several_finals_a_round_and_tools_run_after_the_last():
    ran = []
    script = [text("a"), *calls("f")]
    _, events, stored = play(script, says("b"), tools=[lambda_named("f", ran.append)], flush="boundary")
    check_history(stored)
    assert len(ran) == 1
    assert [event.text for event in stored if event.text] == ["hi", "a", "b"]
    assert len({event.id for event in stored}) == len(stored)
    assert next(event for event in events if event.partial).id == next(e for e in stored if e.text == "a").id


# ----------------------------------------------------------------- what is asked of the caller


@pytest.mark.parametrize("message", ["", types.Content(role="user", parts=[])])
def test_an_empty_message_is_refused(message):
    with pytest.raises(ValueError, match="empty"):
        Scene(says("a")).ask(message)


def test_a_message_of_another_kind_is_refused():
    with pytest.raises(TypeError, match="new_message"):
        Scene(says("a")).ask(7)


def test_a_session_that_is_not_there_is_told():
    scene = Scene(says("a"))
    scene.session_id = "nosuch"
    with pytest.raises(SessionNotFoundError, match="nosuch"):
        asyncio.run(scene.run())


@pytest.mark.parametrize("options", [{"max_rounds": 0}, {"max_parallel_tools": 0}])
def test_limits_are_positive(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Scene(says("a"), **options)
