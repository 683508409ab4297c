"""What a load balancer and a curious visitor ask: does it live, may it get runs, what is it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from adk_stream import __version__

from .answers import json_answer
from .service import service_of

__all__ = ["HEALTH", "ROUTES"]

HEALTH = "/health"


async def health(request: Request) -> Response:
    """``GET /health``: the process lives."""
    return json_answer({"status": "ok"})


async def ready(request: Request) -> Response:
    """``GET /ready``: 200 while runs are taken, 503 once the service is about to stop."""
    runs = service_of(request).runs
    status = "stopping" if runs.stopping else "ready"
    return json_answer({"status": status, "runs": runs.slots.used}, 503 if runs.stopping else 200)


async def about(request: Request) -> Response:
    """``GET /``."""
    told = {"service": "adk-stream", "version": __version__, "models": service_of(request).agents.names}
    return json_answer({**told, "description": "/openapi.json"})


ROUTES = [
    Route("/", about, methods=["GET"]),
    Route(HEALTH, health, methods=["GET"]),
    Route("/ready", ready, methods=["GET"]),
]
