"""The Live connection inside google-adk's own live flow, over a local Live server or a scripted session."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

pytest.importorskip("google.adk", reason="google-adk is not installed")

from adk_runs import Tool
from google import genai
from google.adk.agents import LlmAgent
from google.adk.agents.live_request_queue import LiveRequestQueue
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.base_llm import BaseLlm
from google.adk.models.google_llm import Gemini
from google.adk.runners import InMemoryRunner
from google.genai import types
from matching import matches, plain, text_of

from adk_stream.integrations.google_adk import GeminiLlmConnection, install
from adk_stream.testing import LiveServer
from adk_stream.testing.live_messages import go_away, text, tool_call, turn_complete
from adk_stream.testing.live_script import Conversation, Wait

CASES = os.environ.get("ADK_STREAM_CASES")
MODEL = "gemini-2.5-flash-native-audio"


class ScriptedSession:
    """Gives messages as google-genai's session does: until a turn is complete."""

    session_id = "live-1"

    def __init__(self, messages: list[dict], error: Exception | None = None) -> None:
        self.messages = [types.LiveServerMessage.model_validate(each) for each in messages]
        self.error = error

    async def receive(self):
        while self.messages:
            message = self.messages.pop(0)
            yield message
            if message.server_content and message.server_content.turn_complete:
                return
        if self.error is not None:
            raise self.error

    async def send(self, **fields):
        pass

    send_tool_response = send_client_content = send_realtime_input = send

    async def close(self):
        pass


def receive(messages: list[dict], *, error: Exception | None = None, turns: int = 1, model: str = MODEL):
    """What ``turns`` calls of ``receive`` give, and the exception that ended them."""

    async def main():
        connection = GeminiLlmConnection(ScriptedSession(messages, error), model_version=model)
        given = []
        try:
            for _ in range(turns):
                async for response in connection.receive():
                    given.append(response)
        except ConnectionError as problem:
            return given, problem
        return given, None

    return asyncio.run(main())


def run_live(model: BaseLlm, tools: tuple[str, ...] = (), question: str | None = None, seconds: float = 3.0):
    """A live run until it ends by itself, or a turn without a call is complete: events, tools that ran, session."""
    ran: list[dict] = []

    async def main():
        agent = LlmAgent(name="a", model=model, tools=[Tool(name, ran) for name in tools])
        runner = InMemoryRunner(agent, app_name="app")
        session = await runner.session_service.create_session(app_name="app", user_id="u")
        queue, events = LiveRequestQueue(), []
        if question:
            queue.send_content(types.Content(role="user", parts=[types.Part(text=question)]))
        config = RunConfig(streaming_mode=StreamingMode.BIDI, response_modalities=["AUDIO"])
        running = runner.run_live(user_id="u", session_id=session.id, live_request_queue=queue, run_config=config)
        try:
            async with asyncio.timeout(seconds):
                async for event in running:
                    events.append(event)
                    if question and event.turn_complete:
                        break
        except TimeoutError:
            pass
        finally:
            await running.aclose()
        session = await runner.session_service.get_session(app_name="app", user_id="u", session_id=session.id)
        return {"events": events, "ran": ran, "session": session}

    return asyncio.run(main())


class ScriptedModel(BaseLlm):
    """A model whose live connection is scripted."""

    messages: list[dict] = []

    async def generate_content_async(self, llm_request, stream=False):
        if False:
            yield

    @asynccontextmanager
    async def connect(self, llm_request):
        yield GeminiLlmConnection(ScriptedSession(self.messages), model_version=self.model)


# ----------------------------------------------------------------- the cases

#: Of ADK's terms, what stands in another place here.
ELSEWHERE = {"tool_call_cancellation": ("custom_metadata", "adk_stream", "provider_metadata")}


def load(*modes: str) -> list:
    if not CASES:
        return []
    lines = Path(CASES, "gemini.jsonl").read_text(encoding="utf-8").splitlines()
    cases = [case for line in lines if line.strip() and (case := json.loads(line))["mode"] in modes]
    return [pytest.param(case, id=case["id"]) for case in cases]


def finds(responses: list, wanted: dict) -> bool:
    name = next(iter(wanted))
    path = ELSEWHERE.get(name, ())
    return any(matches(_at(plain(response), path), wanted) for response in responses)


def _at(value, path):
    for key in path:
        value = (value or {}).get(key)
    return value


def check(responses: list, expected: dict, session: list, ran: list, error: Exception | None) -> None:
    kept = [response for response in responses if not response.partial]
    for key, wanted in expected.items():
        match key:
            case "has":
                assert all(finds(responses, each) for each in wanted), plain(responses)
            case "nonpartial_text":
                assert text_of(kept) == wanted
            case "partial_text":
                assert text_of([response for response in responses if response.partial]) == wanted
            case "count_of":
                for each in wanted:
                    assert sum(matches(plain(response), each["match"]) for response in kept) == each["n"]
            case "session_has":
                assert all(finds(session, each) for each in wanted), plain(session)
            case "session_not":
                assert not any(finds(session, each) for each in wanted)
            case "executed":
                assert ran == wanted
            case "error":
                assert error is not None
            case _:
                pytest.fail(f"what {key!r} expects is not known here")


