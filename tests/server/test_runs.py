"""Runs: started with one request, followed by others, as often as wished, and cancelled."""

import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from scripted_model import ScriptedModel, says
from served_app import GatedModel, events_of, follow, served, shown, wait_until

from adk_stream.server import RunObserver


def words(count):
    return [f"w{number} " for number in range(count)]


def test_a_run_is_followed_and_stored():
    with served(ScriptedModel(says("hello"))) as service:
        told = service.run("hi")
        assert told["status"] == "in_progress"
        events = follow(service, told)
        assert [event["event"] for event in events] == ["partial", "final", "done"]
        assert events[-1]["data"] == {"status": "completed"}
        session = service.session(told)
        assert [event["author"] for event in session["events"]] == ["user", "model"]
        assert session["events"][1]["id"] == events[1]["data"]["id"]
        assert service.client.get(f"/runs/{told['runId']}").json()["status"] == "completed"


def test_every_follower_sees_everything_once_wherever_it_was_cut():
    model = GatedModel(words(40), words(40))
    with served(model) as service:
        told = service.run()
        whole = []
        early = threading.Thread(target=lambda: whole.extend(follow(service, told)))
        early.start()
        pieces, after = [], None
        while True:  # a client that loses its connection every 7 events
            headers = {} if after is None else {"last-event-id": after}
            with service.client.stream("GET", told["events"], headers=headers) as response:
                if response.status_code == 204:
                    break
                for number, event in enumerate(events_of(response), 1):
                    after = event["id"]
                    pieces.append(event)
                    if len(pieces) == 35:
                        model.gate.open()
                    if number == 7:
                        break
        early.join(10)
        late = follow(service, told)
        ids = [event["id"] for event in late]
        assert len(set(ids)) == len(ids) == 82
        assert [event["id"] for event in whole] == [event["id"] for event in pieces] == ids
        assert shown(late) == shown(whole) == "".join(words(40) * 2)


def test_a_client_that_leaves_does_not_end_the_run():
    model = GatedModel(["a"], ["b"])
    with served(model) as service:
        told = service.run()
        with service.client.stream("GET", told["events"]) as response:
            next(events_of(response))
        model.gate.open()
        assert shown(follow(service, told)) == "ab"
        assert service.session(told)["events"][-1]["status"] == "completed"


def test_cancel():
    model = GatedModel(["half"])
    with served(model) as service:
        told = service.run()
        wait_until(lambda: model.open == 1)
        answer = service.client.post(f"/runs/{told['runId']}/cancel")
        assert answer.status_code == 202
        events = follow(service, told)
        assert (events[-2]["data"]["errorCode"], events[-1]["data"]["status"]) == ("STREAM_CANCELLED", "cancelled")
        assert service.session(told)["events"][-1]["status"] == "cancelled"
        assert model.open == 0
        assert service.client.post(f"/runs/{told['runId']}/cancel").status_code == 202  # again: nothing


def test_one_run_at_a_time_in_a_session():
    model = GatedModel(["a"])
    with served(model) as service:
        told = service.run()
        body = {"message": "again", "sessionId": told["sessionId"]}
        refused = service.client.post("/runs", json=body)
        assert (refused.status_code, refused.json()["runId"]) == (409, told["runId"])
        model.gate.open()
        follow(service, told)
        wait_until(lambda: service.client.post("/runs", json=body).status_code == 202)


def test_of_many_requests_at_once_one_begins_a_run():
    model = GatedModel(["a"])
    with served(model) as service:
        assert service.client.post("/sessions/m/user", json={"id": "s"}).status_code == 201
        body = {"message": "hi", "sessionId": "s"}
        with ThreadPoolExecutor(8) as pool:
            statuses = list(pool.map(lambda _: service.client.post("/runs", json=body).status_code, range(16)))
        assert sorted(statuses) == [202, *[409] * 15]
        model.gate.open()


def test_no_more_runs_than_there_may_be():
    model = GatedModel(["a"])
    with served(model, limits={"max_runs": 2}) as service:
        runs = [service.run(), service.run()]
        refused = service.client.post("/runs", json={"message": "hi"})
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert len(service.client.get("/sessions/m/user").json()["sessions"]) == 2
        completion = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        assert service.client.post("/v1/chat/completions", json=completion).status_code == 429
        model.gate.open()
        for told in runs:
            follow(service, told)
        wait_until(lambda: service.client.post("/runs", json={"message": "hi"}).status_code == 202)


