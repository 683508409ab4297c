"""``make_app``: the service as an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from . import adk_routes, ag_ui, health, live_routes, openai_routes, openapi, run_routes, sessions, vercel
from .auth import LOOPBACK_NAMES, Gate
from .config import ServerConfig
from .problems import HANDLERS
from .service import RUN_ID, Service

__all__ = ["make_app"]

#: One module for each way in.
ROUTES = [
    route
    for module in (health, openapi, run_routes, sessions, adk_routes, live_routes, ag_ui, vercel, openai_routes)
    for route in module.ROUTES
]


def make_app(config: ServerConfig) -> Starlette:
    """The application; ``app.state.service`` is its ``Service``, which opens and closes with the lifespan.

    Raises:
        ValueError: a model's name is none.
        RecordingError: a recording cannot be read.
        SessionError: there is no store for that URL.
        MissingExtraError: a client, a store or a relay is not installed.
    """
    service = Service(config)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None, None]:
        async with service:
            yield

    app = Starlette(routes=ROUTES, lifespan=lifespan, middleware=_middleware(config), exception_handlers=dict(HANDLERS))
    app.state.service = service
    return app


def _middleware(config: ServerConfig) -> list[Middleware]:
    hosts = config.allowed_hosts
    if hosts is None:
        names = LOOPBACK_NAMES if config.token is None else None
    else:
        names = None if "*" in hosts else frozenset(host.lower() for host in hosts)
    public = {health.HEALTH} if config.public_health else set()
    gate = Middleware(Gate, token=config.token, hosts=names, origins=config.cors_origins, public=public)
    if not config.cors_origins:
        return [gate]
    # In front of the gate: a browser asks whether it may call without sending the token.
    cors = Middleware(
        CORSMiddleware,
        allow_origins=list(config.cors_origins),
        allow_methods=["GET", "POST", "PATCH", "DELETE"],
        allow_headers=["authorization", "content-type", "last-event-id"],
        expose_headers=[RUN_ID, "location", "retry-after"],
    )
    return [cors, gate]
