"""One live session over google-genai's client: turns, sending, back-pressure, leaving."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from google import genai
from live_talk import QUIET, VOICE, audio_of, brief, came, finals, run, talk, turn, until

from adk_stream.errors import (
    ConnectionLostError,
    MalformedStreamError,
    ProviderError,
    RateLimitError,
    StreamTimeoutError,
)
from adk_stream.live import LiveStream, PlaybackClock
from adk_stream.testing import Conversation, LiveServer
from adk_stream.testing.live_messages import (
    audio,
    generation_complete,
    input_transcript,
    output_transcript,
    resumption,
    spoken,
    text,
    together,
    tone,
    turn_complete,
    usage,
)
from adk_stream.testing.live_script import STALL, Close, Interruptible, Utterance, Wait, paced

ASKED = Wait("text")


def test_responses_come_over_all_turns() -> None:
    conversation = Conversation(
        [ASKED, text("On"), text("e"), turn_complete(counts=usage(3, 2))],
        [ASKED, text("Two"), turn_complete()],
    )

    async def main() -> None:
        async with talk(server) as live:
            await live.send_text("1")
            first = await turn(live)
            await live.send_content("2")
            second = await turn(live)
        assert finals(first) == [("text", "One"), ("complete", "completed")]
        assert first[-1].usage_metadata.candidates_token_count == 2
        assert finals(second) == [("text", "Two"), ("complete", "completed")]
        assert live.final is second[-1]
        assert live.unread == []

    with LiveServer(conversation) as server:
        run(main())
        assert [message.text for message in server.messages] == ["1", "2"]


def test_one_prompt_that_leads_to_several_turns() -> None:
    conversation = Conversation(
        [ASKED, text("Wait."), turn_complete(status="IN_PROGRESS"), text("Here."), turn_complete(status="IDLE")]
    )

    async def main() -> list[Any]:
        async with talk(server) as live:
            await live.send_text("find it")
            return finals(await turn(live)) + finals(await turn(live))

    with LiveServer(conversation) as server:
        kept = run(main())
    assert kept == [("text", "Wait."), ("complete", "completed"), ("text", "Here."), ("complete", "completed")]


@pytest.mark.parametrize("lag", ["generation_complete", "turn_complete"])
def test_words_that_come_behind_the_end_of_their_turn(lag: Any) -> None:
    conversation = Conversation(
        [ASKED, spoken("One two three.", lag=lag), Wait("text"), spoken("Four five.", lag=lag), Close(1000)]
    )

    async def main() -> None:
        async with talk(server) as live:
            await live.send_text("1")
            responses = await turn(live)
            await live.send_text("2")
            responses += [response async for response in live]
        assert finals(responses) == [
            ("output", "One two three."),
            ("complete", "completed"),
            ("output", "Four five."),
            ("complete", "completed"),
        ]

    with LiveServer(conversation) as server:
        run(main())


def test_a_closed_session_ends_the_iteration() -> None:
    async def main() -> None:
        async with talk(server) as live:
            await live.send_text("1")
            assert finals([response async for response in live]) == [("text", "One"), ("complete", "completed")]
            with pytest.raises(StopAsyncIteration):
                await anext(live)
            with pytest.raises(ConnectionLostError):
                await live.send_text("2")

    with LiveServer(Conversation([ASKED, text("One"), turn_complete(), Close(1000)])) as server:
        run(main())


@pytest.mark.parametrize(
    ("code", "error"), [(1001, ConnectionLostError), (1011, ConnectionLostError), (1008, ProviderError)]
)
def test_a_session_that_breaks_off(code: int, error: type[Exception]) -> None:
    async def main() -> None:
        responses = []
        async with talk(server) as live:
            await live.send_text("1")
            with pytest.raises(error, match=str(code) if error is ConnectionLostError else "no more") as caught:
                async for response in live:
                    responses.append(response)
            assert caught.value.__cause__ is not None
            with pytest.raises(StopAsyncIteration):
                await anext(live)
        final = responses[-1]
        assert final.output_transcription.text == "Hel"
        cut = error is ConnectionLostError
        assert (final.status, final.error_code) == (("incomplete", "STREAM_CUT") if cut else ("failed", "1008"))
        assert live.final is final

    with LiveServer(Conversation([ASKED, output_transcript("Hel"), Close(code, "no more")])) as server:
        run(main())


def test_a_lost_connection() -> None:
    async def main() -> None:
        async with talk(server) as live:
            await live.send_text("1")
            responses = []
            with pytest.raises(ConnectionLostError, match="1006"):
                async for response in live:
                    responses.append(response)
        assert finals(responses) == [("output", "Hel")]

    with LiveServer(Conversation([ASKED, output_transcript("Hel"), STALL]), faults="drop=2") as server:
        run(main())


@pytest.mark.parametrize("handle", [[], [resumption("h1")]])
def test_an_error_as_a_message(handle: list[Any]) -> None:
    """It ends the session, whether that could be gone on with or not."""

    async def main() -> None:
        async with talk(server) as live:
            await live.send_text("1")
            responses = []
            with pytest.raises(ProviderError) as caught:
                async for response in live:
                    responses.append(response)
        assert (caught.value.code, caught.value.message) == ("UNAVAILABLE", "the server failed while it streamed")
        assert (responses[-1].status, responses[-1].error_code) == ("failed", "UNAVAILABLE")
        assert responses[-1].text == "Hel"

    conversation = Conversation([ASKED, *handle, text("Hel"), STALL])
    with LiveServer(conversation, faults=f"error_event={2 + len(handle)}") as server:
        run(main())


def test_a_quota_is_a_rate_limit() -> None:
    async def main() -> None:
        async with talk(server) as live:
            assert (await anext(live)).error_code == "RESOURCE_EXHAUSTED"
            with pytest.raises(RateLimitError):
                await anext(live)

    with LiveServer(Conversation([Close(1011, "You exceeded your current quota")])) as server:
        run(main())


def test_a_frame_that_cannot_be_read() -> None:
    async def main(on_malformed: Any) -> list[Any]:
        async with talk(server, on_malformed=on_malformed) as live:
            await live.send_text("1")
            return finals(await turn(live))

    with LiveServer(Conversation([ASKED, text("On"), text("e"), turn_complete()]), faults="garbage=2") as server:
        assert run(main("skip")) == [("text", "One"), ("complete", "completed")]
        with pytest.raises(MalformedStreamError):
            run(main("raise"))


def test_a_session_that_cannot_be_had() -> None:
    async def main() -> None:
        with pytest.raises(ProviderError) as caught:
            async with talk(server):
                pass
        assert caught.value.status == 403

    with LiveServer(Conversation([]), faults="status=403") as server:
        run(main())


def test_a_connection_that_takes_too_long() -> None:
    async def main() -> None:
        with pytest.raises(StreamTimeoutError):
            async with talk(server, connect_timeout=0.1):
                pass

    with LiveServer(Conversation([]), faults="slow_first=1") as server:
        run(main())


def test_a_task_that_is_cancelled_while_it_connects_leaves_nothing() -> None:
    async def enter() -> None:
        async with talk(server):
            pass

    async def main() -> None:
        task = asyncio.create_task(enter())
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with LiveServer(Conversation([]), faults="slow_first=1") as server:
        run(main())


def test_sends_of_many_tasks_arrive_whole_and_in_each_ones_order() -> None:
    async def say(live: LiveStream, who: int) -> None:
        for number in range(20):
            await live.send_text(f"{who}:{number}")

    async def main() -> None:
        async with talk(server) as live:
            await asyncio.gather(*(say(live, who) for who in range(5)))
            await live.send_audio(VOICE)
            await live.send_activity_start()
            await live.send_activity_end()
            await live.send_audio_end()
            server.wait_for("audio_end")

    with LiveServer(Conversation([])) as server:
        run(main())
        said = [message.text for message in server.messages if "text" in message.kinds]
        assert len(said) == 100
        for who in range(5):
            assert [each for each in said if each.startswith(f"{who}:")] == [f"{who}:{n}" for n in range(20)]
        (heard,) = [message for message in server.messages if "audio" in message.kinds]
        assert heard.audio == VOICE


def test_only_a_stream_that_was_entered_is_used() -> None:
    async def main() -> None:
        client = genai.Client(api_key="local")
        live = LiveStream(client, model="any")
        with pytest.raises(RuntimeError, match="async with"):
            await live.send_text("hi")
        with pytest.raises(RuntimeError, match="async with"):
            await anext(live)
        with pytest.raises(ValueError, match="name of a model"):
            LiveStream(client)
        with pytest.raises(ValueError, match="audio_policy"):
            LiveStream(client, model="any", audio_policy="never")  # type: ignore[arg-type]

    run(main())


class TestAudio:
    PIECES = [tone(0.02, hertz=200.0 + n) for n in range(60)]

    def conversation(self) -> Conversation:
        said = [together(audio(piece)) for piece in self.PIECES]
        return Conversation([ASKED, output_transcript("la"), *said, output_transcript(" li"), turn_complete()])

    @pytest.mark.parametrize(("policy", "heard"), [("wait", 60), ("drop_oldest", 6)])
    def test_a_slow_reader_bounds_what_waits(self, policy: Any, heard: int) -> None:
        async def main() -> None:
            async with talk(server, max_queued=10, audio_policy=policy) as live:
                await live.send_text("sing")
                if policy == "drop_oldest":
                    await came(live, lambda response: response.turn_complete)
                await asyncio.sleep(0.1)
                assert len(live._inbox) <= 12
                responses = await turn(live)
            assert audio_of(responses) == b"".join(self.PIECES[-heard:])
            said = [r.output_transcription.text for r in responses if r.partial and r.output_transcription]
            assert said == ["la", " li"]
            assert finals(responses) == [("output", "la li"), ("complete", "completed")]

        with LiveServer(self.conversation()) as server:
            run(main())

    def test_an_interruption_clears_what_waits_to_be_played(self) -> None:
        stale = [audio(piece) for piece in self.PIECES]
        conversation = Conversation(
            [ASKED, Interruptible(stale, output_transcript("la"), STALL)],
            [ASKED, text("Yes?"), turn_complete()],
        )

        async def main() -> None:
            async with talk(server, playback=False) as live:
                await live.send_text("sing")
                await came(live, lambda response: brief(response) == ("output", "la"))
                await live.send_text("stop")
                await came(live, lambda response: response.turn_complete)
                responses = await turn(live)
            assert audio_of(responses) == b""
            assert finals(responses) == [("output", "la"), ("complete", "incomplete")]

        with LiveServer(conversation) as server:
            run(main())

    def test_the_transcript_is_cut_to_what_was_heard(self) -> None:
        # all 1.2 seconds of it come at once, and nothing ends the turn before the user does
        messages = spoken("one two three four five six", seconds=0.2)[:-2]
        conversation = Conversation([ASKED, Interruptible(messages, STALL)], [ASKED, text("Yes?"), turn_complete()])

        async def main(report: float | None) -> Any:
            now = 0.0
            async with talk(server) as live:
                live._clock = PlaybackClock(lambda: now)
                await live.send_text("count")
                await until(live, lambda response: brief(response) == ("output", " six"))
                await anext(live)
                now = 0.5
                if report is not None:
                    live.playback_position(report)
                await live.send_text("stop")
                *_, final, _ = await turn(live)
                return final

        with LiveServer(conversation) as server:
            by_clock, reported = run(main(None)), run(main(1000))
        assert by_clock.output_transcription.text == "one two"
        assert by_clock.provider_metadata["whole_output_transcription"] == "one two three four five six"
        assert reported.output_transcription.text == "one two three four five"


class TestLeaving:
    def test_what_had_come_is_in_the_final(self) -> None:
        async def main() -> None:
            async with talk(server) as live:
                await live.send_text("1")
                await until(live, lambda response: brief(response) == ("output", "Hel"))
            assert (live.final.status, live.final.output_transcription.text) == ("cancelled", "Hel")
            assert live.final.input_transcription.text == "Hi"
            with pytest.raises(StopAsyncIteration):
                await anext(live)
            await live.aclose()

        said = [input_transcript("Hi"), output_transcript("Hel")]
        with LiveServer(Conversation([ASKED, *said, STALL])) as server:
            threads = threading.active_count()
            run(main())
            assert threading.active_count() <= threads

    def test_finals_that_nobody_read_are_there(self) -> None:
        async def main() -> None:
            async with talk(server) as live:
                await live.send_text("1")
                await came(live, lambda response: response.turn_complete)
            assert finals(live.unread) == [("text", "One"), ("complete", "completed")]
            assert live.final is live.unread[-1]

        with LiveServer(Conversation([ASKED, text("One"), turn_complete()])) as server:
            run(main())

    def test_a_waiting_reader_is_let_go(self) -> None:
        async def main() -> None:
            async with talk(server) as live:
                reading = asyncio.create_task(anext(live, None))
                await asyncio.sleep(0.05)
                with pytest.raises(RuntimeError, match="another task"):
                    await anext(live)
                await live.aclose()
                assert await reading is None

        with LiveServer(Conversation([])) as server:
            run(main())

    def test_a_cancelled_task_leaves_at_once(self) -> None:
        async def read() -> None:
            async with talk(server) as live:
                await live.send_text("1")
                async for _ in live:
                    pass

        async def main() -> None:
            task = asyncio.create_task(read())
            await asyncio.sleep(0.3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        with LiveServer(Conversation([ASKED, text("On"), STALL])) as server:
            run(main())

    def test_a_server_that_does_not_answer_the_end(self) -> None:
        """The closing handshake is not waited for longer than was asked for."""

        async def main() -> None:
            loop = asyncio.get_running_loop()
            async with talk(server, close_timeout=0.4) as live:
                await live.send_text("1")
                await until(live, lambda response: brief(response) == ("text", "One"))
                assert server._loop is not None
                server._loop.call_soon_threadsafe(time.sleep, 1.5)  # it hears nothing
                await asyncio.sleep(0.05)
                begin = loop.time()
            assert loop.time() - begin < 1.2

        with LiveServer(Conversation([ASKED, text("One"), STALL])) as server:
            run(main())


def test_a_voice_conversation_with_an_interruption() -> None:
    conversation = Conversation(
        [Utterance(QUIET), input_transcript("Hello"), spoken("Hi there.")],
        [
            Utterance(QUIET),
            input_transcript("Tell me"),
            Interruptible(paced(spoken("It will rain all day long."), 0.05), STALL),
        ],
        [Utterance(QUIET), generation_complete(), input_transcript("Stop"), spoken("Fine.")],
    )

    async def main() -> list[Any]:
        kept: list[Any] = []
        async with talk(server, playback=False) as live:
            await live.send_audio(VOICE)
            kept += finals(await turn(live))
            await live.send_audio(VOICE)
            await until(live, lambda response: brief(response) == ("output", " will"))
            await live.send_audio(VOICE)
            kept += finals(await turn(live))
            kept += finals(await turn(live))
        return kept

    with LiveServer(conversation) as server:
        kept = run(main())
    assert kept[:3] == [("input", "Hello"), ("output", "Hi there."), ("complete", "completed")]
    assert kept[3] == ("input", "Tell me")
    assert kept[4][1].startswith("It will")
    assert kept[5:] == [
        ("complete", "incomplete"),
        ("input", "Stop"),
        ("output", "Fine."),
        ("complete", "completed"),
    ]


def test_what_an_error_of_the_client_means() -> None:
    """google-genai's own classes, as it raises them and as it would if it read the error frame itself."""
    from google.genai import errors

    from adk_stream.live.faults import live_error, may_resume

    told = live_error(errors.ServerError(503, {"error": {"status": "UNAVAILABLE", "message": "busy"}}))
    assert isinstance(told, ProviderError)
    assert (told.code, told.message, may_resume(told)) == ("UNAVAILABLE", "busy", False)
    with pytest.raises(errors.APIError) as caught:
        errors.APIError.raise_error(1012, "restarting", None)
    assert may_resume(live_error(caught.value))
    own = ValueError("not the client's")
    assert live_error(own) is own
