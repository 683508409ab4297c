"""``Runner.run_live``: a voice conversation with tools, kept in a session that reads as a history."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from google import genai
from google.genai import types
from live_talk import QUIET, SECONDS, VOICE, audio_of, brief, run

from adk_stream import Runner
from adk_stream.errors import ConnectionLostError, RequestError, SessionNotFoundError
from adk_stream.live import AudioRecorder
from adk_stream.models import GeminiModel, ReplayModel
from adk_stream.models.history import turns
from adk_stream.runner import LiveRequestQueue, LiveRun
from adk_stream.sessions import Event, InMemorySessionService, Session, SqlSessionService
from adk_stream.testing import Conversation, LiveServer
from adk_stream.testing.live_messages import (
    audio,
    go_away,
    input_transcript,
    output_transcript,
    resumption,
    spoken,
    text,
    together,
    tone,
    tool_call,
    tool_call_cancellation,
    turn_complete,
    usage,
)
from adk_stream.testing.live_script import STALL, Drop, Interruptible, Pause, Utterance, Wait, paced

ASKED = Wait("text")
PIECES = [tone(0.02, hertz=200.0 + n) for n in range(6)]


async def weather(city: str) -> dict[str, str]:
    """Tell the weather."""
    await asyncio.sleep(0.1)
    return {"city": city, "sky": "rain"}


class Talk:
    """A runner on a local Live server, and one session of it."""

    def __init__(self, server: LiveServer, *, service: Any = None, tools: Sequence[Any] = (), **options: Any) -> None:
        self.service = service or InMemorySessionService()
        client = genai.Client(**server.client_options())
        self.runner = Runner(
            GeminiModel("any", client=client),
            tools,
            session_service=self.service,
            app_name="app",
            instruction="Be kind.",
        )
        self.options = {"config": {"response_modalities": ["AUDIO"]}, "playback": False, **options}
        self.options |= {"reconnect_backoff": 0.05, "late_words": 0.05}
        self.requests = LiveRequestQueue()

    async def start(self) -> LiveRun:
        await self.service.create_session(app_name="app", user_id="u", session_id="s")
        return self.again()

    def again(self) -> LiveRun:
        self.requests = LiveRequestQueue()
        return self.runner.run_live(user_id="u", session_id="s", live_requests=self.requests, **self.options)

    async def stored(self) -> list[Event]:
        session: Session = await self.service.get_session(app_name="app", user_id="u", session_id="s")
        return session.events

    def speak(self) -> None:
        self.requests.send_realtime(types.Blob(data=VOICE, mime_type="audio/pcm;rate=16000"))


async def read(run: LiveRun, *cues: tuple[Any, Callable[[], Any]]) -> list[Event]:
    """All events; at each cue, what the user does then."""
    events, waiting = [], list(cues)
    async with asyncio.timeout(SECONDS):
        async for event in run:
            events.append(event)
            if waiting and brief(event) == waiting[0][0]:
                waiting.pop(0)[1]()
    assert not waiting, waiting
    return events


def told(events: list[Event]) -> list[Any]:
    return [(event.author, brief(event)) for event in events if brief(event) != "signal"]


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_a_voice_conversation(store: str, tmp_path: Path) -> None:
    """Three turns: a call, an interruption, and a connection that goes away; then it breaks off for good."""
    if store == "sqlite":
        pytest.importorskip("sqlalchemy")
    heard = [output_transcript("Fine, "), *map(audio, PIECES), output_transcript("bye."), turn_complete()]
    conversation = Conversation(
        [
            Utterance(QUIET),
            input_transcript("Weather "),
            input_transcript("in Oslo?"),
            output_transcript("Let me look."),
            tool_call("weather", {"city": "Oslo"}, id="c1"),
            Wait("tool_response", ids=("c1",)),
            spoken("It rains.", counts=usage(9, 5)),
            resumption("h1"),
        ],
        [
            Utterance(QUIET),
            input_transcript("And tomorrow?"),
            Interruptible(paced(spoken("It will rain all day long."), 0.05), STALL),
        ],
        [Utterance(QUIET), input_transcript("Stop."), *heard, resumption("h2"), go_away(5), STALL],
        [
            Utterance(QUIET),
            input_transcript("Hello?"),
            output_transcript("Ye"),
            {"sessionResumptionUpdate": {}},
            Drop(),
        ],
    )

    async def main() -> None:
        async with (
            SqlSessionService(f"sqlite:///{tmp_path / 'a.db'}") if store == "sqlite" else _in_memory() as service
        ):
            with AudioRecorder(tmp_path / "a.wav") as recorder:
                talk = Talk(server, service=service, tools=[weather], recorder=recorder)
                run = await talk.start()
                talk.speak()
                events: list[Event] = []
                ends = iter([talk.speak, talk.speak])
                with pytest.raises(ConnectionLostError):
                    async with asyncio.timeout(SECONDS):
                        async for event in run:
                            events.append(event)
                            if brief(event) == ("output", " will"):
                                talk.speak()
                            if event.turn_complete and not event.interrupted:
                                next(ends)()
            kept = await talk.stored()
            said = [
                ("user", ("input", "Weather in Oslo?")),
                ("model", ("output", "Let me look.")),
                ("model", ("call", "c1")),
                ("model", ("answer", {"city": "Oslo", "sky": "rain"})),
                ("model", ("output", "It rains.")),
                ("model", ("complete", "completed")),
                ("user", ("input", "And tomorrow?")),
                ("model", ("output", kept[7].output_transcription.text)),
                ("model", ("complete", "incomplete")),
                ("user", ("input", "Stop.")),
                ("model", ("output", "Fine, bye.")),
                ("model", ("complete", "completed")),
                ("user", ("input", "Hello?")),
                ("model", ("output", "Ye")),
            ]
            assert told(kept) == said
            assert "It will".startswith(kept[7].output_transcription.text[:7])
            last = kept[-1]
            assert (last.status, last.error_code, last.output_transcription.text) == ("incomplete", "STREAM_CUT", "Ye")
            assert not any(event.partial or audio_of([event]) for event in kept)
            assert len({event.id for event in kept}) == len(kept)
            # each partial transcript bears the id of the final it leads to
            ids = {event.id: event.output_transcription.text for event in kept if event.output_transcription}
            pieces = [event for event in events if event.partial and event.output_transcription]
            words = [piece.output_transcription.text for piece in pieces if ids[piece.id] == "It rains."]
            assert "".join(words) == "It rains."
            assert run.usage.total_token_count == 14
            assert run.handle is None

    with LiveServer(conversation) as server:
        run(main())
        assert len(server.requests) == 2
        assert server.requests[1].body["sessionResumption"] == {"handle": "h2"}
        assert server.requests[0].body["systemInstruction"]["parts"] == [{"text": "Be kind."}]
    soundfile = pytest.importorskip("soundfile")
    samples, rate = soundfile.read(tmp_path / "a.wav", dtype="int16")
    assert rate == 24_000
    assert samples.tobytes().endswith(b"".join(PIECES))


class _in_memory:
    async def __aenter__(self) -> InMemorySessionService:
        return InMemorySessionService()

    async def __aexit__(self, *error: object) -> None:
        pass


def test_text_is_stored_as_it_is_sent_and_closing_ends_the_run() -> None:
    conversation = Conversation([ASKED, output_transcript("Hi."), turn_complete()], [ASKED, output_transcript("By")])

    async def main() -> None:
        talk = Talk(server)
        live = await talk.start()
        talk.requests.send_content("Hello")
        events = await read(
            live,
            (("complete", "completed"), lambda: talk.requests.send_content("Bye")),
            (("output", "By"), talk.requests.close),
        )
        with pytest.raises(RuntimeError, match="closed"):
            talk.requests.send_content("more")
        talk.requests.close()
        kept = await talk.stored()
        assert told(kept) == [
            ("user", ("text", "Hello")),
            ("model", ("output", "Hi.")),
            ("model", ("complete", "completed")),
            ("user", ("text", "Bye")),
            ("model", ("output", "By")),
        ]
        assert (kept[-1].status, kept[-1].error_code) == ("cancelled", "STREAM_CANCELLED")
        assert events[-1].id == kept[-1].id

    with LiveServer(conversation) as server:
        run(main())


def test_answers_stand_behind_their_calls_whatever_came_between() -> None:
    async def slow() -> str:
        """Take a while."""
        await asyncio.sleep(0.3)
        return "late"

    async def quick() -> AsyncIterator[int]:
        """Count."""
        yield 1
        yield 2

    calls = together(tool_call("slow", id="c1"), tool_call("quick", id="c2"))
    conversation = Conversation(
        [
            ASKED,
            calls,
            tool_call("quick", id="c3"),
            output_transcript("Meanwhile."),
            turn_complete(),
            Wait("tool_response", ids=("c1",)),
            output_transcript("Done."),
            turn_complete(),
        ]
    )

    async def main() -> None:
        talk = Talk(server, tools=[slow, quick])
        live = await talk.start()
        talk.requests.send_content("go")
        events = await read(live, (("output", "Meanwhile."), lambda: None), (("output", "Done."), talk.requests.close))
        shown = [brief(event) for event in events if not event.partial]
        assert shown.index(("complete", "completed")) < shown.index(("answer", {"result": "late"}))
        kept = await talk.stored()
        assert told(kept)[:6] == [
            ("user", ("text", "go")),
            ("model", ("call", "c1")),
            ("model", ("answer", {"result": "late"})),
            ("model", ("call", "c3")),
            ("model", ("answer", {"result": [1, 2]})),
            ("model", ("output", "Meanwhile.")),
        ]
        both = kept[2].get_function_responses()
        assert [(answer.id, answer.response) for answer in both] == [
            ("c1", {"result": "late"}),
            ("c2", {"result": [1, 2]}),
        ]
        turns(kept)  # it is a history

    with LiveServer(conversation) as server:
        run(main())


def test_a_call_that_is_taken_back_is_answered_in_the_history_alone() -> None:
    async def slow() -> str:
        """Take long."""
        await asyncio.sleep(30)
        return "done"

    conversation = Conversation(
        [
            ASKED,
            tool_call("slow", id="c1"),
            Pause(0.1),
            tool_call_cancellation("c1"),
            text("Never mind."),
            turn_complete(),
        ]
    )

    async def main() -> None:
        talk = Talk(server, tools=[slow])
        live = await talk.start()
        talk.requests.send_content("go")
        await read(live, (("complete", "completed"), talk.requests.close))
        kept = told(await talk.stored())
        assert kept[1:] == [
            ("model", ("call", "c1")),
            ("model", ("answer", {"error": "the model took this call back"})),
            ("model", ("text", "Never mind.")),
            ("model", ("complete", "completed")),
        ]

    with LiveServer(conversation) as server:
        run(main())
        assert not any(message.function_responses for message in server.messages)


def test_the_caller_answers_what_is_passed_through() -> None:
    ask = types.FunctionDeclaration(name="ask_user", description="Ask.")
    conversation = Conversation(
        [ASKED, tool_call("ask_user", id="c1"), Wait("tool_response", ids=("c1",)), text("ok"), turn_complete()],
        [ASKED, tool_call("ask_user", id="c2"), STALL],
    )

    async def main() -> None:
        talk = Talk(server, tools=[ask])
        live = await talk.start()
        talk.requests.send_content("go")
        answer = types.FunctionResponse(id="c1", name="ask_user", response={"said": "yes"})
        part = types.Part(function_response=answer)
        events = await read(
            live,
            (("call", "c1"), lambda: None),
            (("call", "c1"), lambda: talk.requests.send_content(types.Content(role="user", parts=[part]))),
            (("complete", "completed"), lambda: talk.requests.send_content("again")),
            (("call", "c2"), lambda: None),
            (("call", "c2"), talk.requests.close),
        )
        (pending,) = [e for e in events if e.long_running_tool_ids and brief(e) == ("call", "c1")]
        assert pending.long_running_tool_ids == {"c1"}
        kept = told(await talk.stored())
        assert kept[1:3] == [("model", ("call", "c1")), ("model", ("answer", {"said": "yes"}))]
        assert ("model", ("answer", {"error": "the conversation ended"})) in kept

    with LiveServer(conversation) as server:
        run(main())


@pytest.mark.parametrize("way", ["aclose", "break", "cancel", "task"])
def test_leaving_stores_what_had_come(way: str) -> None:
    async def slow() -> str:
        """Take long."""
        await asyncio.sleep(30)
        return "done"

    conversation = Conversation(
        [ASKED, tool_call("slow", id="c1"), output_transcript("Wait a mo"), output_transcript("ment"), STALL]
    )

    async def leave(talk: Talk, live: LiveRun) -> None:
        talk.requests.send_content("go")
        async with aclosing(live):
            async for event in live:
                if brief(event) == ("output", "ment"):
                    if way == "break":
                        break
                    if way == "aclose":
                        await live.aclose()
                    if way == "cancel":
                        assert await talk.runner.cancel(session_id="s")
                    if way == "task":
                        raise asyncio.CancelledError

    async def main() -> None:
        talk = Talk(server, tools=[slow])
        live = await talk.start()
        task = asyncio.create_task(leave(talk, live))
        await asyncio.wait([task], timeout=SECONDS)
        assert task.done()
        assert task.cancelled() is (way == "task")
        kept = await talk.stored()
        assert told(kept)[:2] == [("user", ("text", "go")), ("model", ("call", "c1"))]
        assert "cancelled" in kept[2].get_function_responses()[0].response["error"]
        assert (kept[3].status, kept[3].output_transcription.text) == ("cancelled", "Wait a moment")
        assert len(kept) == 4

    with LiveServer(conversation) as server:
        run(main())


def test_a_later_run_goes_on_with_the_handle() -> None:
    conversation = Conversation(
        [ASKED, text("One"), turn_complete(), resumption("h1")], [ASKED, text("Two"), turn_complete()]
    )

    async def main() -> None:
        talk = Talk(server)
        live = await talk.start()
        talk.requests.send_content("1")
        await read(
            live, (("complete", "completed"), lambda: asyncio.get_running_loop().call_later(0.1, talk.requests.close))
        )
        assert live.handle == "h1"
        talk.options["config"] = {"session_resumption": {"handle": live.handle}}
        live = talk.again()
        talk.requests.send_content("2")
        await read(live, (("complete", "completed"), talk.requests.close))
        kept = [brief(event) for event in await talk.stored()]
        assert kept == [
            ("text", "1"),
            ("text", "One"),
            ("complete", "completed"),
            ("text", "2"),
            ("text", "Two"),
            ("complete", "completed"),
        ]

    with LiveServer(conversation) as server:
        run(main())


@pytest.mark.parametrize("complete", [False, True])
def test_a_model_that_has_not_heard_it_is_told_what_was_said(complete: bool) -> None:
    conversation = Conversation(
        [
            ASKED,
            tool_call("weather", {"city": "Oslo"}, id="c1"),
            Wait("tool_response", ids=("c1",)),
            output_transcript("It rains."),
            turn_complete(),
        ],
    )
    later = Conversation([Wait("text" if complete else "context"), ASKED, text("Two"), turn_complete()])

    async def main() -> None:
        talk = Talk(server, tools=[weather])
        live = await talk.start()
        talk.requests.send_content("Weather?")
        await read(live, (("complete", "completed"), talk.requests.close))
        if complete:
            talk.options["config"] = {"history_config": {"initial_history_in_client_content": True}}
        live = talk.again()
        talk.requests.send_content("And now?")
        await read(live, (("complete", "completed"), talk.requests.close))
        assert [brief(event) for event in await talk.stored()][-3:-1] == [("text", "And now?"), ("text", "Two")]

    with LiveServer([conversation, later]) as server:
        run(main())
        told = next(message.body["client_content"] for message in server.messages if message.connection == 1)
    assert told.get("turnComplete", False) is complete
    assert [(turn["role"], [next(iter(part)) for part in turn["parts"]]) for turn in told["turns"]] == [
        ("user", ["text"]),
        ("model", ["functionCall"]),
        ("user", ["functionResponse"]),
        ("model", ["text"]),
    ]


def test_what_no_run_can_begin_with() -> None:
    async def main() -> None:
        talk = Talk(server)
        with pytest.raises(SessionNotFoundError):
            await anext(talk.again())
        other = Runner(ReplayModel(b"data: {}\n\n", provider="gemini"), session_service=talk.service, app_name="app")
        with pytest.raises(RequestError, match="no live way"):
            other.run_live(user_id="u", session_id="s", live_requests=LiveRequestQueue())
        with pytest.raises(ValueError, match="audio_policy"):
            talk.runner.run_live(user_id="u", session_id="s", live_requests=LiveRequestQueue(), audio_policy="never")

    with LiveServer(Conversation([])) as server:
        run(main())


def test_a_queue_drops_the_oldest_audio_and_no_message() -> None:
    async def main() -> None:
        queue = LiveRequestQueue(limit=2)
        queue.send_content("a")
        for number in range(4):
            queue.send_realtime(types.Blob(data=bytes([number]), mime_type="audio/pcm"))
        queue.send_activity_start()
        queue.close()
        requests = []
        while (request := await queue.get()) is not None:
            requests.append(request)
        assert requests[0].parts[0].text == "a"  # type: ignore[union-attr]
        assert [request[1][0].data for request in requests[1:3]] == [b"\x02", b"\x03"]  # type: ignore[index]
        assert requests[3] == ("send_activity_start", ())

    run(main())
