"""LiveServer: a local Gemini Live server that real clients speak to, with a script or with recordings.

::

    from google import genai
    from adk_stream.testing import LiveServer
    from adk_stream.testing.live_messages import go_away, resumption, spoken, text, tool_call, turn_complete
    from adk_stream.testing.live_script import Close, Conversation, Interruptible, STALL, Utterance, Wait, paced

    conversation = Conversation(
        [Wait("text"), text("Let me look. "), tool_call("look_up", {"city": "Oslo"}, id="c1"),
         Wait("tool_response", ids=("c1",)), text("Rain."), turn_complete()],
        [Utterance(), Interruptible(paced(spoken("It will rain all day."), 0.05), STALL)],
        [Utterance(), spoken("Yes?", lag="turn_complete"), resumption("h1"), go_away(1), Close(1001)],
        [Wait("text"), text("Where were we?"), turn_complete()],
    )
    with LiveServer(conversation, faults="stall=0.5@3") as server:
        client = genai.Client(**server.client_options())
        async with client.aio.live.connect(model="any", config={"response_modalities": ["AUDIO"]}) as session:
            await session.send_client_content(turns={"role": "user", "parts": [{"text": "Weather in Oslo?"}]})
            async for message in session.receive():
                ...
        server.wait_for("tool_response")[0].function_responses

It serves ``…BidiGenerateContent`` under any path and version over TLS, with a certificate of its own:
``client_options`` brings what google-genai needs, ``ca_file`` goes to other programs as ``SSL_CERT_FILE``. For
google-adk: ``Gemini(model=…, client=genai.Client(**server.client_options()))``.

Frames go out binary, as Google's do. Limits: a message of the client has 16 MiB at most; the last 1000 messages
are kept, and of those no more than 64 MiB.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import ssl
import threading
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from adk_stream.recording import Recording, load_recording
from adk_stream.testing import live_messages
from adk_stream.testing.certificate import Certificate
from adk_stream.testing.faults import FAULT_HEADER, FaultError
from adk_stream.testing.live_client import ClientMessage, Kind
from adk_stream.testing.live_faults import LiveFault, as_live_faults
from adk_stream.testing.live_performance import Inbox, Performance
from adk_stream.testing.live_replay import replay_conversation
from adk_stream.testing.live_script import Conversation, as_steps
from adk_stream.testing.seen import MAX_SEEN, SeenRequest

__all__ = ["LiveServer"]

_PATH = re.compile(r"BidiGenerateContent(Constrained)?$")
_DEFAULT_PATH = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
_MAX_MESSAGE_BYTES = 16 * 1024 * 1024
_MAX_SEEN_BYTES = 64 * 1024 * 1024
_MAX_HANDLES = 1000
_START_SECONDS = 10.0
_CLOSE_SECONDS = 5.0  # for the client to answer a close frame
_STOP_SECONDS = 0.4  # for all of them when the server stops
_INVALID_DATA, _POLICY_VIOLATION = 1007, 1008  # RFC 6455, 7.4.1; Google closes with these


class _Connection(ServerConnection):
    """One connection, and what goes wrong with it."""

    faults: tuple[LiveFault, ...] = ()


class LiveServer:
    """Serves Live sessions over TLS, in a thread of its own; see the module for an example.

    A connection plays the conversation that has its model among its names; of several, or none, the next in
    turn. One that resumes with a handle goes on in that handle's conversation. When the script is over, the
    connection stays open until the client leaves.

    Args:
        conversations: What is said: a conversation, a recording, the path of one, or several of these.
        pace: What recorded times are multiplied by: 0 at once, 1 as recorded. Pauses of a script stay.
        faults: What goes wrong with every connection; see ``live_faults``. Queued faults come before these,
            and those of a handshake's ``x-adk-stream-fault`` header before both.
        host: The address to listen on.
        port: The port; 0 takes a free one.

    Attributes:
        requests: The last 1000 sessions, in order: path and headers of the handshake, and the setup.

    Raises:
        RecordingError: a recording cannot be read, or is of another line.
        FaultError: there is no such fault.
        ValueError: there is no conversation, or ``pace`` is negative or not a number.
    """

    def __init__(
        self,
        conversations: Conversation | Recording | str | os.PathLike[str] | Iterable[Any],
        *,
        pace: float = 0.0,
        faults: LiveFault | str | Iterable[LiveFault | str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        if not pace >= 0:
            raise ValueError(f"pace is a factor from 0, not {pace!r}")
        if isinstance(conversations, Conversation | Recording | str | os.PathLike):
            conversations = (conversations,)
        self._conversations = [_conversation(given, pace) for given in conversations]
        if not self._conversations:
            raise ValueError("a Live server needs a conversation")
        self.requests: list[SeenRequest] = []
        self._faults = as_live_faults(faults or ())
        self._queue: deque[tuple[LiveFault, ...]] = deque()
        self._rounds: dict[str, int] = {}
        self._handles: dict[str, tuple[Conversation, int]] = {}
        self._messages: deque[tuple[ClientMessage, int]] = deque(maxlen=MAX_SEEN)
        self._messages_bytes = 0
        self._connections = 0
        self._seen = threading.Condition()
        self._address = (host, port)
        self._socket: socket.socket | None = None
        self._certificate: Certificate | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()

    def queue_fault(self, *faults: LiveFault | str) -> None:
        """What goes wrong with the next connection that no earlier call was for; no faults: nothing does."""
        self._queue.append(as_live_faults(faults))

    # ------------------------------------------------------------- what clients have sent

    @property
    def messages(self) -> list[ClientMessage]:
        """The last messages of all clients, in order of arrival, without the setups."""
        with self._seen:
            return [message for message, _ in self._messages]

    def wait_for(self, kind: Kind, count: int = 1, timeout: float = 5.0) -> list[ClientMessage]:
        """The messages of that kind, once there are so many: what a client has sent, the server may not have yet.

        Raises:
            TimeoutError: that many have not come.
        """
        with self._seen:
            if self._seen.wait_for(lambda: len(self._of(kind)) >= count, timeout):
                return self._of(kind)
            raise TimeoutError(f"{len(self._of(kind))} messages of kind {kind!r} in {timeout} s, not {count}")

    def _of(self, kind: Kind) -> list[ClientMessage]:
        return [message for message, _ in self._messages if kind in message.kinds]

    def _keep(self, message: ClientMessage, size: int) -> None:
        with self._seen:
            if len(self._messages) == MAX_SEEN:
                self._messages_bytes -= self._messages.popleft()[1]
            self._messages.append((message, size))
            self._messages_bytes += size
            while self._messages_bytes > _MAX_SEEN_BYTES:
                self._messages_bytes -= self._messages.popleft()[1]
            self._seen.notify_all()

    # ------------------------------------------------------------- how to reach it

    @property
    def url(self) -> str:
        """The base URL for google-genai, without a slash at its end.

        Raises:
            RuntimeError: the server is not running (as for all of these).
        """
        return f"https://{self._authority()}"

    @property
    def websocket_url(self) -> str:
        """The whole URL, for clients that take one."""
        return f"wss://{self._authority()}{_DEFAULT_PATH}"

    @property
    def ca_file(self) -> Path:
        """The file (PEM) that makes a client trust this server, for ``SSL_CERT_FILE``."""
        return self._running_certificate().ca_file

    @property
    def ssl_context(self) -> ssl.SSLContext:
        """What a client trusts this server with."""
        return self._running_certificate().client_context

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which ``genai.Client()`` of another process finds this server and trusts it."""
        return {"GOOGLE_API_KEY": "local", "GOOGLE_GEMINI_BASE_URL": self.url, "SSL_CERT_FILE": str(self.ca_file)}

    def client_options(self, *, vertexai: bool = False) -> dict[str, Any]:
        """What ``google.genai.Client`` takes to speak with this server, for the Live API only.

        Args:
            vertexai: Whether the client speaks as one of Vertex AI.
        """
        way = {"vertexai": True} if vertexai else {"api_key": "local"}
        base_url = self.websocket_url if vertexai else self.url  # without a project, Vertex's is the whole URL
        return {**way, "http_options": {"base_url": base_url, "async_client_args": {"ssl": self.ssl_context}}}

    def _authority(self) -> str:
        if self._socket is None:
            raise RuntimeError("the Live server is not running")
        host, port = self._socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def _running_certificate(self) -> Certificate:
        if self._certificate is None:
            raise RuntimeError("the Live server is not running")
        return self._certificate

    # ------------------------------------------------------------- the server

    def start(self) -> Self:
        """Listen, and return when connections are answered.

        Raises:
            OSError: the address cannot be listened on.
            RuntimeError: the server runs already.
        """
        if self._socket is not None:
            raise RuntimeError("the Live server is running")
        host = self._address[0]
        self._socket = socket.create_server(self._address, family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        # asyncio does this only for sockets that name their protocol; those that are accepted inherit it.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ready: Future[None] = Future()
        try:
            self._certificate = Certificate(host)
            self._thread = threading.Thread(
                target=self._run, args=(ready, self._socket, self._certificate), name="adk-stream-live", daemon=True
            )
            self._thread.start()
            ready.result(_START_SECONDS)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End all sessions and close the port, within a second. Stopping again does nothing."""
        if self._thread is not None:
            if self._loop is not None:
                with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                    self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(_START_SECONDS)
        if self._socket is not None:
            self._socket.close()
        if self._certificate is not None:
            self._certificate.remove()
        self._socket = self._certificate = self._thread = self._loop = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self, ready: Future[None], listening: socket.socket, certificate: Certificate) -> None:
        try:
            asyncio.run(self._serve(ready, listening, certificate))
        except BaseException as problem:
            if ready.done():
                raise
            ready.set_exception(problem)

    async def _serve(self, ready: Future[None], listening: socket.socket, certificate: Certificate) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        server = await serve(
            self._converse,
            sock=listening,
            ssl=certificate.server_context,
            process_request=self._receive_handshake,
            create_connection=_Connection,
            compression=None,
            ping_interval=None,  # a test may hold its client still for as long as it likes
            close_timeout=_CLOSE_SECONDS,
            max_size=_MAX_MESSAGE_BYTES,
        )
        ready.set_result(None)
        await self._stopping.wait()
        server.close()
        for _ in range(2):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(server.wait_closed(), _STOP_SECONDS)
            for connection in server.connections:  # a client that does not close
                connection.transport.abort()

    # ------------------------------------------------------------- one connection

    def _receive_handshake(self, connection: ServerConnection, request: Request) -> Response | None:
        """The refusal of a handshake, if it is refused."""
        if not _PATH.search(urlsplit(request.path).path):
            return connection.respond(HTTPStatus.NOT_FOUND, f"no Live API at {request.path}\n")
        assert isinstance(connection, _Connection)
        try:
            connection.faults = self._faults_of(request)
        except FaultError as problem:
            return connection.respond(HTTPStatus.BAD_REQUEST, f"{problem}\n")
        status = next((fault.refusal for fault in connection.faults if fault.refusal), None)
        return None if status is None else connection.respond(status, "the server refuses this session\n")

    def _faults_of(self, request: Request) -> tuple[LiveFault, ...]:
        """The faults of this connection. A queued one stays in the queue while a handshake brings its own."""
        header = request.headers.get(FAULT_HEADER)
        if header is not None:
            return as_live_faults(header)
        return self._queue.popleft() if self._queue else self._faults

    async def _converse(self, connection: ServerConnection) -> None:
        assert isinstance(connection, _Connection)
        number, self._connections = self._connections, self._connections + 1
        inbox = Inbox()
        try:
            setup = ClientMessage.decode(await connection.recv(), number)
        except ConnectionClosed:
            return
        except ValueError as problem:
            await connection.close(_INVALID_DATA, _reason(problem))
            return
        if setup.setup is None:
            await connection.close(_INVALID_DATA, "setup must be the first message")
            return
        self._keep_request(connection, setup)
        found = self._find(setup)
        if found is None:
            await connection.close(_POLICY_VIOLATION, "there is no session with this handle")
            return
        conversation, first_turn = found

        def keep_handle(handle: str, turn: int) -> None:
            self._handles[handle] = (conversation, turn)
            if len(self._handles) > _MAX_HANDLES:
                del self._handles[next(iter(self._handles))]

        performance = Performance(
            connection,
            conversation.turns,
            inbox,
            setup=as_steps(live_messages.setup_complete()) if conversation.setup is None else conversation.setup,
            first_turn=first_turn,
            faults=connection.faults,
            on_handle=keep_handle,
        )
        async with asyncio.TaskGroup() as tasks:
            playing = tasks.create_task(performance.play())
            await self._listen(connection, inbox, number)
            playing.cancel()

    async def _listen(self, connection: ServerConnection, inbox: Inbox, number: int) -> None:
        """Take in what the client sends until it leaves."""
        with contextlib.suppress(ConnectionClosed):
            async for frame in connection:
                try:
                    message = ClientMessage.decode(frame, number)
                except ValueError as problem:
                    await connection.close(_INVALID_DATA, _reason(problem))
                    return
                self._keep(message, len(frame))
                inbox.put(message)

    def _keep_request(self, connection: ServerConnection, setup: ClientMessage) -> None:
        request = connection.request
        assert request is not None
        url = urlsplit(request.path)
        headers = {name.lower(): value for name, value in request.headers.raw_items()}
        self.requests.append(SeenRequest(url.path, headers, setup.setup, dict(parse_qsl(url.query))))
        del self.requests[:-MAX_SEEN]

    def _find(self, setup: ClientMessage) -> tuple[Conversation, int] | None:
        """The conversation of this session, and the turn that it goes on with."""
        if setup.handle is not None:
            return self._handles.get(setup.handle)
        named = [conversation for conversation in self._conversations if setup.model in conversation.names]
        key = setup.model if named else ""
        place = self._rounds[key] = self._rounds.get(key, -1) + 1
        choice = named or self._conversations
        return choice[place % len(choice)], 0


def _conversation(given: Any, pace: float) -> Conversation:
    if isinstance(given, Conversation):
        return given
    recording = given if isinstance(given, Recording) else load_recording(given)
    return replay_conversation(recording, pace=pace)


def _reason(problem: ValueError) -> str:
    """The reason of a close frame, which has little room."""
    return f"unreadable: {problem}".encode()[:120].decode(errors="ignore")
