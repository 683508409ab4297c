"""google-adk's routes, as its front ends and its own clients use them."""

import json

import pytest
from scripted_model import ScriptedModel, call, calls, end, says, text, thought
from served_app import GatedModel, events_of, served, wait_until

SESSIONS = "/apps/m/users/u/sessions"


def asked(said="hi", **fields):
    message = {"role": "user", "parts": [{"text": said}]}
    return {"appName": "m", "userId": "u", "sessionId": "s", "newMessage": message, **fields}


def stream(service, body):
    with service.client.stream("POST", "/run_sse", json=body) as response:
        assert response.status_code == 200, response.read()
        events = list(events_of(response))
        assert all(set(event) == {"data"} for event in events)
        return [json.loads(event["data"]) for event in events]


def test_sessions():
    with served(ScriptedModel(says("hi"))) as service:
        client = service.client
        assert client.get("/list-apps").json() == ["m"]
        assert client.get("/list-apps?detailed=true").json()["apps"][0]["rootAgentName"] == "m"
        assert client.get("/version").json()["language"] == "python"
        assert client.get("/health").json() == {"status": "ok"}
        made = client.post(SESSIONS, json={"sessionId": "s", "state": {"a": 1}}).json()
        assert {**made, "lastUpdateTime": 0} == {
            "id": "s",
            "appName": "m",
            "userId": "u",
            "state": {"a": 1},
            "events": [],
            "lastUpdateTime": 0,
        }
        assert client.post(SESSIONS, json={"sessionId": "s"}).status_code == 409
        assert client.post(SESSIONS).json()["id"]
        assert client.post(f"{SESSIONS}/t", json={"b": 2}).json()["state"] == {"b": 2}
        assert len(client.get(SESSIONS).json()) == 3
        assert client.patch(f"{SESSIONS}/s", json={"stateDelta": {"a": 5}}).json()["state"] == {"a": 5}
        assert client.get(f"{SESSIONS}/s").json()["events"][0]["actions"]["stateDelta"] == {"a": 5}
        assert client.delete(f"{SESSIONS}/s").json() is None
        gone = client.get(f"{SESSIONS}/s")
        assert (gone.status_code, type(gone.json()["detail"])) == (404, str)
        assert client.post("/run_sse", json=asked()).status_code == 404


def test_events_can_be_brought():
    event = {"id": "e", "author": "user", "content": {"role": "user", "parts": [{"text": "before"}]}, "timestamp": 1.0}
    model = ScriptedModel(says("hi"))
    with served(model) as service:
        assert service.client.post(SESSIONS, json={"sessionId": "s", "events": [event]}).status_code == 200
        stream(service, asked())
        assert [message.parts[0].text for message in model.requests[0].messages][:1] == ["before"]
        for bad in ({**event, "partial": True}, {**event, "id": "\0"}):
            assert service.client.post(SESSIONS, json={"events": [bad]}).status_code == 422


def test_a_run_is_streamed():
    def lookup(city: str):
        """d"""
        return {"sky": city}

    first = [thought("hm"), text("a"), call("lookup", '{"city": "x"}', id="c0"), *end("tool_calls")]
    with served(ScriptedModel(first, says("done", 3, 4)), tools=[lookup]) as service:
        service.client.post(SESSIONS, json={"sessionId": "s"})
        events = stream(service, asked(streaming=True, stateDelta={"k": 1}))
        whole = [event for event in events if not event.get("partial")]
        kinds = [
            sorted(part.keys() - {"thought", "partMetadata"}) for event in whole for part in event["content"]["parts"]
        ]
        assert kinds == [["text"], ["text"], ["functionCall"], ["functionResponse"], ["text"]]
        assert any(event.get("partial") for event in events)
        assert len({event["invocationId"] for event in events}) == 1
        stored = service.client.get(f"{SESSIONS}/s").json()
        assert stored["state"] == {"k": 1}
        assert [event["id"] for event in stored["events"][2:]] == [event["id"] for event in whole]
        assert whole[-1]["usageMetadata"]["totalTokenCount"] == 7


def test_without_streaming_no_partial_events_come():
    with served(ScriptedModel(says("hello"))) as service:
        service.client.post(SESSIONS, json={"sessionId": "s"})
        assert [event.get("partial") for event in stream(service, asked())] == [False]
        answer = service.client.post("/run", json=asked())
        assert [event["content"]["parts"] for event in answer.json()] == [[{"text": "hello"}]]
        assert answer.headers["x-run-id"]


def test_a_call_that_is_left_to_the_client():
    declared = {"name": "ask", "description": "d", "parameters": {"type": "object", "properties": {}}}
    with served(ScriptedModel(calls("ask"), says("thanks")), tools=[declared]) as service:
        service.client.post(SESSIONS, json={"sessionId": "s"})
        last = stream(service, asked())[-1]
        assert last["longRunningToolIds"] == ["c0"]
        answer = {"functionResponse": {"id": "c0", "name": "ask", "response": {"ok": True}}}
        again = asked(newMessage={"role": "user", "parts": [answer]})
        assert stream(service, again)[-1]["content"]["parts"] == [{"text": "thanks"}]


def test_the_state_is_not_changed_under_a_run():
    model = GatedModel(["a"], ["b"])
    with served(model) as service:
        service.client.post(SESSIONS, json={"sessionId": "s"})
        run = {"message": "hi", "userId": "u", "sessionId": "s"}
        assert service.client.post("/runs", json=run).status_code == 202
        change = {"stateDelta": {"k": 1}}
        assert service.client.patch(f"{SESSIONS}/s", json=change).status_code == 409
        assert service.client.post("/run_sse", json=asked(**change)).status_code == 409
        model.gate.open()
        wait_until(lambda: service.service.runs.slots.used == 0)
        stored = service.client.get(f"{SESSIONS}/s").json()
        assert (stored["state"], len(stored["events"])) == ({}, 2)
        assert service.client.patch(f"{SESSIONS}/s", json=change).json()["state"] == {"k": 1}


@pytest.mark.parametrize("cancelling", [False, True])
def test_a_client_that_leaves(cancelling):
    model = GatedModel(["a"], ["b"])
    with served(model, cancel_when_left=cancelling) as service:
        service.client.post(SESSIONS, json={"sessionId": "s"})
        with service.client.stream("POST", "/run_sse", json=asked(streaming=True)) as response:
            next(events := events_of(response))
        assert events
        if not cancelling:
            wait_until(lambda: service.service.followers.used == 0)
            model.gate.open()
        wait_until(lambda: service.service.runs.slots.used == 0)
        last = service.client.get(f"{SESSIONS}/s").json()["events"][-1]
        assert last["customMetadata"]["adk_stream"]["status"] == ("cancelled" if cancelling else "completed")
        assert last["content"]["parts"] == [{"text": "a" if cancelling else "ab"}]


@pytest.mark.parametrize(
    "body",
    [
        {},
        asked(newMessage=None),
        asked(newMessage={"parts": []}),
        asked(sessionId=""),
        asked(newMessage={"role": "user", "parts": [{"functionCall": {"name": "f"}}]}),
        asked(streaming="perhaps"),
    ],
)
def test_bodies_that_are_none(body):
    with served(ScriptedModel(says("hi"))) as service:
        assert service.client.post("/run_sse", json=body).status_code == 422
