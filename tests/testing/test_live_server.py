"""The Live server and google-genai's own client: sessions of every kind, faults, and recordings played again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import wire_streams as streams
from google import genai
from google.genai import errors
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK, InvalidStatus

from adk_stream.errors import RecordingError
from adk_stream.recording import Piece, Recording, load_recording, save_recording
from adk_stream.testing import Conversation, LiveFault, LiveServer, live_server
from adk_stream.testing.faults import FaultError
from adk_stream.testing.live_client import ClientMessage
from adk_stream.testing.live_messages import (
    audio,
    generation_complete,
    go_away,
    input_transcript,
    interrupted,
    output_transcript,
    resumption,
    silence,
    spoken,
    text,
    together,
    tone,
    tool_call,
    tool_call_cancellation,
    turn_complete,
    usage,
)
from adk_stream.testing.live_performance import Inbox
from adk_stream.testing.live_replay import is_live, replay_conversation
from adk_stream.testing.live_script import (
    STALL,
    Close,
    Drop,
    Frame,
    Interruptible,
    Pause,
    Utterance,
    Wait,
    as_steps,
    paced,
)

SECONDS = 10.0  # no test waits longer
VOICE = tone(0.02, rate=16_000)
HELLO = Conversation([Wait("text"), text("Hel"), text("lo"), turn_complete(counts=usage(3, 2))])


# ----------------------------------------------------------------- the client


@asynccontextmanager
async def session(server: LiveServer, *, model: str = "any", vertexai: bool = False, **config: Any) -> AsyncIterator:
    client = genai.Client(**server.client_options(vertexai=vertexai))
    config = {"response_modalities": ["AUDIO"], **config}
    async with client.aio.live.connect(model=model, config=config) as live:
        yield live


def run(talk: Callable[[], Awaitable[Any]]) -> Any:
    return asyncio.run(asyncio.wait_for(talk(), SECONDS))


async def say(live: Any, words: str = "hi") -> None:
    await live.send_client_content(turns={"role": "user", "parts": [{"text": words}]})


async def speak(live: Any, pcm: bytes = VOICE) -> None:
    await live.send_realtime_input(audio={"data": pcm, "mime_type": "audio/pcm;rate=16000"})


async def hear(live: Any) -> Any:
    """The next message. ``receive`` ends with each turn, so it is called for each."""
    messages = live.receive()
    try:
        return await anext(messages)
    finally:
        await messages.aclose()


async def hear_turn(live: Any) -> list[Any]:
    return [message async for message in live.receive()]


def told(messages: list[Any]) -> str:
    return "".join(message.text or "" for message in messages)


def heard(messages: list[Any]) -> bytes:
    return b"".join(message.data or b"" for message in messages)


def transcript(messages: list[Any]) -> str:
    given = [m.server_content.output_transcription for m in messages if m.server_content]
    return "".join(fragment.text or "" for fragment in given if fragment)


# ----------------------------------------------------------------- sessions


@pytest.mark.parametrize("vertexai", [False, True])
def test_a_session_is_set_up_and_a_turn_in_writing_comes(vertexai: bool) -> None:
    async def talk() -> None:
        async with session(server, vertexai=vertexai, system_instruction="be brief") as live:
            assert live.session_id
            await say(live, "hello?")
            turn = await hear_turn(live)
            assert told(turn) == "Hello"
            assert turn[-1].usage_metadata.total_token_count == 5

    with LiveServer(HELLO) as server:
        run(talk)
        (request,) = server.requests
        assert request.path.endswith("BidiGenerateContent")
        assert request.body["systemInstruction"]["parts"][0]["text"] == "be brief"
        assert [message.text for message in server.wait_for("text")] == ["hello?"]


@pytest.mark.parametrize("version", ["v1alpha", "v1beta"])
def test_any_version_of_the_path_is_served(version: str) -> None:
    async def talk() -> str:
        options = server.client_options()
        options["http_options"]["api_version"] = version
        async with genai.Client(**options).aio.live.connect(model="any") as live:
            await say(live)
            return told(await hear_turn(live))

    with LiveServer(HELLO) as server:
        assert run(talk) == "Hello"
        assert version in server.requests[0].path


def test_a_client_that_knows_the_environment_alone_finds_and_trusts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def talk() -> str:
        async with genai.Client().aio.live.connect(model="any") as live:
            await say(live)
            return told(await hear_turn(live))

    with LiveServer(HELLO) as server:
        for name in ("GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "SSL_CERT_DIR"):
            monkeypatch.delenv(name, raising=False)
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        assert run(talk) == "Hello"


def test_keys_of_either_spelling_are_understood() -> None:
    snake = {"client_content": {"turns": [{"parts": [{"text": "a"}]}], "turn_complete": True}}
    camel = {"clientContent": {"turns": {"parts": [{"text": "b"}]}, "turnComplete": True}}
    answer = {"toolResponse": {"functionResponses": [{"id": "c1", "name": "f", "response": {"turn_complete": 1}}]}}

    async def talk() -> list[Any]:
        async with connect(server.websocket_url, ssl=server.ssl_context) as raw:
            await raw.send(json.dumps({"setup": {"model": "models/any"}}))
            frames = [await raw.recv()]
            for body in (snake, camel, answer):
                await raw.send(json.dumps(body).encode())  # binary frames as well
                frames.append(await raw.recv())
            return frames

    conversation = Conversation([Wait("text"), text("1"), Wait("text"), text("2"), Wait("tool_response"), text("3")])
    with LiveServer(conversation) as server:
        frames = run(talk)
        assert all(isinstance(frame, bytes) for frame in frames)  # as the real server's
        assert [message.text for message in server.wait_for("text", 2)] == ["a", "b"]
        assert server.messages[-1].function_responses[0]["response"] == {"turn_complete": 1}


def test_a_spoken_turn_with_its_transcripts() -> None:
    words = "It will rain."

    async def talk() -> None:
        async with session(server) as live:
            await speak(live)
            await live.send_realtime_input(audio_stream_end=True)
            first = await hear(live)
            assert first.server_content.input_transcription.text == "Weather?"
            turn = await hear_turn(live)
            assert transcript(turn) == words
            assert len(heard(turn)) == 3 * 2_400 * 2  # words, samples, bytes
            assert [m.server_content.generation_complete for m in turn].index(True) == len(turn) - 2

    script = Conversation([Wait("audio_end"), input_transcript("Weather?", finished=True), spoken(words)])
    with LiveServer(script) as server:
        run(talk)
        assert server.wait_for("audio")[0].audio == VOICE


@pytest.mark.parametrize("lag", ["generation_complete", "turn_complete"])
def test_transcripts_may_lag(lag: str) -> None:
    words = "one two three four"

    async def talk() -> None:
        async with session(server) as live:
            await say(live)
            turn = await hear_turn(live)
            late = [await hear(live) for _ in range(2)] if lag == "turn_complete" else []
            done = [bool(m.server_content.generation_complete) for m in turn].index(True)
            assert transcript(turn[:done]) == "one two"
            assert transcript(turn[done:]) + transcript(late) == " three four"

    with LiveServer(Conversation([Wait("text"), spoken(words, lag=lag)])) as server:
        run(talk)


def test_everything_may_come_in_one_message() -> None:
    crowd = together(text("a"), text("b"), output_transcript("ab"), tool_call("f", {"x": 1}, id="c1"), turn_complete())

    async def talk() -> Any:
        async with session(server) as live:
            await say(live)
            return await hear(live)

    with LiveServer(Conversation([Wait("text"), crowd])) as server:
        message = run(talk)
    assert message.text == "ab"
    assert message.server_content.turn_complete
    assert message.tool_call.function_calls[0].args == {"x": 1}


# ----------------------------------------------------------------- tool calls


def test_a_call_that_blocks_waits_for_its_answer() -> None:
    async def talk() -> None:
        async with session(server) as live:
            await say(live)
            calls = [(await hear(live)).tool_call.function_calls[0] for _ in range(2)]
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(hear(live), 0.1)
            for call in reversed(calls):
                answer = {"id": call.id, "name": call.name, "response": {"output": "rain"}}
                await live.send_tool_response(function_responses=answer)
            assert told(await hear_turn(live)) == "Rain."

    calls = [tool_call("look_up", {"city": "Oslo"}, id=id) for id in ("c1", "c2")]
    turn = [Wait("text"), *calls, Wait("tool_response", ids=("c1", "c2")), text("Rain."), turn_complete()]
    with LiveServer(Conversation(turn)) as server:
        run(talk)
        answers = [message.function_responses[0] for message in server.wait_for("tool_response", 2)]
        assert [answer["id"] for answer in answers] == ["c2", "c1"]


def test_one_message_may_answer_calls_that_are_waited_for_apart() -> None:
    async def talk() -> str:
        async with session(server) as live:
            await say(live)
            await hear(live)
            answers = [{"id": id, "name": "f", "response": {}} for id in ("c2", "c1")]
            await live.send_tool_response(function_responses=answers)
            return told(await hear_turn(live))

    calls = together(tool_call("f", id="c1"), tool_call("f", id="c2"))
    waits = [Wait("tool_response", ids=("c1",)), text("1"), Wait("tool_response", ids=("c2",)), text("2")]
    with LiveServer(Conversation([Wait("text"), calls, *waits, turn_complete()])) as server:
        assert run(talk) == "12"


def test_a_call_that_does_not_block_takes_its_answer_when_it_comes() -> None:
    async def talk() -> None:
        async with session(server) as live:
            await say(live)
            turn = await hear_turn(live)
            assert turn[0].tool_call
            assert told(turn) == "Meanwhile."
            answer = {"id": "c1", "name": "f", "response": {}, "scheduling": "WHEN_IDLE"}
            await live.send_tool_response(function_responses=answer)
            assert told(await hear_turn(live)) == "Done."

    turns = (
        [Wait("text"), tool_call("f", id="c1"), text("Meanwhile."), turn_complete()],
        [Wait("tool_response", ids=("c1",)), text("Done."), turn_complete()],
    )
    with LiveServer(Conversation(*turns)) as server:
        run(talk)


def test_a_call_is_cancelled_when_the_user_cuts_in() -> None:
    async def talk() -> None:
        async with session(server) as live:
            await say(live)
            assert (await hear(live)).tool_call
            await speak(live)
            turn = await hear_turn(live)
            assert turn[0].tool_call_cancellation.ids == ["c1"]
            assert turn[1].server_content.interrupted

    waiting = [tool_call("f", id="c1"), Wait("tool_response"), text("never")]
    then = [tool_call_cancellation("c1"), interrupted(), turn_complete()]
    with LiveServer(Conversation([Wait("text"), Interruptible(waiting, then=then)])) as server:
        run(talk)


# ----------------------------------------------------------------- interruption


def test_the_users_voice_cuts_a_turn_short_and_opens_the_next() -> None:
    chunks = [audio(tone(0.02))] * 2_000

    async def talk() -> None:
        async with session(server) as live:
            await say(live)
            before = [await hear(live) for _ in range(3)]
            assert heard(before)
            await speak(live, silence(0.02, rate=16_000))  # an open microphone is no voice
            await hear(live)
            await speak(live)
            turn = await hear_turn(live)
            assert len(turn) < 1_900
            assert turn[-2].server_content.interrupted
            assert not any(message.server_content.generation_complete for message in turn)
            assert told(await hear_turn(live)) == "Yes?"

    turns = (
        [Wait("text"), Interruptible(paced(chunks, 0.005), generation_complete(), turn_complete())],
        [Wait("speech"), text("Yes?"), turn_complete()],
    )
    with LiveServer(Conversation(*turns)) as server:
        run(talk)


def test_what_came_before_the_turn_does_not_interrupt_it() -> None:
    async def talk() -> list[Any]:
        async with session(server) as live:
            for _ in range(3):
                await speak(live)
            await live.send_realtime_input(audio_stream_end=True)
            return await hear_turn(live)

    turn = [Wait("audio_end"), Interruptible(paced(spoken("all of it"), 0.005))]
    with LiveServer(Conversation(turn)) as server:
        assert transcript(run(talk)) == "all of it"


def test_an_utterance_is_heard_out_before_the_answer() -> None:
    async def utter(live: Any) -> None:
        for _ in range(10):
            await speak(live)
            await asyncio.sleep(0.01)
        await speak(live, silence(0.02, rate=16_000))

    async def talk() -> None:
        async with session(server) as live:
            for words in ("one", "two"):
                await utter(live)
                turn = await asyncio.wait_for(hear_turn(live), 3)
                assert (told(turn), len(turn)) == (words, 2)  # not cut short by the rest of the utterance
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(hear(live), 0.05)

    turns = [[Utterance(0.1), Interruptible(text(words), Pause(0.05), turn_complete())] for words in ("one", "two")]
    with LiveServer(Conversation(*turns, [Utterance(0.1), text("never")])) as server:
        run(talk)


def test_activity_that_the_client_marks_itself() -> None:
    async def talk() -> None:
        async with session(server, realtime_input_config={"automatic_activity_detection": {"disabled": True}}) as live:
            for _ in range(2):
                await live.send_realtime_input(activity_start={})
                await speak(live)
                await live.send_realtime_input(activity_end={})
                assert (await hear(live)).text
            await live.send_realtime_input(activity_start={})
            assert (await hear_turn(live))[0].server_content.interrupted

    turns = [Wait("activity_end"), text("1")], [Wait("activity_end"), Interruptible(text("2"), STALL)]
    with LiveServer(Conversation(*turns)) as server:
        run(talk)


# ----------------------------------------------------------------- going away and coming back


def test_a_later_connection_resumes_where_the_newest_handle_says() -> None:
    async def talk() -> None:
        async with session(server, session_resumption={}) as live:
            await say(live)
            assert told(await hear_turn(live)) == "one"
            old = (await hear(live)).session_resumption_update
            assert old.resumable
            await say(live)
            assert told(await hear_turn(live)) == "two"
            newest = (await hear(live)).session_resumption_update.new_handle
            assert (await hear(live)).go_away.time_left == "0.05s"
            with pytest.raises(errors.APIError) as closed:
                await hear(live)
            assert closed.value.code == 1001
        for handle, following in ((newest, "three"), (old.new_handle, "two"), (newest, "three")):
            async with session(server, session_resumption={"handle": handle}) as live:
                await say(live)
                assert told(await hear_turn(live)) == following

    turns = (
        [Wait("text"), text("one"), turn_complete(), resumption("h1")],
        [Wait("text"), text("two"), turn_complete(), resumption("h2"), go_away(0.05), Pause(0.05), Close(1001)],
        [Wait("text"), text("three"), turn_complete()],
    )
    with LiveServer(Conversation(*turns)) as server:
        run(talk)
        assert [request.body.get("sessionResumption", {}).get("handle") for request in server.requests] == [
            None,
            "h2",
            "h1",
            "h2",
        ]


def test_a_handle_of_a_turn_that_was_not_complete_begins_that_turn_again() -> None:
    async def talk() -> None:
        async with session(server) as live:
            await say(live)
            assert (await hear(live)).session_resumption_update.new_handle == "h1"
            with pytest.raises(errors.APIError):
                await hear_turn(live)
        async with session(server, session_resumption={"handle": "h1"}) as live:
            await say(live)
            assert (await hear(live)).session_resumption_update
            assert (await hear(live)).text == "half"

    with LiveServer(Conversation([Wait("text"), resumption("h1"), text("half"), Drop()])) as server:
        run(talk)


def test_a_handle_that_was_never_given_is_refused() -> None:
    async def talk() -> None:
        async with session(server, session_resumption={"handle": "unknown"}):
            pass

    with LiveServer(HELLO) as server, pytest.raises(errors.APIError) as refused:
        run(talk)
    assert refused.value.code == 1008


def test_no_handle_is_given_while_a_session_cannot_be_resumed() -> None:
    assert resumption("h", resumable=False) == {"sessionResumptionUpdate": {"resumable": False}}


# ----------------------------------------------------------------- which conversation


def test_conversations_take_turns_and_a_model_has_its_own() -> None:
    async def talk() -> list[str]:
        words = []
        for model in ("any", "special", "any", "any"):
            async with session(server, model=model) as live:
                words.append((await hear(live)).text)
        return words

    conversations = [Conversation([text("a")]), Conversation([text("b")]), Conversation([text("c")], names=["special"])]
    with LiveServer(conversations) as server:
        assert run(talk) == ["a", "c", "b", "c"]


def test_sessions_at_the_same_time_do_not_meet() -> None:
    async def one(name: str) -> str:
        async with session(server, model=name) as live:
            words = ""
            for _ in range(5):
                await say(live, name)
                words += told(await hear_turn(live))
            return words

    async def talk() -> list[str]:
        return await asyncio.gather(*(one(f"m{number}") for number in range(8)))

    conversations = [
        Conversation(
            *[[Wait("text"), text(f"{number}{turn} "), turn_complete()] for turn in range(5)], names=[f"m{number}"]
        )
        for number in range(8)
    ]
    with LiveServer(conversations) as server:
        assert run(talk) == [" ".join(f"{number}{turn}" for turn in range(5)) + " " for number in range(8)]
        assert len({message.connection for message in server.wait_for("text", 40)}) == 8


# ----------------------------------------------------------------- faults


async def _words(server: LiveServer) -> str:
    async with session(server) as live:
        await say(live)
        words = ""
        try:
            while True:
                message = await hear(live)
                words += message.text or ""
                if message.server_content.turn_complete:
                    return words
        except Exception as problem:
            problem.add_note(words)
            raise


def met(server: LiveServer) -> tuple[str, Exception | None]:
    """The words that the client gave before its end, and what it raised."""
    try:
        return run(lambda: _words(server)), None
    except Exception as problem:
        return "".join(getattr(problem, "__notes__", [])), problem


@pytest.mark.parametrize(
    ("fault", "words", "kind", "code"),
    [
        ("drop=2", "Hel", errors.APIError, 1006),
        ("drop=0", "", errors.APIError, 1006),
        ("close=1008@3", "Hello", errors.APIError, 1008),
        ("close@2", "Hel", errors.APIError, 1011),
        ("garbage=3", "Hello", ValueError, None),
        ("malformed=2", "Hel", ValueError, None),
        ("error_event=2", "Hel", TypeError, None),  # google-genai's own slip
        ("status=429", "", InvalidStatus, None),
    ],
)
def test_what_the_client_makes_of_each_fault(fault: str, words: str, kind: type[Exception], code: int | None) -> None:
    with LiveServer(HELLO) as server:
        server.queue_fault(fault)
        given, problem = met(server)
        assert (given, type(problem)) == (words, type(problem))
        assert isinstance(problem, kind)
        assert code is None or problem.code == code
        assert met(server) == ("Hello", None)  # the next one is well


@pytest.mark.parametrize(("fault", "fastest"), [("stall=0.3@2", 0.3), ("slow_first=0.3", 0.3), ("stall=0.2@9", 0.0)])
def test_faults_that_take_time(fault: str, fastest: float) -> None:
    with LiveServer(HELLO, faults=fault) as server:
        start = time.monotonic()
        assert met(server) == ("Hello", None)
        assert time.monotonic() - start >= fastest


def test_the_error_message_is_google_s_and_the_connection_closes_after_it() -> None:
    async def talk() -> None:
        async with connect(server.websocket_url, ssl=server.ssl_context) as raw:
            await raw.send('{"setup": {}}')
            await raw.recv()
            assert json.loads(await raw.recv())["error"] == {
                "code": 503,
                "message": "the server failed while it streamed",
                "status": "UNAVAILABLE",
            }
            with pytest.raises(ConnectionClosedError) as closed:
                await raw.recv()
            assert closed.value.rcvd.code == 1011

    with LiveServer(HELLO, faults="error_event") as server:
        run(talk)


def test_a_fault_beyond_the_end_strikes_at_the_end() -> None:
    async def talk() -> None:
        async with session(server) as live:
            await say(live)
            assert told(await hear_turn(live)) == "Hello"
            with pytest.raises(errors.APIError):
                await hear(live)

    with LiveServer(HELLO, faults=LiveFault("drop", after=99)) as server:
        run(talk)


def test_faults_of_one_place_all_strike() -> None:
    with LiveServer(HELLO, faults=["stall=0.2@2", "drop=2"]) as server:
        start = time.monotonic()
        words, problem = met(server)
        assert (words, problem.code) == ("Hel", 1006)
        assert time.monotonic() - start >= 0.2


def test_a_handshake_brings_its_own_fault() -> None:
    async def talk(fault: str) -> None:
        options = server.client_options()
        options["http_options"]["headers"] = {"x-adk-stream-fault": fault}
        async with genai.Client(**options).aio.live.connect(model="any"):
            pass

    with LiveServer(HELLO) as server:
        with pytest.raises(errors.APIError):
            run(lambda: talk("close=1013@0"))
        with pytest.raises(InvalidStatus, match="400"):
            run(lambda: talk("earthquake"))
        assert met(server) == ("Hello", None)


@pytest.mark.parametrize("fault", ["earthquake", "close=1006", "status=200", "close=1011@x", "stall=nan", "drop=-1"])
def test_faults_that_make_no_sense(fault: str) -> None:
    with pytest.raises(FaultError):
        LiveServer(HELLO, faults=fault)


@pytest.mark.parametrize("end", [Drop(), Close(1011)])
def test_what_was_sent_before_the_end_arrives(end: Any) -> None:
    async def talk() -> int:
        received = 0
        async with connect(server.websocket_url, ssl=server.ssl_context, max_queue=2) as raw:
            await raw.send('{"setup": {}}')
            with pytest.raises(ConnectionClosedError):
                while True:
                    await raw.recv()
                    received += 1
                    await asyncio.sleep(0.02)  # slower than the server
        return received

    with LiveServer(Conversation([[audio(bytes(300_000))] * 20, end])) as server:
        assert run(talk) == 21


def test_a_network_that_is_lost_leaves_no_close_frame() -> None:
    async def talk() -> None:
        async with connect(server.websocket_url, ssl=server.ssl_context) as raw:
            await raw.send('{"setup": {}}')
            await raw.recv()
            with pytest.raises(ConnectionClosedError) as lost:
                await raw.recv()
            assert lost.value.rcvd is None

    with LiveServer(Conversation([Drop()])) as server:
        run(talk)


# ----------------------------------------------------------------- clients that misbehave


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        (["nonsense"], 1007),
        (['{"setup": {}}', "nonsense"], 1007),
        (['{"setup": {}}', "[]"], 1007),
        ([b"\xff\xfe"], 1007),
        (['{"client_content": {}}'], 1007),
    ],
)
def test_frames_that_are_no_messages_end_the_session(frames: list[Any], code: int) -> None:
    async def talk() -> None:
        async with connect(server.websocket_url, ssl=server.ssl_context) as raw:
            for frame in frames:
                await raw.send(frame)
            with pytest.raises(ConnectionClosedError) as closed:
                while True:
                    await raw.recv()
            assert closed.value.rcvd.code == code

    with LiveServer(HELLO) as server:
        run(talk)
        assert met(server) == ("Hello", None)


def test_a_message_of_no_known_kind_changes_nothing() -> None:
    async def talk() -> None:
        async with connect(server.websocket_url, ssl=server.ssl_context) as raw:
            await raw.send('{"setup": {}}')
            await raw.recv()
            for body in ({}, {"news": 1}, {"realtime_input": None}, {"tool_response": []}, {"client_content": "x"}):
                await raw.send(json.dumps(body))
            await raw.send('{"realtimeInput": {"text": "hi"}}')
            assert b"Hel" in await raw.recv()

    with LiveServer(HELLO) as server:
        run(talk)


def test_other_paths_are_not_found() -> None:
    async def talk() -> None:
        url = server.websocket_url.replace("BidiGenerateContent", "BidiGenerateMusic")
        with pytest.raises(InvalidStatus, match="404"):
            await connect(url, ssl=server.ssl_context)

    with LiveServer(HELLO) as server:
        run(talk)


# ----------------------------------------------------------------- start, stop, memory


def live_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "adk-stream-live"]


def test_it_stops_within_a_second_whatever_its_clients_do() -> None:
    flood = [audio(bytes(1_000_000)) for _ in range(50)]

    async def talk() -> float:
        async with (
            connect(server.websocket_url, ssl=server.ssl_context) as stalled,
            connect(server.websocket_url, ssl=server.ssl_context, max_queue=1) as deaf,
        ):
            for raw in (stalled, deaf):
                await raw.send('{"setup": {}}')
            await stalled.recv()
            await asyncio.sleep(0.2)
            start = time.monotonic()
            await asyncio.to_thread(server.stop)
            took = time.monotonic() - start
            with pytest.raises((ConnectionClosedError, ConnectionClosedOK)):
                while True:
                    await stalled.recv()
            deaf.transport.abort()
            return took

    server = LiveServer(Conversation([flood, STALL])).start()
    ca_file, port = server.ca_file, int(server.url.rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port)):  # never says a word of TLS
        assert run(talk) < 1.0
    assert live_threads() == []
    assert not ca_file.exists()
    server.stop()
    with pytest.raises(RuntimeError, match="not running"):
        _ = server.url


def test_it_can_start_again_but_not_twice() -> None:
    server = LiveServer(HELLO)
    for _ in range(2):
        with server:
            with pytest.raises(RuntimeError):
                server.start()
            assert met(server) == ("Hello", None)
    assert live_threads() == []


def test_a_port_that_is_taken() -> None:
    with LiveServer(HELLO) as server:
        port = int(server.url.rsplit(":", 1)[1])
        with pytest.raises(OSError):
            LiveServer(HELLO, port=port).start()
    assert live_threads() == []


def test_what_was_seen_is_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_server, "_MAX_SEEN_BYTES", 10_000)
    conversation = Conversation([Wait("text"), text("x"), turn_complete()])

    async def talk() -> None:
        async with session(server) as live:
            for _ in range(40):
                await speak(live)  # about 1 kB each
            await say(live)
            await hear_turn(live)

    with LiveServer(conversation) as server:
        run(talk)
        assert 5 <= len(server.messages) <= 12
        assert "text" in server.messages[-1].kinds  # the last ones
        with pytest.raises(TimeoutError, match="0 messages"):
            server.wait_for("tool_response", timeout=0.01)


def test_an_inbox_forgets_the_oldest() -> None:
    inbox = Inbox()
    chunk = ClientMessage({"realtimeInput": {"audio": {"data": "", "mimeType": "audio/pcm"}}})
    inbox.put(ClientMessage({"realtimeInput": {"text": "first"}}))
    for _ in range(10_000):
        inbox.put(chunk)
    assert not inbox.take("text")
    assert inbox.take("audio")


def test_waiting_costs_no_more_for_what_is_not_waited_for() -> None:
    def seconds(chunks: int) -> float:
        inbox, chunk = Inbox(), ClientMessage({"realtimeInput": {"audio": {"data": ""}}})
        inbox.put(ClientMessage({"realtimeInput": {"text": "first"}}))
        assert inbox.take("text")
        start = time.process_time()
        for _ in range(chunks):
            inbox.put(chunk)
            assert not inbox.take("text")
        return time.process_time() - start

    assert min(seconds(9_000) for _ in range(3)) < 20 * min(seconds(900) for _ in range(3))


def test_a_message_that_is_taken_lets_earlier_audio_pass_but_no_answer() -> None:
    inbox = Inbox()
    for body in (
        {"realtimeInput": {"audio": {"data": "AAAA"}}},
        {"toolResponse": {"functionResponses": [{"id": "c1"}]}},
        {"realtimeInput": {"text": "hi"}},
    ):
        inbox.put(ClientMessage(body))
    assert inbox.take("text")
    assert not inbox.take("audio")
    assert inbox.take("tool_response", "c1")
    assert not inbox.take("input")


# ----------------------------------------------------------------- scripts


def test_what_is_no_step_is_refused_at_once() -> None:
    for wrong in (["text"], [b"{}"], [3], [{"a": object()}], [Wait]):
        with pytest.raises(TypeError):
            Conversation(wrong)
    with pytest.raises(ValueError):
        Pause(float("nan"))
    with pytest.raises(ValueError):
        Close(1006)
    with pytest.raises(ValueError):
        Close(1000, "ß" * 62)
    with pytest.raises(ValueError):
        LiveServer([])
    with pytest.raises(ValueError):
        LiveServer(HELLO, pace=-1)


def test_a_script_keeps_no_part_of_what_it_was_made_of() -> None:
    message = text("a")
    (frame,) = as_steps(message)
    message["serverContent"].clear()
    assert json.loads(frame.data) == text("a")


def test_silence_is_no_speech() -> None:
    def kinds(pcm: bytes) -> frozenset[str]:
        (frame,) = as_steps(audio(pcm))
        blob = frame.content["modelTurn"]["parts"][0]["inlineData"]
        return ClientMessage({"realtime_input": {"media_chunks": [blob]}}).kinds

    assert kinds(silence(0.02)) == {"audio", "input"}
    assert kinds(VOICE) == {"audio", "speech", "input"}
    assert kinds(b"\x00\x80") == {"audio", "speech", "input"}  # the lowest sample
    assert kinds(b"") == kinds(b"\xff") == {"audio", "input"}
    assert ClientMessage({"realtimeInput": {"video": {"data": "AAAA", "mimeType": "image/png"}}}).kinds == {"video"}


@pytest.mark.parametrize("words", ["", " ", "one", " one  two\nthree ", "日本 語"])
def test_the_transcripts_of_what_is_spoken_join_to_it(words: str) -> None:
    for lag in (None, "generation_complete", "turn_complete"):
        frames = as_steps(spoken(words, lag=lag, seconds=0.001))
        texts = [frame.content.get("outputTranscription", {}).get("text", "") for frame in frames]
        assert "".join(texts) == words


# ----------------------------------------------------------------- recordings


def both_sides(*frames: tuple[str, Any]) -> bytes:
    lines = [{"kind": "message", "direction": direction, "data": data} for direction, data in frames]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


SENT, RECEIVED = "sent", "received"
ASKED = {"client_content": {"turns": [{"role": "user", "parts": [{"text": "hi"}]}], "turnComplete": True}}
ANSWERED = {"tool_response": {"functionResponses": [{"id": "c1", "name": "f", "response": {}}]}}
CHUNK = {"realtime_input": {"audio": {"data": "AAAA", "mimeType": "audio/pcm;rate=16000"}}}
SESSION = [
    (SENT, {"setup": {"model": "models/m"}}),
    (RECEIVED, {"setupComplete": {"sessionId": "s1"}}),
    (SENT, ASKED),
    (RECEIVED, tool_call("f", id="c1")),
    (SENT, ANSWERED),
    (RECEIVED, text("grüß")),
    (RECEIVED, turn_complete()),
    (RECEIVED, output_transcript("late")),
    (SENT, ASKED),
    (RECEIVED, text("again")),
    (RECEIVED, turn_complete()),
]


def test_a_recording_of_both_sides_waits_for_its_cues(tmp_path: Path) -> None:
    path = tmp_path / "small.session.jsonl"
    path.write_bytes(both_sides(*SESSION))

    async def talk() -> None:
        async with session(server) as live:
            assert live.session_id == "s1"
            await say(live)
            assert (await hear(live)).tool_call
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(hear(live), 0.1)
            await live.send_tool_response(function_responses={"id": "c1", "name": "f", "response": {}})
            assert told(await hear_turn(live)) == "grüß"
            assert transcript([await hear(live)]) == "late"
            await say(live)
            assert told(await hear_turn(live)) == "again"

    with LiveServer(path) as server:
        run(talk)


def test_a_recording_of_the_servers_side_waits_for_any_input_before_each_turn(tmp_path: Path) -> None:
    path = tmp_path / "small.rec.jsonl"
    said = [json.dumps(data).encode() + b"\n" for direction, data in SESSION if direction == RECEIVED]
    save_recording(Recording(tuple(Piece(0.0, line) for line in said), "gemini-live"), path)

    async def talk() -> None:
        async with session(server) as live:
            await say(live)
            assert told(await hear_turn(live)) == "grüß"
            assert transcript([await hear(live)]) == "late"
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(hear(live), 0.1)
            await speak(live)
            assert told(await hear_turn(live)) == "again"

    with LiveServer([path]) as server:
        run(talk)


def conversation(*frames: tuple[str, Any], **options: Any) -> list[list[Any]]:
    recording = Recording.from_bytes(both_sides(*frames), interval=1.0)
    assert is_live(recording)
    turns = replay_conversation(recording, **options).turns
    return [[step if not isinstance(step, Frame) else dict(step.message) for step in turn] for turn in turns]


def test_of_audio_only_the_start_of_a_run_is_a_cue() -> None:
    frames = [
        *((SENT, CHUNK),) * 3,
        (RECEIVED, input_transcript("a")),
        (SENT, CHUNK),
        (RECEIVED, text("b")),
        (SENT, CHUNK),  # the user cuts in
        (SENT, CHUNK),
        (RECEIVED, interrupted()),
        (RECEIVED, turn_complete()),
        (SENT, CHUNK),
        (RECEIVED, text("c")),
    ]
    assert conversation(*frames) == [
        [Wait("audio"), input_transcript("a"), text("b"), Wait("audio"), interrupted(), turn_complete()],
        [Wait("audio"), text("c")],
    ]


def test_what_lags_a_turn_hides_no_cue_of_the_next() -> None:
    late = [(RECEIVED, output_transcript("late")), (RECEIVED, resumption("h1"))]
    frames = [(SENT, CHUNK), (RECEIVED, text("a")), (RECEIVED, turn_complete()), *late, (SENT, CHUNK)]
    assert conversation(*frames, (RECEIVED, text("b"))) == [
        [Wait("audio"), text("a"), turn_complete(), output_transcript("late"), resumption("h1")],
        [Wait("audio"), text("b")],
    ]


def test_recorded_speech_is_heard_out() -> None:
    loud = {"realtimeInput": {"mediaChunks": [audio(VOICE)["serverContent"]["modelTurn"]["parts"][0]["inlineData"]]}}
    frames = [(SENT, CHUNK), (SENT, loud), (SENT, {"realtimeInput": {"audioStreamEnd": True}}), (RECEIVED, text("a"))]
    assert conversation(*frames) == [[Utterance(), Wait("audio_end"), text("a")]]


def test_recorded_times_pass_between_messages_only() -> None:
    frames = [(SENT, ASKED), (RECEIVED, text("a")), (RECEIVED, text("b")), (SENT, ANSWERED), (RECEIVED, text("c"))]
    wait = Wait("tool_response", ids=("c1",))
    assert conversation(*frames, pace=0.5) == [
        [Wait("text"), Pause(0.5), text("a"), Pause(0.5), text("b"), wait, Pause(0.5), text("c")]
    ]


def test_an_interaction_of_several_turns_is_one_turn_of_the_script() -> None:
    first = turn_complete(status="IN_PROGRESS")
    last = turn_complete(status="IDLE")
    said = [{"setupComplete": {}}, text("a"), first, text("b"), last, text("c")]
    recording = Recording.from_bytes("".join(json.dumps(data) + "\n" for data in said).encode())
    assert recording.provider == "gemini-live"
    assert [len(turn) for turn in replay_conversation(recording).turns] == [5, 2]  # each with its wait


def test_other_lines_are_refused() -> None:
    recording = Recording.from_bytes(b'data: {"candidates": []}\n\n')
    assert not is_live(recording)
    with pytest.raises(RecordingError, match="its line is gemini"):
        LiveServer(recording)


def test_the_command_serves_live_recordings_beside_others(tmp_path: Path) -> None:
    live, other = tmp_path / "small.session.jsonl", tmp_path / "other.sse"
    live.write_bytes(both_sides(*SESSION))
    other.write_bytes(streams.wire("anthropic"))
    command = [sys.executable, "-m", "adk_stream", "replay", str(live), str(other), "--fault", "drop=3"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().startswith("anthropic         http://127.0.0.1:")
        line, url = process.stdout.readline().split()
        name, ca_file = process.stdout.readline().strip().split("=")
        assert (line, name) == ("gemini-live", "SSL_CERT_FILE")
        context = ssl.create_default_context(cafile=ca_file)

        async def talk() -> None:
            options = {"base_url": url, "async_client_args": {"ssl": context}}
            async with genai.Client(api_key="k", http_options=options).aio.live.connect(model="any") as session:
                await say(session)
                assert (await hear(session)).tool_call.function_calls[0].name == "f"
                await session.send_tool_response(function_responses={"id": "c1", "name": "f", "response": {}})
                assert (await hear(session)).text == "grüß"
                with pytest.raises(errors.APIError):  # the fault
                    await hear(session)

        run(talk)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stderr.read() == ""
        assert not Path(ca_file).exists()
    finally:
        process.kill()
        process.communicate()


def test_the_fixture_starts_servers_that_stop_with_the_test(adk_stream_live: Callable[..., LiveServer]) -> None:
    server = adk_stream_live(HELLO, faults="drop=2")
    assert met(server)[0] == "Hel"


# ----------------------------------------------------------------- recordings of the real server

CORPUS = os.environ.get("ADK_STREAM_CORPUS")
RECORDINGS = sorted(Path(CORPUS, "gemini_live").rglob("*.jsonl")) if CORPUS else []


def _recorded(path: Path) -> list[tuple[str, Any]]:
    """The frames after setup, by the simplest means. Where no client is recorded, one that writes before each turn."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    if path.name.endswith(".session.jsonl"):
        return [(line["direction"], line["data"]) for line in lines if "setup" not in line["data"]]
    frames: list[tuple[str, Any]] = [(RECEIVED, lines[0]), (SENT, ASKED)]
    for line in lines[1:]:
        frames.append((RECEIVED, line))
        if line.get("serverContent", {}).get("turnComplete"):
            frames.append((SENT, ASKED))
    return frames


