"""Errors as answers: problem details (RFC 9457), with a sentence for the client and nothing of the inside."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from adk_stream.errors import (
    AdkStreamError,
    CursorError,
    RelayError,
    RequestError,
    SessionBusyError,
    SessionError,
    SessionExistsError,
    SessionNotFoundError,
    StaleSessionError,
    UnknownStreamError,
)

__all__ = ["HANDLERS", "Problem", "invalid", "problem_of", "problem_response"]

_log = logging.getLogger("adk_stream.server")


class Problem(Exception):
    """A request that gets no other answer than this.

    Args:
        status: Of the HTTP response.
        detail: A sentence for whoever wrote the client.
        headers: Of the response, besides its content type.
        members: Further members of the problem's object, such as the run that is in the way.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = headers
        self.members = members or {}


def invalid(error: ValidationError) -> Problem:
    """The body is JSON and not what is asked for."""
    told = error.errors(include_url=False, include_context=False, include_input=False)
    first = told[0]
    where = ".".join(map(str, first["loc"])) or "the body"
    more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
    return Problem(422, f"{where}: {first['msg']}{more}")


#: What the package's own errors mean to a client; the first that fits counts.
_STATUSES: tuple[tuple[type[Exception], int], ...] = (
    (SessionNotFoundError, 404),
    (SessionExistsError, 409),
    (SessionBusyError, 409),
    (StaleSessionError, 409),
    (UnknownStreamError, 404),
    (CursorError, 400),
    (RequestError, 400),
)


def problem_of(error: Exception) -> Problem | None:
    """The problem that an error of this package means to the client; None: it is the service's own."""
    if isinstance(error, Problem):
        return error
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), None)
    return None if status is None else Problem(status, str(error))


def problem_response(problem: Problem, path: str = "") -> Response:
    """The answer. Under ``/v1/`` it also holds what OpenAI's clients look for."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": HTTPStatus(problem.status).phrase,
        "status": problem.status,
        "detail": problem.detail,
        **problem.members,
    }
    if path.startswith("/v1/") and "error" not in body:
        kind = "server_error" if problem.status >= 500 else "invalid_request_error"
        body["error"] = {"message": problem.detail, "type": kind, "param": None, "code": None}
    return JSONResponse(body, problem.status, problem.headers, "application/problem+json")


_DOWN = Problem(503, "the session store or the relay cannot be reached", headers={"retry-after": "1"})


async def _answer(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    if problem is None:
        down = isinstance(error, (SessionError, RelayError))  # what the service stands on will be back
        problem = _DOWN if down else Problem(500, "the service failed")
        if isinstance(error, AdkStreamError):  # others Starlette raises again once they are answered
            _log.error("%s %s: %s: %s", request.method, request.url.path, type(error).__name__, error)
    return problem_response(problem, request.url.path)


async def _answer_http(request: Request, error: Exception) -> Response:
    """Starlette's own: no such path, no such method."""
    assert isinstance(error, HTTPException)
    return problem_response(Problem(error.status_code, error.detail, headers=error.headers), request.url.path)


#: For Starlette; ``Exception`` is what its outermost middleware takes.
HANDLERS: Mapping[Any, Any] = {
    HTTPException: _answer_http,
    Problem: _answer,
    AdkStreamError: _answer,
    Exception: _answer,
}
