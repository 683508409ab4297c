"""Who may come in: the bearer token, and the names by which this service is called.

Without a token the service answers only to the names of this machine itself. A page of another site that had its own
name point here (DNS rebinding) could otherwise read what the browser's user can.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from .problems import Problem, problem_response

__all__ = ["LOOPBACK_NAMES", "Gate"]

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Gate:
    """ASGI middleware in front of everything.

    Args:
        app: What stands behind it.
        token: What ``Authorization: Bearer …`` must hold; None: nothing is asked for.
        hosts: The names that ``Host`` may hold, without port; None: any.
        origins: The sites whose pages may change something without a token, besides this service's own.
        public: Paths that need no token.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str | None,
        hosts: Collection[str] | None,
        origins: Collection[str] = (),
        public: Collection[str] = (),
    ) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._hosts = hosts
        self._origins = origins
        self._public = public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through, or answer it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refused = self._refused(scope, Headers(scope=scope))
        if refused is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": refused.detail})
        else:
            await problem_response(refused, scope["path"])(scope, receive, send)

    def _refused(self, scope: Scope, headers: Headers) -> Problem | None:
        if self._hosts is not None and _name_of(headers.get("host", "")) not in self._hosts:
            return Problem(421, "this service is not called by that name")
        if self._token is None:
            is_foreign = scope.get("method") not in _SAFE and self._is_foreign(headers)
            return Problem(403, "a page of another site") if is_foreign else None
        if scope["path"] in self._public or _is_token(headers.get("authorization", ""), self._token):
            return None
        return Problem(401, "a bearer token is needed", headers={"www-authenticate": "Bearer"})

    def _is_foreign(self, headers: Headers) -> bool:
        """Is it a page of another site that asks? Its browser says so, and may send the request without asking us."""
        origin = headers.get("origin")
        if origin is None or origin.partition("://")[2] == headers.get("host"):
            return False
        return not {origin, "*"} & set(self._origins)


#: Methods that change nothing; a page of another site cannot read the answer. A websocket has none.
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def _name_of(host: str) -> str:
    """The name in a Host header, without the port."""
    name, _, port = host.rpartition(":")
    return (name if name and port.isdecimal() else host).lower()


def _is_token(header: str, token: bytes) -> bool:
    scheme, _, given = header.partition(" ")
    # In constant time; the header's bytes are Latin-1 (ASGI), as they came.
    return hmac.compare_digest(given.strip().encode("latin-1", "replace"), token) and scheme.lower() == "bearer"