@pytest.mark.skipif(not RECORDINGS, reason="ADK_STREAM_CORPUS names no folder of recorded streams")
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name[-60:])
def test_what_a_client_receives_is_what_was_recorded(path: Path) -> None:
    frames = _recorded(path)

    async def raw_messages() -> list[Any]:
        received = []
        async with connect(server.websocket_url, ssl=server.ssl_context) as raw:
            await raw.send(json.dumps({"setup": {"model": "models/any"}}))
            for direction, data in frames:
                if direction == SENT:
                    await raw.send(json.dumps(data))
                else:
                    received.append(json.loads(await raw.recv()))
        return received

    async def sdk_messages() -> list[Any]:
        received = []
        async with session(server) as live:
            for direction, data in frames[1:]:
                if direction == RECEIVED:
                    received.append(await hear(live))
                elif "tool_response" in data:
                    await live.send_tool_response(function_responses=data["tool_response"]["functionResponses"])
                else:
                    content = data["client_content"]
                    await live.send_client_content(turns=content["turns"], turn_complete=content["turnComplete"])
        return received

    with LiveServer(path) as server:
        said = [data for direction, data in frames if direction == RECEIVED]
        assert run(raw_messages) == said
        received = run(sdk_messages)
    contents = [data.get("serverContent", {}) for data in said]
    parts = [part for content in contents for part in content.get("modelTurn", {}).get("parts", [])]
    expected = b"".join(
        ClientMessage({"realtimeInput": {"audio": p["inlineData"]}}).audio for p in parts if "inlineData" in p
    )
    assert len(received) == len(said) - 1
    assert heard(received) == expected
    assert transcript(received) == "".join(
        content.get("outputTranscription", {}).get("text", "") for content in contents
    )
    calls = [call for data in said for call in data.get("toolCall", {}).get("functionCalls", [])]
    assert [call.id for m in received if m.tool_call for call in m.tool_call.function_calls] == [c["id"] for c in calls]


def test_paths_are_loaded_as_recordings(tmp_path: Path) -> None:
    with pytest.raises(RecordingError):
        LiveServer(tmp_path / "missing.jsonl")
    path = tmp_path / "small.session.jsonl"
    path.write_bytes(both_sides(*SESSION))
    assert load_recording(path).name == "small.session"
