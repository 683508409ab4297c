"""Tools of a live session: run, streamed, taken back, left to the reader."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from google.genai import types
from live_talk import brief, finals, run, talk, turn, until

from adk_stream.testing import Conversation, LiveServer
from adk_stream.testing.live_messages import (
    resumption,
    text,
    together,
    tool_call,
    tool_call_cancellation,
    turn_complete,
)
from adk_stream.testing.live_script import STALL, Drop, Pause, Wait

ASKED = Wait("text")


def answers(server: LiveServer) -> list[dict[str, Any]]:
    """The answers that came, with the keys of the client that writes them."""
    return [dict(answer) for message in server.messages for answer in message.function_responses]


async def weather(city: str) -> dict[str, str]:
    """Tell the weather."""
    return {"city": city, "sky": "rain"}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    time.sleep(0.01)
    return a + b


def test_calls_run_at_once_and_are_answered() -> None:
    calls = together(tool_call("weather", {"city": "Oslo"}, id="c1"), tool_call("add", {"a": 2, "b": 3}, id="c2"))
    conversation = Conversation(
        [ASKED, text("Let me see. "), calls, Wait("tool_response", ids=("c1", "c2")), text("Rain."), turn_complete()]
    )

    async def main() -> None:
        async with talk(server, tools=[weather, add]) as live:
            await live.send_text("weather?")
            responses = await turn(live)
        kept = finals(responses)
        assert kept[0] == ("text", "Let me see. ")
        assert [call.id for response in responses for call in response.executable_function_calls()] == ["c1", "c2"]
        assert sorted(map(str, kept[2:4])) == [
            "('answer', {'city': 'Oslo', 'sky': 'rain'})",
            "('answer', {'result': 5})",
        ]
        assert kept[4:] == [("text", "Rain."), ("complete", "completed")]
        roles = {response.content.role for response in responses if brief(response)[0] == "answer"}
        assert roles == {"user"}

    with LiveServer(conversation) as server:
        run(main())
        (declared,) = server.requests[0].body["tools"]
        assert [function["name"] for function in declared["functionDeclarations"]] == ["weather", "add"]
        assert {(answer["id"], answer["name"]) for answer in answers(server)} == {("c1", "weather"), ("c2", "add")}


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_generator_is_answered_piece_by_piece(kind: str) -> None:
    def plain(to: int) -> Iterator[int]:
        """Count."""
        yield from range(to)

    async def counting(to: int) -> AsyncIterator[Any]:
        """Count."""
        yield 0
        yield types.FunctionResponse(response={"n": 1}, scheduling=types.FunctionResponseScheduling.INTERRUPT)

    counting.__name__ = "plain"
    tool = plain if kind == "plain" else counting
    conversation = Conversation(
        [ASKED, tool_call("plain", {"to": 2}, id="c1"), Wait("tool_response", count=3), text("ok"), turn_complete()]
    )

    async def main() -> None:
        async with talk(server, tools=[tool]) as live:
            await live.send_text("count")
            responses = await turn(live)
        pieces = [r.parts[0].function_response for r in responses if r.partial and brief(r)[0] == "answer"]
        assert [piece.will_continue for piece in pieces] == [True, True]
        whole = [0, 1] if kind == "plain" else [0, {"n": 1}]
        assert finals(responses)[1] == ("answer", {"result": whole})

    with LiveServer(conversation) as server:
        run(main())
        first, second, end = answers(server)
    assert first == {"id": "c1", "name": "plain", "response": {"result": 0}, "will_continue": True}
    if kind == "plain":
        assert second["response"] == {"result": 1}
    else:
        assert (second["response"], second["scheduling"]) == ({"n": 1}, "INTERRUPT")
    assert (end["will_continue"], end["scheduling"], end.get("response", {})) == (False, "SILENT", {})


def test_a_generator_that_fails_ends_with_its_error() -> None:
    def fail() -> Iterator[int]:
        """Fail."""
        yield 1
        raise OSError("no more")

    conversation = Conversation([ASKED, tool_call("fail", id="c1"), Wait("tool_response", count=2), turn_complete()])

    async def main() -> None:
        async with talk(server, tools=[fail]) as live:
            await live.send_text("go")
            assert finals(await turn(live))[1] == ("answer", {"error": "OSError: no more"})

    with LiveServer(conversation) as server:
        run(main())
        assert answers(server)[1]["will_continue"] is False


def test_a_call_that_is_taken_back_is_stopped_and_not_answered() -> None:
    stopped = asyncio.Event()

    async def slow() -> str:
        """Take long."""
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            stopped.set()
            raise
        return "done"

    conversation = Conversation(
        [
            ASKED,
            tool_call("slow", id="c1"),
            Pause(0.1),
            tool_call_cancellation("c1"),
            Pause(0.1),
            text("Never mind."),
            turn_complete(),
        ]
    )

    async def main() -> None:
        async with talk(server, tools=[slow]) as live:
            await live.send_text("go")
            responses = await turn(live)
            assert stopped.is_set()
            assert len(live._tools) == 0
        announced = [r for r in responses if "tool_call_cancellation" in (r.provider_metadata or {})]
        assert announced[0].provider_metadata["tool_call_cancellation"] == {"ids": ["c1"]}
        assert not [r for r in responses if brief(r)[0] == "answer"]

    with LiveServer(conversation) as server:
        run(main())
        assert answers(server) == []


def test_calls_that_are_only_declared_are_the_readers() -> None:
    declared = types.FunctionDeclaration(name="ask_user", description="Ask.")
    conversation = Conversation(
        [ASKED, tool_call("ask_user", id="c1"), Wait("tool_response", ids=("c1",)), text("ok"), turn_complete()]
    )

    async def main() -> None:
        async with talk(server, tools=[declared, weather]) as live:
            await live.send_text("go")
            responses = await until(live, lambda response: response.executable_function_calls())
            (call,) = responses[-1].executable_function_calls()
            answer = types.FunctionResponse(id=call.id, name=call.name, response={"said": "yes"})
            await live.send_function_responses(answer)
            assert finals(await turn(live)) == [("text", "ok"), ("complete", "completed")]

    with LiveServer(conversation) as server:
        run(main())
        assert answers(server) == [{"id": "c1", "name": "ask_user", "response": {"said": "yes"}}]


@pytest.mark.parametrize("unknown", ["pass", "error"])
def test_calls_of_unknown_tools(unknown: Any) -> None:
    conversation = Conversation([ASKED, tool_call("what", id="c1"), Pause(0.2), turn_complete()])

    async def main() -> None:
        async with talk(server, tools=[add], unknown_tools=unknown) as live:
            await live.send_text("go")
            await turn(live)

    with LiveServer(conversation) as server:
        run(main())
        told = [answer["response"]["error"] for answer in answers(server)]
    assert told == ([] if unknown == "pass" else ["there is no tool 'what'; there are: add"])


def test_an_answer_outlives_the_connection() -> None:
    async def slow() -> str:
        """Take a while."""
        await asyncio.sleep(0.2)
        return "done"

    conversation = Conversation(
        [ASKED, text("a"), turn_complete(), resumption("h1"), tool_call("slow", id="c1"), Drop()],
        [Wait("tool_response", ids=("c1",)), text("ok"), turn_complete()],
    )

    async def main() -> None:
        async with talk(server, tools=[slow]) as live:
            await live.send_text("go")
            await turn(live)
            kept = finals(await turn(live))
        assert ("answer", {"result": "done"}) in kept
        assert kept[-2:] == [("text", "ok"), ("complete", "completed")]

    with LiveServer(conversation) as server:
        run(main())
        assert [message.connection for message in server.messages if message.function_responses] == [1]


def test_leaving_stops_the_calls() -> None:
    async def slow() -> str:
        """Take long."""
        await asyncio.sleep(30)
        return "done"

    async def main() -> None:
        async with talk(server, tools=[slow]) as live:
            await live.send_text("go")
            await until(live, lambda response: response.executable_function_calls())
        assert len(live._tools) == 0

    with LiveServer(Conversation([ASKED, tool_call("slow", id="c1"), STALL])) as server:
        run(main())
        assert answers(server) == []
