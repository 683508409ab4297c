"""Sessions that outlive their connections, and those that cannot."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from live_talk import VOICE, brief, finals, run, talk, turn, until

from adk_stream.errors import ConnectionLostError
from adk_stream.testing import Conversation, LiveServer
from adk_stream.testing.live_messages import go_away, output_transcript, resumption, text, together, turn_complete
from adk_stream.testing.live_script import STALL, Close, Drop, Pause, Wait

ASKED = Wait("text")
SECOND = [ASKED, text("Two"), turn_complete()]


def handles(server: LiveServer) -> list[str | None]:
    """The handle that each connection resumed with."""
    return [(request.body.get("sessionResumption") or {}).get("handle") for request in server.requests]


def transparent(handle: str, index: int) -> dict[str, Any]:
    update = {"newHandle": handle, "resumable": True, "lastConsumedClientMessageIndex": str(index)}
    return {"sessionResumptionUpdate": update}


@pytest.mark.parametrize("end", [[go_away(5), STALL], [go_away(1), Pause(0.3), Close(1001)], [Drop()], [Close(1011)]])
def test_the_session_goes_on_between_two_turns(end: Any) -> None:
    conversation = Conversation([ASKED, text("One"), turn_complete(), resumption("h1"), *end], SECOND)

    async def main() -> None:
        async with talk(server) as live:
            await live.send_text("1")
            responses = await turn(live)
            await asyncio.sleep(0.3)
            await live.send_text("2")
            responses += await turn(live)
        assert live.connections == 2
        assert finals(responses) == [
            ("text", "One"),
            ("complete", "completed"),
            ("text", "Two"),
            ("complete", "completed"),
        ]

    with LiveServer(conversation) as server:
        run(main())
        assert handles(server) == [None, "h1"]
        assert [message.text for message in server.messages] == ["1", "2"]


def test_a_go_away_in_the_middle_of_a_turn_lets_it_end() -> None:
    conversation = Conversation(
        [
            ASKED,
            resumption("h0"),
            text("O"),
            go_away(5),
            Pause(0.2),
            text("ne"),
            turn_complete(),
            Pause(0.1),
            resumption("h1"),
            STALL,
        ],
        SECOND,
    )

    async def main() -> None:
        begin = time.monotonic()
        async with talk(server) as live:
            await live.send_text("1")
            assert finals(await turn(live)) == [("text", "One"), ("complete", "completed")]
            await until(live, lambda response: response.live_session_resumption_update)
            await asyncio.sleep(0.2)
            await live.send_text("2")
            assert finals(await turn(live)) == [("text", "Two"), ("complete", "completed")]
        assert time.monotonic() - begin < 2

    with LiveServer(conversation) as server:
        run(main())
        assert handles(server) == [None, "h1"]


def test_a_go_away_whose_time_is_over_takes_along_what_had_come() -> None:
    conversation = Conversation([ASKED, together(resumption("h1"), go_away(0.4)), output_transcript("O"), STALL])

    async def main() -> None:
        async with talk(server) as live:
            await live.send_text("1")
            responses = await until(live, lambda response: response.error_code)
            await live.send_text("2")
            await asyncio.to_thread(server.wait_for, "text", 2)
        assert finals(responses) == [("output", "O")]
        assert (responses[-1].status, responses[-1].error_code) == ("incomplete", "STREAM_CUT")
        assert live.connections == 2

    with LiveServer(conversation) as server:
        run(main())


def test_what_is_sent_meanwhile_arrives_in_order() -> None:
    conversation = Conversation(
        [ASKED, text("One"), turn_complete(), resumption("h1"), Drop()],
        [Wait("text", count=3), text("All"), turn_complete()],
    )

    async def main() -> None:
        async with talk(server) as live:
            await live.send_text("1")
            await turn(live)
            await until(live, lambda response: response.live_session_resumption_update)
            while live._outbox._session is not None:  # the connection is gone
                await asyncio.sleep(0.01)
            for words in ("2", "3", "4"):
                await live.send_text(words)
            assert finals(await turn(live)) == [("text", "All"), ("complete", "completed")]

    with LiveServer(conversation) as server:
        server.queue_fault()
        server.queue_fault("slow_first=0.3")
        run(main())
        assert [message.text for message in server.messages] == ["1", "2", "3", "4"]


def test_a_sender_waits_when_too_much_waits_already() -> None:
    conversation = Conversation([ASKED, text("One"), turn_complete(), resumption("h1"), Drop()], [STALL])

    async def main() -> None:
        async with talk(server, max_unsent=2) as live:
            await live.send_text("1")
            await turn(live)
            while live._outbox._session is not None:
                await asyncio.sleep(0.01)
            sending = [asyncio.create_task(live.send_audio(VOICE)) for _ in range(5)]
            await asyncio.sleep(0.1)
            assert [task.done() for task in sending] == [True, True, False, False, False]
            await asyncio.gather(*sending)
            server.wait_for("audio", 5)

    with LiveServer(conversation) as server:
        server.queue_fault()
        server.queue_fault("slow_first=0.4")
        run(main())


def test_an_open_turn_ends_as_cut_and_the_session_goes_on() -> None:
    conversation = Conversation(
        [ASKED, text("One"), turn_complete(), resumption("h1")], [ASKED, text("Tw"), Drop()], names=["any"]
    )

    async def main() -> None:
        async with talk(server) as live:
            await live.send_text("1")
            await turn(live)
            await live.send_text("2")
            cut = await until(live, lambda response: response.error_code)
            assert (cut[-1].text, cut[-1].status) == ("Tw", "incomplete")
            assert live.connections == 1 or live.handle == "h1"

    with LiveServer(conversation) as server:
        run(main())


@pytest.mark.parametrize("update", [resumption("", resumable=False), {"sessionResumptionUpdate": {}}])
def test_what_cannot_be_resumed_is_an_error(update: Any) -> None:
    conversation = Conversation(
        [ASKED, text("One"), turn_complete(), resumption("h1"), update, output_transcript("Tw"), Drop()]
    )

    async def main() -> None:
        responses = []
        async with talk(server) as live:
            await live.send_text("1")
            with pytest.raises(ConnectionLostError):
                async for response in live:
                    responses.append(response)
            assert live.handle is None
        assert finals(responses)[-1] == ("output", "Tw")
        assert (responses[-1].status, responses[-1].error_code) == ("incomplete", "STREAM_CUT")

    with LiveServer(conversation) as server:
        run(main())
        assert len(server.requests) == 1


def test_a_session_that_is_not_to_be_resumed_asks_for_no_handle() -> None:
    async def main() -> None:
        async with talk(server, resume=False) as live:
            await live.send_text("1")
            with pytest.raises(ConnectionLostError):
                async for _ in live:
                    pass

    with LiveServer(Conversation([ASKED, resumption("h1"), Drop()])) as server:
        run(main())
        assert "sessionResumption" not in server.requests[0].body


def test_the_tries_are_counted() -> None:
    conversation = Conversation([ASKED, text("One"), turn_complete(), resumption("h1"), Drop()])

    async def main() -> None:
        async with talk(server, max_reconnects=3) as live:
            await live.send_text("1")
            await turn(live)
            with pytest.raises(ConnectionLostError):
                async for _ in live:
                    pass

    with LiveServer(conversation) as server:
        server.queue_fault()
        for fault in ("close=1011@0", "drop=1", "close=1013@1"):
            server.queue_fault(fault)
        run(main())
        assert handles(server) == [None, "h1", "h1", "h1"]


def test_a_refused_handle_is_not_tried_again() -> None:
    async def main() -> None:
        from adk_stream.errors import ProviderError

        with pytest.raises(ProviderError, match="no session with this handle"):
            async with talk(server, config={"session_resumption": {"handle": "stale"}}):
                pass

    with LiveServer(Conversation([])) as server:
        run(main())
        assert handles(server) == ["stale"]


def test_another_stream_goes_on_with_the_handle() -> None:
    conversation = Conversation([ASKED, text("One"), turn_complete(), resumption("h1")], SECOND)

    async def main() -> None:
        async with talk(server) as live:
            await live.send_text("1")
            await until(live, lambda response: response.live_session_resumption_update)
        async with talk(server, config={"session_resumption": {"handle": live.handle}}) as live:
            await live.send_text("2")
            assert finals(await turn(live)) == [("text", "Two"), ("complete", "completed")]

    with LiveServer(conversation) as server:
        run(main())


def test_transparent_resumption_sends_again_what_was_not_consumed() -> None:
    conversation = Conversation(
        [ASKED, text("One"), turn_complete(), Wait("audio", count=3), transparent("h1", 2), Drop()],
        [Wait("audio", count=2), text("heard"), turn_complete()],
    )

    settings = {"session_resumption": {"transparent": True}}

    async def main() -> None:
        async with talk(server, vertexai=True, config=settings) as live:
            await live.send_text("1")
            await turn(live)
            for number in range(3):
                await live.send_audio(bytes([number]) * 320)
            responses = await turn(live)
        assert brief(responses[-2]) == ("text", "heard")

    with LiveServer(conversation) as server:
        run(main())
        again = [message.audio[:1] for message in server.messages if message.connection == 1]
        assert again == [b"\x01", b"\x02"]  # the text was number 1, the first audio number 2


THREE = ("One and", "Two and", "Three and")


#: All places but those between a turn's end and its handle: there the server itself has lost the turn.
PLACES = [n for n in range(3, 18) if n not in (7, 12, 17)]


@pytest.mark.parametrize("fault", [*(f"drop={n}" for n in PLACES), *(f"close=1011@{n}" for n in (3, 5, 8, 13))])
def test_wherever_it_breaks_each_turn_is_there_once(fault: str) -> None:
    """Handles come between the turns; the user asks again where an answer broke off."""
    turns_of_three = [
        [
            ASKED,
            *(output_transcript(f" {word}"[:9]) for word in words.split()),
            text("."),
            turn_complete(),
            resumption(words),
        ]
        for words in THREE
    ]
    conversation = Conversation([ASKED, turn_complete(), resumption("zero")], *turns_of_three)

    async def main() -> None:
        answers, responses = [], []
        async with talk(server) as live:
            await live.send_text("hello")
            await turn(live)
            await until(live, lambda response: response.live_session_resumption_update)
            for words in THREE:
                while True:
                    await live.send_text(words)
                    got = await until(live, lambda response: response.turn_complete or response.error_code)
                    responses.append(got)
                    if got[-1].turn_complete:
                        break
                answers.append(got)
            assert live.connections <= 2
        for got in responses:
            shown = [r.output_transcription.text for r in got if r.partial and r.output_transcription]
            kept = [r.output_transcription.text for r in got if not r.partial and r.output_transcription]
            assert kept == (["".join(shown)] if shown else [])
        said = [
            [r.output_transcription.text for r in got if not r.partial and r.output_transcription] for got in answers
        ]
        assert said == [[" One and"], [" Two and"], [" Three and"]]

    with LiveServer(conversation) as server:
        server.queue_fault(fault)
        server.queue_fault()
        run(main())
