"""The service's OpenAPI 3.1 description, ``GET /openapi.json``: a table of operations, the bodies from their models."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from adk_stream import __version__

from .adk_routes import CreateSession, RunAgent, UpdateSession
from .ag_ui import RunAgentInput
from .answers import json_answer
from .openai_messages import ChatCompletion
from .run_routes import StartRun
from .sessions import NewSession
from .vercel import Chat

__all__ = ["ROUTES", "description"]

_JSON, _SSE, _PROBLEM = "application/json", "text/event-stream", "application/problem+json"

#: Method, path, summary, body, statuses of good answers, their media type.
_OPERATIONS: list[tuple[str, str, str, type[BaseModel] | None, str, str]] = [
    ("get", "/", "What this is", None, "200", _JSON),
    ("get", "/health", "Whether the process lives", None, "200", _JSON),
    ("get", "/ready", "Whether runs are taken", None, "200", _JSON),
    ("get", "/openapi.json", "This description", None, "200", _JSON),
    ("post", "/runs", "Start a run", StartRun, "202", _JSON),
    ("get", "/runs/{run}", "How a run stands", None, "200", _JSON),
    ("get", "/runs/{run}/events", "Follow a run", None, "200 204", _SSE),
    ("post", "/runs/{run}/cancel", "Cancel a run", None, "202", _JSON),
    ("get", "/sessions/{app}/{user}", "A user's sessions", None, "200", _JSON),
    ("post", "/sessions/{app}/{user}", "Create a session", NewSession, "201", _JSON),
    ("get", "/sessions/{app}/{user}/{session}", "A session with its events", None, "200", _JSON),
    ("delete", "/sessions/{app}/{user}/{session}", "Delete a session", None, "204", _JSON),
    ("get", "/list-apps", "google-adk: the applications", None, "200", _JSON),
    ("get", "/version", "google-adk: the version", None, "200", _JSON),
    ("get", "/apps/{app}/users/{user}/sessions", "google-adk: a user's sessions", None, "200", _JSON),
    ("post", "/apps/{app}/users/{user}/sessions", "google-adk: create a session", CreateSession, "200", _JSON),
    ("get", "/apps/{app}/users/{user}/sessions/{session}", "google-adk: a session", None, "200", _JSON),
    ("patch", "/apps/{app}/users/{user}/sessions/{session}", "google-adk: change state", UpdateSession, "200", _JSON),
    ("delete", "/apps/{app}/users/{user}/sessions/{session}", "google-adk: delete a session", None, "200", _JSON),
    ("post", "/run", "google-adk: run to the end", RunAgent, "200", _JSON),
    ("post", "/run_sse", "google-adk: run and stream", RunAgent, "200", _SSE),
    ("post", "/ag-ui/{app}", "AG-UI: run", RunAgentInput, "200", _SSE),
    ("post", "/vercel/{app}", "Vercel AI SDK: run", Chat, "200", _SSE),
    ("get", "/vercel/{app}/{chat}/stream", "Vercel AI SDK: follow the run that goes on", None, "200 204", _SSE),
    ("get", "/v1/models", "OpenAI: the models", None, "200", _JSON),
    ("post", "/v1/chat/completions", "OpenAI: a completion", ChatCompletion, "200", f"{_JSON} {_SSE}"),
]

_OPTIONAL_BODIES = (CreateSession, NewSession)

#: What an answer that is none of the good ones may be, everywhere.
_PROBLEMS = {
    "400": "The body cannot be read",
    "401": "The bearer token is missing",
    "404": "There is no such thing",
    "403": "The page of another site",
    "408": "The body takes too long",
    "409": "Something is in the way",
    "410": "It is kept no longer",
    "413": "The body is too large",
    "415": "The body is not JSON",
    "421": "Another service's name",
    "422": "The request does not fit",
    "429": "Too many at once",
    "502": "The model failed",
    "503": "The service, or what it stands on, is not there",
    "504": "The model took too long",
}

_QUERIES: dict[str, list[str]] = {
    "/runs/{run}/events": ["after"],
    "/sessions/{app}/{user}/{session}": ["events"],
    "/list-apps": ["detailed"],
    "/ag-ui/{app}": ["user_id"],
    "/vercel/{app}": ["user_id"],
    "/vercel/{app}/{chat}/stream": ["user_id"],
}


@cache
def description() -> dict[str, Any]:
    """The description, as JSON values; not to be changed."""
    bodies = list(dict.fromkeys(body for _, _, _, body, _, _ in _OPERATIONS if body is not None))
    template = "#/components/schemas/{model}"
    names, schemas = models_json_schema([(body, "validation") for body in bodies], ref_template=template)
    paths: dict[str, Any] = {}
    for method, path, summary, body, good, media in _OPERATIONS:
        operation: dict[str, Any] = {"summary": summary, "responses": _responses(good.split(), media)}
        if parameters := _parameters(path):
            operation["parameters"] = parameters
        if body is not None:
            schema = names[(body, "validation")]
            required = body not in _OPTIONAL_BODIES
            operation["requestBody"] = {"required": required, "content": {_JSON: {"schema": schema}}}
        paths.setdefault(path, {})[method] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "adk-stream", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {**schemas.get("$defs", {}), "Problem": _PROBLEM_SCHEMA},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


_PROBLEM_SCHEMA = {
    "type": "object",
    "description": "RFC 9457",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}


def _responses(good: list[str], media: str) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for status in good:
        told[status] = {"description": "Good"}
        if status != "204":
            told[status]["content"] = {each: {} for each in media.split()}
    problem = {_PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return told | {status: {"description": text, "content": problem} for status, text in _PROBLEMS.items()}


def _parameters(path: str) -> list[dict[str, Any]]:
    in_path = [piece[1:-1] for piece in path.split("/") if piece.startswith("{")]
    text = {"type": "string"}
    return [{"name": name, "in": "path", "required": True, "schema": text} for name in in_path] + [
        {"name": name, "in": "query", "required": False, "schema": text} for name in _QUERIES.get(path, ())
    ]


async def tell(request: Request) -> Response:
    """``GET /openapi.json``."""
    return json_answer(description())


ROUTES = [Route("/openapi.json", tell, methods=["GET"])]
