"""The live form of a run: one conversation by voice, its tools, and what of it is kept.

The model does not wait for slow tools, but a session stored later has to read as if it had: each message with calls is
followed directly by their answers. So what comes after a call is shown at once, and stored when the answers are there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TypeAlias

from google.genai import types

from adk_stream.aggregator.ending import fault_of
from adk_stream.errors import ConnectionLostError, RequestError, SessionNotFoundError, StaleSessionError
from adk_stream.models.history import ModelTurn, turns
from adk_stream.response import LlmResponse
from adk_stream.sessions.event import Event, new_id

from .run import Run, RunningRuns
from .shield import to_the_end
from .showing import EventMaker, stored_form
from .turns import CallTurn, open_calls, split_message
from .usage import sum_usage

if TYPE_CHECKING:
    from adk_stream.live import LiveStream
    from adk_stream.sessions import Session, SessionService

    from .locks import Key
    from .loop import Settings
    from .watch import RunWatch

__all__ = ["LiveRequestQueue", "LiveRun", "live_run"]

_log = logging.getLogger("adk_stream.runner")

#: A method of ``LiveStream`` and its arguments, or a message to be stored and sent; None ends the run.
_Request: TypeAlias = "types.Content | tuple[str, tuple[Any, ...]] | None"


class LiveRequestQueue:
    """What the user says in a live run, from first to last. For one event loop, and one run.

    Args:
        limit: Pieces of audio or video that wait at most; beyond it the oldest are dropped. Messages never are.
    """

    def __init__(self, limit: int = 10_000) -> None:
        self._limit = limit
        self._requests: deque[_Request] = deque()
        self._pieces = 0  # of audio and video among them
        self._filled = asyncio.Event()
        self._closed = False

    def send_content(self, content: types.Content | str) -> None:
        """A message, which is stored; or the answers of calls that the caller runs, as function responses.

        Raises:
            RuntimeError: (as all of these) the queue was closed.
            ValueError: the content says nothing.
        """
        answers, said = split_message(content)
        if said is not None:
            self._put(said)
        if answers:
            self._put(("send_function_responses", (answers,)))

    def send_realtime(self, blob: types.Blob) -> None:
        """A piece of audio, or an image of a video; not stored."""
        self._put(("send_blob", (blob,)))
        self._pieces += 1
        if self._pieces > self._limit:
            oldest = next(place for place, request in enumerate(self._requests) if _is_piece(request))
            del self._requests[oldest]
            self._pieces -= 1

    def send_activity_start(self) -> None:
        """The user begins to speak."""
        self._put(("send_activity_start", ()))

    def send_activity_end(self) -> None:
        """The user has spoken."""
        self._put(("send_activity_end", ()))

    def send_audio_end(self) -> None:
        """The microphone is off for now."""
        self._put(("send_audio_end", ()))

    def close(self) -> None:
        """End the run, once everything before has been sent. Again: does nothing."""
        if not self._closed:
            self._put(None)
            self._closed = True

    async def get(self) -> _Request:
        """The next request, once there is one."""
        while not self._requests:
            self._filled.clear()
            await self._filled.wait()
        request = self._requests.popleft()
        self._pieces -= _is_piece(request)
        return request

    def _put(self, request: _Request) -> None:
        if self._closed:
            raise RuntimeError("the queue was closed")
        self._requests.append(request)
        self._filled.set()


def _is_piece(request: _Request) -> bool:
    return isinstance(request, tuple) and request[0] == "send_blob"


class LiveRun(Run):
    """A live run: its events, as ``Run`` says."""

    def __init__(self, loop: LiveLoop, running: RunningRuns) -> None:
        super().__init__(loop, running)
        self._stream = loop.stream

    @property
    def handle(self) -> str | None:
        """With what a later run goes on with the model's side of the conversation, if it can.

        As ``config={"session_resumption": {"handle": …}}`` of that run.
        """
        return self._stream.handle

    def playback_position(self, ms: float) -> None:
        """How much of the model's audio in this turn the user has heard; see ``LiveStream``."""
        self._stream.playback_position(ms)


def live_run(
    settings: Settings,
    running: RunningRuns,
    key: Key,
    requests: LiveRequestQueue,
    config: types.LiveConnectConfig | Mapping[str, Any] | None,
    send_history: bool,
    options: Mapping[str, Any],
) -> LiveRun:
    """A run that begins when its first event is asked for; see ``Runner.run_live``."""
    from adk_stream.live import LiveStream

    if not hasattr(settings.model, "connect_live"):
        raise RequestError(f"{settings.model.provider} has no live way to {settings.model.name}")
    given = types.LiveConnectConfig.model_validate(config or {})
    if settings.instruction is not None and given.system_instruction is None:
        given = given.model_copy(update={"system_instruction": settings.instruction})
    invocation_id = f"e-{new_id()}"
    watch = settings.watch(key, invocation_id)
    stream = LiveStream(
        settings.model,
        config=given,
        tools=settings.tools,
        toolbox=settings.toolbox.watched(watch),
        **{"unknown_tools": "error", "flush": settings.flush, **options},
    )
    waits = given.history_config is not None and bool(given.history_config.initial_history_in_client_content)
    loop = LiveLoop(
        settings, key, invocation_id, requests, stream, watch, tells_history=send_history, history_complete=waits
    )
    return LiveRun(loop, running)


