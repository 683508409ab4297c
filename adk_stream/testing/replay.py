"""ReplayServer: a local server that answers real clients with recordings, in each provider's own wire.

::

    Gemini            POST …/models/{model}:streamGenerateContent, also Vertex AI's paths, of any API version;
                      with alt=sse server-sent events, else a JSON array
    Chat Completions  POST …/chat/completions
    Responses         POST …/responses
    Anthropic         POST …/v1/messages

Any prefix may stand before these paths, so that one server serves ``/openai/v1``, ``/anthropic`` and the
rest. Only streams are served; a request that asks for none gets status 501.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from adk_stream.errors import RecordingError
from adk_stream.recording import Recording, load_recording
from adk_stream.testing.dialects import DIALECTS, Dialect
from adk_stream.testing.faults import FAULT_HEADER, Fault, FaultError, as_faults
from adk_stream.testing.script import Script, error_script, replay_script
from adk_stream.testing.seen import MAX_SEEN, SeenRequest
from adk_stream.wire import decode_json

__all__ = ["FAULT_HEADER", "ReplayServer", "SeenRequest"]

_MAX_BODY_BYTES = 32 * 1024 * 1024
_START_SECONDS = 10.0


class ReplayServer:
    """Serves recordings over HTTP, in a thread of its own.

    ::

        with ReplayServer(["turn.sse"], faults="stall=2@3") as server:
            client = anthropic.Anthropic(api_key="any", base_url=server.url)

    A request gets a recording of its own line: those whose name (or ``metadata["model"]``) is the model that
    it asks for, else any of the line; several are served in turn. Where the recording's framing is the wire's
    own its bytes go out unchanged. Payloads without framing are framed; Gemini's events are always framed
    anew, since its official client reads one form only.

    Args:
        recordings: Recordings, or paths to load them from.
        pace: What the recorded times are multiplied by: 0 at once, 1 as recorded.
        faults: What goes wrong with every answer; see ``faults``. Queued faults come before these, and those
            of a request's ``x-adk-stream-fault`` header before both.
        host: The address to listen on.
        port: The port; 0 takes a free one.

    Attributes:
        app: The ASGI application, to be served by other means.
        requests: The last 1000 requests, in order.

    Raises:
        RecordingError: a recording cannot be read, or is of no line that this server speaks.
        FaultError: there is no such fault.
    """

    def __init__(
        self,
        recordings: Iterable[Recording | str | os.PathLike[str]],
        *,
        pace: float = 0.0,
        faults: Fault | str | Iterable[Fault | str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        if not pace >= 0:
            raise ValueError(f"pace is a factor from 0, not {pace!r}")
        self.requests: list[SeenRequest] = []
        self.app = Starlette(routes=[Route("/{path:path}", self._answer, methods=["POST"])])
        self._recordings: dict[str, list[Recording]] = {line: [] for line in DIALECTS}
        for given in recordings:
            recording = given if isinstance(given, Recording) else load_recording(given)
            if recording.provider not in DIALECTS:
                raise RecordingError(
                    f"{recording.name}: its line is {recording.provider or 'unknown'};"
                    f" this server speaks {', '.join(DIALECTS)}"
                )
            self._recordings[recording.provider].append(recording)
        self._pace = pace
        self._faults = as_faults(faults or ())
        self._queue: deque[tuple[Fault, ...]] = deque()
        self._turns: dict[tuple[str, str], int] = {}
        self._address = (host, port)
        self._socket: socket.socket | None = None
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def queue_fault(self, *faults: Fault | str) -> None:
        """What goes wrong with the next answer that no earlier call was for; no faults: nothing does."""
        self._queue.append(as_faults(faults))

    # ------------------------------------------------------------- the server

    @property
    def url(self) -> str:
        """The base URL, without a slash at its end.

        Raises:
            RuntimeError: the server is not running.
        """
        if self._socket is None:
            raise RuntimeError("the replay server is not running")
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def start(self) -> Self:
        """Listen, and return when requests are answered.

        Raises:
            OSError: the address cannot be listened on.
            RuntimeError: the server runs already, or does not start.
        """
        if self._socket is not None:
            raise RuntimeError("the replay server is running")
        family = socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET
        self._socket = socket.create_server(self._address, family=family)
        # asyncio does this only for sockets that name their protocol; those that are accepted inherit it.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._server = uvicorn.Server(
            uvicorn.Config(
                self.app,
                lifespan="off",
                ws="none",
                log_config=None,
                log_level="critical",
                access_log=False,
                timeout_graceful_shutdown=0,  # an answer that stalls ends with the server
            )
        )
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="adk-stream-replay", daemon=True
        )
        self._thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError("the replay server did not start")
            time.sleep(0.005)
        return self

    def stop(self) -> None:
        """End all answers and close the port. Stopping again does nothing."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(_START_SECONDS)
        if self._socket is not None:
            self._socket.close()
        self._socket = self._server = self._thread = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # ------------------------------------------------------------- one request

    async def _answer(self, request: Request) -> Response:
        path = request.url.path
        found = _dialect_of(path)
        if found is None:
            message = f"no provider has a stream at {path}"
            return JSONResponse({"error": {"code": 404, "message": message}}, status_code=404)
        line, dialect, match = found
        try:
            body = decode_json(await _read_body(request))
        except ValueError as problem:
            return _Performance(error_script(dialect, 400, f"the body is not readable: {problem}"))
        self.requests.append(SeenRequest(path, dict(request.headers), body, dict(request.query_params)))
        del self.requests[:-MAX_SEEN]
        return _Performance(self._script(line, dialect, match, request, body))

    def _script(self, line: str, dialect: Dialect, match: re.Match[str], request: Request, body: Any) -> Script:
        named = match.groupdict()
        asked = body if isinstance(body, Mapping) else {}
        streams = named["method"] == "streamGenerateContent" if "method" in named else asked.get("stream") is True
        if not streams:
            return error_script(dialect, 501, "this server replays streams: ask for one")
        model = str(named.get("model") or asked.get("model") or "")
        recording = self._next(line, model)
        if recording is None:
            return error_script(dialect, 404, f"there is no recording of {line} for model {model!r}")
        try:
            faults = self._faults_of(request)
            script = replay_script(
                recording,
                dialect,
                as_array=line == "gemini" and request.query_params.get("alt") != "sse",
                pace=self._pace,
                by_event=bool(faults),
            )
            for fault in faults:
                script = fault.apply(script)
        except FaultError as problem:
            return error_script(dialect, 400, str(problem))
        return script

    def _next(self, line: str, model: str) -> Recording | None:
        recordings = self._recordings[line]
        of_model = [r for r in recordings if model in (r.name, r.metadata.get("model"))]
        if not recordings:
            return None
        key = (line, model if of_model else "")
        turn = self._turns[key] = self._turns.get(key, -1) + 1
        choice = of_model or recordings
        return choice[turn % len(choice)]

    def _faults_of(self, request: Request) -> tuple[Fault, ...]:
        """The faults of this answer. A queued one stays in the queue while a request brings its own."""
        header = request.headers.get(FAULT_HEADER)
        if header is not None:
            return as_faults(header)
        return self._queue.popleft() if self._queue else self._faults