@pytest.mark.skipif(not CASES, reason="ADK_STREAM_CASES names no folder of cases")
@pytest.mark.parametrize("case", load("live"))
def test_live_case(case):
    error = ConnectionError("socket closed") if case.get("raise_at_end") else None
    responses, raised = receive(case["chunks"], error=error, model=case.get("model", MODEL))
    assert raised is error
    check(responses, case["expected"], [], [], raised)


@pytest.mark.skipif(not CASES, reason="ADK_STREAM_CASES names no folder of cases")
@pytest.mark.parametrize("case", load("live_runner"))
def test_live_runner_case(case):
    done = run_live(ScriptedModel(model=MODEL, messages=case["chunks"]), tuple(case.get("tools", ())))
    check(done["events"], case["expected"], done["session"].events, done["ran"], None)


# ----------------------------------------------------------------- what the flow would lose


def test_what_one_message_says_is_all_given():
    message = {
        "serverContent": {
            "modelTurn": {"parts": [{"text": "Hi", "thoughtSignature": "c2ln"}]},
            "inputTranscription": {"text": "hello", "finished": True},
            "outputTranscription": {"text": "Hi"},
            "turnComplete": True,
        },
        "toolCall": {"functionCalls": [{"id": "1", "name": "f", "args": {}}]},
        "goAway": {"timeLeft": "5s"},
        "sessionResumptionUpdate": {"newHandle": "h", "resumable": True},
        "usageMetadata": {"totalTokenCount": 5},
    }
    responses, _ = receive([message])
    one_of = ("input_transcription", "output_transcription", "content", "live_session_resumption_update", "go_away")
    for response in responses:
        assert sum(getattr(response, name) is not None for name in one_of) <= 1
        assert (response.model_version, response.live_session_id) == (MODEL, "live-1")
    assert responses[-1].go_away is not None
    kept = [response for response in responses if not response.partial]
    assert [call.name for response in kept for call in response.get_function_calls()] == ["f"]
    assert [part.thought_signature for part in kept_parts(kept) if part.text] == [b"sig"]
    assert [r.input_transcription.text for r in kept if r.input_transcription] == ["hello"]
    assert [r.output_transcription.text for r in kept if r.output_transcription] == ["Hi"]
    assert sum(r.usage_metadata.total_token_count for r in kept if r.usage_metadata) == 5
    assert [r.live_session_resumption_update.new_handle for r in responses if r.live_session_resumption_update] == ["h"]


def kept_parts(responses):
    return [part for response in responses if response.content for part in response.content.parts or ()]


def test_partial_responses_bear_no_calls():
    parts = [{"text": "Ok. "}, {"functionCall": {"id": "1", "name": "f", "args": {}}}, {"text": "Done."}]
    responses, _ = receive(
        [{"serverContent": {"modelTurn": {"parts": parts}}}, {"serverContent": {"turnComplete": True}}]
    )
    assert not any(response.get_function_calls() for response in responses if response.partial)
    assert sum(len(response.get_function_calls()) for response in responses) == 1


def test_an_end_between_turns_is_no_error_of_a_turn():
    messages = [{"serverContent": {"modelTurn": {"parts": [{"text": "Hi"}]}, "turnComplete": True}}]
    broken = ConnectionError("gone")
    responses, raised = receive(messages, error=broken, turns=2)
    assert raised is broken
    assert responses[-1].turn_complete
    assert not any(response.error_code for response in responses)


def test_turns_do_not_mix():
    turn = [{"serverContent": {"modelTurn": {"parts": [{"text": "a"}]}}}, {"serverContent": {"turnComplete": True}}]
    responses, _ = receive(turn * 2, turns=3)
    assert [text_of([each]) for each in responses if not each.partial and each.content] == ["a", "a"]


# ----------------------------------------------------------------- over the wire


def model_at(server: LiveServer) -> Gemini:
    client = genai.Client(**server.client_options())

    class LocalGemini(Gemini):
        @property
        def api_client(self) -> genai.Client:
            return client

        _live_api_client = api_client

    return LocalGemini(model="gemini-live-2.5-flash")


def test_a_live_run_of_google_adk():
    conversation = Conversation(
        [
            Wait("text"),
            text("Let me look. "),
            tool_call("f", {"q": 1}, id="c1"),
            Wait("tool_response", ids=("c1",)),
            text("Rain."),
            turn_complete(),
        ],
    )
    with LiveServer(conversation) as server, install():
        done = run_live(model_at(server), ("f",), "Weather?", seconds=20)
        assert server.wait_for("tool_response")[0].function_responses
    assert done["ran"] == [{"name": "f", "args": {"q": 1}}]
    stored = [event for event in done["session"].events if event.content and event.author == "a"]
    assert text_of(stored) == "Let me look. Rain."


def test_a_go_away_makes_the_flow_connect_again():
    conversation = Conversation(
        [Wait("text"), text("Half"), go_away(1), turn_complete()],
        [Wait("text"), text("Whole"), turn_complete()],
    )
    with LiveServer(conversation) as server, install():
        done = run_live(model_at(server), (), "Hi", seconds=1.5)
    assert text_of([event for event in done["events"] if event.partial]).startswith("Half")
