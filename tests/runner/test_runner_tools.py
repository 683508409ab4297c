"""Tools: arguments that fit or not, results of every kind, time limits, refusals."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import json
import math
import threading
import time

import pytest
from google.genai import types
from pydantic import BaseModel
from scripted_model import Scene, answers, calls, check_history, finals, play, says

from adk_stream.sessions import InMemorySessionService


def answer_of(tool, arguments="{}", **options):
    """What the model gets to read of one call of that tool."""
    name = getattr(tool, "__name__", None) or getattr(getattr(tool, "func", None), "__name__", type(tool).__name__)
    _, _, stored = play(calls(name, arguments=arguments), says("ok"), tools=[tool], **options)
    check_history(stored)
    [answer] = answers(stored[2])
    json.dumps(answer, allow_nan=False)
    return answer


class Place(BaseModel):
    city: str
    zip: int = 0


@dataclasses.dataclass
class Point:
    x: int
    y: int


# ----------------------------------------------------------------- results


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ({"a": 1}, {"a": 1}),
        ("text", {"result": "text"}),
        (None, {"result": None}),
        ([1, 2], {"result": [1, 2]}),
        (2**70, {"result": 2**70}),
        (Place(city="Oslo"), {"city": "Oslo", "zip": 0}),
        ([Place(city="Oslo")], {"result": [{"city": "Oslo", "zip": 0}]}),
        (Point(1, 2), {"x": 1, "y": 2}),
        (b"\x00\xff", {"result": "AP8="}),
        (math.nan, {"result": None}),
        ({1: "a"}, {"1": "a"}),
        ({"error": "mine"}, {"error": "mine"}),
    ],
)
def test_results_become_json_objects(value, answer):
    def tool():
        return value

    assert answer_of(tool) == answer


def test_a_result_without_a_json_form_is_an_error():
    def tool():
        return object()

    assert "no JSON form" in answer_of(tool)["error"]


def test_a_result_that_holds_itself_is_an_error():
    def tool():
        value = {}
        value["me"] = value
        return value

    assert "no JSON form" in answer_of(tool)["error"]


def test_results_that_the_store_refuses_become_errors():
    def large():
        return "x" * 5000

    def deep():
        value = []
        for _ in range(400):
            value = [value]
        return value

    service = InMemorySessionService(max_event_size=3000)
    assert "too large" in answer_of(large, service=service)["error"]
    assert len(answer_of(deep)) == 1  # an error or the result, as the store can; the run goes on


def test_what_a_tool_raises_is_its_result():
    def tool():
        raise ValueError("no such city")

    assert answer_of(tool) == {"error": "ValueError: no such city"}


def test_a_tool_that_cancels_itself_ends_no_run():
    async def tool():
        raise asyncio.CancelledError

    assert answer_of(tool) == {"error": "tool was cancelled"}


def test_the_results_object_is_not_shared():
    kept = {"list": [1]}

    def tool():
        return kept

    _, events, stored = play(calls("tool"), says("ok"), tools=[tool])
    kept["list"].append(2)
    assert answers(finals(events)[1]) == answers(stored[2]) == [{"list": [1]}]


# ----------------------------------------------------------------- arguments


def described(place: Place, count: int, *, note: str = "none") -> dict:
    return {"place": place.city, "type": type(place).__name__, "count": count, "note": note}


def test_arguments_take_the_types_of_the_parameters():
    answer = answer_of(described, '{"place": {"city": "Oslo"}, "count": "3"}')
    assert answer == {"place": "Oslo", "type": "Place", "count": 3, "note": "none"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ('{"place": {"city": "Oslo"}}', "count: Missing required"),
        ('{"place": {}, "count": 1}', "place.city: Field required"),
        ('{"place": {"city": "a"}, "count": "many"}', "count: Input should be a valid integer"),
        ('{"place": {"city": "a"}, "count": 1, "mood": 2}', "mood: Unexpected keyword argument"),
    ],
)
def test_arguments_that_do_not_fit_are_an_error(arguments, told):
    assert told in answer_of(described, arguments)["error"]


class Odd:
    """Nothing that pydantic knows."""


def test_a_parameter_that_no_model_can_be_told_of_is_refused_at_once():
    def tool(a: Odd):
        pass

    with pytest.raises(ValueError, match="parameter a"):
        Scene(says("x"), tools=[tool])


def test_further_names_go_where_the_function_takes_them():
    def tool(a: int, *rest: int, **more: int):
        return [a, more]

    assert answer_of(tool, '{"a": "1", "c": "3"}') == {"result": [1, {"c": 3}]}


def test_a_validation_error_of_the_tools_own_is_told_as_its_own():
    def tool():
        Place.model_validate({})

    assert answer_of(tool)["error"].startswith("ValidationError: ")


def test_the_models_arguments_are_never_changed():
    def tool(items: list):
        items.append("changed")
        return items

    _, _, stored = play(calls("tool", arguments='{"items": [1]}'), says("ok"), tools=[tool])
    assert stored[1].get_function_calls()[0].args == {"items": [1]}
    assert answers(stored[2]) == [{"result": [1, "changed"]}]


class Shop:
    def price(self, item: str) -> dict:
        return {"price": len(item)}

    def __call__(self, item: str) -> dict:
        return {"called": item}


def test_methods_partials_and_callable_objects_are_tools():
    arguments = '{"item": "tea"}'
    assert answer_of(Shop().price, arguments) == {"price": 3}
    assert answer_of(functools.partial(Shop().price), arguments) == {"price": 3}
    assert "item: Input should be a valid string" in answer_of(functools.partial(Shop().price), '{"item": 1}')["error"]
    assert answer_of(Shop(), arguments) == {"called": "tea"}


class AsyncShop:
    async def __call__(self, item: str) -> dict:
        return {"called": item, "thread": threading.current_thread() is threading.main_thread()}


def test_async_tools_run_in_the_loop_and_sync_ones_in_threads():
    def tool():
        return threading.current_thread() is threading.main_thread()

    assert answer_of(tool) == {"result": False}
    assert answer_of(AsyncShop(), '{"item": "tea"}') == {"called": "tea", "thread": True}


def test_a_sync_tool_may_give_an_awaitable():
    def tool():
        return asyncio.sleep(0, "slept")

    assert answer_of(tool) == {"result": "slept"}


# ----------------------------------------------------------------- at once, and in time


@pytest.mark.parametrize("is_async", [False, True])
def test_calls_run_at_once(is_async):
    meeting = threading.Barrier(2, timeout=2)

    def tool():
        meeting.wait()

    async def tool_async():
        await asyncio.to_thread(meeting.wait)

    tool_async.__name__ = "tool"
    _, _, stored = play(calls("tool", "tool"), says("ok"), tools=[tool_async if is_async else tool])
    assert answers(stored[2]) == [{"result": None}] * 2


def test_calls_run_one_after_the_other_if_asked():
    running, most = 0, 0

    async def tool():
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.005)
        running -= 1

    play(calls("tool", "tool", "tool"), says("ok"), tools=[tool], max_parallel_tools=1)
    assert most == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_each_call_has_a_time_limit(is_async):
    let_go = threading.Event()

    def tool():
        let_go.wait(5)

    async def tool_async():
        await asyncio.sleep(5)

    tool_async.__name__ = "tool"
    began = time.monotonic()
    answer = answer_of(tool_async if is_async else tool, tool_timeout=0.05)
    let_go.set()
    assert answer == {"error": "tool took longer than 0.05 s and was stopped"}
    assert time.monotonic() - began < 2


def test_a_timeout_of_the_tools_own_is_told_as_its_own():
    async def tool():
        raise TimeoutError("upstream")

    assert answer_of(tool) == {"error": "TimeoutError: upstream"}


# ----------------------------------------------------------------- confirmation


@pytest.mark.parametrize("is_async", [False, True])
def test_a_refused_call_does_not_run_and_says_so(is_async):
    ran, asked = [], []

    def safe():
        ran.append("safe")

    def risky():
        ran.append("risky")

    def confirm(call, tool):
        asked.append((call.name, tool))
        return call.name == "safe"

    async def confirm_async(call, tool):
        return confirm(call, tool)

    _, _, stored = play(
        calls("safe", "risky"),
        says("ok"),
        tools=[safe, risky],
        confirm_tool=confirm_async if is_async else confirm,
        max_parallel_tools=1,
    )
    assert ran == ["safe"]
    assert asked == [("safe", safe), ("risky", risky)]
    assert answers(stored[2]) == [{"result": None}, {"error": "risky was not run: the user refused it"}]


def test_a_confirmation_that_fails_refuses():
    def confirm(call, tool):
        raise RuntimeError("nobody there")

    def tool():
        raise AssertionError("ran")

    answer = answer_of(tool, confirm_tool=confirm)
    assert answer == {"error": "tool was not run: asking for confirmation failed: RuntimeError: nobody there"}


# ----------------------------------------------------------------- the box of tools


def test_two_tools_of_one_name_are_refused():
    def tool():
        pass

    with pytest.raises(ValueError, match="two tools are called 'tool'"):
        Scene(says("a"), tools=[tool, types.FunctionDeclaration(name="tool")])


@pytest.mark.parametrize("names", [["nosuch"], {"tool", "nosuch"}])
def test_names_to_pass_through_must_be_tools(names):
    def tool():
        pass

    with pytest.raises(ValueError, match="nosuch"):
        Scene(says("a"), tools=[tool], pass_through_tool_calls=names)


def test_a_string_of_names_is_refused():
    with pytest.raises(TypeError, match="collection"):
        Scene(says("a"), pass_through_tool_calls="tool")


def test_what_is_no_tool_is_refused():
    with pytest.raises(TypeError, match="tool"):
        Scene(says("a"), tools=[7])