def _dialect_of(path: str) -> tuple[str, Dialect, re.Match[str]] | None:
    for line, dialect in DIALECTS.items():
        match = dialect.path.search(path)
        if match is not None:
            return line, dialect, match
    return None


async def _read_body(request: Request) -> bytes:
    body: list[bytes] = []
    size = 0
    async for piece in request.stream():
        body.append(piece)
        size += len(piece)
        if size > _MAX_BODY_BYTES:
            raise ValueError(f"larger than {_MAX_BODY_BYTES} bytes")
    return b"".join(body)


class _Performance(Response):
    """Plays a script to the client."""

    def __init__(self, script: Script) -> None:
        super().__init__(status_code=script.status, headers=script.headers, media_type=None)
        del self.headers["content-length"]  # a stream does not know its length before its end
        self.headers["content-type"] = script.content_type
        self._script = script

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        script, start = self._script, anyio.current_time()
        if await _client_leaves(receive, start + script.begin):
            return
        await send({"type": "http.response.start", "status": script.status, "headers": self.raw_headers})
        for step in script.steps:
            if await _client_leaves(receive, start + step.at):
                return
            await send({"type": "http.response.body", "body": step.data, "more_body": True})
        if await _client_leaves(receive, start + script.end.at):
            return
        if script.dropped:  # a body without its last message: the server can only break off the connection
            return
        await send({"type": "http.response.body", "body": script.end.data, "more_body": False})


async def _client_leaves(receive: Receive, until: float) -> bool:
    """Wait until that time; True, at once, when the client has closed the connection."""
    if until <= anyio.current_time():
        return False
    with anyio.CancelScope(deadline=until):
        while (await receive())["type"] != "http.disconnect":
            pass
        return True
    return False