def test_no_more_followers_than_there_may_be():
    model = GatedModel(["a"])
    with served(model, limits={"max_followers": 1}) as service:
        told = service.run()
        with service.client.stream("GET", told["events"]) as response:
            events = events_of(response)
            next(events)
            assert service.client.get(told["events"]).status_code == 429
            chat = {"id": "c", "messages": [{"role": "user", "parts": [{"type": "text", "text": "x"}]}]}
            assert service.client.post("/vercel/m", json=chat).status_code == 429  # and begins nothing
            assert service.service.runs.slots.used == 1
        wait_until(lambda: service.service.followers.used == 0)
        model.gate.open()
        assert follow(service, told)


def test_a_full_session_takes_no_further_run():
    with served(ScriptedModel(says("x")), limits={"max_session_events": 2}) as service:
        told = service.run()
        follow(service, told)
        wait_until(lambda: service.service.runs.slots.used == 0)
        refused = service.client.post("/runs", json={"message": "hi", "sessionId": told["sessionId"]})
        assert refused.status_code == 409


def test_a_model_that_fails_ends_the_run_with_its_error():
    with served(ScriptedModel([RuntimeError("no such luck")])) as service:
        events = follow(service, service.run())
        assert [event["event"] for event in events] == ["final", "done"]
        assert events[0]["data"]["errorCode"] == "RuntimeError"
        assert events[-1]["data"] == {"status": "failed", "errorCode": "RuntimeError", "errorMessage": "no such luck"}


def test_silence_is_filled_with_comments():
    model = GatedModel(["a"])
    with served(model, limits={"keep_alive": 0.05}) as service:
        told = service.run()
        with service.client.stream("GET", told["events"]) as response:
            comments = 0
            for line in response.iter_lines():
                comments += line.startswith(":")
                if comments == 3:
                    model.gate.open()
                    break
        assert shown(follow(service, told)) == "a"


def test_a_service_that_stops_ends_its_runs_and_shows_it():
    model = GatedModel(["half"])
    with served(model, limits={"drain_seconds": 0.2}) as service:
        told = service.run()
        seen = []
        follower = threading.Thread(target=lambda: seen.extend(follow(service, told)))
        follower.start()
        wait_until(lambda: service.service.followers.used == 1)
        service.server.should_exit = True
        follower.join(5)
        assert seen[-1]["data"]["status"] == "cancelled"
        service.thread.join(5)
        with pytest.raises(httpx.ConnectError):
            service.client.get("/")


def test_a_run_that_ends_in_time_is_not_cancelled_by_the_stop():
    model = GatedModel(["half "], ["whole"])
    with served(model, limits={"drain_seconds": 5.0}) as service:
        told = service.run()
        seen = []
        follower = threading.Thread(target=lambda: seen.extend(follow(service, told)))
        follower.start()
        wait_until(lambda: service.service.followers.used == 1)
        service.server.should_exit = True
        wait_until(lambda: service.service.runs.stopping)
        model.gate.open()
        follower.join(5)
        assert (shown(seen), seen[-1]["data"]) == ("half whole", {"status": "completed"})


def test_a_cursor_of_another_run():
    with served(ScriptedModel(says("x"))) as service:
        one, other = service.run(), service.run()
        last = follow(service, one)[-1]["id"]
        assert service.client.get(one["events"], headers={"last-event-id": last}).status_code == 204
        for cursor in (last, "1", "x" * 1000):
            assert service.client.get(other["events"], headers={"last-event-id": cursor}).status_code == 400


def test_an_observer_is_told_of_every_run():
    class Observer(RunObserver):
        def __init__(self):
            self.told = []

        def began(self, run):
            self.told.append(("began", run.status))

        def published(self, run, response):
            self.told.append(("published", response.text))

        def ended(self, run, error):
            self.told.append(("ended", run.status, run.seconds >= 0, error))

    observer = Observer()
    with served(ScriptedModel(says("hi")), observer=observer) as service:
        follow(service, service.run())
        wait_until(lambda: service.service.runs.slots.used == 0)
    hi = ("published", "hi")
    assert observer.told == [("began", "in_progress"), hi, hi, ("ended", "completed", True, None)]


def test_what_is_not_there():
    with served(ScriptedModel(says("x"))) as service:
        client = service.client
        for path in ("/runs/none", "/runs/none/events", "/sessions/m/u/none", "/sessions/none/u", "/nowhere"):
            answer = client.get(path)
            assert answer.status_code == 404, path
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["status"] == 404
        assert client.post("/runs", json={"message": "x", "sessionId": "none"}).status_code == 404
        assert client.post("/runs", json={"message": "x", "appName": "none"}).status_code == 404
        assert client.put("/runs").status_code == 405
