"""Runs that outlive their requests: each is a task that reads its run to the end and publishes it to the relay.

Whoever started a run may leave; whoever comes later follows it from the relay, in this process or another. One run
at a time goes on in a session: a second is refused, not queued, since its client could not see why it waits.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any

from adk_stream.errors import RelayUnavailableError
from adk_stream.relay import carry
from adk_stream.sessions.event import new_id
from adk_stream.sessions.stored import SessionKey

from .limits import Limits
from .observer import RunObserver
from .problems import Problem
from .slots import Slots

if TYPE_CHECKING:
    from google.genai import types

    from adk_stream.relay import Producer, Relay
    from adk_stream.runner import LiveRun, Run, Runner
    from adk_stream.sessions import Event

__all__ = ["Runs", "ServedRun", "run_as_json"]

_log = logging.getLogger("adk_stream.server")


class ServedRun:
    """One run of this process.

    Attributes:
        id: Of the run, and of its stream in the relay.
        session: The session that it goes on in.
        status: ``in_progress``, then how it ended.
        error_code: Why it did not end by itself.
        began: When, in seconds since the epoch.
        seconds: How long it took; None while it goes on.
    """

    def __init__(self, key: SessionKey, events: Run) -> None:
        self.id = f"{_mark(key)}{new_id()}"
        self.session = key
        self.status = "in_progress"
        self.error_code: str | None = None
        self.began = time.time()
        self.seconds: float | None = None
        self._start = time.monotonic()
        self._events = events
        self._task: asyncio.Task[None] | None = None

    async def cancel(self) -> None:
        """End it as ``cancelled``; its followers see that, and what had come is stored, when this returns."""
        await self._events.cancel()
        await self.ended()

    def cancel_soon(self) -> None:
        """``cancel``, without waiting for it."""
        self._cancelling = asyncio.create_task(self.cancel())

    def as_json(self) -> dict[str, Any]:
        """What a client is told of it."""
        return run_as_json(self.id, self.session, self.status, self.error_code)

    async def ended(self) -> None:
        """Return when the run is over and its followers know."""
        if self._task is not None:
            await asyncio.wait([self._task])


class Runs:
    """The runs of this process, and the way to those of others.

    Attributes:
        slots: Of runs and completions that there may be at once.
    """

    def __init__(self, relay: Relay, limits: Limits, observer: RunObserver) -> None:
        self.slots = Slots(limits.max_runs, "runs")
        self._relay = relay
        self._observer = observer
        self._by_id: dict[str, ServedRun] = {}
        self._live: dict[SessionKey, LiveRun] = {}
        self._stopping = False

    @property
    def stopping(self) -> bool:
        """Whether no further run is taken."""
        return self._stopping

    async def start(
        self,
        runner: Runner,
        key: SessionKey,
        message: types.Content | str,
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> ServedRun:
        """Begin a run; it goes on by itself.

        Args:
            runner: Whose run it is.
            key: The session.
            message: What the user says.
            prepare: Done first, once the session is this run's.

        Raises:
            Problem: 409, a run of that session goes on; 429, too many do; 503, the service is about to stop.
        """
        await self.check_free(key)
        self.slots.take()
        run = ServedRun(key, runner.run_async(user_id=key.user_id, session_id=key.session_id, new_message=message))
        self._by_id[run.id] = run
        try:
            if prepare is not None:
                await prepare()
            producer = await self._relay.open(run.id, session=key)
            self._check_open()
        except BaseException:
            self._forget(run)
            raise
        run._task = asyncio.create_task(self._serve(run, producer), name=f"adk-stream-run-{run.id}")
        self._observer.began(run)
        return run

    @contextmanager
    def live(self, key: SessionKey, run: LiveRun) -> Iterator[None]:
        """While this is entered, the live run takes up its session and a slot.

        Raises:
            Problem: as ``start``.
        """
        self._check_free(key)
        with self.slots.taken():
            self._live[key] = run
            try:
                yield
            finally:
                del self._live[key]

    def _check_free(self, key: SessionKey) -> None:
        self._check_open()
        run_id = next((run.id for run in self._by_id.values() if run.session == key), None)
        if run_id is not None or key in self._live:
            raise _busy(run_id)

    async def check_free(self, key: SessionKey) -> None:
        """Does no run go on in that session, in whichever process? What is written to it meanwhile would break it.

        Raises:
            Problem: 409, one does; 503, the service is about to stop.
        """
        going_on = await self.of_session(key)
        if going_on is not None:
            raise _busy(going_on)
        self._check_free(key)  # another request may have been quicker

    def _check_open(self) -> None:
        if self._stopping:
            raise Problem(503, "the service is about to stop", headers={"retry-after": "5"})

    async def of_session(self, key: SessionKey) -> str | None:
        """The id of the run that goes on in a session, in whichever process.

        Two processes may begin a run of one session at the same moment: then the store refuses the second's writes.
        """
        mark = _mark(key)
        running = [*self._by_id]
        try:
            running += await self._relay.running()
        except RelayUnavailableError:  # it stops no run
            pass
        return next((run_id for run_id in running if run_id.startswith(mark)), None)

    async def cancel(self, run_id: str) -> None:
        """End a run as ``cancelled``, wherever it goes on."""
        run = self._by_id.get(run_id)
        if run is not None:
            await run.cancel()
        else:
            await self._relay.cancel(run_id)

    async def drain(self, seconds: float) -> None:
        """Take no further run, give those that go on that long, then cancel them; return when all are over.

        Live conversations have no end of their own: they are cancelled at once.
        """
        self._stopping = True
        await asyncio.gather(*(run.cancel() for run in list(self._live.values())))
        tasks = [run._task for run in self._by_id.values() if run._task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)
        await asyncio.gather(*(run.cancel() for run in list(self._by_id.values())))

    async def _serve(self, run: ServedRun, producer: Producer) -> None:
        error: Exception | None = None
        try:
            await carry(_Watched(run, self._observer), producer)
        except Exception as problem:
            error = problem
            _log.warning("run %s of session %r ended with %r", run.id, run.session.session_id, problem)
        finally:
            run.seconds = time.monotonic() - run._start
            self._forget(run)
            self._observer.ended(run, error)

    def _forget(self, run: ServedRun) -> None:
        del self._by_id[run.id]
        self.slots.give_back()


def _busy(run_id: str | None) -> Problem:
    """Of a session that has a run already; a live one has no id."""
    members = {} if run_id is None else {"runId": run_id}
    return Problem(409, "a run of this session goes on", members=members)


class _Watched:
    """The events of a run as they are published."""

    def __init__(self, run: ServedRun, observer: RunObserver) -> None:
        self._run = run
        self._observer = observer

    async def __aiter__(self) -> AsyncGenerator[Event, None]:
        run = self._run
        async with aclosing(run._events) as events:
            async for event in events:
                if not event.partial:
                    run.status, run.error_code = event.status or run.status, event.error_code
                yield event
                self._observer.published(run, event)

    async def cancel(self) -> None:
        """The run ends as cancelled, and still gives the events that say so."""
        await self._run._events.cancel()


def run_as_json(run_id: str, session: SessionKey | None, status: str, error_code: str | None) -> dict[str, Any]:
    """What a client is told of a run."""
    told: dict[str, Any] = {"runId": run_id, "status": status}
    if session is not None:
        app_name, user_id, session_id = session
        told |= {"appName": app_name, "userId": user_id, "sessionId": session_id}
    return told if error_code is None else {**told, "errorCode": error_code}


def _mark(key: SessionKey) -> str:
    """What the ids of a session's runs begin with: so any process finds the one that goes on."""
    return hashlib.blake2b("/".join(key).encode(), digest_size=8).hexdigest() + "-"