class LiveLoop:
    """One live run; see ``run.Loop``."""

    def __init__(
        self,
        settings: Settings,
        key: Key,
        invocation_id: str,
        requests: LiveRequestQueue,
        stream: LiveStream,
        watch: RunWatch,
        *,
        tells_history: bool,
        history_complete: bool,
    ) -> None:
        self._settings = settings
        self._tells_history = tells_history
        self._history_complete = history_complete
        self._history: list[types.Content] = []  # what was said before this run
        self._key = key
        self._requests = requests
        self._watch = watch
        self._invocation_id = invocation_id
        self._makers: dict[str, EventMaker] = {}  # of what goes on side by side: two transcripts, and all else
        self._record: _Record | None = None
        self.stream = stream
        self.usage = types.GenerateContentResponseUsageMetadata()
        self.left: list[Event] = []

    @property
    def session_id(self) -> str:
        """The session that the run goes on with."""
        return self._key[2]

    async def events(self, noted: AbstractContextManager[None]) -> AsyncGenerator[Event, None]:
        """The run's events, while ``noted`` is entered."""
        settings = self._settings
        with noted, self._watch:
            await settings.locks.acquire(self._key, settings.session_patience)
            try:
                self._record = await self._open()
                async with self.stream:
                    if self._history:
                        await self.stream.send_content(self._history, turn_complete=self._history_complete)
                    sending = asyncio.create_task(self._send_all(), name="adk-stream-live-send")
                    try:
                        async for response in self.stream:
                            for event in await self._taken(response):
                                yield event
                    finally:
                        failed = await _stopped(sending)
                # the caller closed the queue, or the server the session
                for event in await to_the_end(self._keep_remains("the conversation ended")):
                    yield event
                if failed is not None and not isinstance(failed, ConnectionLostError):
                    raise failed
            except BaseException as trouble:
                await to_the_end(self._settle(trouble))
                raise
            finally:
                settings.locks.release(self._key)

    async def _open(self) -> _Record:
        app_name, user_id, session_id = self._key
        service = self._settings.service
        session = await service.get_session(app_name=app_name, user_id=user_id, session_id=session_id)
        if session is None:
            raise SessionNotFoundError(f"there is no session {session_id!r} of user {user_id!r} in {app_name!r}")
        record = _Record(service, session, self._invocation_id)
        left = open_calls(session.events)
        if left.calls:
            record.expect(left)
            await to_the_end(record.settle("nobody answered this call"))
        if self._tells_history and self.stream.handle is None:
            self._history = _history_of(session.events)
        return record

    # ------------------------------------------------------------- what the user says

    async def _send_all(self) -> None:
        """Send what is in the queue. When it was closed, or holds what cannot be sent, the session is left."""
        try:
            while (request := await self._requests.get()) is not None:
                await self._send(request)
        except (ConnectionLostError, asyncio.CancelledError):
            raise  # whoever reads knows why
        except BaseException:
            await self.stream.aclose()
            raise
        await self.stream.aclose()

    async def _send(self, request: types.Content | tuple[str, tuple[Any, ...]]) -> None:
        assert self._record is not None
        if isinstance(request, types.Content):
            event = Event(content=request.model_copy(deep=True), author="user", invocation_id=self._invocation_id)
            await to_the_end(self._record.add(event))
            await self.stream.send_content(request)
            return
        method, arguments = request
        if method == "send_function_responses":
            for answer in arguments[0]:
                await to_the_end(self._record.answer(answer))
        await getattr(self.stream, method)(*arguments)

    # ------------------------------------------------------------- what is kept

    async def _taken(self, response: LlmResponse) -> list[Event]:
        """The events of a response, all of them stored before the first is given out, if they are to be kept."""
        if response.partial:
            return [self._shown(response)]
        return await to_the_end(self._keep_all(_apart(response)))

    def _shown(self, response: LlmResponse) -> Event:
        """The event of a response. The partial ones bear the id of what they lead to."""
        kind = _kind_of(response)
        maker = self._makers.get(kind)
        if maker is None:
            author = "user" if kind == "input" else "model"
            maker = self._makers[kind] = EventMaker(id=new_id(), author=author, invocation_id=self._invocation_id)
        if not response.partial:
            del self._makers[kind]
        return maker.show(response)

    async def _keep_all(self, responses: Iterable[LlmResponse]) -> list[Event]:
        return [await self._keep(response) for response in responses]

    async def _keep(self, response: LlmResponse) -> Event:
        """The event of a final, stored when what stands before it can be."""
        assert self._record is not None
        shown = self._shown(response)
        self.usage = sum_usage(self.usage, shown.usage_metadata)
        answers = shown.get_function_responses()
        for answer in answers:
            await self._record.answer(answer)
        if answers:
            return shown
        calls = CallTurn.of([shown])
        passes = self._settings.toolbox.passes
        shown.long_running_tool_ids = {call.id or "" for call in calls.calls if passes(call)} or None
        await self._record.add(stored := stored_form(shown), calls)
        self._watch.stored(stored)
        for call_id in ((shown.provider_metadata or {}).get("tool_call_cancellation") or {}).get("ids", ()):
            await self._record.answer(_TAKEN_BACK.model_copy(update={"id": call_id}))
        return shown

    async def _keep_remains(self, unanswered: str) -> list[Event]:
        """Store what had come of a session that was left and was not read; calls without an answer get that."""
        assert self._record is not None
        final = self.stream.final
        cancelled = [final] if final is not None and final.status == "cancelled" else []
        remains = [*self.stream.unread, *cancelled]
        self.stream.unread, self.stream.final = [], None
        events = await self._keep_all(piece for response in remains for piece in _apart(response))
        await self._record.settle(unanswered)
        return events

    async def _settle(self, problem: BaseException) -> None:
        """Store what had come, such that the history can be sent."""
        if self._record is None or isinstance(problem, StaleSessionError):
            return  # the run had not begun, or the session is another writer's now
        try:
            status = fault_of(problem).status
            self.left += await self._keep_remains(f"the conversation was {status} before this call gave its result")
        except Exception as trouble:  # the first problem is the one to be told of
            _log.warning("session %r: what had come could not be stored: %r", self.session_id, trouble)


