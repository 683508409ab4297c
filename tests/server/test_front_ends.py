"""AG-UI and Vercel's AI SDK: their own clients, run by Node, and what those cannot show."""

import json
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from scripted_model import ScriptedModel, calls, says, text
from served_app import GatedModel, events_of, served, wait_until

NODE = Path(__file__).parent.parent / "encoders" / "node"


@pytest.fixture(scope="session")
def node():
    """Runs a script with arguments; what it printed, read."""
    for command in ("node", "npm"):
        if shutil.which(command) is None:
            pytest.skip(f"{command} is not installed")
    if not (NODE / "node_modules").exists():
        spec = spec_from_file_location("encoder_front_ends", NODE.parent / "test_front_ends.py")
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        module.install()

    def run(script, *arguments):
        done = subprocess.run(["node", NODE / script, *arguments], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_ag_uis_client_talks_and_runs_its_own_tools(node):
    model = ScriptedModel([text("let me look"), *calls("weather", arguments='{"city": "x"}')], says("it rains"))
    with served(model, token="k", limits={"keep_alive": 0.01}) as service:
        told = node("ag_ui_service.mjs", f"{service.url}/ag-ui/m?user_id=u")
        assert [message["role"] for message in told["messages"]] == ["user", "assistant", "tool", "assistant"]
        assert told["messages"][1]["content"] == "let me look"
        assert told["messages"][-1]["content"] == "it rains"
        assert [outcome["type"] for outcome in told["outcomes"]] == ["RUN_FINISHED", "RUN_FINISHED"]
        assert told["outcomes"][0]["outcome"]["pendingToolCallIds"] == ["c0"]
        assert told["warnings"] == []
        session = service.client.get("/sessions/m/u/thread").json()
        assert [event["author"] for event in session["events"]] == ["user", "model", "user", "model"]
        answer = session["events"][2]["content"]["parts"][0]["functionResponse"]
        assert (answer["name"], answer["response"]) == ("weather", {"sky": "grey"})
        assert [each["name"] for each in model.requests[0].tools] == ["weather"]


def test_the_ai_sdk_talks_and_takes_up_a_stream(node):
    model = GatedModel(["half "], ["whole"])

    class Opener(BaseHTTPRequestHandler):
        def do_GET(self):
            model.gate.open()
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    gate = HTTPServer(("127.0.0.1", 0), Opener)
    threading.Thread(target=gate.handle_request, daemon=True).start()
    with gate, served(model, token="k", limits={"keep_alive": 0.01}) as service:
        told = node("vercel_service.mjs", f"{service.url}/vercel/m", f"http://127.0.0.1:{gate.server_port}/")
        for message in (told["first"], told["second"]):
            assert [part.get("text") for part in message["parts"] if part["type"] == "text"] == ["half whole"]
        assert told["first"]["id"] == told["second"]["id"]
        assert (told["none"], told["over"]) == (None, None)
        assert service.client.get("/sessions/m/user/chat").json()["revision"] == 2


def streamed(service, path, body):
    with service.client.stream("POST", path, json=body) as response:
        assert response.status_code == 200, response.read()
        return [json.loads(event["data"]) for event in events_of(response) if event["data"] != "[DONE]"]


def said(*parts, role="user"):
    return {"id": "x", "role": role, "parts": list(parts)}


def test_results_of_calls_that_nothing_waits_for_are_passed_over():
    declared = {"name": "ask", "description": "d", "parameters": {"type": "object", "properties": {}}}
    model = ScriptedModel(calls("ask"), says("thanks"), says("again"))
    with served(model, tools=[declared]) as service:
        hello = said({"type": "text", "text": "hi"})
        streamed(service, "/vercel/m", {"id": "c", "messages": [hello]})
        result = {"type": "tool-ask", "toolCallId": "c0", "state": "output-available", "input": {}, "output": [1]}
        other = {**result, "toolCallId": "c9"}
        messages = [hello, said(result, other, role="assistant")]
        streamed(service, "/vercel/m", {"id": "c", "messages": messages})
        wait_until(lambda: service.service.runs.slots.used == 0)
        refused = service.client.post("/vercel/m", json={"id": "c", "messages": messages})
        assert refused.status_code == 422  # everything in it is known
        streamed(service, "/vercel/m", {"id": "c", "messages": [*messages, said({"type": "text", "text": "and?"})]})
        events = service.client.get("/sessions/m/user/c").json()["events"]
        answers = [p["functionResponse"] for e in events for p in e["content"]["parts"] if "functionResponse" in p]
        assert [(answer["id"], answer["response"]) for answer in answers] == [("c0", {"output": [1]})]


def test_files_reach_the_model():
    model = ScriptedModel(says("seen"))
    file = {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,iVBORw==", "filename": "a.png"}
    source = {"type": "data", "value": "iVBORw==", "mimeType": "image/png"}
    image = {"type": "image", "source": source}
    with served(model) as service:
        streamed(service, "/vercel/m", {"id": "c", "messages": [said(file)]})
        messages = [{"id": "x", "role": "user", "content": [{"type": "text", "text": "see"}, image]}]
        asked = {"threadId": "t", "runId": "r", "messages": messages, "tools": [], "context": [], "state": {}}
        assert streamed(service, "/ag-ui/m", asked)[-1]["type"] == "RUN_FINISHED"
    for request in model.requests:
        assert request.messages[0].parts[-1].inline_data.data == b"\x89PNG"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/vercel/m", {"id": "c", "messages": []}),
        ("/vercel/m", {"id": "a/b", "messages": [said({"type": "text", "text": "hi"})]}),
        ("/vercel/m", {"id": "c", "messages": [said({"type": "file", "url": "file:///etc/passwd"})]}),
        ("/vercel/m", {"id": "c", "messages": [said({"type": "file", "url": "data:x;base64,%"})]}),
        ("/vercel/m", {"id": "c", "messages": [said({"type": "text", "text": "x"})], "trigger": "regenerate-message"}),
        ("/vercel/m", {"id": "c", "messages": [said({"type": "text", "text": "x"}, role="assistant")]}),
        ("/ag-ui/m", {"threadId": "t", "runId": "r", "messages": []}),
        ("/ag-ui/m", {"threadId": "t", "messages": [{"id": "1", "role": "user", "content": "x"}]}),
        ("/ag-ui/m", {"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "assistant", "content": "x"}]}),
    ],
)
def test_bodies_that_are_none(path, body):
    with served(ScriptedModel(says("hi"))) as service:
        assert service.client.post(path, json=body).status_code == 422
