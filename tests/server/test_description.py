"""Requests made from the service's own description, good ones and bad ones: nothing makes it fail."""

import os

import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from scripted_model import ScriptedModel, says
from served_app import served

from adk_stream.server.openapi import description

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")

SCHEMA = schemathesis.openapi.from_dict(description())
OPERATIONS = [(path, method.upper()) for path, methods in description()["paths"].items() for method in methods]

#: Names that are there, in paths and in bodies; of others a service knows only that they are not.
KNOWN = {"app": "m", "user": "u", "session": "s", "chat": "s"}
KNOWN_IN_BODIES = {"appName": "m", "userId": "u", "sessionId": "s", "model": "m", "threadId": "s", "id": "s"}


@pytest.fixture(scope="module")
def service():
    with served(ScriptedModel(says("hi"))) as running:
        running.client.post("/sessions/m/u", json={"id": "s"})
        yield running


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_no_request_makes_it_fail(service, path, method):
    operation = SCHEMA[path][method]
    statuses = []

    def check(case):
        if len(statuses) % 3:
            case.path_parameters |= {name: KNOWN[name] for name in case.path_parameters if name in KNOWN}
            if isinstance(case.body, dict):
                case.body |= {name: KNOWN_IN_BODIES[name] for name in case.body if name in KNOWN_IN_BODIES}
        try:
            answer = case.call(base_url=service.url, timeout=10)
        except (requests.exceptions.InvalidHeader, requests.exceptions.InvalidURL, UnicodeError):
            return  # what this client does not send
        statuses.append(answer.status_code)
        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == ["application/problem+json"]

    options = settings(
        max_examples=int(os.environ.get("ADK_STREAM_EXAMPLES", "2")),
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    for mode in schemathesis.GenerationMode:
        try:
            options(given(case=operation.as_strategy(generation_mode=mode))(check))()
        except Unsatisfiable:  # nothing can be wrong about this request
            pass
    assert statuses