def _kind_of(response: LlmResponse) -> str:
    if response.input_transcription is not None:
        return "input"
    return "content" if response.output_transcription is None else "output"


def _apart(response: LlmResponse) -> list[LlmResponse]:
    """What each said, and all else: the last final of a session that broke off may hold several of these."""
    said = [name for name in _TRANSCRIPTS if getattr(response, name) is not None]
    if response.partial or not said or (len(said) == 1 and response.content is None):
        return [response]
    *before, last = said if response.content is None else (*said, None)
    pieces = [LlmResponse.model_validate({name: getattr(response, name), **_PIECE}) for name in before if name]
    return [*pieces, response.model_copy(update={name: None for name in said if name != last})]


_TRANSCRIPTS = ("input_transcription", "output_transcription")
_PIECE = {"partial": False, "status": "in_progress"}


def _history_of(events: Sequence[Event]) -> list[types.Content]:
    """What was said and called, for a model that has not heard it; no thoughts, and no files."""
    contents = []
    for turn in turns(events):
        role, said = ("model", _parts_of(turn)) if isinstance(turn, ModelTurn) else ("user", turn.parts)
        parts = [plain for part in said if (plain := _plain(part)) is not None]
        if parts:
            contents.append(types.Content(role=role, parts=parts))
    return contents


def _parts_of(turn: ModelTurn) -> list[types.Part]:
    return [part for response in turn.responses for part in response.parts]


def _plain(part: types.Part) -> types.Part | None:
    if part.thought or not (part.text or part.function_call or part.function_response):
        return None
    return types.Part(text=part.text, function_call=part.function_call, function_response=part.function_response)


_TAKEN_BACK = types.FunctionResponse(response={"error": "the model took this call back"})


class _Record:
    """The session, written in the order that a history has: answers directly after their calls.

    Args:
        service: Where the session is kept.
        session: The session.
        invocation_id: Of the run.
    """

    def __init__(self, service: SessionService, session: Session, invocation_id: str) -> None:
        self._service = service
        self._session = session
        self._invocation_id = invocation_id
        self._waiting: deque[Event | CallTurn] = deque()  # behind calls that have no answer yet
        self._order = asyncio.Lock()

    async def add(self, event: Event, calls: CallTurn | None = None) -> None:
        """Store an event, and behind it the answers of its calls, once they are there."""
        self._waiting.append(event)
        if calls is not None and calls.calls:
            self._waiting.append(calls)
        await self._write()

    def expect(self, calls: CallTurn) -> None:
        """Calls that are stored already wait for their answers."""
        self._waiting.append(calls)

    async def answer(self, answer: types.FunctionResponse) -> None:
        """Take an answer; one that no call waits for passes by."""
        for turn in self._waiting:
            if isinstance(turn, CallTurn):
                for place, (call, given) in enumerate(turn):
                    if given is None and call.id == answer.id:
                        turn.answers[place] = dict(answer.response or {})
                        await self._write()
                        return

    async def settle(self, message: str) -> None:
        """Answer all calls that wait with an error, and store everything."""
        for turn in self._waiting:
            if isinstance(turn, CallTurn):
                turn.fill(message)
        await self._write()

    async def _write(self) -> None:
        async with self._order:
            while self._waiting:
                head = self._waiting[0]
                if isinstance(head, CallTurn):
                    if any(answer is None for _, answer in head):
                        return
                    head = head.event(author="model", invocation_id=self._invocation_id, end={})
                self._waiting.popleft()
                await self._service.append_event(self._session, head)


async def _stopped(task: asyncio.Task[None]) -> BaseException | None:
    """Stop a task; the error that it ended with."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.wait([task])
    return None if task.cancelled() else task.exception()
