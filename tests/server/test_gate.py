"""Who may come in, and what may be sent."""

import json
import socket

import pytest
from scripted_model import ScriptedModel, says
from served_app import GatedModel, Served, events_of, follow, served, wait_until

from adk_stream.server import Limits, ServerConfig
from adk_stream.server.openapi import description

JSON = {"content-type": "application/json"}


def operations():
    for path, methods in description()["paths"].items():
        for method in methods:
            filled = path
            for name in ("app", "user", "session", "run", "chat"):
                filled = filled.replace(f"{{{name}}}", "m")
            yield method.upper(), filled


@pytest.fixture(scope="module")
def open_service():
    with served(ScriptedModel(says("hi")), limits={"max_body_bytes": 10_000, "max_depth": 20}) as service:
        yield service


def test_the_description_tells_of_every_route():
    from starlette.routing import Route

    from adk_stream.server.app import ROUTES

    routes = {(method, route.path) for route in ROUTES if isinstance(route, Route) for method in route.methods}
    told = {(method.upper(), path) for path, methods in description()["paths"].items() for method in methods}
    hidden = {("POST", "/apps/{app}/users/{user}/sessions/{session}")}  # google-adk calls it deprecated
    assert {route for route in routes if route[0] != "HEAD"} - hidden == told


def test_without_the_token_nobody_gets_anything():
    with served(ScriptedModel(says("hi")), token="s3cret") as service:
        for method, path in operations():
            for header in (
                None,
                "Bearer wrong",
                "Bearer s3cre",
                "Bearer s3cret2",
                "Basic s3cret",
                "s3cret",
                "Bearer é",
            ):
                headers = {"authorization": header or ""}
                answer = service.client.request(method, path, headers={k: v.encode() for k, v in headers.items()})
                assert answer.status_code == 401, (method, path, header)
                assert set(answer.json()) <= {"type", "title", "status", "detail", "error"}
        assert service.client.get("/").status_code == 200
        assert follow(service, service.run())[-1]["event"] == "done"


def test_health_can_be_public():
    with served(ScriptedModel(says("hi")), token="s3cret", public_health=True) as service:
        assert service.client.get("/health", headers={"authorization": ""}).json() == {"status": "ok"}
        assert service.client.get("/ready", headers={"authorization": ""}).status_code == 401


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:1234", 200),
        ("127.0.0.1", 200),
        ("[::1]:80", 200),
        ("LOCALHOST", 200),
        ("evil.example", 421),
        ("", 421),
    ],
)
def test_without_a_token_only_this_machines_own_names_are_answered(open_service, host, status):
    assert open_service.client.get("/", headers={"host": host}).status_code == status


def test_no_other_site_may_call_by_default(open_service):
    preflight = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    answer = open_service.client.options("/runs", headers=preflight)
    assert "access-control-allow-origin" not in answer.headers
    assert answer.status_code == 405
    for path in ("/sessions/m/u", "/runs/x/cancel"):  # no body, so no browser would ask first
        answer = open_service.client.post(path, headers={"origin": "https://evil.example"})
        assert answer.status_code == 403
    assert open_service.client.post("/sessions/m/u", headers={"origin": open_service.url}).status_code == 201
    # What a page may send without asking first is refused: a form, or text.
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        answer = open_service.client.post("/runs", content=b'{"message": "hi"}', headers={"content-type": kind})
        assert answer.status_code == 415


def test_a_site_that_is_named_may_call():
    site = "https://app.example"
    with served(ScriptedModel(says("hi")), token="t", cors_origins=[site]) as service:
        preflight = {
            "origin": site,
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,content-type",
            "authorization": "",
        }
        assert service.client.options("/runs", headers=preflight).headers["access-control-allow-origin"] == site
        assert service.client.get("/", headers={"origin": site}).headers["access-control-allow-origin"] == site
        other = service.client.options("/runs", headers={**preflight, "origin": "https://evil.example"})
        assert "access-control-allow-origin" not in other.headers


DEEP = b'{"message": {"parts": ' + b"[" * 3000 + b"]" * 3000 + b"}}"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b'{"message": "\xff"}', 400),
        (b'{"message": "\\ud800"}', 400),
        (b'{"message": NaN}', 400),
        (b'{"message": "x", "stateDelta": {"a": 1e999}}', 400),
        (DEEP, 400),
        (b'{"message": {"parts": ' + b"[" * 30 + b"]" * 30 + b"}}", 400),
        (b"[]", 422),
        (b"null", 422),
        (b'{"message": ""}', 422),
        (b'{"message": 1}', 422),
        (b'{"message": {"parts": []}}', 422),
        (b'{"message": {"parts": [{}]}}', 422),
        (b'{"message": {"parts": [{"functionCall": {"name": "f"}}]}}', 422),
        (b'{"message": {"parts": [{"text": "x", "thought": true}]}}', 422),
        (b'{"message": {"parts": [{"inlineData": {"data": "%%%", "mimeType": "a/b"}}]}}', 422),
        (b'{"message": "x", "what": 1}', 422),
        (b'{"message": "x", "userId": "a/b"}', 422),
        (b'{"message": "x", "userId": "a\\u0000b"}', 422),
        (b'{"message": "x", "userId": "' + b"u" * 257 + b'"}', 422),
        (b'{"message": "x", "stateDelta": {"a\\u0000": 1}}', 422),
        (b'{"message": "' + b"x" * 20_000 + b'"}', 413),
    ],
)
def test_bodies_that_are_none(open_service, body, status):
    answer = open_service.client.post("/runs", content=body, headers=JSON)
    assert answer.status_code == status, answer.text
    told = answer.json()
    assert told["status"] == status
    assert told["detail"]
    assert "Traceback" not in answer.text
    assert "site-packages" not in answer.text


