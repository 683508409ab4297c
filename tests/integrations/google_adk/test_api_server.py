"""google-adk's own api_server and our service on one database: the same requests get the same answers."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("google.adk.cli.api_server", reason="google-adk is not installed")
pytest.importorskip("sse_starlette", reason="the service needs sse-starlette")
pytest.importorskip("ag_ui", reason="the service needs ag-ui-protocol")
pytest.importorskip("sqlalchemy", reason="the database that both share needs SQLAlchemy")

from google.adk.agents import LlmAgent
from google.adk.artifacts import InMemoryArtifactService
from google.adk.auth.credential_service.in_memory_credential_service import InMemoryCredentialService
from google.adk.cli.api_server import ApiServer
from google.adk.cli.utils.base_agent_loader import BaseAgentLoader
from google.adk.evaluation.in_memory_eval_sets_manager import InMemoryEvalSetsManager
from google.adk.evaluation.local_eval_set_results_manager import LocalEvalSetResultsManager
from google.adk.memory import InMemoryMemoryService
from releases import as_observed
from starlette.testclient import TestClient

from adk_stream.integrations.google_adk import AdkSessionService, AdkStreamLlm
from adk_stream.server import ServerConfig, make_app

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "runner"))

from scripted_model import ScriptedModel, call, end, says, text

pytestmark = as_observed

SESSIONS = "/apps/m/users/u/sessions"


def lookup(city: str) -> dict:
    """The weather."""
    return {"sky": f"grey over {city}"}


def model():
    return ScriptedModel(
        [text("let me "), text("look"), call("lookup", '{"city": "Porto"}', id="c0"), *end("tool_calls", 5, 6)],
        says("it rains", 7, 8),
    )


class Loader(BaseAgentLoader):
    def load_agent(self, agent_name):
        return LlmAgent(name="m", model=AdkStreamLlm(model()), tools=[lookup])

    def list_agents(self):
        return ["m"]


@pytest.fixture
def servers(tmp_path):
    """Clients of google-adk's server and of ours."""
    url = f"sqlite:///{tmp_path / 'sessions.db'}"
    theirs = ApiServer(
        agent_loader=Loader(),
        session_service=AdkSessionService(url),
        memory_service=InMemoryMemoryService(),
        artifact_service=InMemoryArtifactService(),
        credential_service=InMemoryCredentialService(),
        eval_sets_manager=InMemoryEvalSetsManager(),
        eval_set_results_manager=LocalEvalSetResultsManager(str(tmp_path)),
        agents_dir=str(tmp_path),
    ).get_fast_api_app()
    ours = make_app(ServerConfig(models={"m": model()}, sessions=url, tools=[lookup]))
    with TestClient(theirs) as adk, TestClient(ours, base_url="http://localhost") as own:
        yield adk, own


def asked(session, **fields):
    message = {"role": "user", "parts": [{"text": "hi"}]}
    return {"appName": "m", "userId": "u", "sessionId": session, "newMessage": message, **fields}


def events_of(answer):
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    return [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith("data: ")]


def told(event):
    """What a front end shows of an event."""
    parts = [
        {name: part[name] for name in ("text", "functionCall", "functionResponse") if name in part}
        for part in event.get("content", {}).get("parts", [])
    ]
    return event["author"], bool(event.get("partial")), parts


def test_sessions_look_alike_on_both_sides(servers):
    adk, own = servers
    for one, other in (servers, servers[::-1]):
        made = one.post(SESSIONS, json={"state": {"a": 1, "user:b": [2.5]}}).json()
        assert other.get(f"{SESSIONS}/{made['id']}").json() == one.get(f"{SESSIONS}/{made['id']}").json()
        one.patch(f"{SESSIONS}/{made['id']}", json={"stateDelta": {"c": None, "d": {"e": "é"}}})
        first, second = (client.get(f"{SESSIONS}/{made['id']}").json() for client in servers)
        for session in (first, second):
            assert session["state"] == {"a": 1, "user:b": [2.5], "c": None, "d": {"e": "é"}}
            assert session["events"][0]["actions"]["stateDelta"] == {"c": None, "d": {"e": "é"}}
        assert first.keys() == second.keys()
        listed = [client.get(SESSIONS).json() for client in servers]
        assert listed[0] == listed[1]
    for client in servers:
        assert client.post(f"{SESSIONS}/same", json={"x": 1}).status_code == (200 if client is adk else 409)
    assert adk.get(f"{SESSIONS}/none").status_code == own.get(f"{SESSIONS}/none").status_code == 404
    assert adk.get("/list-apps").json() == own.get("/list-apps").json()
    assert adk.get("/health").json() == own.get("/health").json()
    assert adk.get("/version").json().keys() == own.get("/version").json().keys()
    assert adk.delete(f"{SESSIONS}/same").json() == own.delete(f"{SESSIONS}/same").json() is None


@pytest.mark.parametrize("streaming", [True, False])
def test_a_run_looks_alike_on_both_sides(servers, streaming):
    runs = []
    for client in servers:
        session = client.post(SESSIONS).json()["id"]
        runs.append(events_of(client.post("/run_sse", json=asked(session, streaming=streaming))))
        stored = [other.get(f"{SESSIONS}/{session}").json()["events"] for other in servers]
        assert [told(event)[1:] for event in stored[0]] == [told(event)[1:] for event in stored[1]]
        assert [event["id"] for event in stored[0]] == [event["id"] for event in stored[1]]
    # The author of a model's words is the agent's name on google-adk's side, "model" on ours.
    theirs, ours = ([told(event)[1:] for event in run if not event.get("partial")] for run in runs)
    assert theirs == ours
    partials = ["".join(told(event)[2][0].get("text", "") for event in run if event.get("partial")) for run in runs]
    assert partials[0] == partials[1]
    assert bool(partials[1]) == streaming
    for one, other in zip(*([event for event in run if not event.get("partial")] for run in runs), strict=True):
        # The node of google-adk's graph; and an empty list, where a message calls tools and none of them is slow.
        assert one.keys() - other.keys() <= {"nodeInfo", "longRunningToolIds"}
        assert not one.get("longRunningToolIds")


def test_run_without_a_stream(servers):
    answers = []
    for client in servers:
        session = client.post(SESSIONS).json()["id"]
        answers.append([told(event)[1:] for event in client.post("/run", json=asked(session)).json()])
    assert answers[0] == answers[1]
