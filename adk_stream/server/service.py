"""``Service``: what the routes share. Opened when the server starts, closed when it stops."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, aclosing
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from adk_stream.errors import AdkStreamError
from adk_stream.relay import Delivery, End, open_relay
from adk_stream.sessions import Event, EventActions, GetSessionConfig, open_session_service
from adk_stream.sessions.stored import SessionKey

from .agents import Agents
from .limits import checked_name
from .problems import Problem
from .runs import Runs, ServedRun
from .slots import Slots
from .sse import EventStream

if TYPE_CHECKING:
    from google.genai import types
    from starlette.requests import HTTPConnection

    from adk_stream.encoders import Encoder
    from adk_stream.models.request import ToolLike
    from adk_stream.relay import Relay, StreamStatus
    from adk_stream.sessions import Session, SessionService

    from .config import ServerConfig

__all__ = ["RUN_ID", "Service", "service_of"]

#: The header that tells which run an answer shows.
RUN_ID = "x-run-id"


class Service:
    """The store, the relay, the models and the runs of one process.

    Attributes:
        config: As it was given.
        sessions: The store.
        relay: Where running streams are followed.
        agents: The models by name.
        runs: Those of this process.
        followers: Slots of streams of events.
    """

    #: What reads a session without its events.
    NO_EVENTS = GetSessionConfig(num_recent_events=0)

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        given = config.sessions
        self.sessions: SessionService = open_session_service(given) if isinstance(given, str) else given
        self.agents = Agents(config, self.sessions)
        self.relay: Relay = open_relay(config.redis_url, reload=self.sessions, options=config.relay)
        self.runs = Runs(self.relay, config.limits, config.observer)
        self.followers = Slots(config.limits.max_followers, "streams of events")
        self._exits = AsyncExitStack()

    async def __aenter__(self) -> Self:
        if isinstance(self.config.sessions, str):
            await self._exits.enter_async_context(self.sessions)
        await self._exits.enter_async_context(self.relay)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what still runs; close the relay and the store."""
        await self.runs.drain(self.config.limits.drain_seconds)
        await self._exits.aclose()

    # ------------------------------------------------------------- sessions

    def key(self, app_name: str, user_id: str, session_id: str) -> SessionKey:
        """The three names of a session.

        Raises:
            Problem: 404, there is no such application; 422, a name is none.
        """
        self.agents.model(app_name)
        checked_name("a user's id", user_id)
        return SessionKey(app_name, user_id, checked_name("a session's id", session_id))

    def owner(self, request: HTTPConnection) -> tuple[str, str]:
        """Application and user in a path; see ``key``."""
        params = request.path_params
        self.agents.model(params["app"])
        return params["app"], checked_name("a user's id", params["user"])

    def key_of(self, request: HTTPConnection) -> SessionKey:
        """Application, user and session in a path; see ``key``."""
        params = request.path_params
        return self.key(params["app"], params["user"], params["session"])

    async def change_state(self, key: SessionKey, delta: Mapping[str, Any]) -> Session:
        """Change a session's state; the session afterwards, with its events.

        Raises:
            Problem: 404, there is none; 409, it has a run.
        """
        session = await self.session(key)
        await self.runs.check_free(key)
        await self._change_state(session, delta)
        return session

    async def _change_state(self, session: Session, delta: Mapping[str, Any]) -> None:
        """Append an event that says nothing."""
        event = Event(author="user", actions=EventActions(state_delta=dict(delta)))
        await self.sessions.append_event(session, event)

    async def session(self, key: SessionKey, config: GetSessionConfig | None = None) -> Session:
        """The session with the events that ``config`` asks for.

        Raises:
            Problem: 404, there is none.
        """
        app_name, user_id, session_id = key
        found = await self.sessions.get_session(
            app_name=app_name, user_id=user_id, session_id=session_id, config=config
        )
        if found is None:
            raise Problem(404, f"there is no session {session_id!r}")
        return found

    async def session_or_new(self, key: SessionKey) -> Session:
        """The session with its events; one is made if there is none."""
        app_name, user_id, session_id = key
        found = await self.sessions.get_session(app_name=app_name, user_id=user_id, session_id=session_id)
        if found is not None:
            return found
        return await self.sessions.create_session(app_name=app_name, user_id=user_id, session_id=session_id)

    # ------------------------------------------------------------- runs

    async def start(
        self,
        key: SessionKey,
        message: types.Content | str,
        *,
        client_tools: Iterable[ToolLike] = (),
        state_delta: Mapping[str, Any] | None = None,
    ) -> ServedRun:
        """Begin a run in a session that is there.

        Args:
            key: The session.
            message: What the user says, or the answers to calls that were left to the client.
            client_tools: Declarations of tools that the client runs.
            state_delta: Changes of the session's state before it.

        Raises:
            Problem: 404, no such session; 409, it is full, or has a run; 429, too many runs; 503, about to stop.
        """
        session = await self.session(key, self.NO_EVENTS)
        if session.revision >= self.config.limits.max_session_events:
            raise Problem(409, f"the session holds {session.revision} events, as many as one may")
        runner = self.agents.runner(key.app_name, client_tools)
        change = partial(self._change_state, session, state_delta) if state_delta else None
        return await self.runs.start(runner, key, message, change)

    async def answer(
        self, key: SessionKey, message: types.Content | str, encoder: Callable[[str], Encoder[Any]], **options: Any
    ) -> EventStream:
        """Begin a run, and show it as the answer to the request.

        Args:
            key: As for ``start``.
            message: Likewise.
            encoder: Makes the encoder, from the run's id.
            **options: Further arguments of ``start``.

        Raises:
            Problem: as ``start``; 429, too many streams are shown.
        """
        self.followers.check()
        run = await self.start(key, message, **options)
        encoding = encoder(run.id)
        return self.stream(self._own(run, encoding), {**encoding.headers, RUN_ID: run.id})

    async def status(self, run_id: str) -> StreamStatus:
        """How a run stands, wherever it goes on.

        Raises:
            Problem: 404, there is no such run, or it is kept no longer.
        """
        status = await self.relay.status(run_id)
        if status is None:
            raise Problem(404, f"there is no run {run_id!r}")
        return status

    # ------------------------------------------------------------- streams of events

    def stream(self, frames: AsyncIterator[bytes], headers: Mapping[str, str]) -> EventStream:
        """The frames as an answer."""
        return EventStream(frames, headers=headers, limits=self.config.limits, slots=self.followers)

    async def _own(self, run: ServedRun, encoder: Encoder[Any]) -> AsyncGenerator[bytes, None]:
        """The frames of a run; when the client leaves them in the middle, the run is cancelled if that is wished."""
        left = True
        try:
            async with aclosing(self.frames(run.id, encoder)) as frames:
                async for frame in frames:
                    yield frame
            left = False
        finally:
            if left and self.config.cancel_when_left:
                run.cancel_soon()

    async def frames(self, run_id: str, encoder: Encoder[Any]) -> AsyncGenerator[bytes, None]:
        """A run from its beginning, in the encoder's format."""
        async with aclosing(self._encoded(run_id, encoder)) as batches:
            async for events in batches:
                if events:
                    yield b"".join(map(encoder.frame, events))

    async def collected(self, run: ServedRun, encoder: Encoder[Any]) -> list[Any]:
        """All events of a run, once it is over."""
        return [event async for events in self._encoded(run.id, encoder) for event in events]

    async def _encoded(self, run_id: str, encoder: Encoder[Any]) -> AsyncGenerator[list[Any], None]:
        """A run in an encoder's events. What fell into a gap comes as finals, which hold what partials showed."""
        status: str | None = None
        async with aclosing(self.relay.subscribe(run_id)) as items:
            async for item in items:
                if isinstance(item, Delivery):
                    status = item.response.status or status
                    yield encoder.encode(item.response)
                elif isinstance(item, End):
                    yield encoder.finish(None if status == item.status else RunEndedError(item))


class RunEndedError(AdkStreamError):
    """How a run ended, where none of its responses says so: its process died, or it raised."""

    def __init__(self, end: End) -> None:
        super().__init__(end.error_message or "the run broke off")
        self.code = end.error_code


def service_of(connection: HTTPConnection) -> Service:
    """The service that this request came to."""
    service: Service = connection.app.state.service
    return service