def test_a_body_without_a_length_is_measured_while_it_is_read(open_service):
    def pieces():
        for _ in range(100):
            yield b" " * 1000

    assert open_service.client.post("/runs", content=pieces(), headers=JSON).status_code == 413


def test_a_body_that_does_not_come_is_not_waited_for():
    with served(ScriptedModel(says("hi")), limits={"body_timeout": 0.1}) as service:
        head = b"POST /runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{"
        for leaves in (False, True):
            with socket.create_connection(service.socket.getsockname()[:2], timeout=5) as slow:
                slow.sendall(head)
                if not leaves:
                    assert slow.recv(1000).startswith(b"HTTP/1.1 408 ")
        assert service.client.get("/health").status_code == 200


@pytest.mark.parametrize("name", ["a%00b", "a%0Ab", "x" * 257])
def test_names_in_paths(open_service, name):
    for path in (f"/runs/{name}", f"/runs/{name}/events", f"/sessions/m/{name}", f"/sessions/m/u/{name}"):
        assert open_service.client.get(path).status_code == 422
    assert open_service.client.get(f"/vercel/m/{name}/stream").status_code == 422


def test_an_answer_that_is_no_number(open_service):
    assert open_service.client.get("/sessions/m/u/s?events=-1").status_code == 422
    assert open_service.client.get("/sessions/m/u/s?events=١").status_code == 422


def test_what_fails_inside_stays_inside():
    class Broken(ScriptedModel):
        def stream(self, request):
            raise ZeroDivisionError("the inside")

    with served(Broken()) as service:
        asked = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        answer = service.client.post("/v1/chat/completions", json=asked)
        assert answer.status_code >= 500
        assert "Traceback" not in answer.text


def test_a_client_that_reads_nothing_is_left():
    """It costs its connection's buffers, and only for so long."""
    model = GatedModel(["x" * 50_000] * 400)
    with served(model, limits={"send_timeout": 0.3}) as service:
        told = service.run()
        with socket.create_connection(service.socket.getsockname()[:2]) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.sendall(f"GET {told['events']} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            wait_until(lambda: service.service.followers.used == 1)
            model.gate.open()
            wait_until(lambda: service.service.followers.used == 0)
        assert len(follow(service, told)) == 402  # the others are not held up


def test_the_configuration_is_checked():
    with pytest.raises(ValueError, match="model"):
        ServerConfig(models={})
    with pytest.raises(ValueError, match="token"):
        ServerConfig(models={"m": "replay:x"}, token=" ")
    with pytest.raises(ValueError, match="max_runs"):
        Limits(max_runs=0)
    with pytest.raises(ValueError, match="provider"):
        Served(ServerConfig(models={"m": "nobody:x"}))


def test_sessions():
    with served(ScriptedModel(says("hi"))) as service:
        client = service.client
        made = client.post("/sessions/m/u", json={"id": "s", "state": {"a": 1, "user:b": 2}})
        assert made.status_code == 201
        assert made.json()["state"] == {"a": 1, "user:b": 2}
        assert client.post("/sessions/m/u", json={"id": "s"}).status_code == 409
        assert client.post("/sessions/m/u").status_code == 201
        assert len(client.get("/sessions/m/u").json()["sessions"]) == 2
        follow(service, service.run("hi", userId="u", sessionId="s", stateDelta={"c": 3}))
        session = client.get("/sessions/m/u/s").json()
        assert session["state"] == {"a": 1, "c": 3, "user:b": 2}
        assert len(session["events"]) == session["revision"] == 3
        assert len(client.get("/sessions/m/u/s?events=1").json()["events"]) == 1
        assert client.delete("/sessions/m/u/s").status_code == 204
        assert client.get("/sessions/m/u/s").status_code == 404


def test_what_it_is(open_service):
    assert open_service.client.get("/").json()["models"] == ["m"]
    assert open_service.client.get("/ready").json() == {"status": "ready", "runs": 0}
    assert json.dumps(open_service.client.get("/openapi.json").json()) == json.dumps(description())
    assert events_of
