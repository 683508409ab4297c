"""The websocket of the live path, over a local Live server."""

import base64
import json

import pytest
from google import genai
from scripted_model import ScriptedModel, says
from served_app import served, wait_until
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from adk_stream.models import GeminiModel
from adk_stream.testing import Conversation, LiveServer
from adk_stream.testing.live_messages import input_transcript, spoken, text, tone, tool_call, turn_complete
from adk_stream.testing.live_script import STALL, Utterance, Wait

VOICE = {"mimeType": "audio/pcm;rate=16000", "data": base64.b64encode(tone(0.02, rate=16_000)).decode()}


def weather(city: str) -> dict:
    """d"""
    return {"sky": "rain"}


@pytest.fixture
def live():
    """Opens a service in front of a conversation, with a session ``s``."""
    opened = []

    def open_(*turns, **fields):
        server = LiveServer(Conversation([*turns]))
        opened.append(server)
        server.__enter__()
        model = GeminiModel("any", client=genai.Client(**server.client_options()))
        running = served(model, **fields)
        opened.append(running)
        service = running.__enter__()
        assert service.client.post("/sessions/m/u", json={"id": "s"}).status_code == 201
        return service

    yield open_
    for each in reversed(opened):
        each.__exit__(None, None, None)


def talk(service, query="app_name=m&user_id=u&session_id=s&modalities=AUDIO", **options):
    return connect(f"ws{service.url[4:]}/run_live?{query}", **options)


def say(websocket, **request):
    websocket.send(json.dumps(request))


def until_turn_complete(websocket):
    events = []
    while not (events and events[-1].get("turnComplete")):
        events.append(json.loads(websocket.recv(timeout=10)))
    return events


def stored(service):
    return service.client.get("/sessions/m/u/s").json()["events"]


def code_of(websocket):
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            websocket.recv(timeout=10)
    return closed.value.rcvd.code


HELLO = {"role": "user", "parts": [{"text": "Weather in Oslo?"}]}


def test_a_conversation_with_a_tool(live):
    call = tool_call("weather", {"city": "Oslo"}, id="c1")
    turns = [Wait("text"), call, Wait("tool_response", ids=("c1",)), spoken("Rain."), turn_complete(), STALL]
    service = live(*turns, tools=[weather])
    with talk(service) as websocket:
        say(websocket, content=HELLO)
        events = until_turn_complete(websocket)
        refused = service.client.post("/runs", json={"message": "x", "userId": "u", "sessionId": "s"})
        assert refused.status_code == 409
        say(websocket, close=True)
        assert code_of(websocket) == 1000
    assert any("inlineData" in part for event in events for part in event.get("content", {}).get("parts", ()))
    assert all(event["author"] and event["invocationId"] for event in events)
    kinds = [
        next(iter(part)) for event in stored(service) if event.get("content") for part in event["content"]["parts"]
    ]
    assert kinds[:3] == ["text", "functionCall", "functionResponse"]
    assert [event["outputTranscription"]["text"] for event in stored(service) if "outputTranscription" in event] == [
        "Rain."
    ]
    wait_until(lambda: service.service.runs.slots.used == 0)


def test_audio_goes_there_and_back(live):
    service = live(Utterance(), input_transcript("hello"), spoken("Yes?"), turn_complete(), STALL)
    with talk(service) as websocket:
        for _ in range(10):
            say(websocket, blob=VOICE)
        events = until_turn_complete(websocket)
    assert any("inlineData" in part for event in events for part in event.get("content", {}).get("parts", ()))


def test_a_client_that_leaves_ends_the_conversation(live):
    service = live(Wait("text"), text("half"), STALL)
    with talk(service, "app_name=m&user_id=u&session_id=s&modalities=TEXT") as websocket:
        say(websocket, content=HELLO)
        assert "half" in websocket.recv(timeout=10)
    wait_until(lambda: service.service.runs.slots.used == 0)
    assert stored(service)[-1]["status"] == "cancelled"


def test_a_service_that_stops_ends_its_conversations(live):
    service = live(Wait("text"), text("half"), STALL)
    with talk(service, "app_name=m&user_id=u&session_id=s&modalities=TEXT") as websocket:
        say(websocket, content=HELLO)
        assert "half" in websocket.recv(timeout=10)
        service.server.should_exit = True
        assert code_of(websocket) in (1000, 1001, 1012)
        service.thread.join(5)
        assert not service.thread.is_alive()


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("app_name=m&user_id=u&session_id=none", 1002),
        ("app_name=none&user_id=u&session_id=s", 1002),
        ("app_name=m&user_id=u", 1008),
        ("app_name=m&user_id=u&session_id=s&modalities=SMELL", 1008),
    ],
)
def test_what_is_not_there(live, query, code):
    with talk(live(STALL), query) as websocket:
        assert code_of(websocket) == code


@pytest.mark.parametrize("request_", ["{", '{"content": {"parts": []}}', '{"blob": 1}', b"\x00"])
def test_a_request_that_is_none(live, request_):
    with talk(live(STALL)) as websocket:
        websocket.send(request_)
        assert code_of(websocket) == 1007


def test_a_model_without_a_live_way():
    with served(ScriptedModel(says("x"))) as service:
        service.client.post("/sessions/m/u", json={"id": "s"})
        with talk(service) as websocket:
            assert code_of(websocket) == 1008


def test_who_may_come_in():
    with served(ScriptedModel(says("x")), token="k") as service:
        for headers in ({}, {"authorization": "Bearer x"}):
            with pytest.raises(InvalidStatus):
                talk(service, additional_headers=headers)
        with talk(service, additional_headers={"authorization": "Bearer k"}) as websocket:
            assert code_of(websocket) == 1002
    with served(ScriptedModel(says("x")), cors_origins=["https://app.example"]) as service:
        with pytest.raises(InvalidStatus):
            talk(service, origin="https://evil.example")
        for origin in (None, "https://app.example", service.url):
            with talk(service, origin=origin) as websocket:
                assert code_of(websocket) == 1002
